//! The first line of a store: its version, which file it is, and of a compacted one where it
//! comes from.
//!
//! Inode numbers are used again as soon as they are free, so each file has a name of its own
//! in its header.

use super::line::BadLine;
use crate::secret::{self, Secret};
use serde::{Deserialize, Serialize};

/// What the first line says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Header {
    #[serde(rename = "edge-key-store")]
    version: u64,
    /// Random, and so unlike that of any other file. Absent when made by hand.
    #[serde(default)]
    pub(super) file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) compacted: Option<Compacted>,
}

/// Where a compacted store comes from: who has read that file to its end knows this one up
/// to `ends_at`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Compacted {
    /// The other file's name in its header.
    pub(super) file: String,
    /// Its inode: a copy has the same header.
    pub(super) inode: u64,
    /// Its length.
    pub(super) bytes: u64,
    /// Keys written, one line each.
    pub(super) keys: u64,
    /// Where appended lines begin.
    pub(super) ends_at: u64,
}

impl Header {
    /// Room for the largest numbers; shorter lines are padded with blanks, so that a header
    /// can be written again when all of it is known.
    const BYTES: usize = 256;

    /// Of a new file.
    pub(super) fn new(compacted: Option<Compacted>) -> Result<Self, secret::Error> {
        // Not secret, but as random.
        let random = Secret::random(8)?;
        Ok(Self {
            version: 1,
            file: hex::encode(random.expose()),
            compacted,
        })
    }

    /// Reads the first line, newline left off.
    pub(super) fn parse(text: &[u8]) -> Result<Self, BadLine> {
        match serde_json::from_slice::<Self>(text) {
            Ok(header) if header.version == 1 => Ok(header),
            Ok(header) => Err(BadLine::Version(header.version)),
            Err(_) => Err(BadLine::NoHeader),
        }
    }

    /// The line, newline included. Of a compacted store its length is always the same.
    pub(super) fn line(&self) -> String {
        let line = serde_json::to_string(self).expect("texts and numbers are JSON");
        let width = match self.compacted {
            Some(_) => Self::BYTES - 1,
            None => 0,
        };
        format!("{line:width$}\n")
    }
}

/// Whether the text is a store's first line.
#[must_use]
pub fn is_header(text: &[u8]) -> bool {
    Header::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_and_other_files_are_refused() {
        let header = Header::parse(br#"{"edge-key-store":1}"#).unwrap();
        assert_eq!((&*header.file, header.compacted), ("", None));
        assert_eq!(
            Header::parse(br#"{"edge-key-store":2}"#),
            Err(BadLine::Version(2))
        );
        for wrong in ["", "{}", r#"{"put":"16c90ee8f37ea61f"}"#] {
            assert_eq!(Header::parse(wrong.as_bytes()), Err(BadLine::NoHeader));
        }
    }

    #[test]
    fn headers_read_back_and_those_of_compacted_stores_have_one_length() {
        let plain = Header::new(None).unwrap();
        assert_eq!(Header::parse(plain.line().trim_end().as_bytes()), Ok(plain));
        for number in [0, u64::MAX] {
            let header = Header::new(Some(Compacted {
                file: Header::new(None).unwrap().file,
                inode: number,
                bytes: number,
                keys: number,
                ends_at: number,
            }));
            let line = header.as_ref().unwrap().line();
            assert_eq!(line.len(), Header::BYTES);
            let read = Header::parse(line.trim_end_matches('\n').as_bytes());
            assert_eq!(read.unwrap(), header.unwrap());
        }
    }
}
