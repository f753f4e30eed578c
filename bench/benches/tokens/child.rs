//! This program again, in a process of its own: what has to be seen in a fresh one.

use crate::{cold, memory};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

/// In the environment of such a process: what it is to do.
const TASK: &str = "EDGE_BENCH_TOKENS_CHILD";

/// The numbers that a process says, given a text on its standard input.
pub(crate) fn numbers(task: &str, text: &str) -> Result<Vec<u64>, String> {
    let told = |error: std::io::Error| error.to_string();
    let program = std::env::current_exe().map_err(told)?;
    let mut child = Command::new(program)
        .env(TASK, task)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(told)?;
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).map_err(told)?;
    drop(stdin);
    let output = child.wait_with_output().map_err(told)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers = said.split_whitespace().map(str::parse);
    match numbers.collect::<Result<Vec<u64>, _>>() {
        Ok(numbers) if output.status.success() => Ok(numbers),
        _ => Err(format!("{}: {said:?}", output.status)),
    }
}

/// Does what this process was started for, if it is such a one.
pub(crate) fn main() -> Option<ExitCode> {
    let task = std::env::var(TASK).ok()?;
    let parts: Vec<&str> = task.split(' ').collect();
    let done = match parts[..] {
        ["cold", who, vocabulary] => cold::as_child(who, vocabulary),
        ["memory", vocabulary, bytes] => memory::as_child(vocabulary, bytes.parse().ok()?),
        _ => None,
    };
    Some(done.unwrap_or(ExitCode::FAILURE))
}
