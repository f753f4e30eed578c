//! HTTP/2 frame by frame: `tests/framing/http2`, one script a file, and floods of frames.
//!
//! What is written and read here is made by hand, so that no library decides what can be said.
//!
//! A script is a head of `what`, `rfc`, `expect` and `upstream` (the numbers of requests that
//! the model may see), a line of `---`, then one line a step, escapes as in
//! `tests/framing/README.md`:
//!
//! - `headers STREAM FLAGS NAME=VALUE …`, `continuation …` likewise: literals without an index
//!   and without Huffman's code; FLAGS are `-`, `end_headers`, `end_stream`, or both;
//! - `data STREAM FLAGS TEXT`;
//! - `frame TYPE FLAGS STREAM PAYLOAD` by numbers, or `… zeros BYTES`; `raw BYTES`;
//! - `bare` and `nothing` as the first line: without our SETTINGS, and without preface too.
//!
//! After the script comes a PING. `expect` has alternatives, parted by `|`, each of conditions,
//! parted by commas: `status STREAM CODE`, `rst STREAM ERROR`, `goaway ERROR`, `closed`, and
//! `open` when the PING is answered. `deviates`, in some, is what the library that is used says
//! in place of that: nearly always the general code for a special one.

use crate::client::{Ask, Http, alpn};
use crate::framing::{files, split, unescape};
use crate::upstream::scripted;
use crate::world::{ALICE, Wishes, World, soon, token, until};
use edge_userspace::telemetry::ConnectionEnd;
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What the PING at the end says.
const ASK: &[u8] = b"are-you?";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;

/// The codes of RFC 9113 section 7, in their order.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Literals that are not indexed (RFC 7541 section 6.2.2).
pub(crate) fn block(headers: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for header in headers.split(' ').filter(|header| !header.is_empty()) {
        // A pseudo-header's colon is no separator, and a name may be empty.
        let (name, value) = header.split_once('=').unwrap();
        block.push(0);
        for text in [name, value] {
            let text = unescape(text);
            // One byte of length is enough for what the scripts say.
            assert!(text.len() < 127, "{header}");
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text);
        }
    }
    block
}

fn flags(names: &str) -> u8 {
    let flag = |name| match name {
        "-" => 0,
        "end_stream" => END_STREAM,
        "end_headers" => END_HEADERS,
        other => panic!("no flag: {other}"),
    };
    names.split(',').map(flag).sum()
}

/// What one line sends.
fn step(line: &str) -> Vec<u8> {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let parts: Vec<_> = rest.splitn(3, ' ').collect();
    let number = |at: usize| parts[at].parse::<u32>().unwrap();
    match what {
        "headers" => frame(HEADERS, flags(parts[1]), number(0), &block(parts[2])),
        "continuation" => frame(CONTINUATION, flags(parts[1]), number(0), &block(parts[2])),
        "data" => frame(DATA, flags(parts[1]), number(0), &unescape(parts[2])),
        "raw" => unescape(rest),
        "frame" => {
            let (stream, payload) = parts[2].split_once(' ').unwrap();
            let payload = match payload.strip_prefix("zeros ") {
                Some(count) => vec![0; count.parse().unwrap()],
                None => unescape(payload),
            };
            let (kind, flags) = (u8::try_from(number(0)), u8::try_from(number(1)));
            frame(
                kind.unwrap(),
                flags.unwrap(),
                stream.parse().unwrap(),
                &payload,
            )
        }
        other => panic!("no step: {other}"),
    }
}

/// A connection on which frames are written and read one by one.
pub(crate) struct Wire {
    pub(crate) tls: TlsStream<TcpStream>,
    read: Vec<u8>,
}

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Wire {
    pub(crate) async fn open(world: &World) -> Self {
        let hello = alpn(&[b"h2", &token(ALICE)]);
        Self {
            tls: world.tls(&hello).await.unwrap(),
            read: Vec::new(),
        }
    }

    /// The same with the client's preface and empty SETTINGS.
    async fn begin(world: &World) -> Self {
        let mut wire = Self::open(world).await;
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        wire.tls.write_all(&begin).await.unwrap();
        wire
    }

    /// The next frame; none when the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.read.split_first_chunk::<9>() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if let Some(payload) = rest.get(..length) {
                    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    let frame = Frame {
                        kind: head[3],
                        flags: head[4],
                        stream,
                        payload: payload.to_vec(),
                    };
                    self.read.drain(..9 + length);
                    return Some(frame);
                }
            }
            let read = soon("a frame", self.tls.read_buf(&mut self.read)).await;
            if read.map_or(true, |count| count == 0) {
                return None;
            }
        }
    }
}

