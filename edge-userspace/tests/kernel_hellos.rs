//! Hellos in pieces through the real object in the real kernel, attached to nothing: the
//! same verdict whole, cut in two at every byte and in three anywhere, with pieces that come
//! twice, overlap, are cut anew, or come too early. What must come of each frame is
//! `packets::model`'s to say; it scans the reassembled bytes on the host.
//!
//! `EDGE_HELLOS=1000000 EDGE_SEED=7` runs more of the generated hellos, and others.

mod packets;
#[macro_use]
mod skip;

use edge_common::client_hello::Scanned;
use edge_common::policy::{Reason, Verdict};
use packets::case::{Common, Wish};
use packets::check::{History, assert_outcome, expected_counters, number};
use packets::edge::{Edge, Moved};
use packets::files::{self, Fixture};
use packets::frames::segment;
use packets::generated::{Random, Stream, pieces};
use packets::model::{Expected, Model};
use std::collections::BTreeMap;

/// The program, the model beside it, and what the counters must have come to.
struct Pair {
    edge: Edge,
    model: Model,
    wish: Wish,
    counted: Moved,
    history: History,
}

impl Pair {
    fn new() -> Self {
        let common = Common::read();
        Self {
            edge: Edge::load(&common),
            model: Model::new(&common),
            wish: common.wish(),
            counted: Moved::new(),
            history: History::default(),
        }
    }

    /// Runs a segment through both.
    fn send(&mut self, version: u8, offset: usize, payload: &[u8]) -> Expected {
        let frame = segment(version, offset, payload);
        let expected = self.model.see(&self.wish, &frame);
        self.history.add(&expected, &frame);
        let seen = self.edge.run(&self.wish, &frame);
        // No token here is within seconds of the window's edge, but the heartbeat ages.
        assert!(
            seen.held_up_ns < 2_000_000_000,
            "the machine is too busy to run a program within two seconds"
        );
        assert_outcome(&seen, &self.wish, &self.model, &frame, &expected);
        expected_counters(&mut self.counted, &self.wish, &expected);
        expected
    }

    /// Sends pieces in order. What the last of them that came to a verdict came to.
    fn in_order(&mut self, version: u8, bytes: &[u8], cuts: &[usize]) -> Option<Expected> {
        let mut verdict = None;
        let mut at = 0;
        for piece in pieces(bytes, cuts) {
            if !piece.is_empty() {
                let expected = self.send(version, at, piece);
                if expected.reason.verdict() != Verdict::Pass {
                    assert!(verdict.is_none(), "two verdicts on one connection");
                    verdict = Some(expected);
                }
            }
            at += piece.len();
        }
        verdict
    }

    /// The next segment is of a connection that is not known.
    fn anew(&mut self) {
        for flow in self.model.flows() {
            self.edge.forget(&self.wish, &flow);
            *self.counted.entry("packets".to_owned()).or_default() += 1;
            *self.counted.entry("no_payload".to_owned()).or_default() += 1;
        }
        self.model.forget();
        self.history.forget();
    }

    /// Every counter is what the frames since the last look must have moved it to.
    fn assert_counted(&mut self, what: &str) {
        let expected = std::mem::take(&mut self.counted);
        assert_eq!(self.edge.moved(), expected, "{what}");
    }
}

/// What the whole of a file comes to, by userspace.
fn whole(pair: &Pair, fixture: &Fixture) -> (Reason, edge_common::token::KeyId) {
    let (reason, hello) = pair.model.judge(&pair.wish, &fixture.bytes);
    let token = hello
        .token()
        .filter(|_| matches!(fixture.scanned, Scanned::Found));
    let id = token.map_or(edge_common::token::KeyId(0), |token| token.key_id);
    (reason, id)
}

/// Whether the hello lies in one record, so that a cut cannot make it another one.
fn is_judged(fixture: &Fixture) -> bool {
    matches!(fixture.scanned, Scanned::Found | Scanned::Absent)
}

