//! What is refused of vocabulary files, with what words; and that damaged ones harm nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use edge_tokens::{Pattern, Vocabulary, plain};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::Path;

fn rank_file() -> String {
    let bytes = (0..=255_u8).map(|byte| vec![byte]);
    let more = [b"ab".to_vec(), b"abab".to_vec()];
    let line = |(rank, token)| format!("{} {rank}\n", STANDARD.encode::<Vec<u8>>(token));
    bytes.chain(more).enumerate().map(line).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

/// The GPT-2 fixture with a value put somewhere.
fn changed(pointer: &str, value: Value) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&fixture("gpt2.tokenizer.json")).unwrap();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[field] = value;
    json.to_string().into_bytes()
}

#[track_caller]
fn refused(file: &[u8], says: &str) {
    let error = Vocabulary::from_tokenizer_json("x", file).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("x: "), "{error}");
    assert!(error.contains(says), "{error}");
}

#[track_caller]
fn refused_ranks(file: &str, says: &str) {
    let read = Vocabulary::from_tiktoken("x", file.as_bytes(), Pattern::Cl100k);
    let error = read.unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_rank_file_is_read_in_any_order_with_any_line_ends() {
    let mut lines: Vec<String> = rank_file().lines().map(str::to_owned).collect();
    lines.reverse();
    let file = lines.join("\r\n");
    let vocabulary = Vocabulary::from_tiktoken("x", file.as_bytes(), Pattern::Cl100k).unwrap();
    assert_eq!(vocabulary.ranks().get(257), Some(&b"abab"[..]));
    assert_eq!(plain::count(&vocabulary, b"ababab"), 2);
    assert_eq!(vocabulary.longest_token_bytes(), 4);
}

#[test]
fn what_is_wrong_in_a_rank_file_is_said_with_its_line() {
    let good = rank_file();
    refused_ranks(
        &format!("{good}YWI= 256\n"),
        "line 259: a second token of rank 256",
    );
    refused_ranks(
        &format!("{good}YWI= 900\n"),
        "ranks 256 and 900 are the same token",
    );
    refused_ranks(
        &format!("{good}YWI=\n"),
        "line 259: a line is a token in base64",
    );
    refused_ranks(
        &format!("{good}!! 258\n"),
        "line 259: the token is no base64",
    );
    refused_ranks(
        &format!("{good}YWI= -1\n"),
        "line 259: the rank is no number",
    );
    refused_ranks(
        &format!("{good}YWI= +1\n"),
        "line 259: the rank is no number",
    );
    refused_ranks(
        &format!("{good}YWI= 99999999\n"),
        "line 259: rank 99999999: ranks end at",
    );
    refused_ranks(&format!("{good} 258\n"), "line 259: the token is empty");
    refused_ranks("", "no token for the single byte 0x00");
    refused_ranks(
        "<html>",
        "line 1: a line is a token in base64, a space and its rank",
    );
}

#[test]
fn files_are_taken_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, content: &[u8], pattern| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        Vocabulary::load(&path, pattern).map_err(|error| error.to_string())
    };
    let ranks = rank_file().into_bytes();
    let known = load("r50k_base.tiktoken", &ranks, None).unwrap();
    assert_eq!(
        (known.name(), known.pattern()),
        ("r50k_base", Pattern::Gpt2)
    );
    let given = load("own.tiktoken", &ranks, Some(Pattern::O200k)).unwrap();
    assert_eq!((given.name(), given.pattern()), ("own", Pattern::O200k));
    let error = load("own.tiktoken", &ranks, None).unwrap_err();
    assert!(error.contains("name one of cl100k, o200k, gpt2"), "{error}");
    let error = load("own.txt", &ranks, None).unwrap_err();
    assert!(error.contains("ends with .tiktoken or .json"), "{error}");
    let json = fixture("qwen2.tokenizer.json");
    let own = load("tokenizer.json", &json, None).unwrap();
    assert_eq!((own.name(), own.pattern()), ("tokenizer", Pattern::Qwen2));
    let error = load("tokenizer.json", &json, Some(Pattern::Gpt2)).unwrap_err();
    assert!(error.contains("its pattern is qwen2, not gpt2"), "{error}");
    let error = Vocabulary::load(Path::new("/nowhere/x.tiktoken"), None).unwrap_err();
    assert!(
        error.to_string().starts_with("/nowhere/x.tiktoken: "),
        "{error}"
    );
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tiktoken");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(Vocabulary::MOST_FILE_BYTES + 1).unwrap();
    let error = Vocabulary::load(&path, Some(Pattern::Gpt2)).unwrap_err();
    assert!(
        error.to_string().contains("a vocabulary file has at most"),
        "{error}"
    );
}

