//! Every variant against the plain counter.

use super::*;
use crate::plain;

#[path = "../../tests/fuzz/mod.rs"]
mod fuzz;
mod parts;

#[test]
fn fuzz_texts_have_the_tokens_of_the_plain_counter() {
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        for isa in Isa::available() {
            let mut counter = Counter::with_isa(&vocabulary, isa).unwrap();
            let mut long = String::new();
            fuzz::texts(7, |text| {
                // Longer ones too, so that a block ends anywhere in them.
                long.push_str(text);
                if long.len() > 200 {
                    let text = std::mem::take(&mut long);
                    let pieces: Vec<_> = plain::pieces(&vocabulary, text.as_bytes())
                        .map(String::from_utf8_lossy)
                        .collect();
                    assert_eq!(
                        counter.count(text.as_bytes()),
                        plain::count(&vocabulary, text.as_bytes()),
                        "{name}, {isa}: {text:?}, {pieces:?}"
                    );
                }
                let text = text.as_bytes();
                let pieces: Vec<_> = plain::pieces(&vocabulary, text)
                    .map(String::from_utf8_lossy)
                    .collect();
                assert_eq!(
                    counter.count(text),
                    plain::count(&vocabulary, text),
                    "{name}, {isa}: {:?}, {pieces:?}",
                    String::from_utf8_lossy(text)
                );
            });
        }
    }
}

/// Behind punctuation and line ends slashes go on with a piece, and nothing else does.
#[test]
fn slashes_behind_line_ends_end_their_piece() {
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        for isa in Isa::available() {
            let mut counter = Counter::with_isa(&vocabulary, isa).unwrap();
            for before in ["(\n", "!!\r\n", " (\n", "\u{2019}\n"] {
                for length in 58..75 {
                    for behind in ["*", "*/", "!", "\u{301}", "\n*/", "a"] {
                        let text = format!("{before}{}{behind}", "/".repeat(length));
                        assert_eq!(
                            counter.count(text.as_bytes()),
                            plain::count(&vocabulary, text.as_bytes()),
                            "{name}, {isa}: {text:?}"
                        );
                    }
                }
            }
        }
    }
}

/// A character that is cut short by the next one, which goes on behind a block.
#[test]
fn what_is_no_utf8_at_the_end_of_a_block_counts_the_same() {
    let befores = ["!", "word", " a", "1", "é", "\u{fffd}"];
    let cuts = ["\u{e9}", "中", "😀", "\u{3d000}"];
    let behinds = ["é and on", "中", "\u{fffd}!", "😀", "a", "\u{3000}"];
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let counters = Isa::available().map(|isa| Counter::with_isa(&vocabulary, isa).unwrap());
        let mut counters: Vec<_> = counters.collect();
        let mut check = |text: &[u8]| {
            let tokens = plain::count(&vocabulary, text);
            for counter in &mut counters {
                let isa = counter.isa();
                assert_eq!(
                    counter.count(text),
                    tokens,
                    "{name}, {isa}: {}",
                    text.escape_ascii()
                );
            }
        };
        for (before, cut) in befores
            .iter()
            .flat_map(|before| cuts.map(|cut| (before, cut)))
        {
            for length in (55..66).chain(120..130) {
                for kept in 1..cut.len() {
                    for behind in behinds {
                        let before = before.repeat(length);
                        let before = &before.as_bytes()[before.len() - length..];
                        check(&[before, &cut.as_bytes()[..kept], behind.as_bytes()].concat());
                    }
                }
            }
        }
    }
}

#[test]
fn every_code_point_has_its_class() {
    for name in ["cl100k_base", "o200k_base"] {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let mut counters: Vec<_> = Isa::available()
            .map(|isa| Counter::with_isa(&vocabulary, isa).unwrap())
            .collect();
        let all = (0..=0x10_ffff_u32).filter_map(char::from_u32);
        let some: Vec<char> = all
            .filter(|&c| c < '\u{1_0000}' || u32::from(c) % 61 == 0)
            .collect();
        for few in some.chunks(8) {
            let text: String = few
                .iter()
                .map(|c| format!("x{c}y {c}1{c}{c}{c}{c}A{c}"))
                .collect();
            let whole = plain::count(&vocabulary, text.as_bytes());
            for counter in &mut counters {
                assert_eq!(
                    counter.count(text.as_bytes()),
                    whole,
                    "{name}, {}: {text:?}",
                    counter.isa()
                );
            }
        }
    }
}

#[test]
fn pieces_that_are_longer_than_a_block_count_the_same() {
    let alphabets: [&[&str]; 9] = [
        &["a"],
        &["a", "B"],
        &["中", "あ"],
        &["中", "B"],
        &["a", "\u{301}", "ก", "\u{e31}"],
        &["A", "\u{301}"],
        &["=", "-", "/"],
        &["😀", "\u{200d}", "\u{fe0f}"],
        &["(", "\u{301}", "ж"],
    ];
    let behinds = [
        "", " x", "'s", "'Sa", "B", "\n\nx", "/\n/x", "1", "(", "\u{301}b", "\u{85}", "\u{a0}(",
    ];
    let mut seed = 5_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        let mut counters: Vec<_> = Isa::available()
            .map(|isa| Counter::with_isa(&vocabulary, isa).unwrap())
            .collect();
        for round in 0..6_000 {
            let alphabet = alphabets[round % alphabets.len()];
            let mut text = ["", " ", "(", "x ", "\n"][next(5)].to_owned();
            for _ in 0..20 + next(120) {
                // Mostly the first, so that runs are long.
                let which = if next(12) > 0 {
                    0
                } else {
                    next(alphabet.len())
                };
                text.push_str(alphabet[which]);
            }
            text.push_str(behinds[next(behinds.len())]);
            let whole = plain::count(&vocabulary, text.as_bytes());
            for counter in &mut counters {
                assert_eq!(
                    counter.count(text.as_bytes()),
                    whole,
                    "{name}, {}: {text:?}",
                    counter.isa()
                );
            }
        }
    }
}

