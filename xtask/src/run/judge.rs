//! Holds what was played against what was expected.

use super::act::Played;
use super::row::{Act, Decider, Row, Sees};
use edge_common::policy::{Reason, Verdict};
use edge_demo::{Answer, Report};
use std::collections::BTreeMap;

/// What really happened, in the table's words.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// `reject tag_wrong`, as counted by whoever decided.
    pub(super) verdict: String,
    /// `kernel` or `userspace`.
    pub(super) decided_by: &'static str,
    /// What the client saw, in its library's words.
    pub(super) saw: String,
    /// What differs from the expectation; empty when nothing does.
    pub(super) faults: Vec<String>,
}

/// Judges a row.
pub(super) fn judge(row: &Row, kernel_half: bool, played: &Played) -> Outcome {
    let mut faults = Vec::new();
    let counted = &played.counted;
    let kernel = hello_reasons(&counted.kernel);
    let kernel_rejected = kernel
        .iter()
        .any(|(reason, _)| reason.verdict() == Verdict::Reject);
    let decided_by = if kernel_rejected {
        Decider::Kernel
    } else {
        Decider::Userspace
    };
    let expected_decider = row.decider(kernel_half);

    // The kernel's own counters: one hello, of one reason; or none at all.
    let expected: Vec<_> = match row.reason() {
        Some(reason) if kernel_half => vec![(reason, 1)],
        _ => vec![],
    };
    if kernel != expected {
        faults.push(format!(
            "kernel counted {}, expected {}",
            show(&kernel),
            show(&expected)
        ));
    }
    let hellos = counted.kernel.get("hellos").copied().unwrap_or(0);
    let sum: u64 = kernel.iter().map(|(_, count)| count).sum();
    if hellos != sum {
        faults.push(format!("kernel saw {hellos} hellos and decided {sum}"));
    }
    if row.act == Act::NotTls && kernel_half && !counted.kernel.contains_key("not_hello") {
        faults.push("kernel counted no not_hello".to_owned());
    }

    // Userspace: nothing reaches it that the kernel refused, but for the first of two segments.
    let userspace = hello_reasons(&counted.userspace);
    let (expected, connections) = match (expected_decider, row.reason()) {
        (Decider::Kernel, _) if row.post_quantum => (vec![(Reason::Incomplete, 1)], 1),
        (Decider::Kernel, _) => (vec![], 0),
        (Decider::Userspace, Some(reason)) => (vec![(reason, 1)], 1),
        (Decider::Userspace, None) => (vec![], 1),
    };
    if userspace != expected {
        faults.push(format!(
            "userspace counted {}, expected {}",
            show(&userspace),
            show(&expected)
        ));
    }
    if counted.accepted != connections {
        faults.push(format!(
            "the daemon accepted {} connections, expected {connections}",
            counted.accepted
        ));
    }

    if let Act::Turn(turn) = row.act {
        let known: Vec<_> = counted.contexts.iter().collect();
        if known != [(&turn.known().to_owned(), &1)] {
            faults.push(format!(
                "the edge knew {known:?} of it, expected {}",
                turn.known()
            ));
        }
        if (turn.known() == "miss") != (counted.known_tokens == 0) {
            faults.push(format!("{} tokens were known", counted.known_tokens));
        }
    }

    let saw = tell(&played.report);
    if let Some(fault) = differs(row.sees, &played.report) {
        faults.push(fault);
    }
    if row.sees == Sees::Left && played.delay.is_none() {
        faults.push("the model noticed nothing".to_owned());
    }

    let deciding = if kernel_rejected { &kernel } else { &userspace };
    Outcome {
        verdict: match (deciding.first(), row.act) {
            (Some((reason, _)), _) => format!("{} {}", verdict_name(*reason), reason.name()),
            (None, Act::NotTls) => "no hello".to_owned(),
            (None, _) => "none".to_owned(),
        },
        decided_by: decided_by.name(),
        saw,
        faults,
    }
}

/// The reasons that are about a hello, with their counts.
fn hello_reasons(counts: &BTreeMap<String, u64>) -> Vec<(Reason, u64)> {
    Reason::ALL
        .iter()
        .filter(|reason| !matches!(reason.verdict(), Verdict::Pass | Verdict::Unconnected))
        .filter_map(|reason| Some((*reason, *counts.get(reason.name())?)))
        .collect()
}

