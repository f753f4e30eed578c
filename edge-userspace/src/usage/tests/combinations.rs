//! Every phase that a request may be in, and every way out of it.

use super::*;

/// How far a request comes before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    LetIn,
    Reserved,
    Sent,
    Head(StatusCode),
    Begun,
    MidStream,
    Finished,
}

/// How it ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Dropped,
    Failed,
    Ended(StreamEnd),
}

pub(super) const COUNT: u64 = 120;
pub(super) const RESERVED: u64 = 400;

/// What the upstream says and gives, so far as the request comes.
pub(super) fn observed(phase: Phase) -> Observed {
    let begun = Observed {
        input: Some(100),
        cache_read: Some(7),
        cache_written: Some(3),
        output: Some(1),
        events: 1,
        ..Observed::default()
    };
    let mid_stream = Observed {
        relayed_output: 50,
        events: 9,
        ..begun
    };
    match phase {
        Phase::Begun => begun,
        Phase::MidStream => mid_stream,
        Phase::Finished => Observed {
            output: Some(60),
            relayed_output: 64,
            is_finished: true,
            ..mid_stream
        },
        _ => Observed::default(),
    }
}

/// Every way of ending in every phase that has it, for streams and for whole answers alike: of a
/// whole answer `Begun` and `MidStream` do not exist, for its usage is at its end.
pub(super) fn combinations() -> Vec<(Phase, Way, (u64, u64))> {
    use Phase::*;
    use StreamEnd::*;
    let (ok, busy) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);
    let mut all = vec![
        (LetIn, Way::Dropped, (0, 0)),
        (Reserved, Way::Dropped, (0, 0)),
        (Reserved, Way::Failed, (0, 0)),
        (Sent, Way::Dropped, (COUNT, 0)),
        (Sent, Way::Failed, (0, 0)),
        (Sent, Way::Ended(ClientLeftBeforeHead), (COUNT, 0)),
        (Head(ok), Way::Dropped, (COUNT, 0)),
        (Head(ok), Way::Ended(Complete), (COUNT, 0)),
        (Head(busy), Way::Dropped, (0, 0)),
        (Head(busy), Way::Ended(Complete), (0, 0)),
        (Head(busy), Way::Ended(UpstreamBroke), (0, 0)),
        (Head(busy), Way::Ended(ClientLeft), (0, 0)),
        (Finished, Way::Dropped, (110, 60)),
        (Finished, Way::Ended(Complete), (110, 60)),
        (Finished, Way::Ended(ClientLeft), (110, 60)),
    ];
    for end in [UpstreamBroke, UpstreamSilent] {
        all.push((Head(ok), Way::Ended(end), (0, 0)));
    }
    for end in [ClientLeft, ClientStalled, KeyEnded, Draining, Capped] {
        all.push((Head(ok), Way::Ended(end), (COUNT, 0)));
    }
    for end in [
        ClientLeft,
        ClientStalled,
        KeyEnded,
        Draining,
        Capped,
        UpstreamBroke,
        UpstreamSilent,
        Complete,
    ] {
        // One that comes to its end without saying so is billed as it was said.
        let relayed = if end == Complete { 1 } else { 50 };
        all.push((Begun, Way::Ended(end), (110, 1)));
        all.push((MidStream, Way::Ended(end), (110, relayed)));
    }
    all.push((Begun, Way::Dropped, (110, 1)));
    all.push((MidStream, Way::Dropped, (110, 50)));
    all
}

pub(super) fn run(settlement: Settlement, phase: Phase, way: Way, reserved: u64) {
    let mut settlement = settlement;
    let reaches = |step: Phase| {
        let order = |phase| match phase {
            Phase::LetIn => 0,
            Phase::Reserved => 1,
            Phase::Sent => 2,
            Phase::Head(_) => 3,
            Phase::Begun => 4,
            Phase::MidStream => 5,
            Phase::Finished => 6,
        };
        order(phase) >= order(step)
    };
    if reaches(Phase::Reserved) {
        settlement.reserve(held(COUNT, reserved)).unwrap();
    }
    if reaches(Phase::Sent) {
        settlement.sent();
    }
    if reaches(Phase::Head(StatusCode::OK)) {
        settlement.answered(match phase {
            Phase::Head(status) => status,
            _ => StatusCode::OK,
        });
    }
    for step in [Phase::Begun, Phase::MidStream, Phase::Finished] {
        if reaches(step) {
            assert_eq!(settlement.progress(&observed(step)), Go::On);
        }
    }
    match way {
        Way::Dropped => drop(settlement),
        Way::Failed => settlement.failed(),
        Way::Ended(end) => settlement.end(end, &observed(phase)),
    }
}

#[test]
fn what_is_reserved_comes_back_in_every_combination() {
    // Few limits, and all of them: without one nothing is charged to its bucket.
    let all = Quotas {
        requests_per_minute: Some(1000),
        input_tokens_per_minute: Some(100_000),
        output_tokens_per_minute: Some(10_000),
        concurrent_requests: Some(1),
        tokens_per_day: Some(1_000_000),
    };
    // More than the answer makes, less, nothing.
    for reserved in [RESERVED, 30, 0] {
        for (phase, way, (prompt, output)) in combinations() {
            let what = format!("{phase:?} {way:?}, {reserved} reserved");
            for quotas in [Quotas::default(), all] {
                let books = Books::new(quotas);
                run(books.begin(), phase, way, reserved);
                books.assert_nothing_is_held_back(&what);
                let usage = books.usage();
                let found = usage.input + usage.cache_read + usage.cache_written;
                assert_eq!((found, usage.output), (prompt, output), "{what}");
                assert_eq!(usage.tokens_today, prompt + output, "{what}");
                assert_eq!(usage.requests, 1, "{what}");
                let used = UsedTokens::Output;
                assert_eq!(books.metrics.used_tokens.get(used), output, "{what}");
                if quotas == all {
                    let input = 100_000 - prompt;
                    let left = [999, input, 10_000 - output, 10_000 - output];
                    assert_eq!(books.remaining(), left, "{what}");
                    // The place that it had is free.
                    run(books.begin(), phase, way, reserved);
                }
            }
        }
    }
}

#[test]
fn many_at_once_come_to_the_same_as_one_after_the_other() {
    let books = Books::new(Quotas {
        tokens_per_day: Some(u64::MAX >> 24),
        output_tokens_per_minute: Some(1_000_000_000_000),
        ..Quotas::default()
    });
    let all = combinations();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (phase, way, _) in &all {
                    run(books.begin(), *phase, *way, RESERVED);
                }
            });
        }
    });
    books.assert_nothing_is_held_back("all of them");
    let usage = books.usage();
    let expected: u64 = all
        .iter()
        .map(|(_, _, (prompt, output))| prompt + output)
        .sum();
    let found = usage.input + usage.cache_read + usage.cache_written + usage.output;
    assert_eq!((found, usage.tokens_today), (4 * expected, 4 * expected));
    assert_eq!(usage.requests, 4 * all.len() as u64);
}
