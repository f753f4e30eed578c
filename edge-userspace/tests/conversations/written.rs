//! However a request is written, its prefixes have the same names.

use crate::edge::{Edge, OWNER, user};
use edge_userspace::context::Chain;
use edge_userspace::prompt::Shape;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Writes JSON with keys in another order, escapes, blanks and numbers spelled another way.
struct Writer {
    state: u64,
    text: String,
}

impl Writer {
    fn draw(&mut self, below: u64) -> u64 {
        // The generator of Numerical Recipes.
        self.state = (self.state)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn blank(&mut self) {
        let blanks = ["", "", "", " ", "\n\t"];
        let blank = blanks[self.draw(5) as usize];
        self.text += blank;
    }

    fn string(&mut self, text: &str) {
        use std::fmt::Write as _;
        self.text.push('"');
        for character in text.chars() {
            if self.draw(8) == 0 || character < ' ' {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(self.text, "\\u{unit:04x}").unwrap();
                }
            } else if "\"\\/".contains(character) {
                self.text.push('\\');
                self.text.push(character);
            } else {
                self.text.push(character);
            }
        }
        self.text.push('"');
    }

    fn value(&mut self, value: &Value) {
        self.blank();
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                for at in (1..fields.len()).rev() {
                    let other = self.draw(at as u64 + 1) as usize;
                    fields.swap(at, other);
                }
                self.list('{', '}', fields.len(), |writer, at| {
                    writer.blank();
                    writer.string(fields[at].0);
                    writer.blank();
                    writer.text.push(':');
                    writer.value(fields[at].1);
                });
            }
            Value::Array(elements) => self.list('[', ']', elements.len(), |writer, at| {
                writer.value(&elements[at]);
            }),
            Value::String(text) => self.string(text),
            Value::Number(number) => {
                let whole = number.as_i64().unwrap();
                let written = match self.draw(4) {
                    0 => format!("{whole}.0"),
                    1 => format!("{whole}e0"),
                    2 => format!("{whole}0E-1"),
                    _ => format!("{whole}"),
                };
                self.text += &written;
            }
            other => self.text += &other.to_string(),
        }
        self.blank();
    }

    fn list(
        &mut self,
        begin: char,
        end: char,
        length: usize,
        mut write: impl FnMut(&mut Self, usize),
    ) {
        self.text.push(begin);
        for at in 0..length {
            if at > 0 {
                self.text.push(',');
            }
            write(self, at);
        }
        self.text.push(end);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "content",
            "type",
            "text",
            "input",
            "cache_control",
            "role",
            "source",
            "name",
        ])
        .prop_map(String::from),
        "[a-zé\"]{1,30}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z é\n\"\\\\/😀]{0,60}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 120, 80, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..80).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// However a request is written, its prefixes have the same names; and a text that differs
    /// gives others, from there on.
    #[test]
    fn how_it_is_written_changes_no_name(
        messages in prop::collection::vec(any_json(), 1..5),
        system in any_json(),
        tools in any_json(),
        seed in any::<u64>(),
        chat in any::<bool>(),
    ) {
        let shape = if chat { Shape::Chat } else { Shape::Messages };
        let edge = Edge::new();
        let messages: Vec<_> = messages.into_iter().map(user).collect();
        let body = json!({
            "model": "claude-x", "system": system, "tools": tools, "messages": messages,
        });
        let chain = edge.chain(shape, OWNER, &body.to_string());
        let mut writer = Writer { state: seed, text: String::new() };
        writer.value(&body);
        let again = edge.chain(shape, OWNER, &writer.text);
        let names = |chain: &Option<Chain>| {
            let chain = chain.as_ref().unwrap();
            let all = std::iter::once(chain.head()).chain(chain.boundaries().iter().copied());
            all.map(|it| it.fingerprint).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&chain), names(&again), "{}", writer.text);
        prop_assert_eq!(names(&chain).len(), messages.len() + 1);
        // One message more or less in the middle.
        let at = (seed % messages.len() as u64) as usize;
        let mut other = body;
        other["messages"][at]["more"] = "x".into();
        let other = names(&edge.chain(shape, OWNER, &other.to_string()));
        for (nth, (one, other)) in names(&chain).into_iter().zip(other).enumerate() {
            prop_assert_eq!(one == other, nth <= at, "{} of {}", nth, at);
        }
    }

    /// Whatever stands where in a request: it is read to its end, in whatever pieces, and what
    /// is said to be known of it changes no count that can be made.
    #[test]
    fn whatever_a_request_is_it_is_read_alike(
        values in prop::collection::vec(any_json(), 7),
        in_messages in any::<bool>(),
        size in 1..50_usize,
        known in (0..6_u64, 0..3_u64),
        chat in any::<bool>(),
    ) {
        let shape = if chat { Shape::Chat } else { Shape::Messages };
        let edge = Edge::new();
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap();
        let messages = match in_messages {
            true => json!([next(), user(next()), { "role": "assistant", "tool_calls": next() }]),
            false => next(),
        };
        let body = json!({
            "messages": messages, "system": next(), "tools": next(), "functions": next(),
            "response_format": "x", "output_config": {}, "model": "gpt-4o",
        });
        let body = body.to_string();
        let whole = edge.counted(shape, &body, usize::MAX, None);
        prop_assert_eq!(&edge.counted(shape, &body, size, None), &whole);
        // Less than anything can have: it is not believed, or it is nothing.
        let (messages, tokens) = known;
        if messages > 3 {
            let again = edge.counted(shape, &body, size, Some((messages, tokens)));
            prop_assert_eq!(again.1, whole.1);
        } else {
            edge.counted(shape, &body, size, Some((messages, tokens)));
        }
    }
}