#[test]
fn every_hello_whole_and_cut_in_two_at_every_byte() {
    needs_kernel!();
    let mut pair = Pair::new();
    let mut reasons = BTreeMap::new();
    let mut cuts = 0;
    for fixture in files::all() {
        let bytes = &fixture.bytes;
        let (reason, key_id) = whole(&pair, &fixture);
        for version in [4, 6] {
            let verdict = pair.in_order(version, bytes, &[]);
            pair.anew();
            if is_judged(&fixture) {
                let seen = verdict.map(|expected| (expected.reason, expected.key_id));
                assert_eq!(seen, Some((reason, key_id)), "{}", fixture.name);
            }
        }
        *reasons.entry(reason.name()).or_insert(0) += 1;
        let hello = if is_judged(&fixture) {
            fixture.hello().len()
        } else {
            bytes.len()
        };
        for cut in 1..bytes.len() {
            let version = if cut % 2 == 0 { 4 } else { 6 };
            let verdict = pair.in_order(version, bytes, &[cut]);
            pair.anew();
            cuts += 1;
            if is_judged(&fixture) {
                let seen = verdict.map(|expected| {
                    // One with too many items shows it in its first segment.
                    let resumed =
                        cut < hello && (reason != Reason::HelloTooLong || expected.resumed);
                    assert_eq!(expected.resumed, resumed, "{} at {cut}", fixture.name);
                    (expected.reason, expected.key_id)
                });
                assert_eq!(seen, Some((reason, key_id)), "{} at {cut}", fixture.name);
            }
        }
        pair.assert_counted(&fixture.name);
    }
    pair.edge.assert_sums();
    println!("{cuts} cuts; whole: {reasons:?}");
}

#[test]
fn every_hello_cut_in_three_and_more_at_random() {
    needs_kernel!();
    let mut pair = Pair::new();
    let mut random = Random(number("EDGE_SEED", 3));
    for fixture in files::all() {
        let (reason, key_id) = whole(&pair, &fixture);
        for turn in 0..300 {
            // Up to twelve segments are followed.
            let count = if turn < 200 { 2 } else { 2 + random.below(10) };
            let cuts = random.cuts(fixture.bytes.len(), count);
            let version = *random.of(&[4, 6]);
            let verdict = pair.in_order(version, &fixture.bytes, &cuts);
            pair.anew();
            if is_judged(&fixture) {
                let seen = verdict.map(|expected| (expected.reason, expected.key_id));
                assert_eq!(seen, Some((reason, key_id)), "{} at {cuts:?}", fixture.name);
            }
        }
        pair.assert_counted(&fixture.name);
    }
    pair.edge.assert_sums();
}

#[test]
fn two_segments_that_overlap_by_any_number_of_bytes() {
    needs_kernel!();
    let mut pair = Pair::new();
    let fixture = files::captured()
        .into_iter()
        .find(|fixture| fixture.name == "rustls-classic-token")
        .unwrap();
    let (reason, key_id) = whole(&pair, &fixture);
    let bytes = &fixture.bytes;
    for cut in 1..bytes.len() {
        for from in 0..cut {
            pair.send(4, 0, &bytes[..cut]);
            let verdict = pair.send(4, from, &bytes[from..]);
            let again = pair.send(4, from, &bytes[from..cut]);
            let seen = (verdict.reason, verdict.key_id, again.reason);
            assert_eq!(
                seen,
                (reason, key_id, Reason::Retransmitted),
                "{from}..{cut}"
            );
            pair.anew();
        }
        pair.assert_counted(&format!("cut at {cut}"));
    }
}

#[test]
fn every_hello_with_pieces_twice_overlapping_and_cut_anew() {
    needs_kernel!();
    let mut pair = Pair::new();
    let mut random = Random(number("EDGE_SEED", 4));
    let mut again = 0;
    for fixture in files::all() {
        let length = fixture.bytes.len();
        let (reason, key_id) = whole(&pair, &fixture);
        for _ in 0..300 {
            let version = *random.of(&[4, 6]);
            let mut verdict = None;
            // How far the connection is; each segment begins there or before.
            let (mut reached, mut useful) = (0, 0);
            while reached < length {
                let from = if random.rarely(2) {
                    reached
                } else {
                    reached.saturating_sub(random.below(reached.min(300) + 2))
                };
                let rest = length - from;
                // Not too small, or there are more than are followed.
                let take = (rest / 4 + random.below(rest)).clamp(1, rest);
                let expected = pair.send(version, from, &fixture.bytes[from..from + take]);
                if from + take > reached {
                    reached = from + take;
                    useful += 1;
                } else {
                    again += 1;
                }
                if !matches!(expected.reason.verdict(), Verdict::Pass) {
                    assert!(verdict.is_none(), "{}: counted twice", fixture.name);
                    verdict = Some((expected.reason, expected.key_id));
                }
                if useful == 11 {
                    // The last that is followed brings all the rest.
                    let expected = pair.send(version, reached, &fixture.bytes[reached..]);
                    if !matches!(expected.reason.verdict(), Verdict::Pass) {
                        verdict = verdict.or(Some((expected.reason, expected.key_id)));
                    }
                    reached = length;
                }
            }
            pair.anew();
            if is_judged(&fixture) {
                assert_eq!(verdict, Some((reason, key_id)), "{}", fixture.name);
            }
        }
        pair.assert_counted(&fixture.name);
    }
    pair.edge.assert_sums();
    assert!(again > 1000, "{again} segments brought nothing new");
}

