//! Vocabularies of `tokenizer.json` files against the library that the form is from: small ones
//! with its counts, made by `tools/tokenizer_json_fixtures.py`.

use edge_tokens::{Counter, Isa, NormalForm, Pattern, Vocabulary, plain};

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

#[test]
fn counts_are_those_of_the_library() {
    for (name, pattern, normal_form) in [
        ("gpt2", Pattern::Gpt2, NormalForm::None),
        ("llama3", Pattern::Llama3, NormalForm::None),
        ("qwen2", Pattern::Qwen2, NormalForm::Nfc),
    ] {
        let file = fixture(&format!("{name}.tokenizer.json"));
        let vocabulary = Vocabulary::from_tokenizer_json(name, &file).unwrap();
        assert_eq!(vocabulary.name(), name);
        assert_eq!(vocabulary.pattern(), pattern);
        assert_eq!(vocabulary.normal_form(), normal_form);
        let counts = fixture(&format!("{name}.counts.json"));
        let counts: Vec<(String, u64)> = serde_json::from_slice(&counts).unwrap();
        assert!(counts.len() > 400);
        let counters = Isa::available().map(|isa| Counter::with_isa(&vocabulary, isa).unwrap());
        let mut counters: Vec<Counter> = counters.collect();
        for (text, expected) in counts {
            let count = plain::count(&vocabulary, text.as_bytes());
            assert_eq!(count, expected, "{name}: {text:?}");
            for counter in &mut counters {
                let isa = counter.isa();
                assert_eq!(
                    counter.count(text.as_bytes()),
                    count,
                    "{name}, {isa}: {text:?}"
                );
            }
        }
    }
}