const fn verdict_name(reason: Reason) -> &'static str {
    match reason.verdict() {
        Verdict::Accept => "accept",
        Verdict::Reject => "reject",
        Verdict::Legacy => "legacy",
        Verdict::Undecided => "undecided",
        Verdict::Pass => "pass",
        Verdict::Unconnected => "unconnected",
    }
}

fn show(counts: &[(Reason, u64)]) -> String {
    if counts.is_empty() {
        return "nothing".to_owned();
    }
    let words: Vec<_> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.name()))
        .collect();
    words.join(" + ")
}

/// What the client saw, in a line.
fn tell(report: &Report) -> String {
    let mut words = Vec::new();
    words.extend(report.error.clone());
    for answer in &report.answers {
        words.push(tell_answer(answer));
    }
    if words.is_empty() {
        words.push("nothing".to_owned());
    }
    words.join("; then ")
}

fn tell_answer(answer: &Answer) -> String {
    let mut text = answer
        .status
        .map_or_else(String::new, |status| status.to_string());
    if let Some(last) = answer.events.last() {
        text += &format!(", {} events, last {last}", answer.events.len());
    }
    if let Some(message) = &answer.message {
        text += &match &answer.error_type {
            Some(kind) => format!(" {kind}: {message}"),
            None => format!(": {message}"),
        };
    }
    if let Some(failure) = &answer.failure {
        text += if text.is_empty() { "" } else { ", " };
        text += failure;
    }
    text
}

/// How the report differs from what the client must see.
fn differs(sees: Sees, report: &Report) -> Option<String> {
    let first = report.answers.first();
    let good = match sees {
        Sees::AccessDenied => {
            report.answers.is_empty() && report.error.as_deref().is_some_and(names_access_denied)
        }
        Sees::Stream => report.error.is_none() && first.is_some_and(Answer::is_whole_stream),
        Sees::Message => {
            report.error.is_none()
                && first.is_some_and(|a| {
                    a.status == Some(200)
                        && a.failure.is_none()
                        && a.error_type.is_none()
                        && a.events.is_empty()
                })
        }
        Sees::Error(status, kind, message) => {
            first.is_some_and(|a| is_error(a, status, kind, message))
        }
        Sees::ErrorThenDead(status, kind, message) => {
            first.is_some_and(|a| is_error(a, status, kind, message))
                && report
                    .answers
                    .get(1)
                    .is_some_and(|a| a.status.is_none() && a.failure.is_some())
        }
        Sees::PlainError(status, part) => first.is_some_and(|a| {
            a.status == Some(status) && a.message.as_deref().is_some_and(|m| m.contains(part))
        }),
        // It left before the end, so it saw no end and no error either.
        Sees::Left => {
            report.error.is_none()
                && (report.answers.iter()).all(|a| {
                    a.failure.is_none() && a.events.last().is_none_or(|e| e != "message_stop")
                })
        }
        Sees::ErrorEvent(kind) => first.is_some_and(|a| {
            a.status == Some(200)
                && a.events.last().is_some_and(|event| event == "error")
                && a.error_type.as_deref() == Some(kind)
        }),
    };
    (!good).then(|| format!("the client saw \"{}\", expected {sees:?}", tell(report)))
}

fn is_error(answer: &Answer, status: u16, kind: &str, message: &str) -> bool {
    answer.status == Some(status)
        && answer.error_type.as_deref() == Some(kind)
        && answer
            .message
            .as_deref()
            .is_some_and(|m| m.contains(message))
}

/// TLS alert 49 as rustls, OpenSSL and Python's ssl call it.
fn names_access_denied(error: &str) -> bool {
    let letters: String = error
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    letters.contains("alertreceivedaccessdenied") || letters.contains("alertaccessdenied")
}

#[cfg(test)]
mod tests {
    use super::super::counters::Counters;
    use super::super::row::Token;
    use super::super::rows;
    use super::*;
    use std::time::Duration;

