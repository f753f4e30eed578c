//! The official SDKs, unchanged, against a real edge with the demo model behind it, and through
//! the sidecar.
//!
//! What is asked and expected is in `python/` and `node/`, in the SDKs' own types, and in the
//! table `errors.json`. Here: the edge, what it is told by, and who runs the scripts. Without
//! the SDKs (`cargo xtask setup --clients`) each test is skipped by name.

mod place;
mod scripts;
#[path = "../skip/mod.rs"]
mod skip;

use place::{Lane, Place};
use scripts::Script;

/// Runs a script without the sidecar: the base URL is the edge's.
fn legacy(test: &str, script: Script) {
    run(test, script, Lane::Legacy);
}

/// Runs it through `edge connect`: the base URL is the sidecar's, and nothing else is told.
fn zero(test: &str, script: Script) {
    run(test, script, Lane::Zero);
}

fn run(test: &str, script: Script, lane: Lane) {
    match script.runner() {
        Ok(runner) => runner.run(&Place::new(lane)),
        Err(why) => skip::skipped(test, &why),
    }
}

#[test]
fn python_anthropic() {
    legacy("python_anthropic", Script::python("messages.py", &[]));
}

#[test]
fn python_anthropic_through_the_sidecar() {
    zero(
        "python_anthropic_through_the_sidecar",
        Script::python("messages.py", &[]),
    );
}

#[test]
fn python_anthropic_raises_and_retries_as_intended() {
    legacy(
        "python_anthropic_raises_and_retries_as_intended",
        Script::python("errors.py", &["python"]),
    );
}

#[test]
fn python_anthropic_raises_and_retries_as_intended_through_the_sidecar() {
    zero(
        "python_anthropic_raises_and_retries_as_intended_through_the_sidecar",
        Script::python("errors.py", &["python"]),
    );
}

#[test]
fn python_openai() {
    legacy("python_openai", Script::python("chat.py", &[]));
}

#[test]
fn python_openai_through_the_sidecar() {
    zero(
        "python_openai_through_the_sidecar",
        Script::python("chat.py", &[]),
    );
}

#[test]
fn python_openai_raises_and_retries_as_intended() {
    legacy(
        "python_openai_raises_and_retries_as_intended",
        Script::python("errors.py", &["openai"]),
    );
}

#[test]
fn python_openai_raises_and_retries_as_intended_through_the_sidecar() {
    zero(
        "python_openai_raises_and_retries_as_intended_through_the_sidecar",
        Script::python("errors.py", &["openai"]),
    );
}

#[test]
fn typescript_anthropic() {
    legacy("typescript_anthropic", Script::node("messages.mjs"));
}

#[test]
fn typescript_anthropic_through_the_sidecar() {
    zero(
        "typescript_anthropic_through_the_sidecar",
        Script::node("messages.mjs"),
    );
}

#[test]
fn typescript_anthropic_raises_and_retries_as_intended() {
    legacy(
        "typescript_anthropic_raises_and_retries_as_intended",
        Script::node("errors.mjs"),
    );
}

#[test]
fn typescript_anthropic_raises_and_retries_as_intended_through_the_sidecar() {
    zero(
        "typescript_anthropic_raises_and_retries_as_intended_through_the_sidecar",
        Script::node("errors.mjs"),
    );
}

/// No SDK, but in their place: what other libraries say of HTTP/2.
#[test]
fn python_h2_frames() {
    legacy("python_h2_frames", Script::python("frames.py", &[]));
}
