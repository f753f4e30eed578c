//! Every variant against the plain counter.

use super::*;

#[path = "../../tests/fuzz/mod.rs"]
mod fuzz;

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
