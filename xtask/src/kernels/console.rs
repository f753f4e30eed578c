//! What a guest said on its console: which kernel it was, how each part ended, what was
//! skipped, and the figures and facts between.

use super::Part;

/// One boot, as its console tells it.
pub(super) struct Boot {
    pub(super) release: String,
    pub(super) parts: Vec<(Part, Outcome)>,
    /// `figure NAME VALUE UNIT` lines of the tests.
    pub(super) figures: Vec<[String; 3]>,
    /// `fact NAME yes` lines.
    pub(super) facts: Vec<[String; 2]>,
    pub(super) console: String,
}

/// How one part ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: bool,
    /// The test harness's closing line, or what stands for it.
    pub(super) result: String,
    /// `test: why` of the tests that did not run.
    pub(super) skipped: Vec<String>,
    pub(super) seconds: Option<u64>,
}

/// Reads a console for these parts.
pub(super) fn read(console: String, parts: &[Part]) -> Boot {
    // The harness puts a test's name before what the test says.
    let after = |word: &'static str| {
        let lines = console.lines().map(str::trim);
        lines.filter_map(move |line| {
            let at = line.find(word)?;
            let before = line[..at].chars().next_back();
            before
                .is_none_or(char::is_whitespace)
                .then(|| &line[at + word.len()..])
        })
    };
    let release = after("kernel ").next().unwrap_or("unknown").to_owned();
    let fields = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let figures = after("figure ").filter_map(|line| fields(line).try_into().ok());
    let facts = after("fact ").filter_map(|line| fields(line).try_into().ok());
    let (figures, facts) = (figures.collect(), facts.collect());
    let parts = parts.iter().map(|part| (*part, outcome(&console, *part)));
    Boot {
        release,
        parts: parts.collect(),
        figures,
        facts,
        console: console.clone(),
    }
}

/// What was said in a part, or all of it when the part did not begin.
pub(super) fn lines_of(console: &str, part: Part) -> Vec<&str> {
    let word = |word: &str| format!("part {} {word}", part.name());
    let (begins, ends) = (word("begins"), word("ends with "));
    let lines = || console.lines().map(str::trim);
    let first = lines().position(|line| line == begins).unwrap_or(0);
    let last = lines().position(|line| line.starts_with(&ends));
    let last = last.unwrap_or_else(|| lines().count());
    lines().take(last).skip(first).collect()
}

/// Why a part failed, in the tests' own words: each panic's line and message, or what the part
/// came to when none was said.
pub(super) fn reasons(console: &str, part: Part, outcome: &Outcome) -> Vec<String> {
    const CHARACTERS: usize = 300;
    const REASONS: usize = 8;
    let lines = lines_of(console, part);
    let panics = lines.iter().enumerate().filter_map(|(at, line)| {
        let place = line.split_once(" panicked at ")?.1;
        let message = lines[at + 1..].iter().take_while(|line| !line.is_empty());
        let message = message.take_while(|line| !line.starts_with("stack backtrace"));
        let message: Vec<_> = message.take(6).copied().collect();
        let reason = format!("{place} {}", message.join(" "));
        Some(reason.chars().take(CHARACTERS).collect())
    });
    let mut reasons: Vec<_> = panics.take(REASONS).collect();
    if reasons.is_empty() {
        reasons.push(outcome.result.clone());
    }
    reasons
}

fn outcome(console: &str, part: Part) -> Outcome {
    let word = format!("part {} ", part.name());
    let said = console.lines().map(str::trim);
    let mut outcome = Outcome {
        passed: false,
        result: "did not begin".into(),
        skipped: Vec::new(),
        seconds: None,
    };
    let mut within = false;
    for line in said {
        match line.strip_prefix(&word) {
            Some("begins") => {
                within = true;
                outcome.result = "was cut short".into();
            }
            Some(line) if within => {
                if let Some(skipped) = line.strip_prefix("SKIPPED ") {
                    outcome.skipped.push(skipped.into());
                }
                let Some(end) = line.strip_prefix("ends with ") else {
                    continue;
                };
                let (status, after) = end.split_once(" after ").unwrap_or((end, ""));
                outcome.passed = status == "0" && outcome.result.starts_with("ok.");
                outcome.seconds = after.trim_end_matches(" s").parse().ok();
                break;
            }
            _ => {}
        }
        if within && let Some(result) = line.strip_prefix("test result: ") {
            outcome.result = result.into();
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str = "\x1b[2J firmware\r\nkernel 6.1.0\r\n\
        part fixtures begins\r\n\
        test a ... figure xdp.verifier_insns.edge_xdp 7 1\r\n\
        test result: ok. 3 passed; 0 failed\r\n\
        part fixtures ends with 0 after 12 s\r\n\
        part live begins\r\n\
        test b ... fact sock_destroy yes\r\nok\r\n\
        test result: ok. 1 passed\r\n\
        part live SKIPPED c: no veth\r\n\
        part live ends with 0 after 3 s\r\n\
        part netem begins\r\n\
        test d ... ";

    #[test]
    fn parts_figures_facts_and_skips_are_read() {
        let parts = [Part::Fixtures, Part::Live, Part::Netem];
        let boot = read(CONSOLE.into(), &parts);
        assert_eq!(boot.release, "6.1.0");
        let name = "xdp.verifier_insns.edge_xdp".to_owned();
        assert_eq!(boot.figures, [[name, "7".into(), "1".into()]]);
        assert_eq!(boot.facts, [["sock_destroy".to_owned(), "yes".into()]]);
        let [(_, fixtures), (_, live), (_, netem)] = &boot.parts[..] else {
            panic!()
        };
        assert!(fixtures.passed && fixtures.skipped.is_empty());
        assert_eq!(fixtures.seconds, Some(12));
        assert!(live.passed);
        assert_eq!(live.skipped, ["c: no veth"]);
        let said = lines_of(CONSOLE, Part::Live);
        assert_eq!((said.len(), said[0]), (5, "part live begins"));
        assert_eq!(lines_of(CONSOLE, Part::Netem).len(), 2);
        assert_eq!((netem.passed, &*netem.result), (false, "was cut short"));
    }

    #[test]
    fn a_failed_part_tells_why_in_its_tests_words() {
        let console = "part netem begins\r\n\
            thread 'x' panicked at tests/guest/scene.rs:185:9:\r\n\
            299 counted and 0 stray of 300\r\n\
            stack backtrace:\r\n   0: begin\r\n\
            test result: FAILED. 1 passed\r\n\
            part netem ends with 101 after 3 s\r\n";
        let of = |console: &str| {
            let boot = read(console.into(), &[Part::Netem]);
            reasons(console, Part::Netem, &boot.parts[0].1)
        };
        let told = "tests/guest/scene.rs:185:9: 299 counted and 0 stray of 300";
        assert_eq!(of(console), [told]);
        assert_eq!(of("part netem begins\r\n"), ["was cut short"]);
    }

    #[test]
    fn a_good_line_with_a_bad_end_is_no_pass_nor_is_silence() {
        let console = CONSOLE.replace("ends with 0 after 12", "ends with 101 after 12");
        let boot = read(console, &[Part::Fixtures]);
        assert!(!boot.parts[0].1.passed);
        let boot = read("Kernel panic".into(), &[Part::Fixtures]);
        assert_eq!(boot.parts[0].1.result, "did not begin");
    }
}
