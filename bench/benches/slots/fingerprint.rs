//! What it costs to name the prefixes of a conversation: from messages that have been parsed,
//! and from JSON, of which the reading is timed apart.
//!
//! Parsed messages are the events of the JSON reader, kept in memory and told again. Every
//! chain that is made is compared with the first one.

use bench::{figure, figure_exact, median};
use edge_userspace::context::canonical::Canonical;
use edge_userspace::context::{Chain, ContextId, Owner, Secret, Tenant};
use edge_userspace::prompt::Shape;
use edge_userspace::prompt::json::{Duplicate, Literal, Reader, Visit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::hint::black_box;

/// Messages and bytes of text of the conversations.
const SIZES: [(usize, usize); 7] = [
    (1, 1 << 10),
    (1, 1 << 20),
    (20, 1 << 10),
    (20, 32 << 10),
    (200, 32 << 10),
    (200, 256 << 10),
    (200, 1 << 20),
];
/// The one that the goal is set for.
const GOAL: (usize, usize) = (20, 32 << 10);

const OWNER: Owner = Owner {
    tenant: Tenant(7),
    context: ContextId::NONE,
};

/// Prints the figures; each is the median of so many rounds.
pub(super) fn run(rounds: usize) {
    let secret = Secret::random().expect("random numbers");
    for (messages, bytes) in SIZES {
        let body = conversation(messages, bytes, false);
        let times = Times::of(&secret, &body, messages, rounds);
        let name = format!("slots.fingerprint.{messages}_messages_{}k", bytes >> 10);
        figure_exact(&format!("{name}_us"), times.parsed, "us");
        figure_exact(&format!("{name}_from_json_us"), times.from_json, "us");
        if (messages, bytes) == GOAL {
            figure("slots.fingerprint_32k_us", times.parsed, "us");
            figure("slots.fingerprint_32k_from_json_us", times.from_json, "us");
            figure("slots.fingerprint_32k_json_alone_us", times.json, "us");
            figure("slots.fingerprint_32k_with_wire_us", times.with_wire, "us");
            // As clients with cache marks send it.
            let blocks = Times::of(
                &secret,
                &conversation(messages, bytes, true),
                messages,
                rounds,
            );
            figure("slots.fingerprint_32k_blocks_us", blocks.parsed, "us");
            figure_exact("slots.fingerprint_32k_null_us", times.null, "us");
        }
    }
}

/// Microseconds of one conversation.
struct Times {
    /// The chain, from events.
    parsed: f64,
    /// The chain, from JSON.
    from_json: f64,
    /// Reading the JSON for nobody.
    json: f64,
    /// From JSON, with the fingerprint that clients send: SHA-256 of it all.
    with_wire: f64,
    /// The events told to nobody.
    null: f64,
}

impl Times {
    fn of(secret: &Secret, body: &str, messages: usize, rounds: usize) -> Self {
        let mut events = Events::default();
        read(body, &mut events);
        let chain = |canonical: &Canonical| {
            Chain::of(canonical, secret, OWNER, 1).expect("it has a canonical form")
        };
        let new = || Canonical::new(Shape::Messages, secret);
        let first = {
            let mut canonical = new();
            read(body, &mut canonical);
            chain(&canonical)
        };
        assert_eq!(first.boundaries().len(), messages);
        let is_first = |canonical: &Canonical| assert!(chain(canonical) == first);
        let mut parsed = Timer::new(body);
        let (mut from_json, mut json) = (Timer::new(body), Timer::new(body));
        let (mut with_wire, mut null) = (Timer::new(body), Timer::new(body));
        for _ in 0..rounds {
            parsed.round(|| {
                let mut canonical = new();
                events.tell(&mut canonical);
                is_first(&canonical);
            });
            from_json.round(|| {
                let mut canonical = new();
                read(body, &mut canonical);
                is_first(&canonical);
            });
            json.round(|| {
                let mut nobody = Nobody::default();
                read(body, &mut nobody);
                assert!(black_box(nobody.bytes) > 0);
            });
            with_wire.round(|| {
                let mut canonical = new();
                canonical.add_wire();
                read(body, &mut canonical);
                assert!(canonical.wire_form().is_some());
            });
            null.round(|| {
                let mut nobody = Nobody::default();
                events.tell(&mut nobody);
                assert!(black_box(nobody.bytes) > 0);
            });
        }
        Self {
            parsed: parsed.median(),
            from_json: from_json.median(),
            json: json.median(),
            with_wire: with_wire.median(),
            null: null.median(),
        }
    }
}

fn read(body: &str, visit: &mut impl Visit) {
    let mut reader = Reader::new();
    reader.push(body.as_bytes(), visit).expect("it is JSON");
    reader.finish(visit).expect("it is whole");
}

/// A conversation of so many messages that have so many bytes together.
fn conversation(messages: usize, bytes: usize, blocks: bool) -> String {
    const TEXT: &str = "The prefix of a conversation is what came before: \"system\", tools and turns.\nWhat comes after it is new, and often short.\n";
    let text = |at: usize| -> String {
        let text = TEXT.chars().cycle().skip(at % TEXT.len());
        text.take(bytes / messages).collect()
    };
    let messages = (0..messages).map(|at| {
        let role = ["user", "assistant"][at % 2];
        match blocks {
            true => json!({ "role": role, "content": [{ "type": "text", "text": text(at) }] }),
            false => json!({ "role": role, "content": text(at) }),
        }
    });
    let messages: Vec<_> = messages.collect();
    // As the official SDKs write it: the model last.
    format!(
        r#"{{"max_tokens":1024,"messages":{},"system":"You help.","model":"claude-sonnet-4-5"}}"#,
        json!(messages)
    )
}

/// Times of rounds, each of several runs.
struct Timer {
    runs: u32,
    us: Vec<f64>,
}

impl Timer {
    fn new(body: &str) -> Self {
        // About a millisecond, so that reading the clock is nothing.
        let runs = (1 << 20) / body.len().max(1 << 12);
        Self {
            runs: runs.max(1) as u32,
            us: Vec::new(),
        }
    }

    fn round(&mut self, mut run: impl FnMut()) {
        let begun = now_us();
        for _ in 0..self.runs {
            run();
        }
        self.us.push((now_us() - begun) / f64::from(self.runs));
    }

    fn median(self) -> f64 {
        median(self.us)
    }
}

/// Of this thread on the processor.
fn now_us() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// What a reader told.
#[derive(Default)]
struct Events(Vec<Event>);

enum Event {
    Object,
    ObjectEnd,
    Array,
    ArrayEnd,
    Text(bool, Vec<u8>),
    Number(Vec<u8>),
    Literal(Literal),
}

impl Events {
    fn tell(&self, visit: &mut impl Visit) {
        for event in &self.0 {
            match event {
                Event::Object => visit.begin_object(),
                Event::ObjectEnd => visit.end_object(),
                Event::Array => visit.begin_array(),
                Event::ArrayEnd => visit.end_array(),
                Event::Text(is_key, text) => {
                    visit.begin_string(*is_key);
                    visit.string(text);
                    visit.end_string().expect("each key comes once");
                }
                Event::Number(number) => {
                    visit.begin_number();
                    visit.number(number);
                    visit.end_number();
                }
                Event::Literal(literal) => visit.literal(*literal),
            }
        }
    }
}

impl Visit for Events {
    fn begin_object(&mut self) {
        self.0.push(Event::Object);
    }

    fn end_object(&mut self) {
        self.0.push(Event::ObjectEnd);
    }

    fn begin_array(&mut self) {
        self.0.push(Event::Array);
    }

    fn end_array(&mut self) {
        self.0.push(Event::ArrayEnd);
    }

    fn begin_string(&mut self, is_key: bool) {
        self.0.push(Event::Text(is_key, Vec::new()));
    }

    fn string(&mut self, piece: &[u8]) {
        if let Some(Event::Text(_, text)) = self.0.last_mut() {
            text.extend_from_slice(piece);
        }
    }

    fn begin_number(&mut self) {
        self.0.push(Event::Number(Vec::new()));
    }

    fn number(&mut self, piece: &[u8]) {
        if let Some(Event::Number(number)) = self.0.last_mut() {
            number.extend_from_slice(piece);
        }
    }

    fn literal(&mut self, literal: Literal) {
        self.0.push(Event::Literal(literal));
    }
}

/// Listens to nothing.
#[derive(Default)]
struct Nobody {
    bytes: usize,
}

impl Visit for Nobody {
    fn string(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        Ok(())
    }
}