#[test]
fn other_kinds_are_refused_by_their_names() {
    let split = |regex: &str, behavior: &str| {
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
        ]})
    };
    refused(b"{", "no tokenizer.json: ");
    refused(b"{}", "missing field `model`");
    refused(
        &changed("/model/type", json!("WordPiece")),
        "the model is not supported: WordPiece",
    );
    refused(&changed("/model/type", json!("Unigram")), "Unigram");
    refused(
        &changed("/model/dropout", json!(0.1)),
        "dropout in the model is not supported: 0.1",
    );
    refused(
        &changed("/model/byte_fallback", json!(true)),
        "byte_fallback",
    );
    refused(&changed("/model/end_of_word_suffix", json!("</w>")), "</w>");
    refused(
        &changed("/model/continuing_subword_prefix", json!("##")),
        "##",
    );
    refused(
        &changed("/model/novelty", json!(1)),
        "unknown field `novelty`",
    );
    refused(
        &changed("/normalizer", json!({"type": "Lowercase"})),
        "the normalizer is not supported: Lowercase",
    );
    refused(
        &changed(
            "/normalizer",
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace"}]}),
        ),
        "a sequence of NFC, Replace",
    );
    refused(
        &changed("/pre_tokenizer", json!(null)),
        "the pre-tokenizer is not supported: none",
    );
    refused(
        &changed("/pre_tokenizer", json!({"type": "Metaspace"})),
        "Metaspace",
    );
    refused(
        &changed("/pre_tokenizer", json!({"type": "ByteLevel"})),
        "add_prefix_space",
    );
    refused(
        &changed(
            "/pre_tokenizer",
            json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}),
        ),
        "ByteLevel without its pattern",
    );
    refused(
        &changed("/pre_tokenizer", split(r"\w+|\W", "Isolated")),
        r"not supported: \w+|\W",
    );
    let gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    refused(
        &changed("/pre_tokenizer", split(gpt2, "MergedWithNext")),
        "MergedWithNext",
    );
    refused(
        &changed(
            "/added_tokens",
            json!([{"content": "  ", "special": false}]),
        ),
        "an added token that is neither special nor a name in brackets is not supported: \"  \"",
    );
    let same = changed("/pre_tokenizer", split(gpt2, "Isolated"));
    assert!(Vocabulary::from_tokenizer_json("x", &same).is_ok());
    let named = changed(
        "/added_tokens",
        json!([{"content": "<tool_call>", "special": false}]),
    );
    assert!(Vocabulary::from_tokenizer_json("x", &named).is_ok());
}

#[test]
fn merges_that_do_not_fit_are_refused() {
    let file: Value = serde_json::from_slice(&fixture("gpt2.tokenizer.json")).unwrap();
    let merges = file["model"]["merges"].as_array().unwrap().clone();
    let with = |merges: Vec<Value>| changed("/model/merges", Value::Array(merges));
    let and = |more: &str| with([&merges[..], &[json!(more)]].concat());
    refused(&and("ab"), "merge 943: no two tokens");
    refused(
        &and("a nowhere"),
        "merge 943: \"nowhere\" is not in the vocabulary",
    );
    refused(&and("z q"), "merge 943: \"zq\" is not in the vocabulary");
    // Backwards, tokens are made before their halves are: pairs that merging never makes.
    let backwards = with(merges.iter().rev().cloned().collect());
    refused(&backwards, "the order of the merges is not supported");
    let mut vocab = file["model"]["vocab"].clone();
    vocab.as_object_mut().unwrap().remove("a");
    refused(
        &changed("/model/vocab", vocab),
        "without a token for each byte is not supported: none for 0x61",
    );
    let mut json: Value = serde_json::from_slice(&fixture("llama3.tokenizer.json")).unwrap();
    json["model"]["vocab"]["zqx"] = json!(5000);
    refused(
        json.to_string().as_bytes(),
        "a token that no merge makes is not supported: \"zqx\"",
    );
}

/// A damaged file is refused, or it is another vocabulary that can be counted with.
fn harmless(read: Result<Vocabulary, edge_tokens::VocabularyError>) {
    match read {
        Ok(vocabulary) => {
            let text = "Hello, WORLD ab abab 123 caf\u{e9}";
            let count = plain::count(&vocabulary, text.as_bytes());
            assert!((1..=text.len() as u64).contains(&count));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_files_are_harmless(
        which in 0..4_usize,
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        whole in any::<bool>(),
    ) {
        let files = ["gpt2.tokenizer.json", "llama3.tokenizer.json", "qwen2.tokenizer.json"];
        let mut file = match files.get(which) {
            Some(name) => fixture(name),
            None => rank_file().into_bytes(),
        };
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if !whole {
            file.truncate(cut.index(file.len()));
        }
        harmless(Vocabulary::from_tokenizer_json("x", &file));
        harmless(Vocabulary::from_tiktoken("x", &file, Pattern::O200k));
    }

    #[test]
    fn any_bytes_are_harmless(file in prop::collection::vec(any::<u8>(), 0..300)) {
        harmless(Vocabulary::from_tokenizer_json("x", &file));
        harmless(Vocabulary::from_tiktoken("x", &file, Pattern::Gpt2));
    }
}
