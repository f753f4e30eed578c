//! What reading along costs for each event of a stream: beside the mere knowledge of where
//! events end, which is the baseline, with the text counted as an estimate and by a
//! vocabulary, in pieces of one event, of several, and cut within events.
//!
//! Each figure is the least of several rounds that take turns, on one thread. What is read is
//! compared with what the stream says before anything is timed.

use bytes::Bytes;
use edge_userspace::config::Models;
use edge_userspace::prompt::calibration::Calibration;
use edge_userspace::prompt::{Limits, Output, Reading, Shape};
use edge_userspace::relay::Boundary;
use edge_userspace::relay::side::{BodyForm, Side};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

const EVENTS: usize = 20_000;
const ROUNDS: usize = 15;

/// An answer's counter, as a request for that model gets it.
fn output(model: &str) -> Output {
    let mut reading = Reading::new(
        Shape::Messages,
        Arc::new(Models::default()),
        Rc::default(),
        Arc::new(Calibration::new(8, None)),
        Limits::default(),
    );
    let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
    while !reading.push(Bytes::from(body.clone())).expect("a request") {}
    reading.finish().expect("it is whole");
    while !reading.go_on().expect("it is short") {}
    reading.counted().0.output
}

fn stream() -> Vec<String> {
    let words = [
        "the ", "model ", "says", " that", " água", "日本", "\\n", " token.", " 42", " x",
    ];
    let mut events = vec![
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n".to_owned(),
    ];
    events.extend((0..EVENTS).map(|n| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{}\"}}}}\n\n",
            words[n * 7 % words.len()]
        )
    }));
    events.push(format!(
        "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{}},\"usage\":{{\"output_tokens\":{EVENTS}}}}}\n\n"
    ));
    events.push("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".to_owned());
    events
}

fn read(side: &mut Side, pieces: &[Vec<u8>]) {
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() {
            let (taken, ended) = side.read(&piece[at..]);
            black_box(ended);
            at += taken;
        }
    }
    side.end();
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / EVENTS as f64
}

fn main() {
    let events = stream();
    let all = events.concat().into_bytes();
    let pieces: [(&str, Vec<Vec<u8>>); 3] = [
        (
            "one event",
            events
                .iter()
                .map(|event| event.clone().into_bytes())
                .collect(),
        ),
        ("16 KiB", all.chunks(16 << 10).map(<[u8]>::to_vec).collect()),
        ("100 bytes", all.chunks(100).map(<[u8]>::to_vec).collect()),
    ];
    println!(
        "nanoseconds for each of {EVENTS} events of {} bytes",
        all.len() / EVENTS
    );
    for (name, pieces) in &pieces {
        let kinds = [
            ("estimated", "claude-x", false),
            ("exact", "gpt-4o", false),
            ("estimated, usage events", "claude-x", true),
        ];
        let mut least = [f64::MAX; 4];
        for _ in 0..ROUNDS {
            least[0] = least[0].min(timed(|| {
                let mut boundary = Boundary::default();
                for piece in pieces {
                    boundary.pass(black_box(piece));
                }
                assert!(black_box(boundary).is_between_events());
            }));
            for (number, (_, model, each)) in kinds.iter().enumerate() {
                let mut side = Side::new(BodyForm::Events, output(model), None, None);
                if *each {
                    side = side.counting_each();
                }
                least[number + 1] = least[number + 1].min(timed(|| read(&mut side, pieces)));
                let seen = side.observed();
                assert_eq!((seen.input, seen.output), (Some(25), Some(EVENTS as u64)));
                assert!(seen.is_finished && seen.relayed_output > EVENTS as u64 / 2);
            }
        }
        println!("stream.boundary_alone pieces of {name}: {:.1}", least[0]);
        for ((kind, ..), least) in kinds.iter().zip(&least[1..]) {
            println!("stream.read_along {kind}, pieces of {name}: {least:.1}");
        }
    }
}
