//! The fingerprint that a client may send: `anthropic-fingerprint`.
//!
//! SHA-256(system ‖ "|" ‖ hex(SHA-256(contents joined by "|")) ‖ "|" ‖ model), in hex. The
//! joined form is ambiguous (`a|b` is one content or two), so nothing is found by it; it only
//! tells a client that the edge read what it meant. docs/context.md says what each part is.
//! Not here: how a request's JSON is read.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// The header's name.
pub const HEADER: &str = "anthropic-fingerprint";

/// Makes it while a request is read: the system prompt's pieces before [`Wire::finish`], each
/// message begun and its pieces in order, the model's name.
pub struct Wire {
    /// What comes before the first bar.
    outer: Sha256,
    system_bytes: u64,
    history: Sha256,
    messages: u64,
    model: Vec<u8>,
}

/// Longest model's name that is told.
const MODEL_BYTES: usize = 256;

/// A request's fingerprint, and what it was computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed {
    /// The fingerprint.
    pub fingerprint: WireFingerprint,
    /// Bytes of the system prompt's text.
    pub system_bytes: u64,
    /// SHA-256 of the contents joined by `|`.
    pub history: WireFingerprint,
    /// How many contents there are.
    pub messages: u64,
    /// The model's name, as it is written.
    pub model: String,
}

/// 32 bytes that are written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WireFingerprint(pub [u8; 32]);

impl WireFingerprint {
    /// Of 64 hex digits, of either case.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for WireFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for WireFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Default for Wire {
    fn default() -> Self {
        Self::new()
    }
}

impl Wire {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            outer: Sha256::new(),
            system_bytes: 0,
            history: Sha256::new(),
            messages: 0,
            model: Vec::new(),
        }
    }

    /// A piece of the system prompt's text.
    pub fn system(&mut self, piece: &[u8]) {
        self.outer.update(piece);
        self.system_bytes += piece.len() as u64;
    }

    /// A message begins.
    pub fn begin_message(&mut self) {
        if self.messages > 0 {
            self.history.update(b"|");
        }
        self.messages += 1;
    }

    /// A piece of the message's text.
    pub fn content(&mut self, piece: &[u8]) {
        self.history.update(piece);
    }

    /// A piece of the model's name. One longer than 256 bytes counts as none.
    pub fn model(&mut self, piece: &[u8]) {
        let room = (MODEL_BYTES + 1).saturating_sub(self.model.len());
        self.model
            .extend_from_slice(&piece[..room.min(piece.len())]);
    }

    /// The fingerprint of all that.
    #[must_use]
    pub fn finish(mut self) -> Computed {
        // A longer name is no model's.
        if self.model.len() > MODEL_BYTES {
            self.model.clear();
        }
        let history = self.history.finalize();
        self.outer.update(b"|");
        self.outer.update(hex::encode(history));
        self.outer.update(b"|");
        self.outer.update(&self.model);
        Computed {
            fingerprint: WireFingerprint(self.outer.finalize().into()),
            system_bytes: self.system_bytes,
            history: WireFingerprint(history.into()),
            messages: self.messages,
            model: String::from_utf8_lossy(&self.model).into_owned(),
        }
    }
}

impl Computed {
    /// Why a fingerprint that a client sent is none of this request.
    #[must_use]
    pub fn mismatch(&self) -> String {
        let Self {
            fingerprint,
            system_bytes,
            history,
            messages,
            model,
        } = self;
        format!(
            "{HEADER} is not this request's: expected {fingerprint}, SHA-256 of system ({system_bytes} bytes) + \"|\" + {history} (hex of SHA-256 over the contents of {messages} messages joined by \"|\") + \"|\" + model ({model:?})"
        )
    }
}

/// The fingerprint of a request whose system prompt and messages are plain texts.
///
/// ```
/// let fingerprint = edge_client::fingerprint::of_texts("You help.", ["Hi", "Hello!"], "claude-x");
/// assert_eq!(
///     fingerprint.to_string(),
///     "5d548584def170658dac4700d735739d8ef7e6872ad5aff595bccb9ca4eb059e"
/// );
/// ```
#[must_use]
pub fn of_texts<'a>(
    system: &str,
    contents: impl IntoIterator<Item = &'a str>,
    model: &str,
) -> WireFingerprint {
    let mut wire = Wire::new();
    wire.system(system.as_bytes());
    for content in contents {
        wire.begin_message();
        wire.content(content.as_bytes());
    }
    wire.model(model.as_bytes());
    wire.finish().fingerprint
}

/// What `x-anthropic-context-id` says of a user, a project, or whatever else must not be mixed up
/// with others: SHA-256 of its name, in hex, so that the name itself does not travel.
#[must_use]
pub fn context_id(name: &str) -> String {
    hex::encode(Sha256::digest(name.as_bytes()))
}
