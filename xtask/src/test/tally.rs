//! Counts what libtest says.

/// Tests so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Ran and were right. A test that skipped itself is not among them.
    pub(crate) passed: u64,
    /// Ran and were wrong.
    pub(crate) failed: u64,
    /// `name: why` of each that did not run.
    pub(crate) skipped: Vec<String>,
    /// Names of those that were wrong.
    pub(crate) wrong: Vec<String>,
    /// Names of the list being read; only the last list of a binary is names alone.
    list: Vec<String>,
}

impl Tally {
    /// Reads one line of libtest's output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            // ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in …
            let count = |what: &str| {
                counts
                    .split([';', '.'])
                    .find_map(|part| part.trim().strip_suffix(what)?.trim().parse::<u64>().ok())
            };
            self.passed += count(" passed").unwrap_or(0);
            self.failed += count(" failed").unwrap_or(0);
            self.wrong.append(&mut self.list);
        } else if line == "failures:" || line.starts_with("running ") {
            self.list.clear();
        } else if let Some(name) = line.strip_prefix("    ")
            && !name.contains(char::is_whitespace)
        {
            self.list.push(name.into());
        } else if let Some((name, why)) = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... ignored"))
        {
            let why = why.trim_start_matches([',', ' ']);
            let why = if why.is_empty() { "ignored" } else { why };
            self.skipped.push(format!("{name}: {why}"));
        }
    }

    /// Adds tests that said themselves that they did not run; libtest counted them as passed.
    pub(crate) fn skipped_themselves(&mut self, lines: Vec<String>) {
        self.passed = self.passed.saturating_sub(lines.len() as u64);
        self.skipped.extend(lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up_and_ignored_tests_are_named() {
        let mut tally = Tally::default();
        for line in [
            "test a::one ... ok",
            "test a::two ... ignored, needs a lot of time",
            "test a::three ... ignored",
            "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.23s",
            "failures:",
            "---- b::bad stdout ----",
            "    said",
            "failures:",
            "    b::bad",
            "    b::worse",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "some output of a test",
        ] {
            tally.read(line);
        }
        tally.skipped_themselves(vec!["b: needs CAP_BPF (run as root)".into()]);
        assert_eq!((tally.passed, tally.failed), (12, 2));
        assert_eq!(tally.wrong, ["b::bad", "b::worse"]);
        assert_eq!(
            tally.skipped,
            [
                "a::two: needs a lot of time",
                "a::three: ignored",
                "b: needs CAP_BPF (run as root)"
            ]
        );
    }
}
