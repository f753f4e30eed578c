//! HPACK: header compression for HTTP/2 (RFC 7541).
//!
//! A [`Decoder`] reads the header blocks that a connection receives and an [`Encoder`] writes those
//! that it sends; each holds one of the connection's two dynamic tables.

mod common;
mod decoder;
mod encoder;
mod entry;
mod huffman;
mod integer;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::Encoder;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

/// The name of a decoded field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// `:status`, which no request may have
    Status,
    /// A field's name.
    Plain(HeaderName),
    /// Not a token, with upper-case letters, empty, or a pseudo-header that is not known: a
    /// malformed request (RFC 9113, sections 8.2.1 and 8.3).
    Bad,
}

/// The value of a decoded field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of a [`Name::Plain`].
    Plain(HeaderValue),
    /// Of a pseudo-header: bytes that `http::uri` takes over without a copy
    /// (`PathAndQuery::from_maybe_shared`). They would be allowed in a header's value too.
    Pseudo(Bytes),
    /// It holds bytes that are not allowed, or begins or ends with white space: a malformed request
    /// (RFC 9113, section 8.2.1).
    Bad,
}

/// A decoded field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Name,
    /// Its value. With [`Name::Bad`] it is always [`Value::Bad`]. With `is_never_indexed` it is
    /// [marked as sensitive](HeaderValue::is_sensitive), so that it passes by the next table too.
    pub value: Value,
    /// What it counts for in SETTINGS_MAX_HEADER_LIST_SIZE, in bytes: name, value and 32
    /// (RFC 9113, section 6.5.2).
    pub size: usize,
    /// Whether its sender forbids every table on the way to hold it (RFC 7541, section 7.1.3).
    pub is_never_indexed: bool,
}

/// Why a header block cannot be decoded. The connection's table is then unknown: COMPRESSION_ERROR
/// (RFC 9113, section 4.3), or what the caller thinks of a [list](Error::List) that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block ends within a field.
    #[error("the header block ends within a field")]
    Truncated,
    /// An integer is larger than anything that it could mean here, or padded with empty bytes
    /// (section 5.1).
    #[error("an integer of the header block is too large")]
    Integer,
    /// A string is no Huffman code, holds EOS, or ends in padding that is too long or not of ones
    /// (section 5.2).
    #[error("a string of the header block is no Huffman code")]
    Huffman,
    /// There is no such entry in the tables (section 2.3.3).
    #[error("the header block names an entry that is not in the tables")]
    Index,
    /// A size update that is larger than what SETTINGS allow, or not at the block's beginning
    /// (sections 4.2 and 6.3).
    #[error("the header block changes the size of the table where or how it may not")]
    SizeUpdate,
    /// Its fields come to more than [`Decoder::with_max_list_bytes`] says.
    #[error("the header block's fields are too many or too large")]
    List,
}
