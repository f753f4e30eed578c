//! Bodies of all kinds, whole, broken and given up, through one reading after the other that is kept,
//! and each through one of its own: what is known of it is the same.

use super::*;
use crate::context::{Chain, ContextId, Owner, Secret, Tenant};
use decode::Encoding;
use proptest::prelude::*;
use std::io::Write as _;

pub(super) const OWNER: Owner = Owner {
    tenant: Tenant(7),
    context: ContextId::NONE,
};

/// One request: its body, how it comes, and what is asked of its reading.
#[derive(Clone, Debug)]
struct Asked {
    shape: Shape,
    body: Vec<u8>,
    /// Bytes of the pieces in which it comes, again and again.
    sizes: Vec<usize>,
    /// So much of it comes, and no end.
    given_up: Option<usize>,
    encoding: Encoding,
    limits: Limits,
    is_chained: bool,
    has_wire_form: bool,
    /// Of so many messages the tokens are said to be known.
    known: Option<(u64, u64)>,
}

/// What comes of it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Counted(Box<Known>),
    /// After so many pieces.
    Refused(Refusal, usize),
    GivenUp,
}

/// What is known of a body that is whole.
#[derive(Debug, PartialEq)]
struct Known {
    count: Count,
    model: Box<[u8]>,
    asked: (bool, Option<u64>, u64, bool),
    learns: bool,
    prefixes: Vec<Option<u64>>,
    held: Vec<u8>,
    chain: Option<(Vec<crate::context::Boundary>, bool, Vec<u8>)>,
    wire_form: Option<String>,
    is_known: bool,
}

/// Text of a request, with the marks of JSON that it needs.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z ,.é😀]{0,60}",
        1 => "[ -~]{0,40}",
        1 => Just("word ".repeat(3000)),
        1 => Just("iVBORw0KGgoAAAANSUhEUgAAAMgAAAPoCAYAAAA".to_owned()),
    ]
}

fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => text().prop_map(|text| json!({ "type": "text", "text": text })),
        1 => text().prop_map(|text| json!({ "text": text, "type": "text", "cache_control": { "type": "ephemeral", "ttl": "1h" } })),
        1 => text().prop_map(|text| json!({ "type": "tool_use", "id": "t", "name": "get", "input": { "a": [text, 1, { "b": null }] } })),
        1 => text().prop_map(|text| json!({ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": text }] })),
        1 => text().prop_map(|data| json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } })),
        1 => text().prop_map(|data| json!({ "type": "document", "source": { "data": data, "type": "text" } })),
        1 => text().prop_map(|data| json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}"), "detail": "low" } })),
        1 => text().prop_map(|text| json!({ "type": "thinking", "thinking": text, "signature": "AAAA" })),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        text().prop_map(Value::from),
        prop::collection::vec(block(), 0..4).prop_map(Value::from),
    ];
    let role = prop::sample::select(vec!["user", "assistant", "system", "tool"]);
    (role, content, any::<bool>()).prop_map(|(role, content, is_named)| match is_named {
        true => json!({ "role": role, "name": "Ann", "content": content }),
        false => json!({ "content": content, "role": role }),
    })
}

/// A body's text, its keys in any order.
pub(super) fn body() -> impl Strategy<Value = Vec<u8>> {
    let model = prop::sample::select(vec!["gpt-4o", "gpt-4", "claude-x", "llama", ""]);
    let messages = prop::collection::vec(message(), 0..6);
    let parts = (model, messages, text(), 0_u8..32).prop_map(|(model, messages, text, has)| {
        let mut parts = vec![("messages", Value::from(messages))];
        let others = [
            ("model", json!(model)),
            ("system", json!([{ "type": "text", "text": text }])),
            (
                "tools",
                json!([{ "name": "get", "description": text, "input_schema": { "n": [1, text] } }]),
            ),
            ("max_tokens", json!(text.len())),
            ("stream", json!(true)),
        ];
        let others = others.into_iter().enumerate();
        parts.extend(
            others
                .filter(|(at, _)| has >> at & 1 == 1)
                .map(|(_, part)| part),
        );
        parts
    });
    parts.prop_shuffle().prop_map(|parts| {
        let parts = parts
            .iter()
            .map(|(key, value)| format!("\"{key}\":{value}"));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(",")).into_bytes()
    })
}

