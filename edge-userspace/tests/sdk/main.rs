//! The official SDKs, unchanged, against a real edge with the demo model behind it.
//!
//! What is asked and expected is in `python/` and `node/`, in the SDKs' own types, and in the
//! table `errors.json`. Here: the edge, what it is told by, and who runs the scripts. Without
//! the SDKs (`cargo xtask setup --clients`) each test is skipped by name.

mod place;
mod scripts;
#[path = "../skip/mod.rs"]
mod skip;

use place::Place;
use scripts::Script;

/// Runs a script in the legacy lane.
fn legacy(test: &str, script: Script) {
    match script.runner() {
        Ok(runner) => runner.run(&Place::new()),
        Err(why) => skip::skipped(test, &why),
    }
}

#[test]
fn python_anthropic() {
    legacy("python_anthropic", Script::python("messages.py", &[]));
}

#[test]
fn python_anthropic_raises_and_retries_as_intended() {
    legacy(
        "python_anthropic_raises_and_retries_as_intended",
        Script::python("errors.py", &["python"]),
    );
}

#[test]
fn python_openai() {
    legacy("python_openai", Script::python("chat.py", &[]));
}

#[test]
fn python_openai_raises_and_retries_as_intended() {
    legacy(
        "python_openai_raises_and_retries_as_intended",
        Script::python("errors.py", &["openai"]),
    );
}

#[test]
fn typescript_anthropic() {
    legacy("typescript_anthropic", Script::node("messages.mjs"));
}

#[test]
fn typescript_anthropic_raises_and_retries_as_intended() {
    legacy(
        "typescript_anthropic_raises_and_retries_as_intended",
        Script::node("errors.mjs"),
    );
}