/// The status in a response's first block: an index of the static table, or a literal with
/// its name (RFC 7541 appendix A), whose digits may be in Huffman's code.
fn status(block: &[u8]) -> u16 {
    let start = block.iter().position(|byte| byte & 0xe0 != 0x20);
    match &block[start.unwrap_or(0)..] {
        [first @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)],
        [0x48, length, digits @ ..] if length & 0x80 == 0 => {
            let digits = std::str::from_utf8(&digits[..usize::from(*length)]).unwrap();
            digits.parse().unwrap()
        }
        [0x48, length, coded @ ..] => {
            let coded = &coded[..usize::from(length & 0x7f)];
            let bits: Vec<u8> = (coded.iter())
                .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
                .collect();
            let (mut at, mut status) = (0, 0);
            for _ in 0..3 {
                let value =
                    |count: usize| bits[at..at + count].iter().fold(0, |v, bit| v << 1 | bit);
                // 0, 1 and 2 have five bits, the other digits six (RFC 7541 appendix B).
                let (digit, length) = match value(5) {
                    digit @ 0..=2 => (digit, 5),
                    _ => (value(6) - 0x19 + 3, 6),
                };
                at += length;
                status = status * 10 + u16::from(digit);
            }
            status
        }
        other => panic!("no status: {other:02x?}"),
    }
}

/// What came back, as `expect` says it.
async fn observe(wire: &mut Wire, expect: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let waits_for = |seen: &[String]| {
        // Whether an alternative could still come true.
        !alternatives(expect).any(|wanted| wanted.iter().all(|one| seen.iter().any(|s| s == one)))
    };
    let mut is_pinged = false;
    while let Some(frame) = wire.next().await {
        let code = |at: usize| {
            let code = frame
                .payload
                .get(at..at + 4)
                .map(|four| u32::from_be_bytes(four.try_into().unwrap()));
            let code = code.and_then(|code| CODES.get(code as usize));
            code.copied().unwrap_or("?")
        };
        match frame.kind {
            HEADERS if frame.flags & END_HEADERS != 0 => {
                seen.push(format!(
                    "status {} {}",
                    frame.stream,
                    status(&frame.payload)
                ));
            }
            RST_STREAM => seen.push(format!("rst {} {}", frame.stream, code(0))),
            GOAWAY => seen.push(format!("goaway {}", code(4))),
            PING if frame.flags & ACK != 0 && frame.payload == ASK => {
                is_pinged = true;
                seen.push("open".to_owned());
            }
            _ => {}
        }
        if is_pinged && !waits_for(&seen) {
            return seen;
        }
    }
    seen.push("closed".to_owned());
    seen
}

fn alternatives(expect: &str) -> impl Iterator<Item = Vec<&str>> {
    (expect.split('|')).map(|wanted| wanted.split(',').map(str::trim).collect())
}

