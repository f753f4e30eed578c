//! Reads header blocks.

use super::{Error, Field};

/// Reads the header blocks of one connection, in the order in which they came.
#[derive(Debug)]
pub struct Decoder {
    /// What SETTINGS_HEADER_TABLE_SIZE said to the peer.
    max_table_bytes: usize,
}

impl Decoder {
    /// With an empty table that may grow to `max_table_bytes`.
    pub fn new(max_table_bytes: usize) -> Self {
        Self { max_table_bytes }
    }

    /// Reads a whole header block (the fragments of HEADERS and CONTINUATION joined) and gives each
    /// field in turn to `sink`. One that wants no more has to take and drop the rest: the table must
    /// follow the peer's.
    ///
    /// # Errors
    ///
    /// Any is a COMPRESSION_ERROR of the connection; the decoder is of no use afterwards.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl FnMut(Field)) -> Result<(), Error> {
        let _ = (block, sink, self.max_table_bytes);
        Err(Error::Index)
    }
}
