//! `cargo xtask doctor`: looks at everything that building, testing and showing the edge
//! needs, and says for each part that is not good the one command that mends it.
//!
//! It changes nothing. `cargo xtask setup` does.

mod kernel;
mod leftovers;
mod tools;

use crate::ui::{self, Tone, paint};
use serde::Serialize;
use std::process::ExitCode;

/// Check the toolchain, the kernel and the rights; one fixing command per failure
#[derive(clap::Args)]
#[command(after_help = "\
Exits 0 when everything is good; parts marked optional may be absent, and what a killed demo
left does no harm.

Examples:
  cargo xtask doctor
  cargo xtask doctor --json | python3 -m json.tool")]
pub(crate) struct Args {
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// One part, looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    /// The part.
    name: &'static str,
    state: State,
    /// What was found, or what is wrong.
    found: String,
    /// One command that mends it; none when there is nothing to mend.
    fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Good,
    /// Something will not work.
    Bad,
    /// Absent, and only named in `found` for what it is good for.
    Optional,
    /// Somebody else's rubbish: nothing fails for it, and the next demo sweeps it up.
    Left,
    /// Depends on a part that is bad.
    Unchecked,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Good,
            found: found.into(),
            fix: None,
        }
    }

    fn bad(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Bad,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    fn optional(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            state: State::Optional,
            ..Self::bad(name, found, fix)
        }
    }

    fn left(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            state: State::Left,
            ..Self::bad(name, found, fix)
        }
    }

    fn unchecked(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Unchecked,
            found: found.into(),
            fix: None,
        }
    }
}

/// Looks, reports; 1 when a part is bad.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let checks = look()?;
    let good = failing(&checks).next().is_none();
    if args.json {
        let report = serde_json::json!({ "good": good, "checks": checks });
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&checks, good);
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Looks and reports to people.
///
/// # Errors
/// Names the parts that are bad.
pub(crate) fn pass() -> anyhow::Result<()> {
    let checks = look()?;
    let failing: Vec<_> = failing(&checks)
        .map(|check| format!("{}: {}", check.name, check.found))
        .collect();
    print(&checks, failing.is_empty());
    anyhow::ensure!(failing.is_empty(), "{}", failing.join("; "));
    Ok(())
}

fn look() -> anyhow::Result<Vec<Check>> {
    let mut checks = tools::checks()?;
    checks.extend(kernel::checks());
    checks.extend(leftovers::checks());
    Ok(checks)
}

fn failing(checks: &[Check]) -> impl Iterator<Item = &Check> {
    checks
        .iter()
        .filter(|check| matches!(check.state, State::Bad | State::Unchecked))
}

fn print(checks: &[Check], good: bool) {
    let rows: Vec<_> = checks
        .iter()
        .map(|check| {
            let (tone, word) = match check.state {
                State::Good => (Tone::Good, "good"),
                State::Bad => (Tone::Bad, "BAD"),
                State::Optional => (Tone::Note, "optional"),
                State::Left => (Tone::Note, "left"),
                State::Unchecked => (Tone::Note, "unchecked"),
            };
            (
                tone,
                [word.to_owned(), check.name.to_owned(), check.found.clone()],
            )
        })
        .collect();
    ui::table(["state", "part", "found"], &rows);
    let mut fixes = checks.iter().filter(|check| check.fix.is_some()).peekable();
    if fixes.peek().is_some() {
        println!();
    }
    for check in fixes {
        let tone = if check.state == State::Bad {
            Tone::Bad
        } else {
            Tone::Note
        };
        let fix = check.fix.as_deref().unwrap_or_default();
        println!("{}  {fix}", paint(tone, &format!("{}:", check.name)));
    }
    if !good {
        println!("\n`cargo xtask setup` as root does all of it that Debian packages can.");
    }
}
