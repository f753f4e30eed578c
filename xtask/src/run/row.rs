//! One row of the demo: what a client does, and what is expected of the edge for it.
//!
//! Whether the kernel or userspace has to decide follows from the row and from whether the
//! kernel half is there; everything else a client sees must not depend on that.

use edge_common::policy::{Reason, Verdict};

/// Which TLS library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// `edge-demo client`: rustls and hyper.
    Rustls,
    /// `openssl s_client`.
    OpenSsl,
    /// Python's ssl.
    Python,
    /// curl; it offers the ALPN names of its own choice, so no token.
    Curl,
    /// curl without TLS, to `edge connect` beside it.
    Connect,
}

impl Client {
    /// The name in the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rustls => "rustls",
            Self::OpenSsl => "openssl s_client",
            Self::Python => "Python ssl",
            Self::Curl => "curl",
            Self::Connect => "curl, connect",
        }
    }
}

/// What the client puts into its ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// None.
    None,
    /// Fresh, by the row's key.
    Valid,
    /// Well made by a key of another store.
    UnknownKey,
    /// One bit of the tag is flipped.
    FlippedTag,
    /// Issued too long ago.
    Expired,
    /// Issued too far ahead.
    FromFuture,
    /// `ezl1-` and something that is no token.
    Malformed,
    /// Two good tokens.
    Two,
    /// A good one that another connection has used just before.
    Used,
}

impl Token {
    /// What the table says of it.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::None => "no token",
            Self::Valid => "valid token",
            Self::UnknownKey => "token of an unknown key",
            Self::FlippedTag => "token with a flipped tag",
            Self::Expired => "expired token",
            Self::FromFuture => "token from the future",
            Self::Malformed => "malformed token",
            Self::Two => "two tokens",
            Self::Used => "token used before",
        }
    }

    /// What must be decided about a hello that carries it.
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::None => Reason::NoToken,
            Self::Valid => Reason::Accepted,
            Self::UnknownKey => Reason::KeyUnknown,
            Self::FlippedTag => Reason::TagWrong,
            Self::Expired => Reason::TokenExpired,
            Self::FromFuture => Reason::TokenFromFuture,
            Self::Malformed => Reason::TokenMalformed,
            Self::Two => Reason::TokenDuplicate,
            Self::Used => Reason::Replayed,
        }
    }
}

/// The key in the request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// None.
    None,
    /// The token's key.
    Own,
    /// Another key of the same store.
    Other,
}

/// The request's `anthropic-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// One that the edge accepts.
    Good,
    /// One that it does not.
    Wrong,
    /// None.
    Missing,
}

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// One request with a streamed answer.
    Stream,
    /// One request with a JSON answer.
    Ask,
    /// Two requests on one connection.
    AskTwice,
    /// Leaves before the answer's first byte.
    LeaveBeforeFirstByte,
    /// Leaves amid the events.
    LeaveMidStream,
    /// Cancels amid the events, and stays connected.
    CancelStream,
    /// Its key is revoked amid the events.
    BeRevoked,
    /// Comes back with the key that was revoked.
    ComeBackRevoked,
    /// Holds a conversation.
    Turn(Turn),
    /// Speaks no TLS.
    NotTls,
}

/// Which part of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its first request.
    First,
    /// The one after the answer.
    Next,
    /// The first one of another conversation with the same system prompt.
    Other,
    /// The same bytes as `Next`, with another key.
    OfAnotherKey,
}

impl Turn {
    /// What the table says of it.
    const fn describe(self) -> &'static str {
        match self {
            Self::First => "first turn",
            Self::Next => "next turn",
            Self::Other => "other question, same system",
            Self::OfAnotherKey => "same next turn, another key",
        }
    }

    /// What the edge must know of its beginning (`edge_contexts`).
    pub(super) const fn known(self) -> &'static str {
        match self {
            Self::First | Self::OfAnotherKey => "miss",
            Self::Next => "hit",
            Self::Other => "beginning",
        }
    }
}

