//! Entries of the decoder's tables: names and values that were checked once, and what they count for.

use super::{Field, Name, Value, common};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};

/// What an entry counts for beside its name and value, in bytes (RFC 7541, section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// A name, and its length as it was sent.
#[derive(Debug, Clone)]
pub(super) struct SizedName {
    pub(super) name: Name,
    pub(super) length: usize,
}

/// A name with a value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: SizedName,
    pub(super) value: Value,
    /// Name, value and [`OVERHEAD`], in bytes.
    pub(super) size: usize,
}

impl SizedName {
    /// Reads a name that was sent as a string.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let name = match bytes {
            [b':', ..] => pseudo(bytes),
            _ => match common::name(bytes) {
                Some(name) => Name::Plain(name),
                None => HeaderName::from_lowercase(bytes).map_or(Name::Bad, Name::Plain),
            },
        };
        Self {
            name,
            length: bytes.len(),
        }
    }

    /// The entry of this name and of the value `bytes`. `is_kept`: whether a table is to have it.
    pub(super) fn with(self, bytes: &[u8], is_kept: bool) -> Entry {
        let value = match &self.name {
            Name::Bad => Value::Bad,
            _ if !is_allowed(bytes) => Value::Bad,
            // What passes by the table differs each time.
            Name::Plain(_) => match is_kept.then(|| common::value(bytes)).flatten() {
                Some(value) => Value::Plain(value),
                None => HeaderValue::from_bytes(bytes).map_or(Value::Bad, Value::Plain),
            },
            _ => Value::Pseudo(Bytes::copy_from_slice(bytes)),
        };
        let size = self.length + bytes.len() + OVERHEAD;
        Entry {
            name: self,
            value,
            size,
        }
    }
}

impl Entry {
    /// The field that stands for this entry.
    #[inline]
    pub(super) fn to_field(&self) -> Field {
        Field {
            name: self.name.name.clone(),
            value: self.value.clone(),
            size: self.size,
            is_never_indexed: false,
        }
    }

    /// The field of an entry that no table keeps.
    #[inline]
    pub(super) fn into_field(self, is_never_indexed: bool) -> Field {
        let Self {
            name,
            mut value,
            size,
        } = self;
        if let Value::Plain(value) = &mut value {
            value.set_sensitive(is_never_indexed);
        }
        Field {
            name: name.name,
            value,
            size,
            is_never_indexed,
        }
    }
}

/// Whether `bytes` may be a field's value (RFC 9113, section 8.2.1; RFC 9110, section 5.5): no
/// control characters, no white space around it.
fn is_allowed(bytes: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // Without a way out of the middle, so that many bytes are looked at in one step.
    let are_visible = bytes.iter().fold(true, |so_far, &byte| {
        so_far & ((byte >= b' ' && byte != 0x7f) | (byte == b'\t'))
    });
    are_visible && !is_space(bytes.first()) && !is_space(bytes.last())
}

fn pseudo(bytes: &[u8]) -> Name {
    match bytes {
        b":method" => Name::Method,
        b":scheme" => Name::Scheme,
        b":authority" => Name::Authority,
        b":path" => Name::Path,
        b":protocol" => Name::Protocol,
        b":status" => Name::Status,
        _ => Name::Bad,
    }
}
