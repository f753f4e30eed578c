//! The fingerprint that a client may send: `anthropic-fingerprint`.
//!
//! SHA-256(system ‖ "|" ‖ hex(SHA-256(contents joined by "|")) ‖ "|" ‖ model), in hex. The
//! joined form is ambiguous (`a|b` is one content or two), so nothing is found by it; it only
//! tells a client that the edge read what it meant. docs/context.md says what each part is.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// The header's name.
pub const HEADER: &str = "anthropic-fingerprint";

/// Makes it while a request is read.
pub(super) struct Wire {
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

impl Wire {
    pub(super) fn new() -> Self {
        Self {
            outer: Sha256::new(),
            system_bytes: 0,
            history: Sha256::new(),
            messages: 0,
            model: Vec::new(),
        }
    }

    pub(super) fn system(&mut self, piece: &[u8]) {
        self.outer.update(piece);
        self.system_bytes += piece.len() as u64;
    }

    pub(super) fn begin_message(&mut self) {
        if self.messages > 0 {
            self.history.update(b"|");
        }
        self.messages += 1;
    }

    pub(super) fn content(&mut self, piece: &[u8]) {
        self.history.update(piece);
    }

    pub(super) fn model(&mut self, piece: &[u8]) {
        let room = (MODEL_BYTES + 1).saturating_sub(self.model.len());
        self.model
            .extend_from_slice(&piece[..room.min(piece.len())]);
    }

    pub(super) fn finish(mut self) -> Computed {
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
