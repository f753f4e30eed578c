//! An edge's memory of conversations, and their parts.

use edge_userspace::config::Models;
use edge_userspace::context::{Chain, ContextId, Owner, Secret, Tenant};
use edge_userspace::prompt::calibration::Calibration;
use edge_userspace::prompt::{Counters, Limits, Reading, Shape};
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// Everybody's requests of one process.
pub(crate) struct Edge {
    pub(crate) secret: Secret,
    models: Arc<Models>,
    counters: Rc<Counters>,
    calibration: Arc<Calibration>,
}

pub(crate) const OWNER: Owner = Owner {
    tenant: Tenant(1),
    context: ContextId::NONE,
};

impl Edge {
    pub(crate) fn new() -> Self {
        Self {
            secret: Secret::random().unwrap(),
            models: Arc::new(Models::default()),
            counters: Rc::default(),
            calibration: Arc::new(Calibration::new(8, None)),
        }
    }

    pub(crate) fn chain(&self, shape: Shape, owner: Owner, body: &str) -> Option<Chain> {
        self.read(shape, body).chain(&self.secret, owner)
    }

    /// What the names of a body's prefixes take in memory.
    pub(crate) fn names_bytes(&self, body: &str) -> usize {
        self.names_bytes_of(Shape::Messages, body)
    }

    pub(crate) fn names_bytes_of(&self, shape: Shape, body: &str) -> usize {
        self.read(shape, body).names_bytes()
    }

    /// The names of a body that comes in pieces of `size`, and its tokens, with what is said to
    /// be known of so many messages.
    pub(crate) fn counted(
        &self,
        shape: Shape,
        body: &str,
        size: usize,
        known: Option<(u64, u64)>,
    ) -> (Option<Chain>, u64) {
        let mut reading = self.read_in(shape, body, size);
        let chain = reading.chain(&self.secret, OWNER);
        if let Some((messages, tokens)) = known {
            reading.know(messages, tokens);
        }
        while !reading.go_on().unwrap() {}
        (chain, reading.counted().0.count.tokens)
    }

    fn read(&self, shape: Shape, body: &str) -> Box<Reading> {
        self.read_in(shape, body, usize::MAX)
    }

    fn read_in(&self, shape: Shape, body: &str, size: usize) -> Box<Reading> {
        let mut reading = Reading::new(
            shape,
            Arc::clone(&self.models),
            Rc::clone(&self.counters),
            Arc::clone(&self.calibration),
            Limits::default(),
        )
        .chained(&self.secret);
        for piece in body.as_bytes().chunks(size) {
            let mut is_read = reading.push(piece.to_vec().into()).unwrap();
            while !is_read {
                is_read = reading.go_on().unwrap();
            }
        }
        reading.finish().unwrap();
        reading
    }

    /// How many messages of what turn `before` stored are what turn `after` finds, and whether
    /// that is what it looks for first among those of at least one message.
    pub(crate) fn met(&self, shape: Shape, before: &Value, after: &Value) -> Option<(u32, bool)> {
        let chain = |body: &Value| self.chain(shape, OWNER, &body.to_string()).unwrap();
        let (before, after) = (chain(before), chain(after));
        let stored: Vec<_> = before.stores().collect();
        let mut probes = after.probe().filter(|probe| probe.messages > 0).zip(0..);
        probes.find_map(|(probe, at)| {
            let found = stored
                .iter()
                .find(|it| it.fingerprint == probe.fingerprint)?;
            assert_eq!(found.messages, probe.messages);
            // The whole request is looked for before: it may be one that is sent again.
            Some((probe.messages, at <= 1))
        })
    }
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(crate) fn marked(text: &str) -> Value {
    json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } })
}

pub(crate) fn user(content: impl Into<Value>) -> Value {
    json!({ "role": "user", "content": content.into() })
}

pub(crate) fn assistant(content: impl Into<Value>) -> Value {
    json!({ "role": "assistant", "content": content.into() })
}

pub(crate) fn request(messages: Vec<Value>) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages })
}

pub(crate) fn with(mut request: Value, key: &str, value: impl Into<Value>) -> Value {
    request[key] = value.into();
    request
}