async fn run(world: &World, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let (head, script) = split(&text);
    let one = |name: &str| {
        let found = head.iter().find(|(other, _)| other == name);
        found
            .map(|(_, value)| value.as_str())
            .unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(!one("what").is_empty() && !one("rfc").is_empty());
    let script = script.replace("{key}", ALICE);
    let mut lines = script.lines().peekable();
    let mut bytes = match lines.peek() {
        Some(&"nothing") => Vec::new(),
        Some(&"bare") => PREFACE.to_vec(),
        _ => [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(),
    };
    lines.next_if(|line| matches!(*line, "nothing" | "bare"));
    for line in lines {
        bytes.extend(step(line));
    }
    bytes.extend(frame(PING, 0, 0, ASK));
    let before = world.model.stats().figures().requests;
    let mut wire = Wire::open(world).await;
    // The edge may have ended it meanwhile.
    let _ = wire.tls.write_all(&bytes).await;
    let deviates = head.iter().find(|(name, _)| name == "deviates");
    let expect = match deviates {
        Some((_, deviates)) => format!("{} | {deviates}", one("expect")),
        None => one("expect").to_owned(),
    };
    let expect = expect.as_str();
    let seen = observe(&mut wire, expect).await;
    drop(wire);
    let stats = || world.model.stats().figures();
    until("the model's rest", || stats().active == 0).await;
    let met =
        alternatives(expect).any(|wanted| wanted.iter().all(|one| seen.iter().any(|s| s == one)));
    let requests = (stats().requests - before).to_string();
    let may = one("upstream").split(' ').any(|number| number == requests);
    match met && may {
        true => Ok(()),
        false => Err(format!("{seen:?}, {requests} requests; not {expect}")),
    }
}

#[tokio::test]
async fn each_script_of_frames_gets_the_error_that_the_standard_has_for_it() {
    let world = World::new();
    let files = files("http2");
    assert!(files.len() > 90, "the scripts are there");
    let mut wrong = Vec::new();
    for file in files {
        // A script that hangs is one of those that are wrong.
        if let Err(what) = run(&world, &file).await {
            wrong.push(format!("{}: {what}", file.file_stem().unwrap().display()));
        }
    }
    let broken = world.metrics.connection_ends.get(ConnectionEnd::Protocol);
    assert!(broken > 20, "{broken} were counted");
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

const GOOD: &str = ":method=POST :scheme=https :path=/v1/messages :authority=edge.test \
     anthropic-version=2023-06-01";

fn good() -> Vec<u8> {
    block(&format!("{GOOD} x-api-key={ALICE}"))
}

/// Writes `piece` again and again, for other streams each time, while nobody reads; gives the
/// number of times until the edge ends the connection or takes no more, or `most`.
async fn flood(wire: &mut Wire, most: u32, mut piece: impl FnMut(u32) -> Vec<u8>) -> u32 {
    for number in 0..most {
        let bytes = piece(number);
        let write = wire.tls.write_all(&bytes);
        let waited = tokio::time::timeout(std::time::Duration::from_secs(2), write).await;
        if !matches!(waited, Ok(Ok(()))) {
            return number;
        }
    }
    most
}

/// While a flood goes on, or after it, others are served and nothing of it stays.
async fn others_are_served(world: &World) {
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.status, 200);
    drop(client);
    let open = || world.metrics.open_connections.get();
    until("no connection", || open() == 0).await;
    let stats = || world.model.stats().figures();
    until("the model's rest", || stats().active == 0).await;
}

/// CVE-2023-44487: streams are opened and reset faster than they are answered.
#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_and_hardly_reaches_the_upstream() {
    const MOST: u32 = 50_000;
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let head = good();
    let sent = flood(&mut wire, MOST, |number| {
        let stream = number * 2 + 1;
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &head);
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        bytes
    })
    .await;
    let seen = observe(&mut wire, "closed").await;
    assert!(sent < MOST, "the edge ends it: {sent}");
    assert!(
        seen.iter()
            .any(|s| s == "goaway ENHANCE_YOUR_CALM" || s == "closed"),
        "{seen:?}"
    );
    drop(wire);
    others_are_served(&world).await;
    let ends = &world.metrics.connection_ends;
    assert_eq!(ends.get(ConnectionEnd::Protocol), 1);
    let requests = world.model.stats().figures().requests;
    assert!(requests <= 1, "{requests}: bodies never came to their ends");
}

/// The same with requests that need no body, whose answers are on their way.
#[tokio::test]
async fn a_flood_of_requests_that_are_taken_back_is_bounded_at_the_upstream() {
    const MOST: u32 = 50_000;
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let models = ":method=GET :scheme=https :path=/v1/models :authority=edge.test";
    let head = block(&format!(
        "{models} x-api-key={ALICE} x-demo-first-token-ms=60000 x-demo-echo=1"
    ));
    let sent = flood(&mut wire, MOST, |number| {
        let stream = number * 2 + 1;
        let mut bytes = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        bytes
    })
    .await;
    assert!(sent < MOST, "the edge ends it: {sent}");
    drop(wire);
    others_are_served(&world).await;
    let requests = world.model.stats().figures().requests;
    assert!(requests < 1000, "{requests} of {sent}");
}