    /// A bad token in a hello of one segment.
    fn refused_row() -> Row {
        let rows = rows::sections().into_iter().flat_map(|(_, rows)| rows);
        let mut bad = rows.filter(|row| row.token == Token::FlippedTag && !row.post_quantum);
        bad.next().unwrap()
    }

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
    }

    /// What is counted and seen when the kernel refuses it as it should.
    fn refused_in_the_kernel() -> Played {
        Played {
            report: Report {
                error: Some("AlertReceived(AccessDenied)".to_owned()),
                ..Report::default()
            },
            counted: Counters {
                kernel: counts(&[("hellos", 1), ("tag_wrong", 1), ("packets", 4)]),
                ..Counters::default()
            },
            took: Duration::ZERO,
            delay: None,
        }
    }

    fn faults(played: &Played, kernel_half: bool) -> Vec<String> {
        judge(&refused_row(), kernel_half, played).faults
    }

    #[test]
    fn what_is_as_expected_has_no_fault() {
        let outcome = judge(&refused_row(), true, &refused_in_the_kernel());
        assert_eq!(outcome.faults, [""; 0]);
        assert_eq!(outcome.decided_by, "kernel");
        assert_eq!(outcome.verdict, "reject tag_wrong");
    }

    #[test]
    fn each_thing_that_differs_is_a_fault_of_its_own() {
        let mut other_reason = refused_in_the_kernel();
        other_reason.counted.kernel = counts(&[("hellos", 1), ("key_unknown", 1)]);
        let mut reached_the_daemon = refused_in_the_kernel();
        reached_the_daemon.counted.accepted = 1;
        let mut judged_twice = refused_in_the_kernel();
        judged_twice.counted.userspace = counts(&[("tag_wrong", 1)]);
        let mut do_not_add_up = refused_in_the_kernel();
        *do_not_add_up.counted.kernel.get_mut("hellos").unwrap() = 2;
        let mut silent = refused_in_the_kernel();
        silent.report.error = Some("Connection reset by peer (os error 104)".to_owned());
        for played in [
            other_reason,
            reached_the_daemon,
            judged_twice,
            do_not_add_up,
            silent,
        ] {
            assert_eq!(faults(&played, true).len(), 1, "{played:?}");
        }
        let mut unbothered = refused_in_the_kernel();
        unbothered.counted.kernel.clear();
        assert_eq!(faults(&unbothered, true).len(), 1, "{unbothered:?}");
    }

    #[test]
    fn of_a_hello_in_two_segments_the_daemon_sees_the_first_and_no_more() {
        let row = Row {
            post_quantum: true,
            ..refused_row()
        };
        let mut played = refused_in_the_kernel();
        assert_eq!(judge(&row, true, &played).faults.len(), 2);
        played.counted.userspace = counts(&[("incomplete", 1)]);
        played.counted.accepted = 1;
        assert_eq!(judge(&row, true, &played).faults, [""; 0]);
        played.counted.userspace = counts(&[("tag_wrong", 1)]);
        assert_eq!(judge(&row, true, &played).faults.len(), 1);
    }

    #[test]
    fn without_the_kernel_half_userspace_must_have_decided() {
        assert!(!faults(&refused_in_the_kernel(), false).is_empty());
        let mut played = refused_in_the_kernel();
        played.counted = Counters {
            userspace: counts(&[("tag_wrong", 1)]),
            accepted: 1,
            ..Counters::default()
        };
        assert_eq!(faults(&played, false), [""; 0]);
        assert!(!faults(&played, true).is_empty());
    }

    #[test]
    fn each_librarys_name_for_the_alert_is_known_and_no_other() {
        for name in [
            "AlertReceived(AccessDenied)",
            "tlsv1 alert access denied (SSL alert number 49)",
            "[SSL: TLSV1_ALERT_ACCESS_DENIED] tlsv1 alert access denied (_ssl.c:1006)",
        ] {
            assert!(names_access_denied(name), "{name}");
        }
        for name in [
            "AlertReceived(HandshakeFailure)",
            "Connection reset by peer (os error 104)",
            "access denied",
            "",
        ] {
            assert!(!names_access_denied(name), "{name}");
        }
    }
}
