//! What is seen of a server's answers.

use crate::client::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use edge_http2::hpack::{Decoder, Value};
use std::collections::BTreeMap;

/// What a step had for an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) streams: BTreeMap<u32, Answer>,
    /// The code that the connection ended with.
    pub(crate) goaway: Option<u32>,
    /// Acknowledgements of SETTINGS and of PINGs other than `round`s.
    pub(crate) acknowledged: usize,
}

/// Of one stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Option<String>,
    pub(crate) bytes: usize,
    pub(crate) is_end: bool,
    pub(crate) reset: Option<u32>,
}

/// Reads what a server sends.
#[derive(Debug)]
pub(crate) struct Reader {
    decoder: Decoder,
    bytes: Vec<u8>,
}

/// PINGs that ask whether a server has done all that it will.
pub(crate) const ROUND: [u8; 8] = *b"round???";

impl Default for Reader {
    fn default() -> Self {
        Self {
            decoder: Decoder::new(4096),
            bytes: Vec::new(),
        }
    }
}

impl Reader {
    /// Reads more; tells whether an answer to [`ROUND`] was among it, and whether anything else.
    pub(crate) fn read(&mut self, bytes: &[u8], seen: &mut Seen) -> (bool, bool) {
        self.bytes.extend_from_slice(bytes);
        let (mut is_round, mut is_more) = (false, false);
        while let Some((head, rest)) = self.bytes.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = rest.get(..length) else {
                break;
            };
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let payload = payload.to_vec();
            self.bytes.drain(..9 + length);
            if kind == PING && payload == ROUND {
                is_round = true;
                continue;
            }
            is_more = true;
            let is_end = flags & END_STREAM > 0;
            let answer = || Answer::default();
            match kind {
                HEADERS => {
                    assert!(flags & END_HEADERS > 0, "a short head in one frame");
                    let answer = seen.streams.entry(stream).or_insert_with(answer);
                    answer.is_end |= is_end;
                    self.decoder
                        .decode(&payload, &mut |field| {
                            if let Value::Pseudo(status) = &field.value {
                                answer.status = Some(String::from_utf8(status.to_vec()).unwrap());
                            }
                        })
                        .unwrap();
                }
                DATA => {
                    let answer = seen.streams.entry(stream).or_insert_with(answer);
                    answer.is_end |= is_end;
                    answer.bytes += payload.len();
                }
                RST_STREAM => {
                    let code = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    seen.streams.entry(stream).or_insert_with(answer).reset = Some(code);
                }
                GOAWAY => {
                    seen.goaway = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
                }
                SETTINGS | PING if flags & 1 > 0 => seen.acknowledged += 1,
                SETTINGS | PING | WINDOW_UPDATE => {}
                other => panic!("a server sends no frame of type {other}"),
            }
        }
        (is_round, is_more)
    }
}
