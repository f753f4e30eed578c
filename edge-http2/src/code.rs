//! Error codes (RFC 9113 section 7), and what ends a connection.

use std::fmt;

/// Why a stream or a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal, $what:literal;)*) => {
        impl Code {
            $(#[doc = $what] pub const $name: Self = Self($number);)*

            /// As the RFC names it; what it does not name is `INTERNAL_ERROR` to those who
            /// have to do with it (section 7).
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    _ => "an unknown code",
                }
            }
        }
    };
}

codes! {
    NO_ERROR = 0, "All is well.";
    PROTOCOL_ERROR = 1, "The peer broke the protocol in a way that has no code of its own.";
    INTERNAL_ERROR = 2, "A fault of one's own.";
    FLOW_CONTROL_ERROR = 3, "More was sent than a window allows.";
    SETTINGS_TIMEOUT = 4, "SETTINGS were not acknowledged.";
    STREAM_CLOSED = 5, "A frame for a stream that is half closed or closed.";
    FRAME_SIZE_ERROR = 6, "A frame of a length that it cannot have.";
    REFUSED_STREAM = 7, "Nothing was done for the stream; it may be tried again.";
    CANCEL = 8, "The stream is not wanted any more.";
    COMPRESSION_ERROR = 9, "A header block cannot be decoded.";
    CONNECT_ERROR = 10, "The connection of a CONNECT broke.";
    ENHANCE_YOUR_CALM = 11, "The peer makes too much work.";
    INADEQUATE_SECURITY = 12, "TLS is not good enough.";
    HTTP_1_1_REQUIRED = 13, "HTTP/1.1 is wanted.";
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The peer broke the protocol so that its connection ends (RFC 9113 section 5.4.1). It is told
/// by a GOAWAY, which lies in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({code})")]
pub struct Violation {
    /// What it is told.
    pub code: Code,
    /// What it did.
    pub what: &'static str,
}

impl Violation {
    pub(crate) const fn new(code: Code, what: &'static str) -> Self {
        Self { code, what }
    }

    pub(crate) const fn protocol(what: &'static str) -> Self {
        Self::new(Code::PROTOCOL_ERROR, what)
    }

    pub(crate) const fn size(what: &'static str) -> Self {
        Self::new(Code::FRAME_SIZE_ERROR, what)
    }
}
