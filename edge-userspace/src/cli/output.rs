//! What commands print, and how they fail.

use std::fmt;
use std::io::{self, Write as _};

/// Why a command ends with a failure.
#[derive(Debug)]
pub(super) enum Failure {
    /// For this reason, to be printed.
    Because(String),
    /// It was asked for in a way that makes no sense, for this reason, to be printed.
    Usage(String),
    /// Everything has been said.
    Told,
    /// Standard output was closed, as `head` does.
    OutputClosed,
}

pub(super) type Outcome = Result<(), Failure>;

impl Failure {
    pub(super) fn because(text: impl fmt::Display) -> Self {
        Self::Because(text.to_string())
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Most messages tell their cause already.
            if !text.contains(&cause_text) {
                text += &format!(": {cause_text}");
            }
            source = cause.source();
        }
        Self::Because(text)
    }
}

/// So many of them: `1 key`, `2 keys`.
pub(super) fn many(count: impl TryInto<u64>, what: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        count if what.ends_with('x') => format!("{count} {what}es"),
        count => format!("{count} {what}s"),
    }
}

/// Writes to standard output.
pub(super) fn print(text: impl fmt::Display) -> Outcome {
    written(write!(io::stdout().lock(), "{text}"))
}

/// Writes a line to standard output.
pub(super) fn print_line(text: impl fmt::Display) -> Outcome {
    written(writeln!(io::stdout().lock(), "{text}"))
}

/// What became of writing to standard output.
pub(super) fn written(outcome: io::Result<()>) -> Outcome {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::because(format!("cannot write to standard output: {error}")),
    })
}

/// A value as JSON on several lines.
pub(super) fn print_json(value: &impl serde::Serialize) -> Outcome {
    print_line(serde_json::to_string_pretty(value)?)
}

#[cfg(test)]
mod tests {
    use super::many;

    #[test]
    fn one_is_not_many() {
        let told = [0_u32, 1, 2].map(|count| (many(count, "key"), many(count, "prefix")));
        let told: Vec<_> = told
            .iter()
            .map(|(key, prefix)| (&**key, &**prefix))
            .collect();
        assert_eq!(
            told,
            [
                ("0 keys", "0 prefixes"),
                ("1 key", "1 prefix"),
                ("2 keys", "2 prefixes"),
            ]
        );
    }
}
