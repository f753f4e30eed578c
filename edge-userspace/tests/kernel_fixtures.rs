//! The real object in the real kernel, frame by frame, attached to nothing: the packet
//! fixtures, alone and in sequences, and random changes to them. Every counter is
//! accounted for after every frame. Hellos in many pieces are in `kernel_hellos.rs`.
//!
//! `EDGE_PACKETS=1000000 EDGE_SEED=7` runs more of the random frames, and others.

mod packets;
#[macro_use]
mod skip;

use edge_common::policy::Reason;
use edge_userspace::kernel::Sizes;
use packets::case::{Action, Answer, Common, Heartbeat, Step, Wish, cases, folder};
use packets::check::{History, assert_outcome, expected_counters, number};
use packets::edge::Edge;
use packets::files;
use packets::frames::{ONE_BUFFER, change, leave_to_device, seal, segment, segment_from};
use packets::generated::{Random, pieces};
use packets::model::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

#[test]
fn every_case_of_the_data() {
    needs_kernel!();
    let common = Common::read();
    let mut model = Model::new(&common);
    let mut edge = Edge::load(&common);
    let mut reached = BTreeSet::new();
    let (mut count, mut faults) = (0, Vec::new());
    for case in cases() {
        let wish = case.wish(&common);
        for run in case.runs() {
            count += run.len();
            // Who is held up in the wrong second begins again.
            let mut tries = 0;
            let of_run = loop {
                let of_run = run_case(&mut edge, &mut model, &wish, &run, &mut reached);
                for flow in model.flows() {
                    edge.forget(&wish, &flow);
                }
                model.forget();
                edge.moved();
                match of_run {
                    Some(of_run) => break of_run,
                    None if tries < 100 => tries += 1,
                    None => panic!("the machine is too busy to run a program within half a second"),
                }
            };
            faults.extend(of_run.map(|fault| format!("{}, {fault}", case.name)));
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
    // What no frame alone or behind another reaches: tables and sockets, which have tests of
    // their own, and what only userspace says.
    let elsewhere = [
        Reason::Replayed,
        Reason::KeyRateExceeded,
        Reason::LegacyRateExceeded,
        Reason::LegacyTotalExceeded,
        Reason::NotTls,
        Reason::ClientDenied,
        Reason::Incomplete,
        Reason::Contended,
        Reason::ReplayTableFull,
        Reason::ProxyHeader,
        Reason::TagStripped,
        Reason::NoListener,
        Reason::Stray,
        Reason::NoConnection,
    ];
    for reason in Reason::ALL {
        let here = !elsewhere.contains(reason);
        assert_eq!(reached.contains(reason.name()), here, "{}", reason.name());
    }
}

/// What is wrong with a case, if it ran in time.
fn run_case(
    edge: &mut Edge,
    model: &mut Model,
    wish: &Wish,
    run: &[Step],
    reached: &mut BTreeSet<String>,
) -> Option<impl Iterator<Item = String> + use<>> {
    let mut faults = Vec::new();
    for (place, step) in run.iter().enumerate() {
        let expected = model.see(wish, &step.packet);
        let (seen, counters) = edge.run_counted(wish, &step.packet);
        if !seen.in_time() {
            return None;
        }
        reached.extend(counters.keys().cloned());
        let output = step.output.as_ref().unwrap_or(&step.packet);
        let dropped = step.action == Action::Drop;
        if (seen.action, &counters) != (step.action.number(), &step.counters)
            || !(dropped || seen.frame == *output)
        {
            faults.push(format!(
                "frame {place} ({} bytes)\n  action {} for {:?}, counters {counters:?}, not {:?}\n  \
                 frame    {}\n  expected {}",
                step.packet.len(),
                seen.action,
                step.action,
                step.counters,
                hex::encode(&seen.frame),
                hex::encode(output),
            ));
        } else if expected.counters(wish) != names(&step.counters) {
            // The model, too, must say what the data says.
            faults.push(format!("frame {place}: the model says {expected:?}"));
        } else {
            assert_outcome(&seen, wish, model, &step.packet, &expected);
        }
    }
    Some(faults.into_iter())
}

fn names(counters: &BTreeMap<String, u64>) -> BTreeMap<&str, u64> {
    let pairs = counters.iter();
    pairs.map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn random_changes_to_frames() {
    needs_kernel!();
    let (frames, seed) = (number("EDGE_PACKETS", 100_000), number("EDGE_SEED", 1));
    let common = Common::read();
    let mut model = Model::new(&common);
    let sizes = Sizes {
        // So many that two connections hardly ever meet in a set.
        flow_sets: 1 << 16,
        ..Sizes::SMALL
    };
    let mut edge = Edge::load_with(&common, &sizes);
    let mut random = Random(seed);
    let sequences: Vec<Vec<Vec<u8>>> = cases()
        .iter()
        .map(|case| {
            case.steps
                .iter()
                .map(|step: &Step| step.packet.clone())
                .collect()
        })
        .chain(split_hellos(&mut random))
        .filter(|frames: &Vec<Vec<u8>>| frames.iter().all(|frame| frame.len() < ONE_BUFFER))
        .collect();
    let mut wish = common.wish();
    let mut reasons = BTreeMap::new();
    let (mut turn, mut done) = (0, 0);
    let mut counted = BTreeMap::new();
    let mut history = History::default();
    while done < frames {
        // Rarely, for each change is a call into the kernel.
        if turn % 50 == 0 {
            wish.answer = *random.of(&[Answer::Alert, Answer::Alert, Answer::Rst, Answer::Drop]);
            wish.deny_legacy = random.rarely(4);
            wish.policy_complete = !random.rarely(4);
            wish.answers_per_second = if random.rarely(4) { 0 } else { u32::MAX };
            wish.heartbeat = match random.below(8) {
                0 => Heartbeat::Stale,
                1 => Heartbeat::Never,
                _ => Heartbeat::Fresh,
            };
        }
        turn += 1;
        let mut held_up = false;
        for mut frame in random.of(&sequences).clone() {
            let changes = random.below(6).saturating_sub(2);
            for _ in 0..changes {
                change(&mut random, &mut frame);
            }
            // Most changes are to reach the judge, some are damage on the way.
            match random.below(8) {
                0..=4 => seal(&mut frame),
                5 => leave_to_device(&mut frame),
                _ => {}
            }
            if !(14..ONE_BUFFER).contains(&frame.len()) {
                continue;
            }
            let expected = model.see(&wish, &frame);
            history.add(&expected, &frame);
            let seen = edge.run(&wish, &frame);
            if !seen.in_time() {
                // It may have ended otherwise, and so may what follows on its connection.
                held_up = true;
                break;
            }
            assert_outcome(&seen, &wish, &model, &frame, &expected);
            expected_counters(&mut counted, &wish, &expected);
            *reasons.entry(expected.reason.name()).or_insert(0) += 1;
            done += 1;
        }
        if held_up || random.rarely(3) {
            for flow in model.flows() {
                edge.forget_anyhow(&wish, &flow);
                *counted.entry("packets".to_owned()).or_default() += 2;
                *counted.entry("no_payload".to_owned()).or_default() += 2;
            }
            model.forget();
            history.forget();
        }
        if held_up {
            edge.moved();
            counted.clear();
        }
        if turn % 200 == 0 {
            let what = format!("EDGE_SEED={seed}, sequences up to {turn}");
            assert_eq!(edge.moved(), std::mem::take(&mut counted), "{what}");
        }
    }
    edge.moved();
    edge.assert_sums();
    println!("seed {seed}, {done} frames: {reasons:?}");
    // Changes that broke everything, or nothing, would prove little.
    for reason in [
        Reason::Accepted,
        Reason::TagWrong,
        Reason::HelloMalformed,
        Reason::HeaderTruncated,
        Reason::HelloBegun,
        Reason::HelloContinued,
        Reason::Retransmitted,
        Reason::OutOfOrder,
        Reason::NotLinear,
        Reason::HelloAgain,
        Reason::RejectedAgain,
        Reason::RejectClosed,
        Reason::ChecksumWrong,
    ] {
        assert!(
            reasons.contains_key(reason.name()),
            "{} never came",
            reason.name()
        );
    }
}

/// Hellos on file, whole and in pieces.
fn split_hellos(random: &mut Random) -> Vec<Vec<Vec<u8>>> {
    let mut sequences = Vec::new();
    for fixture in files::captured() {
        for count in [0, 1, 2] {
            let cuts = random.cuts(fixture.bytes.len(), count);
            let version = *random.of(&[4, 6]);
            let starts = std::iter::once(0).chain(cuts.iter().copied());
            let parts = starts.zip(pieces(&fixture.bytes, &cuts));
            sequences.push(parts.map(|(at, part)| segment(version, at, part)).collect());
        }
    }
    sequences
}

#[test]
fn a_full_set_gives_up_the_connection_touched_longest_ago() {
    needs_kernel!();
    let common = Common::read();
    let sizes = Sizes {
        flow_sets: 1,
        ..Sizes::SMALL
    };
    let mut edge = Edge::load_with(&common, &sizes);
    let wish = common.wish();
    let hello = files::captured().remove(0).bytes;
    let (first, second) = hello.split_at(100);
    let from_port =
        |port: u16, offset: usize, payload: &[u8]| segment_from(port, 4, offset, payload);
    let mut reasons = Vec::new();
    for port in 1..=5 {
        let (_, moved) = edge.run_counted(&wish, &from_port(port, 0, first));
        reasons.push(moved);
        // The table tells ages apart by milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let begun = [("hello_begun", 1), ("packets", 1)];
    let evicts = [("flows_evicted", 1), ("hellos_evicted", 1)];
    for (place, moved) in reasons.iter().enumerate() {
        let evicted: &[_] = if place == 4 { &evicts } else { &[] };
        let expected = begun.iter().chain(evicted).copied().collect();
        assert_eq!(names(moved), expected, "connection {place}");
    }
    // The first is not known any more and passes; the last is judged.
    let (seen, moved) = edge.run_counted(&wish, &from_port(1, 100, second));
    assert_eq!(names(&moved), [("not_hello", 1), ("packets", 1)].into());
    assert!(seen.events.is_empty());
    let (_, moved) = edge.run_counted(&wish, &from_port(5, 100, second));
    assert_eq!(moved["hellos_resumed"], 1, "{moved:?}");
    edge.assert_sums();
}

#[test]
fn events_are_bounded_by_rate_and_by_the_ring() {
    needs_kernel!();
    const RING_BYTES: u64 = 256 * 1024;
    const ENTRY_BYTES: u64 = 64 + 8; // and the ring's own header
    let common = Common::read();
    let sizes = Sizes {
        flow_sets: 1 << 16,
        ..Sizes::SMALL
    };
    let mut edge = Edge::load_with(&common, &sizes);
    let wish = common.wish();
    // A hello that is new each time: a client's ports one after the other.
    let hello = files::captured().remove(0).bytes;
    let fresh = |from: u16, count: u16| {
        let frames = (from..from + count).map(|port| segment_from(port, 4, 0, &hello));
        frames.collect::<Vec<_>>()
    };

    // Each CPU has its own second; the test may be moved from one to another.
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let began = std::time::Instant::now();
    let moved = edge.run_silently(&wish, 3, &fresh(1, 1000));
    let seconds = began.elapsed().as_secs() + 2;
    let sent = moved["events_sent"];
    assert!(
        (1..=3 * seconds * cpus).contains(&sent),
        "{sent} events in {seconds} s"
    );
    assert_eq!(
        (moved["no_token"], sent + moved["events_suppressed"]),
        (1000, 1000)
    );
    assert_eq!(edge.drain().len() as u64, sent);

    let moved = edge.run_silently(&wish, u32::MAX, &fresh(2000, 5000));
    assert_eq!(moved["events_sent"], RING_BYTES / ENTRY_BYTES);
    assert_eq!(moved["events_sent"] + moved["events_lost"], 5000);
    assert_eq!(edge.drain().len() as u64, moved["events_sent"]);
    let moved = edge.run_silently(&wish, u32::MAX, &fresh(8000, 10));
    assert_eq!(
        moved["events_sent"], 10,
        "an emptied ring takes events again"
    );
    edge.drain();
    edge.assert_sums();

    let moved = edge.run_silently(&wish, 0, &fresh(9000, 10));
    let silent = [("no_token", 10), ("hellos", 10), ("packets", 10)];
    assert_eq!(names(&moved), silent.into());
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
