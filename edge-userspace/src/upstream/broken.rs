//! How an exchange with an upstream breaks.

use std::io;

/// Why an upstream's connection is of no more use. Says nothing of addresses.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The system says so on reading.
    #[error("cannot read from it: {0}")]
    Read(#[source] io::Error),
    /// The system says so on writing.
    #[error("cannot write to it: {0}")]
    Write(#[source] io::Error),
    /// It ended before there was the head of a response.
    #[error("it ended before it answered")]
    NoAnswer,
    /// It ended before the response was whole.
    #[error("it ended before its response was whole")]
    Truncated,
    /// What came is no HTTP/1.1, or may be understood in two ways.
    #[error("what it sent is no HTTP/1.1: {0}")]
    NoHttp(&'static str),
    /// The request's body failed, or was of another length than it said.
    #[error("the request's body failed")]
    Body,
}

impl Broken {
    /// Of an error on reading.
    pub(super) fn read(error: io::Error) -> Self {
        match error.kind() {
            // TLS that ends without saying so.
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Read(error),
        }
    }
}
