//! Streams: many at once, their events at a steady pace. How long the first event takes from the
//! request, how long each takes from the upstream's pen to the client's eye, and how even the
//! gaps are.

use crate::client::Connection;
use crate::target::Target;
use crate::upstream::{EVENTS, PACE, STAMP, STAMP_DIGITS, now_ns};
use bench::peers::Speaks;
use bytes::Bytes;
use memchr::memmem;
use std::sync::Arc;

/// On one connection over TLS.
const ON_A_CONNECTION: usize = 16;

/// What came of the streams, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// From the request to the first event, one a stream.
    pub(crate) first: Vec<f64>,
    /// From the upstream's write to here, one an event that tells.
    pub(crate) transit: Vec<f64>,
    /// Between two events that tell.
    pub(crate) gaps: Vec<f64>,
    /// Gaps that were 20 ms longer than asked for, or more.
    pub(crate) stalls: usize,
    /// Gaps that were some 40 ms longer than asked for, as who waits for a delayed
    /// acknowledgement makes them.
    pub(crate) of_40_ms: usize,
}

impl Times {
    fn add(&mut self, other: Self) {
        self.first.extend(other.first);
        self.transit.extend(other.transit);
        self.gaps.extend(other.gaps);
    }
}

/// Opens that many streams, asserts that each came whole and in order, and says how soon.
///
/// Connections are there before: what is timed are requests.
pub(crate) async fn run(target: &Arc<Target>, streams: usize, interval_ms: u64) -> Times {
    let mut connections = Vec::new();
    let number = match target.speaks {
        Speaks::Tls => streams.div_ceil(ON_A_CONNECTION),
        Speaks::Plain => streams,
    };
    for _ in 0..number {
        connections.push(Connection::open(target, false).await.0);
    }
    let body = Bytes::from(format!(
        r#"{{"model":"bench","stream":true,"max_tokens":400,"messages":[{{"role":"user","content":"Speak, {PACE}{interval_ms} ms."}}]}}"#
    ));
    let mut running = Vec::new();
    for number in 0..streams {
        let mut connection = match &connections[number % connections.len()] {
            Connection::H2(send, _) => Connection::H2(send.clone(), tokio::spawn(async {})),
            // Those of one stream each are handed over, from the last to the first.
            Connection::H1(_) => connections.pop().expect("one for each stream"),
        };
        let (target, body) = (Arc::clone(target), body.clone());
        running.push(tokio::spawn(async move {
            let mut reader = Reader::new();
            connection
                .ask(&target, body, |piece| reader.read(piece))
                .await;
            reader.end(target.is_chat)
        }));
        // Users do not press a key at one moment: over the first interval.
        if interval_ms > 0 && number % 8 == 7 {
            let pause = interval_ms * 8000 / streams as u64;
            tokio::time::sleep(std::time::Duration::from_micros(pause)).await;
        }
    }
    let mut times = Times::default();
    for stream in running {
        times.add(stream.await.expect("a stream"));
    }
    drop(connections);
    let stall = interval_ms as f64 * 1e3 + 20_000.0;
    let late = |gap: &f64| gap - interval_ms as f64 * 1e3;
    let of_40_ms = |gap: &&f64| (37_000.0..45_000.0).contains(&late(gap));
    times.of_40_ms = times.gaps.iter().filter(of_40_ms).count();
    times.stalls = times.gaps.iter().filter(|gap| **gap >= stall).count();
    times
}

/// Reads one stream's events as they come.
struct Reader {
    asked_ns: u64,
    /// The last time that an event told, and when it was read.
    last: Option<(u64, u64)>,
    told: usize,
    ends: usize,
    open: Vec<u8>,
    times: Times,
}

impl Reader {
    fn new() -> Self {
        Self {
            asked_ns: now_ns(),
            last: None,
            told: 0,
            ends: 0,
            open: Vec::new(),
            times: Times::default(),
        }
    }

    fn read(&mut self, piece: &[u8]) {
        let now = now_ns();
        if self.times.first.is_empty() && memmem::find(piece, b"data:").is_some() {
            self.times.first.push((now - self.asked_ns) as f64 / 1e3);
        }
        self.open.extend_from_slice(piece);
        let mut read = 0;
        while let Some(end) = memmem::find(&self.open[read..], b"\n\n") {
            let event = &self.open[read..read + end];
            self.ends += 1;
            if let Some(at) = memmem::find(event, STAMP.as_bytes()) {
                let digits = &event[at + STAMP.len()..][..STAMP_DIGITS];
                let digits = std::str::from_utf8(digits).expect("digits");
                let written: u64 = digits.parse().expect("a time");
                self.told += 1;
                self.times.transit.push((now - written) as f64 / 1e3);
                if let Some((before_written, before_read)) = self.last {
                    assert!(written > before_written, "events out of order");
                    self.times.gaps.push((now - before_read) as f64 / 1e3);
                }
                self.last = Some((written, now));
            }
            read += end + 2;
        }
        self.open.drain(..read);
    }

    /// Every event that tells, and of the Messages API those around them: gateways may leave some
    /// of OpenAI's frame out.
    fn end(self, is_chat: bool) -> Times {
        assert!(self.told >= EVENTS - 5, "{} events told", self.told);
        assert!(is_chat || self.ends == EVENTS, "{} events", self.ends);
        self.times
    }
}
