//! The real object in the real kernel, frame by frame, attached to nothing: the packet
//! fixtures, the captured hellos, and random changes to both. Every counter is accounted
//! for after every frame.
//!
//! `EDGE_PACKETS=1000000 EDGE_SEED=7` runs more of the random frames, and others.

mod packets;
#[macro_use]
mod skip;

use edge_common::policy::{Reason, Verdict};
use edge_common::token::KeyId;
use packets::case::{Action, Answer, Common, Heartbeat, Wish, cases, folder};
use packets::edge::{Edge, Seen};
use packets::frames::{ONE_BUFFER, Random, captured_hellos, ipv4, ipv6};
use packets::model::{Model, assert_answers};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

#[test]
fn every_case_of_the_data() {
    needs_kernel!();
    let common = Common::read();
    let model = Model::new(&common);
    let mut edge = Edge::load(&common);
    let mut reached = BTreeSet::new();
    let (mut count, mut faults) = (0, Vec::new());
    for case in cases() {
        let wish = case.wish(&common);
        for frame in case.frames() {
            count += 1;
            let seen = edge.run(&wish, &frame);
            let output = match case.action {
                // Untouched, whatever it is.
                Action::Pass | Action::Drop => frame.clone(),
                Action::Tx => case.output().unwrap(),
            };
            reached.extend(seen.counters.keys().cloned());
            if (seen.action, &seen.counters) != (case.action.number(), &case.counters)
                || seen.frame != output
            {
                faults.push(format!(
                    "{} ({} bytes)\n  action {} for {:?}, counters {:?}\n  frame    {}\n  expected {}",
                    case.name, frame.len(), seen.action, case.action, seen.counters,
                    hex::encode(&seen.frame), hex::encode(&output),
                ));
            } else {
                assert_events(&seen, &model, &frame);
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {count} frames:\n{}",
        faults.len(),
        faults.join("\n")
    );
    edge.assert_sums();
    println!("{count} frames");
    // One packet can reach them all.
    for reason in Reason::ALL {
        assert!(
            reached.contains(reason.name()),
            "no case for {}",
            reason.name()
        );
    }
}

/// A hello is reported once, with the connection, the reason and the key that it names.
fn assert_events(seen: &Seen, model: &Model, frame: &[u8]) {
    let reason = seen.reason();
    if reason.verdict() == Verdict::Pass {
        assert!(seen.events.is_empty());
        return;
    }
    let [event] = &seen.events[..] else {
        panic!("{} events for {}", seen.events.len(), reason.name());
    };
    let segment = model
        .dissect(frame)
        .unwrap_or_else(|other| panic!("{}", other.name()));
    assert_eq!(event.reason, reason as u32);
    assert_eq!(event.flow, segment.flow);
    assert_eq!(event.payload_bytes as usize, segment.payload_bytes);
}

#[test]
fn captured_hellos_get_the_verdict_that_userspace_gives() {
    needs_kernel!();
    let common = Common::read();
    let model = Model::new(&common);
    let mut edge = Edge::load(&common);
    let wish = common.wish();
    let mut reasons = BTreeMap::new();
    for (name, hello) in captured_hellos() {
        let mut pieces = vec![&hello[..], &hello[..hello.len().min(1448)]];
        pieces.extend((1..hello.len()).step_by(97).flat_map(|at| {
            let (first, second) = hello.split_at(at);
            [first, second]
        }));
        for piece in pieces {
            let (expected, _) = model.judge(&wish, piece);
            for frame in [ipv4(piece), ipv6(piece)] {
                let seen = edge.run(&wish, &frame);
                assert_eq!(seen.reason(), expected, "{name}, {} bytes", piece.len());
                assert_eq!(model.expect(&wish, &frame).0, expected, "{name}");
                assert_outcome(&seen, &wish, &model, &frame);
            }
        }
        let whole = model.judge(&wish, &hello).0;
        let expected = if name.ends_with("-token") {
            Reason::Accepted
        } else {
            Reason::NoToken
        };
        assert_eq!(whole, expected, "{name}");
        *reasons.entry(whole.name()).or_insert(0) += 1;
    }
    edge.assert_sums();
    println!("{reasons:?}");
}

/// What any frame must come to, whatever it is.
fn assert_outcome(seen: &Seen, wish: &Wish, model: &Model, frame: &[u8]) {
    let reason = seen.reason();
    let (expected, key_id) = model.expect(wish, frame);
    assert_eq!(
        reason,
        expected,
        "{} for {}",
        reason.name(),
        hex::encode(frame)
    );
    let action = match (reason.verdict(), wish.answer) {
        (Verdict::Reject, Answer::Drop) => Action::Drop,
        (Verdict::Reject, _) => Action::Tx,
        _ => Action::Pass,
    };
    assert_eq!(
        seen.action,
        action.number(),
        "{} for {}",
        reason.name(),
        hex::encode(frame)
    );
    let mut counters = vec![("packets", 1), (reason.name(), 1)];
    if reason.verdict() != Verdict::Pass {
        counters.extend([("hellos", 1), ("events_sent", 1)]);
    }
    if reason.verdict() == Verdict::Reject {
        counters.push(match wish.answer {
            Answer::Alert => ("answered_alert", 1),
            Answer::Rst => ("answered_rst", 1),
            Answer::Drop => ("answered_drop", 1),
        });
    }
    let counters = counters
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    assert_eq!(seen.counters, counters.collect());
    if reason.verdict() == Verdict::Reject {
        let Ok(segment) = model.dissect(frame) else {
            panic!("a reject without a payload");
        };
        let (again, _) = model.judge(wish, segment.payload);
        assert_eq!(again.verdict(), Verdict::Reject, "userspace rejects it too");
        if action == Action::Tx {
            assert_answers(&seen.frame, wish.answer, frame, &segment);
        }
    } else {
        assert_eq!(seen.frame, frame, "a passed frame is untouched");
    }
    assert_events(seen, model, frame);
    if let [event] = &seen.events[..]
        && reason != Reason::NotLinear
        && key_id != KeyId(0)
    {
        assert_eq!(event.key_id, key_id);
    }
}

#[test]
fn random_changes_to_frames() {
    needs_kernel!();
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect(name))
    };
    let (frames, seed) = (number("EDGE_PACKETS", 20_000), number("EDGE_SEED", 1));
    let common = Common::read();
    let model = Model::new(&common);
    let mut edge = Edge::load(&common);
    let mut random = Random(seed);
    let mut sources: Vec<_> = cases().iter().map(|case| case.packet()).collect();
    sources.extend(
        captured_hellos()
            .iter()
            .flat_map(|(_, hello)| [ipv4(hello), ipv6(hello)]),
    );
    sources.retain(|frame| frame.len() < ONE_BUFFER);
    let mut wish = common.wish();
    let mut verdicts = BTreeMap::new();
    for turn in 0..frames {
        // Rarely, for each change is a call into the kernel.
        if turn % 50 == 0 {
            wish.answer = *random.of(&[Answer::Alert, Answer::Alert, Answer::Rst, Answer::Drop]);
            wish.deny_legacy = random.below(4) == 0;
            wish.policy_complete = random.below(4) != 0;
            wish.heartbeat = match random.below(8) {
                0 => Heartbeat::Stale,
                1 => Heartbeat::Never,
                _ => Heartbeat::Fresh,
            };
        }
        let mut frame = random.of(&sources).clone();
        for _ in 0..random.below(4) {
            random.change(&mut frame);
        }
        if !(14..ONE_BUFFER).contains(&frame.len()) {
            continue;
        }
        let seen = edge.run(&wish, &frame);
        assert_outcome(&seen, &wish, &model, &frame);
        *verdicts.entry(seen.reason().name()).or_insert(0) += 1;
    }
    edge.assert_sums();
    println!("seed {seed}, {} frames: {verdicts:?}", edge.packets());
    // Changes that broke everything, or nothing, would prove little.
    for reason in [
        Reason::Accepted,
        Reason::TagWrong,
        Reason::HelloMalformed,
        Reason::HeaderTruncated,
    ] {
        assert!(
            verdicts.contains_key(reason.name()),
            "{} never came",
            reason.name()
        );
    }
}

