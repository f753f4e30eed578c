//! What a request used, by how it ended. The table of docs/usage.md in code.

use super::Observed;
use crate::telemetry::StreamEnd;

/// Tokens that a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of the prompt, not from a cache.
    pub input: u64,
    /// Of the prompt, read from the upstream's cache.
    pub cache_read: u64,
    /// Of the prompt, written to the upstream's cache.
    pub cache_written: u64,
    /// Of the answer.
    pub output: u64,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was let in; no upstream has got anything of it.
    Here,
    /// It was sent to an upstream.
    Sent,
    /// The upstream answers, with a status of success or another one.
    Answered { success: bool },
}

/// Who ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The upstream said all that it had to say.
    Itself,
    /// The client left, or the edge gave it up.
    Us,
    /// The upstream failed.
    Upstream,
}

impl By {
    pub(super) fn of(end: StreamEnd, observed: &Observed) -> Self {
        match end {
            _ if observed.is_error && !observed.is_finished => Self::Upstream,
            StreamEnd::Complete => Self::Itself,
            StreamEnd::UpstreamError
            | StreamEnd::UpstreamBroke
            | StreamEnd::UpstreamReset
            | StreamEnd::UpstreamTruncated
            | StreamEnd::UpstreamSilent => Self::Upstream,
            StreamEnd::ClientLeftBeforeHead
            | StreamEnd::ClientLeft
            | StreamEnd::ClientStalled
            | StreamEnd::KeyEnded
            | StreamEnd::Draining
            | StreamEnd::Capped => Self::Us,
        }
    }
}

impl Used {
    /// What a request used that came to `stage` and was ended `by` someone; `count` is the
    /// edge's own of its prompt.
    pub(super) fn of(stage: Stage, by: By, count: u64, observed: &Observed) -> Self {
        let has_given = observed.relayed_output > 0;
        let is_owed = match (stage, by) {
            (Stage::Here, _) | (Stage::Answered { success: false }, _) => false,
            (Stage::Sent, By::Us) | (Stage::Answered { success: true }, By::Us | By::Itself) => {
                true
            }
            (Stage::Sent, By::Itself | By::Upstream)
            | (Stage::Answered { success: true }, By::Upstream) => has_given,
        };
        let mut used = Self {
            input: observed.input.unwrap_or(0),
            cache_read: observed.cache_read.unwrap_or(0),
            cache_written: observed.cache_written.unwrap_or(0),
            output: 0,
        };
        if observed.prompt().is_none() && is_owed {
            used.input = count;
        }
        let relayed = if stage == (Stage::Answered { success: false }) {
            0
        } else {
            observed.relayed_output
        };
        used.output = match observed.output {
            Some(said) if (by == By::Itself || observed.is_finished) && !observed.is_unread => said,
            said => relayed.max(said.unwrap_or(0)),
        };
        used
    }

    /// All of the prompt.
    #[must_use]
    pub fn prompt(&self) -> u64 {
        (self.input.saturating_add(self.cache_read)).saturating_add(self.cache_written)
    }

    /// Prompt and answer.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 100;

    fn used(stage: Stage, end: StreamEnd, observed: &Observed) -> (u64, u64) {
        let used = Used::of(stage, By::of(end, observed), COUNT, observed);
        (used.prompt(), used.output)
    }

    const OK: Stage = Stage::Answered { success: true };
    const BAD: Stage = Stage::Answered { success: false };

    #[test]
    fn the_table_of_the_page() {
        use StreamEnd::*;
        let nothing = Observed::default();
        let relayed = Observed {
            relayed_output: 7,
            ..nothing
        };
        let begun = Observed {
            input: Some(60),
            cache_read: Some(30),
            cache_written: Some(5),
            output: Some(1),
            ..relayed
        };
        let ended = Observed {
            output: Some(9),
            is_finished: true,
            ..begun
        };
        // An estimate that was more than the upstream's own figure.
        let less = Observed {
            output: Some(6),
            ..ended
        };
        // Not all of it was read.
        let unread = Observed {
            relayed_output: 40,
            is_unread: true,
            ..ended
        };
        let unread_at_all = Observed {
            input: None,
            cache_read: None,
            cache_written: None,
            output: None,
            ..unread
        };
        let failed = Observed {
            is_error: true,
            ..nothing
        };
        let failed_later = Observed {
            is_error: true,
            ..begun
        };
        for (stage, end, observed, expected) in [
            (Stage::Here, ClientLeft, nothing, (0, 0)),
            (Stage::Here, UpstreamBroke, nothing, (0, 0)),
            (Stage::Sent, ClientLeftBeforeHead, nothing, (100, 0)),
            (Stage::Sent, KeyEnded, nothing, (100, 0)),
            (Stage::Sent, Draining, nothing, (100, 0)),
            (Stage::Sent, UpstreamBroke, nothing, (0, 0)),
            (Stage::Sent, UpstreamSilent, nothing, (0, 0)),
            (OK, ClientLeft, nothing, (100, 0)),
            (OK, ClientLeft, relayed, (100, 7)),
            (OK, ClientLeft, begun, (95, 7)),
            (OK, ClientLeft, ended, (95, 9)),
            (OK, Capped, begun, (95, 7)),
            (OK, KeyEnded, begun, (95, 7)),
            (OK, Draining, relayed, (100, 7)),
            (OK, UpstreamBroke, nothing, (0, 0)),
            (OK, UpstreamBroke, relayed, (100, 7)),
            (OK, UpstreamBroke, begun, (95, 7)),
            (OK, UpstreamSilent, nothing, (0, 0)),
            (OK, UpstreamSilent, begun, (95, 7)),
            (OK, Complete, failed, (0, 0)),
            (OK, Complete, failed_later, (95, 7)),
            (OK, Complete, nothing, (100, 0)),
            (OK, Complete, relayed, (100, 7)),
            (OK, Complete, ended, (95, 9)),
            (OK, Complete, less, (95, 6)),
            (OK, ClientLeft, less, (95, 6)),
            (OK, Complete, unread, (95, 40)),
            (OK, Complete, unread_at_all, (100, 40)),
            (BAD, Complete, unread_at_all, (0, 0)),
            (BAD, Complete, nothing, (0, 0)),
            (BAD, Complete, relayed, (0, 0)),
            (BAD, Complete, ended, (95, 9)),
            (BAD, ClientLeft, nothing, (0, 0)),
        ] {
            let found = used(stage, end, &observed);
            assert_eq!(found, expected, "{stage:?} {end:?} {observed:?}");
        }
    }

    #[test]
    fn parts_that_were_not_said_are_zero_and_huge_ones_stay_a_number() {
        let observed = Observed {
            cache_read: Some(u64::MAX),
            output: Some(u64::MAX),
            is_finished: true,
            ..Observed::default()
        };
        let used = Used::of(OK, By::Itself, COUNT, &observed);
        assert_eq!(
            (used.input, used.prompt(), used.total()),
            (0, u64::MAX, u64::MAX)
        );
    }
}
