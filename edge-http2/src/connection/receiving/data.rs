//! DATA: what is in it, what is around it, and the windows that it uses up.

use super::{At, Data, Outcome, take};
use crate::code::{Code, Violation};
use crate::connection::{Connection, Event};
use crate::frame::{END_STREAM, Head};

impl Connection {
    /// DATA begins, and so many bytes of it are around the data: padding and its length, of
    /// which the latter has been read.
    pub(super) fn begin_data<'a>(&mut self, head: &Head, around: usize) -> Outcome<'a> {
        let Some(length) = head.length.checked_sub(around) else {
            return Err(Violation::protocol("DATA with more padding than payload"));
        };
        let padding = around.saturating_sub(1);
        self.windows.credit -= head.length as i64;
        if self.windows.credit < 0 {
            let code = Code::FLOW_CONTROL_ERROR;
            return Err(Violation::new(code, "more than the connection's window"));
        }
        let is_end = head.has(END_STREAM);
        if length == 0 && !is_end {
            self.idle_frame()?;
        }
        self.input.at = At::Skipped(length + padding);
        if length + padding == 0 {
            self.input.at = At::Head;
        }
        let Some(stream) = self.streams.find(head.stream) else {
            self.owe(head.length as u32);
            return self.data_on_closed(head);
        };
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        state.credit -= head.length as i64;
        let is_over = state.credit < 0;
        let left = match state.left {
            Some(left) => left.checked_sub(length as u64).map(Some),
            None => Some(None),
        };
        let is_wrong = left.is_none_or(|left| is_end && left.is_some_and(|left| left > 0));
        if state.is_received || is_over || is_wrong {
            let code = match state.is_received {
                true => Code::STREAM_CLOSED,
                false if is_over => Code::FLOW_CONTROL_ERROR,
                false => Code::PROTOCOL_ERROR,
            };
            self.owe(head.length as u32);
            return self.broke(stream, code);
        }
        state.left = left.flatten();
        state.expects_continue &= length == 0;
        if state.is_unwanted {
            self.owe(head.length as u32);
            if is_end {
                self.received(stream);
            }
            return Ok(None);
        }
        // Nobody reads what is around it.
        if around > 0 {
            self.owe_on(stream, around as u32);
        }
        if length == 0 && !is_end {
            return Ok(None);
        }
        self.input.at = At::Data(Data {
            stream,
            left: length,
            padding,
            is_end,
        });
        if length > 0 {
            return Ok(None);
        }
        Ok(self.data(
            Data {
                stream,
                left: 0,
                padding,
                is_end,
            },
            &mut &[][..],
        ))
    }

    /// What was on its way when its stream was reset is nothing to anyone, as long as it keeps
    /// to the window that the stream had.
    pub(super) fn data_on_closed<'a>(&mut self, head: &Head) -> Outcome<'a> {
        let id = head.stream;
        if id > self.last || id.is_multiple_of(2) {
            return Err(Violation::protocol("DATA on a stream that is idle"));
        }
        match self.streams.reset_credit(id) {
            // One that says that it is the end, and nothing else, uses no window up.
            Some(_) if head.length == 0 && head.has(END_STREAM) => self.idle_frame()?,
            Some(credit) => {
                *credit -= head.length as i64;
                if *credit < 0 {
                    let code = Code::FLOW_CONTROL_ERROR;
                    return Err(Violation::new(code, "more than a stream's window"));
                }
            }
            None => {
                self.fault()?;
                self.reset_id(id, Code::STREAM_CLOSED);
            }
        }
        Ok(None)
    }

    /// The next piece of DATA.
    pub(super) fn data<'a>(&mut self, data: Data, input: &mut &'a [u8]) -> Option<Event<'a>> {
        let piece = take(input, data.left);
        let left = data.left - piece.len();
        self.input.at = match (left, data.padding) {
            (0, 0) => At::Head,
            (0, padding) => At::Skipped(padding),
            _ => At::Data(Data { left, ..data }),
        };
        let stream = data.stream;
        let length = piece.len() as u32;
        let is_end = left == 0 && data.is_end;
        match self.streams.get_mut(stream) {
            Some(state) if !state.is_unwanted => state.unread += length,
            // It ended, or is not wanted, since the frame began.
            other => {
                let is_open = other.is_some();
                self.owe(length);
                if is_open && is_end {
                    self.received(stream);
                }
                return None;
            }
        }
        if is_end {
            self.received(stream);
        }
        Some(Event::Data {
            stream,
            data: piece,
            is_end,
        })
    }
}
