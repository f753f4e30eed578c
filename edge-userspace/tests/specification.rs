//! docs/SPECIFICATION.md names a test for each promise: they must exist.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_promise_has_a_number_of_its_own_and_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("docs/SPECIFICATION.md")).unwrap();
    let mut numbers = BTreeSet::new();
    let mut missing = Vec::new();
    for line in text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| no."))
    {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, _, shown_by] = cells[..] else {
            panic!("not three cells: {line}")
        };
        assert!(numbers.insert(number.to_owned()), "{number} stands twice");
        let tests: Vec<_> = shown_by
            .split('`')
            .filter(|part| part.contains(".rs::"))
            .collect();
        if tests.is_empty() {
            assert!(
                shown_by.starts_with("*not yet tested*"),
                "{number} names no test"
            );
        }
        missing.extend(
            tests
                .into_iter()
                .filter(|test| !exists(&root, test))
                .map(str::to_owned),
        );
    }
    assert!(numbers.len() > 30, "the tables were not read");
    assert!(missing.is_empty(), "there are no such tests: {missing:#?}");
}

/// Whether `file::function` is a function with a test's attribute before it.
fn exists(root: &Path, test: &str) -> bool {
    let (file, function) = test.split_once("::").unwrap();
    let crates = [
        "edge-client/",
        "edge-common/",
        "edge-http2/",
        "edge-userspace/",
        "xtask/",
        "bench/",
    ];
    let path = match crates.iter().any(|name| file.starts_with(name)) {
        true => root.join(file),
        false => root.join("edge-userspace/tests").join(file),
    };
    let Ok(source) = std::fs::read_to_string(path) else {
        return false;
    };
    let Some(at) = source.find(&format!("fn {function}(")) else {
        return false;
    };
    let before = &source[..at];
    // The attribute stands close before, comments and other attributes between; a property
    // of proptest has it in its macro's body as well.
    before.len() - before.rfind("test]").or(before.rfind("test(")).unwrap_or(0) < 400
}
