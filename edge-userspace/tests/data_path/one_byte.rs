//! A client that takes one byte a second of one stream, beside 99 that it reads at once, all on one
//! HTTP/2 connection. It writes its frames itself: no library gives back a byte at a time.

use crate::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
    SETTINGS, Wire, block, frame,
};
use crate::world::{ALICE, World, until};
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, MissedTickBehavior, interval};

const WINDOW_UPDATE: u8 = 8;
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
/// CANCEL (RFC 9113 section 7).
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// What the client lets each stream have on its way.
const STREAM_WINDOW: u32 = 65_535;
const SLOW: u32 = 1;
const FAST: u32 = 99;
/// Events of a fast stream, one each 10 ms: more than five seconds.
const TOKENS: usize = 500;
/// More than all windows and buffers on the way hold.
const SLOW_TOKENS: usize = 100_000;

/// What came of all streams.
#[derive(Default)]
struct Seen {
    /// Times between two pieces of a fast stream.
    gaps: Vec<Duration>,
    last: HashMap<u32, Instant>,
    bytes: HashMap<u32, u64>,
    ended: u32,
}

impl Seen {
    /// The 99th percentile of the times between two pieces.
    fn p99(&mut self) -> Duration {
        self.gaps.sort();
        self.gaps[self.gaps.len() * 99 / 100]
    }

    /// Takes a frame; what is written for it, if anything is.
    fn take(&mut self, frame_: &Frame) -> Vec<u8> {
        let Frame {
            kind,
            flags,
            stream,
            ref payload,
        } = *frame_;
        match kind {
            SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(PING, ACK, 0, payload),
            RST_STREAM | GOAWAY => panic!("frame {kind} of stream {stream}: {payload:?}"),
            DATA => {
                *self.bytes.entry(stream).or_default() += payload.len() as u64;
                if stream == SLOW {
                    // Unread, so nothing is given back.
                    return Vec::new();
                }
                let now = Instant::now();
                if let Some(last) = self.last.insert(stream, now) {
                    self.gaps.push(now - last);
                }
                if flags & END_STREAM != 0 {
                    self.ended += 1;
                }
                if payload.is_empty() {
                    return Vec::new();
                }
                [
                    window_update(stream, payload.len()),
                    window_update(0, payload.len()),
                ]
                .concat()
            }
            _ => Vec::new(),
        }
    }
}

fn window_update(stream: u32, bytes: usize) -> Vec<u8> {
    let bytes = u32::try_from(bytes).unwrap();
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// A request for an event stream whose events have more than 256 bytes each.
fn request(stream: u32, tokens: usize, inter_token_ms: usize) -> Vec<u8> {
    let headers = format!(
        ":method=POST :scheme=https :authority=edge.test :path=/v1/chat/completions \
         x-api-key={ALICE} x-demo-tokens={tokens} x-demo-inter-token-ms={inter_token_ms}"
    );
    let model = "m".repeat(256);
    let body = format!(r#"{{"model":"{model}","messages":[],"stream":true}}"#);
    [
        frame(HEADERS, END_HEADERS, stream, &block(&headers)),
        frame(DATA, END_STREAM, stream, body.as_bytes()),
    ]
    .concat()
}

async fn begin(world: &World, connection_window: u32) -> Wire {
    let mut wire = Wire::open(world).await;
    let window = [&INITIAL_WINDOW_SIZE[..], &STREAM_WINDOW.to_be_bytes()].concat();
    let mut begin = [PREFACE, &frame(SETTINGS, 0, 0, &window)].concat();
    if connection_window > STREAM_WINDOW {
        begin.extend(window_update(
            0,
            (connection_window - STREAM_WINDOW) as usize,
        ));
    }
    wire.tls.write_all(&begin).await.unwrap();
    wire
}

/// Reads `FAST` streams to their ends, and one byte a second of `SLOW` if that is asked for; what
/// came, and how many bytes were given back for the slow one.
async fn run(world: &World, connection_window: u32, with_slow: bool) -> (Seen, u64) {
    let mut wire = begin(world, connection_window).await;
    let mut seen = Seen::default();
    if with_slow {
        wire.tls
            .write_all(&request(SLOW, SLOW_TOKENS, 0))
            .await
            .unwrap();
        // What it may have on its way comes.
        let sent = || world.model.stats().figures().body_bytes;
        let (mut last, mut still) = (0, 0);
        while still < 20 {
            still = if sent() == last { still + 1 } else { 0 };
            last = sent();
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
    for number in 1..=FAST {
        let ask = request(SLOW + 2 * number, TOKENS, 10);
        wire.tls.write_all(&ask).await.unwrap();
    }
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut given = 0;
    while seen.ended < FAST {
        let back = tokio::select! {
            frame = wire.next() => seen.take(&frame.expect("the connection stands")),
            _ = second.tick(), if with_slow => {
                given += 1;
                [window_update(SLOW, 1), window_update(0, 1)].concat()
            }
        };
        if !back.is_empty() {
            wire.tls.write_all(&back).await.unwrap();
        }
    }
    if with_slow {
        wire.tls
            .write_all(&frame(RST_STREAM, 0, SLOW, &CANCEL))
            .await
            .unwrap();
        let active = || world.model.stats().figures().active;
        until("the slow one's end", || active() == 0).await;
    }
    (seen, given)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_byte_a_second_of_one_stream_holds_up_no_other() {
    for (name, connection_window) in [("16m", 16 << 20), ("64k", 65_535)] {
        let world = World::new();
        let sent = || world.model.stats().figures().body_bytes;
        let (mut alone, _) = run(&world, connection_window, false).await;
        let fast_bytes = sent();
        let (mut beside, given) = run(&world, connection_window, true).await;
        for seen in [&alone, &beside] {
            let mut lengths = (seen.bytes.iter()).filter(|(stream, _)| **stream != SLOW);
            let (_, first) = lengths.next().unwrap();
            assert!(
                lengths.all(|(_, length)| length == first),
                "each to its last byte"
            );
        }
        let slow = beside.bytes[&SLOW];
        // The edge lets it have half of a connection's window that was never raised.
        let window = u64::from(STREAM_WINDOW.min(connection_window / 2 + 1));
        assert!(given > 2, "{given} s");
        assert!(
            (window + given - 1..=window + given).contains(&slow),
            "a byte for each that was given back: {slow} of {window} and {given}"
        );
        let held = sent() - 2 * fast_bytes - slow;
        assert!(held < 30 << 20, "it is held back: {held} bytes");
        let (before, after) = (alone.p99(), beside.p99());
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!("figure slow_reader.{name}.alone.p99 {:.3} ms", ms(before));
        println!("figure slow_reader.{name}.beside.p99 {:.3} ms", ms(after));
        println!(
            "figure slow_reader.{name}.p99_ratio {:.3} x",
            ms(after) / ms(before)
        );
        println!("figure slow_reader.{name}.on_the_way {held} bytes");
    }
}
