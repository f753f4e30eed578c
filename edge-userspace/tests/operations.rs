//! `docs/operations.md` says what the program does: its configuration reference is the
//! loader's own list.

use edge_userspace::config::schema;
use std::path::Path;

const BEGIN: &str = "<!-- reference:";
const END: &str = "<!-- end of reference -->";

#[test]
fn the_configuration_reference_is_the_loaders() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find(BEGIN).expect("the begin mark");
    let begin = begin + page[begin..].find('\n').unwrap() + 1;
    let end = page.find(END).expect("the end mark");
    let wanted = format!("\n{}\n", schema::reference());
    if std::env::var_os("EDGE_BLESS").is_some() {
        let new = format!("{}{wanted}{}", &page[..begin], &page[end..]);
        std::fs::write(&path, new).unwrap();
        return;
    }
    assert_eq!(
        &page[begin..end],
        wanted,
        "docs/operations.md is behind the loader; write it anew with: \
         EDGE_BLESS=1 cargo test -p edge-userspace --test operations"
    );
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