#[test]
fn events_are_bounded_by_rate_and_by_the_ring() {
    needs_kernel!();
    const RING_BYTES: u64 = 256 * 1024;
    const ENTRY_BYTES: u64 = 64 + 8; // and the ring's own header
    let common = Common::read();
    let mut edge = Edge::load(&common);
    let wish = common.wish();
    let cases = cases();
    let case = cases
        .iter()
        .find(|case| case.name == "hellos: IPv4, a valid token")
        .unwrap();
    let frame = case.packet();

    let began = std::time::Instant::now();
    let moved = edge.repeat(&wish, 3, &frame, 1000);
    let seconds = began.elapsed().as_secs() + 2;
    let sent = moved["events_sent"];
    assert!(
        (1..=3 * seconds).contains(&sent),
        "{sent} events in {seconds} s"
    );
    assert_eq!(
        (moved["accepted"], sent + moved["events_suppressed"]),
        (1000, 1000)
    );
    assert_eq!(edge.drain().len() as u64, sent);

    let moved = edge.repeat(&wish, u32::MAX, &frame, 5000);
    assert_eq!(moved["events_sent"], RING_BYTES / ENTRY_BYTES);
    assert_eq!(moved["events_sent"] + moved["events_lost"], 5000);
    assert_eq!(edge.drain().len() as u64, moved["events_sent"]);
    let moved = edge.repeat(&wish, u32::MAX, &frame, 10);
    assert_eq!(
        moved["events_sent"], 10,
        "an emptied ring takes events again"
    );
    edge.drain();
    edge.assert_sums();

    let moved = edge.repeat(&wish, 0, &frame, 10);
    let silent = [("accepted", 10), ("hellos", 10), ("packets", 10)];
    assert_eq!(
        moved,
        silent.map(|(name, count)| (name.to_owned(), count)).into()
    );
    assert!(edge.drain().is_empty());
}

#[test]
fn the_verifier_walks_a_tenth_of_what_it_may() {
    needs_kernel!();
    let mut edge = Edge::load(&Common::read());
    for (name, instructions) in edge.verified_instructions() {
        println!("figure xdp.verifier_insns.{name} {instructions} 1");
        assert!(instructions <= 100_000, "{name}: {instructions}");
    }
}

#[test]
fn the_data_is_what_its_generator_makes() {
    if Command::new("python3").arg("--version").output().is_err() {
        fn here() {}
        skip::skipped(skip::caller(&here), "needs python3");
        return;
    }
    let made = Command::new("python3")
        .arg(folder().join("make.py"))
        .arg("--check")
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}
