//! Prints what happened: a table for people, or JSON lines for programs.

use super::act::{Played, Skipped};
use super::judge::Outcome;
use super::row::{Act, Row};
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Where the rows go.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    colours: bool,
    /// Rows as expected, rows that differ, rows left out.
    counts: [usize; 3],
    skipped: Vec<String>,
}

const GREEN: &str = "32";
const RED: &str = "31;1";
const DIM: &str = "2";
const BOLD: &str = "1";

impl Report {
    /// For stdout, in colours when it is a terminal and NO_COLOR is not set.
    pub(super) fn new(json: bool) -> Self {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            json,
            colours: colours && !json,
            counts: [0; 3],
            skipped: Vec::new(),
        }
    }

    /// A sentence about the whole.
    pub(super) fn say(&self, text: &str) -> std::io::Result<()> {
        if self.json {
            print(&json!({"event": "note", "text": text}).to_string())
        } else {
            print(text)
        }
    }

    /// Begins a section.
    pub(super) fn section(&self, title: &str) -> std::io::Result<()> {
        if self.json {
            return Ok(());
        }
        print(&format!("\n{}", self.paint(BOLD, title)))?;
        print(&self.paint(
            DIM,
            &line(
                "",
                "who",
                "how",
                "what it offered",
                "verdict and reason",
                "decided by",
                "ms",
                "what the client saw",
            ),
        ))
    }

    /// A row that was played.
    pub(super) fn row(
        &mut self,
        row: &Row,
        played: &Played,
        outcome: &Outcome,
    ) -> std::io::Result<()> {
        let good = outcome.faults.is_empty();
        self.counts[usize::from(!good)] += 1;
        if self.json {
            return print(&self.json_row(row, played, outcome));
        }
        let mark = if good {
            self.paint(GREEN, "✓")
        } else {
            self.paint(RED, "✗")
        };
        let text = line(
            &mark,
            row.client.name(),
            &row.way(),
            &row.offer(),
            &outcome.verdict,
            outcome.decided_by,
            &milliseconds(played.took),
            &outcome.saw,
        );
        print(&text)?;
        if let Some(delay) = &played.delay {
            let late = if delay.took > delay.aim {
                ": later than the aim"
            } else {
                ""
            };
            print(&self.paint(
                DIM,
                &format!(
                    "      {} ms {} (aim {} ms{late})",
                    milliseconds(delay.took),
                    delay.what,
                    delay.aim.as_millis()
                ),
            ))?;
        }
        if let Act::Turn(turn) = row.act {
            print(&self.paint(
                DIM,
                &format!(
                    "      {}: {} tokens of it were known and not counted again",
                    turn.known(),
                    played.counted.known_tokens
                ),
            ))?;
        }
        for fault in &outcome.faults {
            print(&self.paint(RED, &format!("      not as expected: {fault}")))?;
        }
        Ok(())
    }

    /// A row that was left out.
    pub(super) fn skip(&mut self, row: &Row, why: &Skipped) -> std::io::Result<()> {
        self.counts[2] += 1;
        let name = format!("{} {} {}", row.client.name(), row.way(), row.offer());
        self.skipped.push(format!("{name}: {}", why.0));
        if self.json {
            return print(&json!({"event": "skipped", "who": name, "why": why.0}).to_string());
        }
        print(&format!("– {name}: skipped, {}", why.0))
    }

    /// The last lines: the demo took so long, after its programs were found or built.
    pub(super) fn end(&self, took: Duration, found: Duration) -> std::io::Result<()> {
        let [good, bad, skipped] = self.counts;
        if self.json {
            return print(
                &json!({
                    "event": "end", "as_expected": good, "not_as_expected": bad,
                    "skipped": skipped, "ms": took.as_secs_f64() * 1e3,
                    "build_ms": found.as_secs_f64() * 1e3,
                })
                .to_string(),
            );
        }
        let summary = format!(
            "\n{good} rows as expected, {bad} not, {skipped} skipped; {}.",
            times(took, found)
        );
        print(&self.paint(if bad == 0 { GREEN } else { RED }, &summary))?;
        for name in &self.skipped {
            print(&format!("skipped: {name}"))?;
        }
        Ok(())
    }

    /// Whether every row that could be played was as expected, and some were.
    pub(super) fn is_good(&self) -> bool {
        self.counts[0] > 0 && self.counts[1] == 0
    }

    fn json_row(&self, row: &Row, played: &Played, outcome: &Outcome) -> String {
        json!({
            "event": "row",
            "who": row.client.name(),
            "how": row.way(),
            "offered": row.offer(),
            "verdict": outcome.verdict,
            "decided_by": outcome.decided_by,
            "saw": outcome.saw,
            "ms": played.took.as_secs_f64() * 1e3,
            "delay": played.delay.as_ref().map(|delay| json!({
                "what": delay.what,
                "ms": delay.took.as_secs_f64() * 1e3,
                "aim_ms": delay.aim.as_millis(),
            })),
            "counted": {
                "kernel": played.counted.kernel,
                "userspace": played.counted.userspace,
                "accepted_connections": played.counted.accepted,
                "contexts": played.counted.contexts,
                "known_tokens": played.counted.known_tokens,
            },
            "as_expected": outcome.faults.is_empty(),
            "faults": outcome.faults,
        })
        .to_string()
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "one a column")]
fn line(
    mark: &str,
    who: &str,
    how: &str,
    offered: &str,
    verdict: &str,
    decided: &str,
    ms: &str,
    saw: &str,
) -> String {
    let mark = if mark.is_empty() { " " } else { mark };
    format!("{mark} {who:<16} {how:<23} {offered:<42} {verdict:<25} {decided:<10} {ms:>7}  {saw}")
}

/// A build is told apart: it is long once, and no part of the demo.
fn times(took: Duration, found: Duration) -> String {
    let took = format!("{:.1} s in all", took.as_secs_f64());
    match found.as_secs() {
        0 => took,
        _ => format!("{took}, after {:.1} s of building", found.as_secs_f64()),
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e3)
}

/// Like println!, but a closed pipe is an error to act on and no panic.
pub(super) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_no_part_of_the_demo() {
        let demo = Duration::from_millis(7345);
        assert_eq!(times(demo, Duration::from_millis(300)), "7.3 s in all");
        let built = Duration::from_millis(95_060);
        assert_eq!(times(demo, built), "7.3 s in all, after 95.1 s of building");
    }
}
