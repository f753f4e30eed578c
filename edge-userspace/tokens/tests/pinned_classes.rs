//! The classes of all code points against the Python package that they are pinned to.

#[path = "../../tests/skip/mod.rs"]
mod skip;

mod reference;

use std::process::Command;

#[test]
fn classes_of_all_code_points_are_those_of_tiktoken() {
    fn here() {}
    let python = reference::folder().join("venv/bin/python");
    if !python.exists() {
        let why = format!(
            "needs tiktoken (PyPI) at {} (cargo xtask setup --references)",
            python.display()
        );
        skip::skipped(skip::caller(&here), &why);
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/unicode_classes.py");
    let output = Command::new(python).arg(script).arg("--check").output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("is what tiktoken 0.14.0 says"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
