//! Events of the edge's own, which go between two of the upstream's.

use bytes::{Bytes, BytesMut};
use std::fmt::Write as _;
use std::time::Duration;

/// What of the edge's own a response may get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// An `edge_usage` event after each piece of content: the client asked for it.
    pub usage: bool,
    /// Something to hear when the upstream is silent for so long; none: nothing.
    pub ping_after: Option<Duration>,
    /// Which API's.
    pub dialect: Dialect,
}

/// What clients of a stream understand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Comments alone are safe: clients of Chat Completions take each event for a chunk.
    #[default]
    Comments,
    /// The Messages API's clients go by events' names, and know `ping`.
    Messages,
}

impl Dialect {
    /// What a client hears while nothing happens.
    pub(super) fn ping(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Comments => b": ping\n\n",
            Self::Messages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        })
    }
}

/// A piece of an upstream's stream with what is put into it.
pub(super) struct Insert {
    piece: Bytes,
    /// What has been put together; empty while nothing is put in.
    out: BytesMut,
    /// Of the piece, what is in it already.
    from: usize,
}

/// An event that could not be put in yet: whether the CR before it is half of a CRLF is not
/// known.
pub(super) type Owed = Option<BytesMut>;

impl Insert {
    pub(super) fn new(piece: Bytes, owed: &mut Owed) -> Self {
        let mut insert = Self {
            piece,
            out: BytesMut::new(),
            from: 0,
        };
        if let Some(event) = owed.take() {
            let at = usize::from(insert.piece.first() == Some(&b'\n'));
            insert.put(at, &event);
        }
        insert
    }

    /// As it came.
    pub(super) fn piece(&self) -> &[u8] {
        &self.piece
    }

    /// After so many bytes of the piece, where an event has ended, how many tokens there are.
    pub(super) fn usage(
        &mut self,
        at: usize,
        index: u64,
        tokens: u64,
        exact: bool,
        owed: &mut Owed,
    ) {
        let count = if exact { "exact" } else { "estimate" };
        let mut event = BytesMut::new();
        // Writing to memory does not fail.
        let _ = write!(
            event,
            "event: edge_usage\ndata: {{\"type\":\"edge_usage\",\"index\":{index},\"output_tokens\":{tokens},\"count\":\"{count}\"}}\n\n"
        );
        if at == self.piece.len() && self.piece.ends_with(b"\r") {
            *owed = Some(event);
        } else {
            self.put(at, &event);
        }
    }

    fn put(&mut self, at: usize, event: &[u8]) {
        self.out.extend_from_slice(&self.piece[self.from..at]);
        self.out.extend_from_slice(event);
        self.from = at;
    }

    /// The piece up to there, and all that was put into it.
    pub(super) fn finish(mut self, end: usize) -> Bytes {
        if self.out.is_empty() {
            self.piece.truncate(end);
            return self.piece;
        }
        self.out.extend_from_slice(&self.piece[self.from..end]);
        self.out.freeze()
    }
}
