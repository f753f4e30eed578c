//! `docs/operations.md` says what the program does: its configuration reference is the
//! loader's own list, and its models those that the program knows.

use edge_userspace::config::{Models, schema};
use std::path::Path;

/// What stands between two marks is what the program says.
fn compare(mark: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find(&format!("<!-- {mark}:")).expect("the begin mark");
    let begin = begin + page[begin..].find('\n').unwrap() + 1;
    let end = page
        .find(&format!("<!-- end of {mark} -->"))
        .expect("the end mark");
    let wanted = format!("\n{wanted}\n");
    if std::env::var_os("EDGE_BLESS").is_some() {
        let new = format!("{}{wanted}{}", &page[..begin], &page[end..]);
        std::fs::write(&path, new).unwrap();
        return;
    }
    assert_eq!(
        &page[begin..end],
        wanted,
        "docs/operations.md is behind the program; write it anew with: \
         EDGE_BLESS=1 cargo test -p edge-userspace --test operations -- --test-threads 1"
    );
}

#[test]
fn the_configuration_reference_is_the_loaders() {
    compare("reference", &schema::reference());
}

#[test]
fn the_models_that_are_built_in_are_the_programs() {
    compare("models", &Models::reference());
}

#[test]
fn every_field_is_in_the_example_or_has_a_default() {
    let example = include_str!("../../deploy/edge.example.toml");
    for field in schema::FIELDS {
        let name = field.name.rsplit('.').next().unwrap();
        let written = example.lines().any(|line| {
            let line = line.trim_start_matches('#');
            line.strip_prefix(name)
                .is_some_and(|rest| rest.trim_start().starts_with('='))
        });
        let required = matches!(field.default, schema::Otherwise::Required);
        let has_value = matches!(field.default, schema::Otherwise::Value(_));
        assert!(
            written || !(required || has_value),
            "{} is not in deploy/edge.example.toml",
            field.name
        );
    }
}