/// One that may be broken somewhere, or be encoded.
fn sent() -> impl Strategy<Value = (Vec<u8>, Encoding)> {
    let fault = (0_u8..10, any::<prop::sample::Index>(), any::<u8>());
    let encoding = prop_oneof![4 => Just(Encoding::Identity), 1 => Just(Encoding::Gzip)];
    (body(), fault, encoding, any::<bool>()).prop_map(|(mut body, fault, encoding, is_late)| {
        if encoding == Encoding::Gzip && is_late {
            body = gzip(&body);
        }
        let (kind, at, byte) = fault;
        let at = at.index(body.len());
        match kind {
            0 => body[at] = byte,
            1 => body.truncate(at),
            2 => {
                body.remove(at);
            }
            3 => body.extend_from_slice(b",{}"),
            _ => {}
        }
        if encoding == Encoding::Gzip && !is_late {
            body = gzip(&body);
        }
        (body, encoding)
    })
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn asked() -> impl Strategy<Value = Asked> {
    let sizes = prop_oneof![
        prop::collection::vec(1_usize..20, 1..5),
        prop::collection::vec(1_usize..5000, 1..5),
        Just(vec![usize::MAX]),
    ];
    let given_up = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let limit = || prop::option::weighted(0.2, 0_u64..4000);
    let limits = (limit(), limit(), any::<bool>()).prop_map(|(key, node, context)| Limits {
        key,
        node,
        context,
    });
    let known = prop::option::weighted(0.3, (0_u64..6, 0_u64..300));
    let shape = prop::sample::select(vec![MESSAGES, CHAT]);
    let flags = any::<(bool, bool)>();
    (sent(), shape, sizes, given_up, limits, flags, known).prop_map(
        |((body, encoding), shape, sizes, given_up, limits, flags, known)| Asked {
            given_up: given_up.map(|at| at.index(body.len().max(1))),
            shape,
            body,
            sizes,
            encoding,
            limits,
            is_chained: flags.0,
            has_wire_form: flags.1,
            known,
        },
    )
}

/// What stays the same from one request to the next.
struct Thread {
    counters: Rc<Counters>,
    models: Arc<Models>,
    calibration: Arc<Calibration>,
    secret: Secret,
}

impl Thread {
    fn answer(&self, asked: &Asked) -> Outcome {
        let mut reading =
            (self.counters).reading(asked.shape, &self.models, &self.calibration, asked.limits);
        if asked.encoding != Encoding::Identity {
            reading = reading.encoded(asked.encoding, 1 << 20);
        }
        if asked.has_wire_form {
            reading = reading.with_wire_form();
        }
        if asked.is_chained {
            reading = reading.chained(&self.secret);
        }
        let mut pieces = 0;
        let outcome = match self.read(asked, &mut reading, &mut pieces) {
            Ok(outcome) => outcome,
            Err(refusal) => Outcome::Refused(refusal, pieces),
        };
        // Kept however it ended; the daemon drops what did not end well.
        self.counters.keep_for_next(reading);
        outcome
    }

    fn read(
        &self,
        asked: &Asked,
        reading: &mut Reading,
        pieces: &mut usize,
    ) -> Result<Outcome, Refusal> {
        let mut rest = &asked.body[..asked.given_up.unwrap_or(asked.body.len())];
        let mut sizes = asked.sizes.iter().cycle();
        while let (false, Some(size)) = (rest.is_empty(), sizes.next()) {
            let (piece, more) = rest.split_at(rest.len().min(*size));
            rest = more;
            *pieces += 1;
            if !reading.push(Bytes::copy_from_slice(piece))? {
                while !reading.go_on()? {}
            }
        }
        if asked.given_up.is_some() {
            return Ok(Outcome::GivenUp);
        }
        reading.finish()?;
        let wire_form = reading.wire_form().map(|form| format!("{form:?}"));
        let chain = reading.chain(&self.secret, OWNER);
        let is_known =
            (asked.known).is_some_and(|(messages, tokens)| reading.know(messages, tokens));
        while !reading.go_on()? {}
        let (counted, held) = reading.counted();
        let said = |chain: Chain| {
            let head = [chain.head()];
            let all = head.iter().chain(chain.boundaries()).copied();
            let opening = chain.last_user_opening().to_vec();
            (all.collect(), chain.is_long(), opening)
        };
        Ok(Outcome::Counted(Box::new(Known {
            count: counted.count,
            model: counted.model,
            asked: (
                counted.has_messages,
                counted.max_tokens,
                counted.choices,
                counted.is_stream,
            ),
            learns: counted.learn.is_some(),
            prefixes: (0..8)
                .map(|messages| counted.prefixes.tokens(messages))
                .collect(),
            held: held.concat(),
            chain: chain.map(said),
            wire_form,
            is_known,
        })))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_kept_reading_knows_of_a_body_what_a_new_one_does(
        bodies in prop::collection::vec(asked(), 1..24)
    ) {
        let models = Arc::new(Models::default());
        let calibration = Arc::new(Calibration::new(8, None));
        let thread = || Thread {
            counters: Rc::default(),
            models: Arc::clone(&models),
            calibration: Arc::clone(&calibration),
            secret: Secret::demonstration(),
        };
        let kept = thread();
        for asked in &bodies {
            let (again, new) = (kept.answer(asked), thread().answer(asked));
            if let Outcome::Counted(known) = &new {
                prop_assert_eq!(&known.held, &asked.body, "byte for byte");
            }
            prop_assert_eq!(again, new, "{:?}", asked);
        }
    }
}
