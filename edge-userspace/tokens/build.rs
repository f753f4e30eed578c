//! Lays out ahead what would take time when the program starts.

#[path = "src/pattern/runs.rs"]
mod runs;

use std::path::Path;

/// As in `src/pattern/class.rs`.
const BLOCK: usize = 128;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/pattern/runs.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    std::fs::write(out.join("classes.bin"), classes()).expect("OUT_DIR can be written to");
}

/// The index of the block of each 128 code points, then the blocks, each once.
fn classes() -> Vec<u8> {
    let mut of = vec![0; 0x11_0000];
    for (i, &(start, bits)) in runs::RUNS.iter().enumerate() {
        let end = runs::RUNS
            .get(i + 1)
            .map_or(of.len(), |next| next.0 as usize);
        of[start as usize..end].fill(bits);
    }
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
