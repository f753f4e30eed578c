//! Texts that are counted where they lie, and readings that read a second body.

use super::*;
use crate::context::Secret;
use decode::Encoding;

const MODEL: &str = r#""model":"gpt-4o""#;
const REST: &str = r#""system":[{"type":"text","text":"Be \"brief\".\n"}],
"tools":[{"name":"get","description":"Gets caf\u00e9s","input_schema":{"type":"object","n":[1,-2.5e3,true,null,"x\ty"]}}],
"messages":[{"role":"user","content":"How far is it\nto the sea?"},
{"role":"assistant","content":[{"type":"text","text":"Let me see"},{"type":"tool_use","name":"get","input":{"a":["b",{"c":"d \ud83d\ude00"}]}}]},
{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"{\"far\":1}"}]}]}]"#;

struct Thread {
    counters: Rc<Counters>,
    models: Arc<Models>,
    calibration: Arc<Calibration>,
    secret: Secret,
}

impl Thread {
    fn new() -> Self {
        Self {
            counters: Rc::default(),
            models: Arc::new(Models::default()),
            calibration: Arc::new(Calibration::new(8, None)),
            secret: Secret::demonstration(),
        }
    }

    fn begin(&self, shape: Shape, is_chained: bool) -> Box<Reading> {
        let limits = Limits::default();
        let reading = (self.counters).reading(shape, &self.models, &self.calibration, limits);
        match is_chained {
            true => reading.chained(&self.secret),
            false => reading,
        }
    }

    /// What a body counts, and each of its prefixes.
    fn end(&self, mut reading: Box<Reading>, body: &str, size: usize) -> (Count, Vec<Option<u64>>) {
        push(&mut reading, body, size);
        while !reading.go_on().unwrap() {}
        let (counted, held) = reading.counted();
        assert_eq!(held.concat(), body.as_bytes(), "byte for byte");
        self.counters.keep_for_next(reading);
        let prefixes = (0..5).map(|messages| counted.prefixes.tokens(messages));
        (counted.count, prefixes.collect())
    }
}

/// As a body that is whole.
fn push(reading: &mut Reading, body: &str, size: usize) {
    for piece in body.as_bytes().chunks(size) {
        while !reading.push(Bytes::copy_from_slice(piece)).unwrap() {}
    }
    reading.finish().unwrap();
}

#[test]
fn texts_count_where_they_lie_as_they_do_when_they_come() {
    let thread = Thread::new();
    for (shape, parts) in [(MESSAGES, [MODEL, REST]), (CHAT, [MODEL, REST])] {
        let body = format!("{{{}}}", parts.join(","));
        let at_once = thread.end(thread.begin(shape, false), &body, body.len());
        let [first, then] = parts;
        let other = format!("{{{then},{first}}}");
        for size in [1, 7, 300, body.len()] {
            for body in [&body, &other] {
                let mut reading = thread.begin(shape, true);
                push(&mut reading, body, size);
                assert!(reading.replay_begins(), "it is known where they lie");
                let again = thread.end(thread.begin(shape, true), body, size);
                assert_eq!(again, at_once, "{shape:?} by {size}");
            }
        }
    }
}

#[test]
fn what_may_be_no_text_is_read_once_more() {
    let thread = Thread::new();
    let document = r#"{"type":"document","source":{"data":"one two","type":"text"}}"#;
    for content in [document, &document.replace("one two", "aGVsbG8=")] {
        let body = format!(
            r#"{{{MODEL},"messages":[{{"role":"user","content":[{content},{{"type":"text","text":"three"}}]}}]}}"#
        );
        let at_once = thread.end(thread.begin(MESSAGES, false), &body, 50);
        let mut reading = thread.begin(MESSAGES, true);
        push(&mut reading, &body, 50);
        assert!(!reading.replay_begins());
        assert_eq!(thread.end(thread.begin(MESSAGES, true), &body, 50), at_once);
    }
}

#[test]
fn a_reading_reads_a_second_body_as_a_new_one_does() {
    let bodies = [
        format!("{{{MODEL},{REST}}}"),
        format!("{{{REST},{MODEL}}}"),
        format!("{{{REST},\"model\":\"claude-x\"}}"),
        r#"{"messages":[{"role":"user","content":"Hello"}],"model":"gpt-4"}"#.to_owned(),
        r#"{"model":"gpt-4o","messages":[{"role":"user","name":"Ann","content":"é"}]}"#.to_owned(),
        "{}".to_owned(),
    ];
    let kept = Thread::new();
    for (nth, one) in bodies.iter().enumerate() {
        for other in &bodies {
            for (shape, is_chained) in [(CHAT, true), (MESSAGES, true), (CHAT, false)] {
                for body in [one, other] {
                    let fresh = Thread::new();
                    let new = fresh.end(fresh.begin(shape, is_chained), body, 60);
                    let again = kept.end(kept.begin(shape, is_chained), body, 60);
                    assert_eq!(again, new, "{nth} {shape:?} {body}");
                }
            }
        }
    }
    // One that was given up halfway, and one that was refused, are no longer there.
    let mut halfway = kept.begin(CHAT, true).encoded(Encoding::Gzip, 1000);
    assert!(
        halfway
            .push(Bytes::from_static(
                b"this is no gzip, and long enough to see that"
            ))
            .is_err()
    );
    kept.counters.keep_for_next(halfway);
    let mut halfway = kept.begin(CHAT, true);
    halfway
        .push(Bytes::from_static(b"{\"messages\":[\"\\\"un"))
        .unwrap();
    kept.counters.keep_for_next(halfway);
    for _ in 0..2 {
        let new = Thread::new();
        let new = new.end(new.begin(CHAT, true), &bodies[0], 60);
        assert_eq!(kept.end(kept.begin(CHAT, true), &bodies[0], 60), new);
    }
}