/// A head that never ends, in large frames and in empty ones.
#[tokio::test]
async fn a_head_without_an_end_is_not_kept() {
    for (size, most) in [(16_384_usize, 4096_u32), (0, 200_000), (1, 200_000)] {
        let world = World::new();
        let mut wire = Wire::begin(&world).await;
        let begin = frame(HEADERS, 0, 1, &good());
        wire.tls.write_all(&begin).await.unwrap();
        // Literals whose names and values are of one byte.
        let literals = [0, 1, b'x', 1, b'y'].repeat(size / 5 + 1);
        let sent = flood(&mut wire, most, |_| {
            frame(
                CONTINUATION,
                0,
                1,
                &literals[..size.min(literals.len() / 5 * 5)],
            )
        })
        .await;
        let seen = observe(&mut wire, "closed").await;
        assert!(sent < most, "{size}: the edge ends it: {sent}: {seen:?}");
        drop(wire);
        others_are_served(&world).await;
        assert_eq!(world.model.stats().figures().requests, 1);
    }
}

/// Frames that ask for an answer, from a client that reads none: what waits to be written is
/// bounded, so the client cannot go on for ever.
#[tokio::test]
async fn a_client_that_reads_no_answers_to_pings_and_settings_is_held_up_or_ended() {
    const MOST: u32 = 4000;
    let pings = frame(PING, 0, 0, b"12345678").repeat(1000);
    let settings = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(1000);
    for (what, thousand) in [("pings", pings), ("settings", settings)] {
        let world = World::new();
        let mut wire = Wire::begin(&world).await;
        let sent = flood(&mut wire, MOST, |_| thousand.clone()).await;
        assert!(sent < MOST, "{what}: {sent} thousand were taken");
        drop(wire);
        others_are_served(&world).await;
    }
}

/// DATA without data keeps a request open; it takes room as other pieces do and no more.
#[tokio::test]
async fn a_flood_of_empty_data_takes_a_bounded_room() {
    let world = World::configured(|config| config.prompt.max_held_bytes = 1 << 20);
    let mut wire = Wire::begin(&world).await;
    let begin = frame(HEADERS, END_HEADERS, 1, &good());
    wire.tls.write_all(&begin).await.unwrap();
    let thousand = frame(DATA, 0, 1, &[]).repeat(1000);
    flood(&mut wire, 100, |_| thousand.clone()).await;
    wire.tls.write_all(&frame(PING, 0, 0, ASK)).await.ok();
    let seen = observe(&mut wire, "open | closed").await;
    let room = world.prompts.room();
    assert!(room.bytes() <= room.most_bytes() + 64, "{seen:?}");
    drop(wire);
    others_are_served(&world).await;
}

/// An upstream that takes nothing holds the client up; one that goes on all the same breaks its
/// window.
#[tokio::test]
async fn a_client_that_sends_more_than_its_window_is_cut() {
    let upstream = scripted(|_, tcp| async move {
        // Held open, never read.
        std::future::pending::<()>().await;
        drop(tcp);
    });
    let upstream = upstream.await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        config: |config| config.api.max_body_bytes = 1 << 30,
        ..Wishes::default()
    });
    let mut wire = Wire::begin(&world).await;
    let models = ":method=GET :scheme=https :path=/v1/models :authority=edge.test";
    let head = block(&format!("{models} x-api-key={ALICE}"));
    let begin = frame(HEADERS, END_HEADERS, 1, &head);
    wire.tls.write_all(&begin).await.unwrap();
    let piece = frame(DATA, 0, 1, &[b' '; 16_384]);
    let sent = flood(&mut wire, 16_384, |_| piece.clone()).await;
    let seen = observe(&mut wire, "closed").await;
    let cut = ["rst 1 FLOW_CONTROL_ERROR", "goaway FLOW_CONTROL_ERROR"];
    assert!(
        seen.iter().any(|s| cut.contains(&s.as_str())),
        "{sent}: {seen:?}"
    );
}

/// A body in frames of a few bytes, as a client that streams it may send it, is no flood yet.
#[tokio::test]
async fn a_body_in_small_frames_is_taken() {
    let world = World::new();
    let mut wire = Wire::begin(&world).await;
    let head = block(&format!("{GOOD} x-api-key={ALICE} x-demo-echo=1"));
    let mut bytes = frame(HEADERS, END_HEADERS, 1, &head);
    for _ in 0..2000 {
        bytes.extend(frame(DATA, 0, 1, b"    "));
    }
    bytes.extend(frame(DATA, END_STREAM, 1, b"{}"));
    bytes.extend(frame(PING, 0, 0, ASK));
    wire.tls.write_all(&bytes).await.unwrap();
    let seen = observe(&mut wire, "status 1 200, open").await;
    assert!(seen.contains(&"status 1 200".to_owned()), "{seen:?}");
}
