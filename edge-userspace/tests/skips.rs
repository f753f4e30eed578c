//! A test that does not run says so, past libtest's capture.

#[macro_use]
mod skip;

use std::process::Command;

/// Set for the child process alone, in which `stand_in` skips itself.
const STAND_IN: &str = "EDGE_SKIP_STAND_IN";

#[test]
fn stand_in() {
    if std::env::var_os(STAND_IN).is_some() {
        fn here() {}
        skip::skipped(skip::caller(&here), "it is a stand-in");
    }
}

#[test]
fn a_skipped_test_is_named_on_stderr_and_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("skipped");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stand_in"])
        .env(STAND_IN, "1")
        .env("EDGE_SKIPPED_FILE", &file)
        .output()
        .unwrap();
    assert!(output.status.success());
    let line = "SKIPPED skips::stand_in: it is a stand-in\n";
    assert_eq!(std::fs::read_to_string(file).unwrap(), line);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(line), "{stderr}");
}

#[test]
fn a_kernel_test_either_runs_or_says_what_it_lacks() {
    if let Err(why) = skip::kernel_permitted() {
        assert!(why.starts_with("needs "), "{why}");
    }
    needs_kernel!();
    assert_eq!(skip::kernel_permitted(), Ok(()));
}