/// A text in front of memory that must not be touched.
#[cfg(target_os = "linux")]
#[test]
fn nothing_behind_or_before_a_text_is_read() {
    let page = 4096;
    let fence = fence::Fence::new(4 * page);
    let base: String = "It's 12 caf\u{e9}s, \u{4e2d}\u{6587} and\n\n  more (x) \u{1f600}".repeat(6);
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        for isa in Isa::available() {
            let mut counter = Counter::with_isa(&vocabulary, isa).unwrap();
            for length in 0..=256 {
                let text = &base.as_bytes()[..length];
                let whole = plain::count(&vocabulary, text);
                let at_end = fence.at_end(text);
                assert_eq!(counter.count(at_end), whole, "{name}, {isa}, {length}");
                let at_start = fence.at_start(text);
                assert_eq!(counter.count(at_start), whole, "{name}, {isa}, {length}");
            }
        }
    }
}

#[test]
fn every_length_and_alignment_counts_the_same() {
    let base = "Don't stop 1234567 times; \u{4e2d}\u{6587}\u{3001}\u{431}\u{44b}\u{43b}\u{430}\u{a0}x\t\n  if (a == b) {\n        return 'x';\n    }\n".repeat(4);
    for name in Vocabulary::EMBEDDED {
        let vocabulary = Vocabulary::embedded(name).unwrap();
        for isa in Isa::available() {
            let mut counter = Counter::with_isa(&vocabulary, isa).unwrap();
            for length in 0..=256 {
                for start in 0..64 {
                    let text = &base.as_bytes()[start..start + length];
                    let whole = plain::count(&vocabulary, text);
                    assert_eq!(
                        counter.count(text),
                        whole,
                        "{name}, {isa}, {start}, {length}"
                    );
                }
            }
        }
    }
}

#[test]
fn instructions_that_are_not_here_are_named() {
    let vocabulary = Vocabulary::embedded("cl100k_base").unwrap();
    for isa in Isa::ALL {
        let counter = Counter::with_isa(&vocabulary, isa);
        assert_eq!(counter.is_some(), isa.is_available());
        if counter.is_none() {
            eprintln!("SKIPPED: the exact counter with {isa}: this machine lacks it");
        }
    }
}

#[test]
fn the_memo_stays_within_its_bound_and_right() {
    let vocabulary = Vocabulary::embedded("cl100k_base").unwrap();
    let mut counter = Counter::new(&vocabulary);
    let mut seed = 3_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..60 {
        let mut text = String::new();
        while text.len() < 100_000 {
            for _ in 0..1 + next(if round % 2 == 0 { 12 } else { 90 }) {
                text.push(char::from(b'a' + next(26) as u8));
            }
            text.push(if next(5) == 0 { '\n' } else { ' ' });
        }
        let tokens = counter.count(text.as_bytes());
        assert_eq!(
            counter.count(text.as_bytes()),
            tokens,
            "it is the same again"
        );
        if round % 20 == 0 {
            assert_eq!(tokens, plain::count(&vocabulary, text.as_bytes()));
        }
        assert!(counter.memo.bytes() <= Counter::MEMO_BYTES);
    }
}

#[cfg(target_os = "linux")]
mod fence {
    //! Memory between two pages that nothing may touch.
    #![expect(unsafe_code, reason = "mmap and mprotect")]

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    const PAGE: usize = 4096;

    pub(super) struct Fence {
        start: *mut u8,
        bytes: usize,
    }

    impl Fence {
        pub(super) fn new(bytes: usize) -> Self {
            let whole = bytes + 2 * PAGE;
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: memory of its own, where the system has room.
            let map =
                unsafe { mmap_anonymous(std::ptr::null_mut(), whole, flags, MapFlags::PRIVATE) };
            let map = map.expect("memory").cast::<u8>();
            for page in [0, bytes + PAGE] {
                let page = map.wrapping_add(page).cast();
                // SAFETY: the page is of this map, and nothing refers to it.
                unsafe { mprotect(page, PAGE, MprotectFlags::empty()) }.expect("a page of the map");
            }
            Self {
                start: map.wrapping_add(PAGE),
                bytes,
            }
        }

        pub(super) fn at_start(&self, text: &[u8]) -> &[u8] {
            self.put(0, text)
        }

        pub(super) fn at_end(&self, text: &[u8]) -> &[u8] {
            self.put(self.bytes - text.len(), text)
        }

        fn put(&self, at: usize, text: &[u8]) -> &[u8] {
            assert!(at + text.len() <= self.bytes);
            let to = self.start.wrapping_add(at);
            // SAFETY: it is inside of the map, and what was put before is no longer used.
            unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
            // SAFETY: these bytes have just been written.
            unsafe { std::slice::from_raw_parts(to, text.len()) }
        }
    }

    impl Drop for Fence {
        fn drop(&mut self) {
            let map = self.start.wrapping_sub(PAGE).cast();
            // SAFETY: the whole map, which nothing refers to any longer.
            unsafe { munmap(map, self.bytes + 2 * PAGE) }.expect("it was mapped");
        }
    }
}