/// What the client must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// Its library names the alert `access_denied`.
    AccessDenied,
    /// A whole streamed message.
    Stream,
    /// A JSON message.
    Message,
    /// An API-shaped error: status, type, and a part of the message.
    Error(u16, &'static str, &'static str),
    /// The same, after which the connection is dead.
    ErrorThenDead(u16, &'static str, &'static str),
    /// Plain words: an HTTP error of this status whose text has this part.
    PlainError(u16, &'static str),
    /// Nothing more: it has left, and the model noticed.
    Left,
    /// The stream ends with an `error` event of this type.
    ErrorEvent(&'static str),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Which library.
    pub(super) client: Client,
    /// Offers `h2` as well as `http/1.1`.
    pub(super) h2: bool,
    /// A post-quantum hello, of two segments.
    pub(super) post_quantum: bool,
    /// Over IPv6.
    pub(super) v6: bool,
    /// In the hello.
    pub(super) token: Token,
    /// In the request.
    pub(super) header: Header,
    /// In the request.
    pub(super) version: Version,
    /// What it does.
    pub(super) act: Act,
    /// What it must see.
    pub(super) sees: Sees,
}

/// Who decides about a hello for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decider {
    /// The kernel: of the hello at most the first of two segments reaches the daemon.
    Kernel,
    /// Userspace, whatever the kernel thought.
    Userspace,
}

impl Decider {
    /// The name in the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Userspace => "userspace",
        }
    }
}

impl Row {
    /// What must be decided about its hello; `None` when it sends none.
    pub(super) const fn reason(&self) -> Option<Reason> {
        match self.act {
            Act::NotTls => None,
            Act::ComeBackRevoked => Some(Reason::KeyRevoked),
            _ => Some(self.token.reason()),
        }
    }

    /// Who must decide.
    pub(super) fn decider(&self, kernel_half: bool) -> Decider {
        match self.reason() {
            Some(reason) if kernel_half && reason.verdict() == Verdict::Reject => Decider::Kernel,
            _ => Decider::Userspace,
        }
    }

    /// What the client brings, in words.
    pub(super) fn offer(&self) -> String {
        if self.act == Act::NotTls {
            return "plain HTTP, no TLS".to_owned();
        }
        let mut words = match (self.client, self.h2) {
            (Client::Connect, true) => vec!["h2, no key; sidecar's token"],
            (Client::Connect, false) => vec!["http/1.1, no key; sidecar's token"],
            _ => vec![self.token.describe()],
        };
        match self.header {
            Header::None if self.token.reason().verdict() != Verdict::Reject => {
                words.push("no key in the header");
            }
            Header::Other => words.push("another key in the header"),
            Header::Own if self.token == Token::None => words.push("good key in the header"),
            _ => {}
        }
        match self.version {
            Version::Good => {}
            Version::Wrong => words.push("wrong anthropic-version"),
            Version::Missing => words.push("no anthropic-version"),
        }
        match self.act {
            Act::Stream if self.sees == Sees::Stream => words.push("stream"),
            Act::LeaveBeforeFirstByte => words.push("leaves before the first byte"),
            Act::LeaveMidStream => words.push("leaves mid-stream"),
            Act::CancelStream => words.push("cancels mid-stream"),
            Act::BeRevoked => words.push("key revoked mid-stream"),
            Act::ComeBackRevoked => words.push("of the revoked key"),
            Act::Turn(turn) => words.push(turn.describe()),
            _ => {}
        }
        words.join(", ")
    }

    /// How it connects, in words: `h2 IPv6 post-quantum`.
    pub(super) fn way(&self) -> String {
        let mut words = vec![if self.v6 { "IPv6" } else { "IPv4" }];
        if self.act != Act::NotTls {
            // What the sidecar speaks to the edge is always the same.
            let h2 = self.h2 || self.client == Client::Connect;
            words.push(if h2 { "h2" } else { "http/1.1" });
            words.push(if self.post_quantum {
                "X25519MLKEM768"
            } else {
                "X25519"
            });
        }
        words.join(" ")
    }
}
