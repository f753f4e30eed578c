//! Lays out ahead what would take time when the program starts.

mod characters;
#[path = "../src/estimate/groups.rs"]
#[expect(dead_code, reason = "the library uses the rest")]
mod groups;
mod lookup;
mod merge;
#[path = "../src/normal_form/kinds.rs"]
mod normal_form_kinds;
mod normal_forms;
#[path = "../src/estimate/ranges.rs"]
mod ranges;
#[path = "../src/pattern/runs.rs"]
#[rustfmt::skip]
mod runs;
mod vocabulary;

use std::path::Path;

/// As in `src/code_points.rs`.
const BLOCK: usize = 128;

/// What these tables are made of and by.
const WATCHED: [&str; 12] = [
    "build",
    "src/estimate/groups.rs",
    "src/estimate/ranges.rs",
    "src/lookup/keys.rs",
    "src/lookup/write.rs",
    "src/merge/section.rs",
    "src/merge/write.rs",
    "src/normal_form/kinds.rs",
    "src/pattern/runs.rs",
    "src/vocabulary/compact.rs",
    "src/vocabulary/ranks.rs",
    "vocabularies",
];

fn main() {
    for path in WATCHED {
        println!("cargo::rerun-if-changed={path}");
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let write = |name: &str, table: Vec<u8>| {
        std::fs::write(out.join(name), table).expect("OUT_DIR can be written to");
    };
    write("classes.bin", two_stages(&classes()));
    write("class_windows.bin", windows(&classes()));
    for (name, form) in [("nfc", normal_forms::NFC), ("nfkc", normal_forms::NFKC)] {
        write(&format!("{name}.bin"), two_stages(&form.kinds()));
        write(&format!("{name}.rs"), form.alone().into_bytes());
    }
    let ranks = ["cl100k_base", "o200k_base", "claude-2"].map(|name| {
        let compact = std::fs::read(format!("vocabularies/{name}.bin")).expect("in the package");
        (
            name,
            vocabulary::Ranks::from_compact(&compact).expect("sound"),
        )
    });
    let all = ranks.each_ref().map(|(name, ranks)| {
        let token = |rank| ranks.get(rank).unwrap_or_default();
        (*name, (0..ranks.end()).map(token).collect::<Vec<&[u8]>>())
    });
    for (name, tokens) in &all {
        write(&format!("{name}.merge.bin"), bytes(&merge::write(tokens)));
        let lookup = lookup::write(tokens.iter().copied());
        write(&format!("{name}.lookup.bin"), bytes(&lookup));
    }
    let vocabularies = all
        .each_ref()
        .map(|(name, tokens)| (&tokens[..], *name == "claude-2"));
    write("characters.bin", characters::table(vocabularies));
}

/// The bits of `src/pattern/class.rs` of each code point.
fn classes() -> Vec<u8> {
    let mut of = vec![0; 0x11_0000];
    for (i, &(start, bits)) in runs::RUNS.iter().enumerate() {
        let end = runs::RUNS
            .get(i + 1)
            .map_or(of.len(), |next| next.0 as usize);
        of[start as usize..end].fill(bits);
    }
    of
}

/// For each 2,048 code points of the first 131,072, for each of the five bits of a class, a bit
/// for each code point.
fn windows(of: &[u8]) -> Vec<u8> {
    let mut table = Vec::new();
    for window in of[..0x2_0000].chunks(2048) {
        for class in 0..5 {
            for eight in window.chunks(8) {
                let bits = eight.iter().enumerate();
                table.push(bits.fold(0, |bits, (i, byte)| bits | (byte >> class & 1) << i));
            }
        }
    }
    table
}

/// The index of the block of each 128 code points, then the blocks, each once.
fn two_stages(of: &[u8]) -> Vec<u8> {
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut table = Vec::new();
    for block in of.chunks(BLOCK) {
        let index = blocks.iter().position(|known| *known == block);
        let index = index.unwrap_or_else(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        table.push(u8::try_from(index).expect("at most 256 different blocks"));
    }
    table.extend(blocks.concat());
    table
}

/// Words as the machines that are built for have them: all are little-endian.
fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
