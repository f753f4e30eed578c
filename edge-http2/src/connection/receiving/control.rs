//! Frames that are about streams and the connection: resets, SETTINGS, pings, windows.

use super::Outcome;
use crate::code::{Code, Violation};
use crate::connection::{ARE_YOU_THERE, Connection, Event};
use crate::frame::{self, ACK, Head, MAX_31_BITS};
use crate::settings::Changes;
use std::mem;

impl Connection {
    pub(super) fn client_reset<'a>(&mut self, id: u32, code: Code) -> Outcome<'a> {
        let Some(stream) = self.streams.find(id) else {
            return self.on_closed(id).map(|()| None);
        };
        // What was answered already may well be taken back.
        if self.streams.get(stream).is_some_and(|state| !state.is_sent)
            && !self.resets.one(self.config.clock)
        {
            return Err(Violation::new(
                Code::ENHANCE_YOUR_CALM,
                "too many requests that are taken back",
            ));
        }
        self.close(stream);
        Ok(Some(Event::Reset { stream, code }))
    }

    /// A frame for a stream that is not open is passed over, if the stream ever was.
    pub(super) fn on_closed(&mut self, id: u32) -> Result<(), Violation> {
        if id > self.last || id.is_multiple_of(2) {
            return Err(Violation::protocol("a frame on a stream that is idle"));
        }
        self.idle_frame()
    }

    pub(super) fn settings(&mut self, head: &Head, payload: &[u8]) -> Result<(), Violation> {
        if head.has(ACK) {
            // There is one of ours.
            return self.idle_frame();
        }
        let is_first = !mem::replace(&mut self.has_settings, true);
        if !is_first {
            self.idle_frame()?;
        }
        let changes = Changes::read(payload)?;
        if let Some(bytes) = changes.table_bytes {
            self.encoder.set_max_table_bytes(bytes);
        }
        if let Some(bytes) = changes.window_bytes {
            let more = i64::from(bytes) - self.windows.stream_room;
            self.windows.stream_room = i64::from(bytes);
            self.windows.is_chosen = !is_first;
            for (_, state) in self.streams.iter_mut() {
                state.room += more;
                if state.room > i64::from(MAX_31_BITS) {
                    let code = Code::FLOW_CONTROL_ERROR;
                    return Err(Violation::new(code, "a window over 2^31-1"));
                }
            }
            self.windows.lower();
            self.rooms_changed();
        }
        frame::settings_ack(self.output.end());
        Ok(())
    }

    pub(super) fn pinged<'a>(&mut self, head: &Head, payload: &[u8]) -> Outcome<'a> {
        let Ok(opaque) = <[u8; 8]>::try_from(payload) else {
            return Ok(None);
        };
        self.idle_frame()?;
        if !head.has(ACK) {
            frame::ping(self.output.end(), ACK, opaque);
        } else if opaque == ARE_YOU_THERE {
            return Ok(Some(Event::Pong));
        }
        Ok(None)
    }

    pub(super) fn window_update<'a>(&mut self, id: u32, more: u32) -> Outcome<'a> {
        let most = i64::from(MAX_31_BITS);
        if id == 0 {
            if more == 0 {
                return Err(Violation::protocol("WINDOW_UPDATE of nothing"));
            }
            let windows = &mut self.windows;
            windows.room += i64::from(more);
            if windows.room > most {
                let code = Code::FLOW_CONTROL_ERROR;
                return Err(Violation::new(code, "a window over 2^31-1"));
            }
            if windows.room > windows.most_room {
                windows.most_room = windows.room;
                let before = windows.lowered;
                windows.lower();
                if windows.lowered != before {
                    self.rooms_changed();
                }
            }
            return Ok(None);
        }
        let Some(stream) = self.streams.find(id) else {
            return self.on_closed(id).map(|()| None);
        };
        let lowered = self.windows.lowered;
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        state.room += i64::from(more);
        if more == 0 {
            return self.broke(stream, Code::PROTOCOL_ERROR);
        }
        if state.room > most {
            return self.broke(stream, Code::FLOW_CONTROL_ERROR);
        }
        if state.waits && !state.is_queued && state.room > lowered {
            state.is_queued = true;
            self.queue.push_back(stream);
        }
        Ok(None)
    }
}