#[test]
fn out_of_order_is_undecided_and_never_a_reject() {
    needs_kernel!();
    let mut pair = Pair::new();
    let mut random = Random(number("EDGE_SEED", 5));
    let mut gaps = 0;
    for fixture in files::all().iter().filter(|fixture| is_judged(fixture)) {
        let (reason, _) = whole(&pair, fixture);
        for _ in 0..200 {
            let count = 1 + random.below(4);
            let cuts = random.cuts(fixture.bytes.len(), count);
            let mut parts = Vec::new();
            let mut at = 0;
            for piece in pieces(&fixture.bytes, &cuts) {
                parts.push((at, piece));
                at += piece.len();
            }
            parts.retain(|(_, piece)| !piece.is_empty());
            // Any order, some of them twice.
            let mut order: Vec<_> = (0..parts.len()).collect();
            order.push(random.below(parts.len()));
            for last in (1..order.len()).rev() {
                order.swap(last, random.below(last + 1));
            }
            let version = *random.of(&[4, 6]);
            let mut arrived = vec![false; fixture.bytes.len()];
            for index in order {
                let (at, piece) = parts[index];
                let expected = pair.send(version, at, piece);
                arrived[at..at + piece.len()].fill(true);
                match expected.reason.verdict() {
                    Verdict::Reject => {
                        let whole = arrived[..fixture.hello().len()].iter().all(|byte| *byte);
                        assert!(whole, "{}: refused before it was there", fixture.name);
                        assert_eq!(expected.reason, reason, "{}", fixture.name);
                    }
                    Verdict::Undecided if expected.reason == Reason::OutOfOrder => gaps += 1,
                    _ => {}
                }
            }
            pair.anew();
        }
        pair.assert_counted(&fixture.name);
    }
    pair.edge.assert_sums();
    assert!(gaps > 1000, "{gaps} came too early");
}

#[test]
fn generated_and_damaged_hellos_whole_and_in_pieces() {
    needs_kernel!();
    let (cases, seed) = (number("EDGE_HELLOS", 100_000), number("EDGE_SEED", 1));
    let mut pair = Pair::new();
    let files = files::all();
    let files = files.into_iter().filter(is_judged).map(|file| file.bytes);
    let mut stream = Stream::new(seed, files);
    let mut reasons = BTreeMap::<_, u64>::new();
    for case in 0..cases {
        let bytes = stream.next().unwrap();
        if bytes.is_empty() {
            continue;
        }
        let version = *stream.random.of(&[4, 6]);
        let (reason, hello) = pair.model.judge(&pair.wish, &bytes);
        let of_whole = pair.in_order(version, &bytes, &[]);
        pair.anew();
        let count = 1 + stream.random.below(2);
        let cuts = stream.random.cuts(bytes.len(), count);
        let of_pieces = pair.in_order(version, &bytes, &cuts);
        pair.anew();
        let what = || {
            format!(
                "EDGE_SEED={seed}, case {case}, cut at {cuts:?}: {}",
                hex::encode(&bytes)
            )
        };
        // What userspace judges the kernel judges alike; what it does not, it passes. But for
        // a connection that begins with something else: userspace ends that, and whatever
        // looks like a hello further on is judged for itself.
        let of_pieces = if reason == Reason::NotHello {
            &of_whole
        } else {
            &of_pieces
        };
        for verdict in [&of_whole, of_pieces] {
            let seen = verdict.as_ref().map(|expected| expected.reason);
            match reason {
                Reason::Incomplete | Reason::NotHello => assert_eq!(seen, None, "{}", what()),
                _ => {
                    assert!(seen == Some(reason), "{seen:?}, not {reason:?}, {}", what());
                }
            }
            let id = hello.token().map(|token| token.key_id);
            if let (Some(expected), Some(id), Verdict::Accept | Verdict::Reject) =
                (verdict, id, reason.verdict())
            {
                assert_eq!(expected.key_id, id, "{}", what());
            }
        }
        *reasons.entry(reason.name()).or_default() += 1;
        if case % 1000 == 999 {
            pair.assert_counted(&format!("EDGE_SEED={seed}, cases up to {case}"));
        }
    }
    pair.edge.moved();
    pair.edge.assert_sums();
    println!("seed {seed}, {cases} hellos: {reasons:?}");
    for (reason, at_least) in [
        (Reason::Accepted, 10),
        (Reason::NoToken, 20),
        (Reason::TagWrong, 100),
        (Reason::TokenDuplicate, 200),
        (Reason::TokenMalformed, 200),
        (Reason::KeyUnknown, 300),
        (Reason::HelloMalformed, 20),
    ] {
        let count = reasons.get(reason.name()).copied().unwrap_or_default();
        assert!(count > cases / at_least, "{}: {count}", reason.name());
    }
}
