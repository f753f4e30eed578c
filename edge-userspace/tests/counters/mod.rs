//! The kernel half's counters must add up, after whatever happened.

use edge_common::policy::{Counter, Reason, Verdict};

/// Fails unless every packet, hello and refusal is accounted for. `count` tells a counter by
/// its name.
pub(crate) fn add_up(count: impl Fn(&str) -> u64) {
    let of = |counter: Counter| count(counter.name());
    let sum = |verdict| -> u64 {
        let reasons = Reason::ALL
            .iter()
            .filter(|reason| reason.verdict() == verdict);
        reasons.map(|reason| count(reason.name())).sum()
    };
    let rejected = sum(Verdict::Reject);
    let hellos = rejected + sum(Verdict::Accept) + sum(Verdict::Legacy) + sum(Verdict::Undecided);
    assert_eq!(of(Counter::Hellos), hellos, "hellos");
    assert_eq!(
        of(Counter::Packets),
        hellos + sum(Verdict::Pass) + sum(Verdict::Unconnected),
        "packets"
    );
    let answers = [
        Counter::AnsweredAlert,
        Counter::AnsweredRst,
        Counter::AnsweredDrop,
        Counter::AnsweredUp,
        Counter::AnswerFailed,
    ];
    let rejected = rejected + count(Reason::RejectedAgain.name());
    assert_eq!(rejected, answers.map(of).iter().sum::<u64>(), "answers");
}
