//! SETTINGS (RFC 9113 section 6.5): what the client says of itself, and what it is told.

use crate::code::{Code, Violation};
use crate::frame::{MAX_31_BITS, MAX_PAYLOAD_BYTES};

pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const ENABLE_PUSH: u16 = 2;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const MAX_FRAME_SIZE: u16 = 5;
pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;

/// Each window before anyone says anything (section 6.9.2).
pub(crate) const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// What a client's SETTINGS change here. What else they may say concerns nobody who pushes
/// nothing and sends no frame of more than 16,384 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) table_bytes: Option<u32>,
    pub(crate) window_bytes: Option<u32>,
}

impl Changes {
    /// Reads a payload. Of several values for one thing the last stands.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Violation> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(Violation::size("SETTINGS that are cut"));
        };
        let mut changes = Self::default();
        for [a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => changes.table_bytes = Some(value),
                ENABLE_PUSH if value > 1 => {
                    return Err(Violation::protocol("ENABLE_PUSH that is no truth value"));
                }
                INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                    let code = Code::FLOW_CONTROL_ERROR;
                    return Err(Violation::new(code, "an initial window over 2^31-1"));
                }
                INITIAL_WINDOW_SIZE => changes.window_bytes = Some(value),
                MAX_FRAME_SIZE if !(MAX_PAYLOAD_BYTES as u32..1 << 24).contains(&value) => {
                    return Err(Violation::protocol("a MAX_FRAME_SIZE out of its bounds"));
                }
                _ => {}
            }
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(u16, u32)]) -> Result<Changes, Code> {
        let mut payload = Vec::new();
        crate::frame::settings(&mut payload, list);
        Changes::read(&payload[9..]).map_err(|violation| violation.code)
    }

    #[test]
    fn the_last_value_stands_and_what_is_not_known_is_passed_over() {
        let changes = Changes {
            table_bytes: Some(100),
            window_bytes: Some(MAX_31_BITS),
        };
        let list = [(4, 1), (1, 100), (0xee, 7), (2, 1), (4, MAX_31_BITS)];
        assert_eq!(read(&list), Ok(changes));
        assert_eq!(
            read(&[(2, 0), (3, 0), (5, 16_384), (6, 1)]),
            Ok(Changes::default())
        );
    }

    #[test]
    fn what_may_not_be_is_told_by_its_code() {
        assert_eq!(read(&[(2, 2)]), Err(Code::PROTOCOL_ERROR));
        assert_eq!(read(&[(4, 1 << 31)]), Err(Code::FLOW_CONTROL_ERROR));
        assert_eq!(read(&[(5, 16_383)]), Err(Code::PROTOCOL_ERROR));
        assert_eq!(read(&[(5, 1 << 24)]), Err(Code::PROTOCOL_ERROR));
        assert_eq!(
            Changes::read(&[0; 5]).unwrap_err().code,
            Code::FRAME_SIZE_ERROR
        );
    }
}
