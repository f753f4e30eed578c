//! How the parts of a text begin, remembered.
//!
//! The events of a stream that carry text are alike up to the text itself: hundreds of bytes
//! of JSON around a few letters. Where one was read, the reader's state before its text is
//! kept with the bytes that led there; an event that begins with the same bytes goes on from
//! that state. The state depends on those bytes alone, so nothing is guessed.

use super::event::{Event, Hear, Reading};
use crate::prompt::json::Reader;

/// Longest beginning that is remembered.
const MOST_BYTES: usize = 512;
/// So often another one is remembered in one stream: where they alternate it does not help.
const MOST_TIMES: u8 = 16;

#[derive(Debug, Default)]
pub(super) struct Memo {
    known: Option<Box<Known>>,
    times: u8,
}

#[derive(Debug)]
struct Known {
    bytes: Vec<u8>,
    reader: Reader,
    event: Event,
}

impl Memo {
    /// If `data` begins as is known: reader and facts after that beginning, and its length.
    #[inline]
    pub(super) fn recall(&self, data: &[u8]) -> Option<(Reader, Event, usize)> {
        let known = self.known.as_ref()?;
        data.starts_with(&known.bytes)
            .then(|| (known.reader.clone(), known.event, known.bytes.len()))
    }

    /// Remembers how `data`, the beginning of an event with a text, begins.
    pub(super) fn learn(&mut self, data: &[u8]) {
        if self.times == MOST_TIMES {
            return;
        }
        self.times += 1;
        let (mut reader, mut event) = (Reader::new(), Event::default());
        for (at, byte) in data.iter().enumerate().take(MOST_BYTES) {
            let mut reading = Reading {
                event: &mut event,
                hear: &mut Nobody,
            };
            let read = reader.push(std::slice::from_ref(byte), &mut reading);
            if read.is_err() || event.begins_block {
                return;
            }
            if event.is_in_text() {
                self.known = Some(Box::new(Known {
                    bytes: data[..=at].to_vec(),
                    reader,
                    event,
                }));
                return;
            }
        }
    }
}

struct Nobody;

impl Hear for Nobody {}
