//! Reads an event stream: where its events begin and end, and what each says.
//!
//! Not here: the lines ([`super::lines`]), and the JSON of one event ([`super::event`]).

use super::Side;
use super::event::{Event, Reading};
use super::lines::{Lines, Piece};
use super::memo::Memo;
use crate::prompt::json::Reader;
use crate::usage::Observed;

/// Of an event with more data than this the rest is not read.
pub(super) const MAX_EVENT_BYTES: usize = 1 << 20;
/// Longest name of an event that matters, and a little more.
const NAME_BYTES: usize = 24;
const DONE: &[u8] = b"[DONE]";

/// A stream of them.
#[derive(Debug, Default)]
pub(super) struct Events {
    lines: Lines,
    memo: Memo,
    /// The event's name; of a longer one than matters, its beginning.
    name: [u8; NAME_BYTES],
    name_length: usize,
    /// Of the event's data so far.
    data_bytes: usize,
    /// As much of `[DONE]` as the data is so far; none when it is something else.
    done: Option<usize>,
    /// `message_start` came: the stream is of the Messages API, and has a last event.
    has_start: bool,
    has_last: bool,
    is_recalled: bool,
}

/// An event of a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// A piece of a content block was in it: of the block with that index.
    pub delta_of: Option<u64>,
    /// Figures of [`Side::observed`] have changed.
    pub has_changed: bool,
}

impl Side {
    /// To the end of the next event, or of `bytes`.
    pub(super) fn read_event(
        &mut self,
        events: &mut Events,
        bytes: &[u8],
    ) -> (usize, Option<Ended>) {
        let (mut at, mut ended) = (0, None);
        while at < bytes.len() {
            let (taken, piece) = events.lines.next(&bytes[at..]);
            at += taken;
            match piece {
                Piece::Other => {}
                Piece::DataBegins(false) => {
                    (self.reader, self.event) = (Reader::new(), Event::default());
                    events.data_bytes = 0;
                    events.done = Some(0);
                    events.is_recalled = false;
                }
                Piece::DataBegins(true) => self.data(events, b"\n"),
                Piece::Data(data) => self.data(events, data),
                Piece::NameBegins => events.name_length = 0,
                Piece::Name(name) => events.push_name(name),
                Piece::Ends(counts) => {
                    ended = self.end_event(events, counts);
                    events.name_length = 0;
                    break;
                }
            }
        }
        if let Some(beginning) = &mut self.text.beginning {
            beginning.pass(at);
        }
        self.tell_beginning();
        (at, ended)
    }

    fn data(&mut self, events: &mut Events, data: &[u8]) {
        let is_first = events.data_bytes == 0;
        // Cut off at the same byte, whatever pieces it comes in.
        let room = MAX_EVENT_BYTES.saturating_sub(events.data_bytes);
        events.data_bytes = events.data_bytes.saturating_add(data.len());
        let data = &data[..data.len().min(room)];
        events.done = events
            .done
            .filter(|seen| DONE.get(*seen..seen + data.len()) == Some(data));
        if let Some(seen) = &mut events.done {
            *seen += data.len();
        }
        let mut rest = data;
        if is_first && let Some((reader, event, length)) = events.memo.recall(data) {
            (self.reader, self.event) = (reader, event);
            events.is_recalled = true;
            rest = &data[length..];
        }
        let mut reading = Reading {
            event: &mut self.event,
            hear: &mut self.text,
        };
        // An event that is no JSON has nothing to say, `[DONE]` for one.
        let read = self.reader.push(rest, &mut reading);
        if read.is_ok() && is_first && self.event.has_text && !events.is_recalled {
            events.memo.learn(data);
        }
    }

    /// The blank line; what that event was, if it was one.
    fn end_event(&mut self, events: &mut Events, counts: bool) -> Option<Ended> {
        if !counts {
            return None;
        }
        self.observed.events += 1;
        let is_read = events.data_bytes <= MAX_EVENT_BYTES;
        self.unread_events += u64::from(!is_read);
        let mut reading = Reading {
            event: &mut self.event,
            hear: &mut self.text,
        };
        // Of a text whose end is missing as well, all that came has gone to the client.
        self.reader.flush(&mut reading);
        let is_whole = is_read && self.reader.finish(&mut reading).is_ok();
        if !is_whole {
            self.note_unread(events);
        }
        let before = self.observed;
        if is_whole {
            self.take_usage();
            self.observed.is_error |= self.event.is_error;
        }
        let kind = if is_whole { self.event.kind() } else { b"" };
        let name = events.name;
        let name = name.get(..events.name_length).unwrap_or_default();
        let said = |what: &[u8]| kind == what || name == what;
        self.observed.is_error |= said(b"error");
        events.has_start |= said(b"message_start");
        let is_last = said(b"message_stop") || events.is_done();
        events.has_last |= is_last;
        self.observed.is_finished |= is_last;
        if self.observed.is_error {
            self.text.forget_beginning();
        }
        let has_text = is_whole && self.event.has_text;
        let delta_of =
            (has_text && kind == b"content_block_delta").then(|| self.event.index().unwrap_or(0));
        if self.text.output.new_bytes() >= self.count_every_bytes()
            || (self.counts_each && has_text)
        {
            self.count();
        }
        let changed = |of: fn(&Observed) -> Option<u64>| of(&before) != of(&self.observed);
        Some(Ended {
            delta_of,
            has_changed: changed(|observed| observed.input)
                || changed(|observed| observed.cache_read)
                || changed(|observed| observed.cache_written)
                || changed(|observed| observed.output)
                || before.relayed_output != self.observed.relayed_output
                || before.is_finished != self.observed.is_finished,
        })
    }
}

impl Events {
    /// Whether the last event of one that began as the Messages API has it has not come.
    pub(super) fn lacks_last(&self) -> bool {
        self.has_start && !self.has_last
    }

    /// Bytes of data of the event.
    pub(super) fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Whether the event is `[DONE]`.
    pub(super) fn is_done(&self) -> bool {
        self.done == Some(DONE.len())
    }

    fn push_name(&mut self, piece: &[u8]) {
        let from = self.name_length.min(NAME_BYTES);
        let taken = piece.len().min(NAME_BYTES - from);
        self.name[from..from + taken].copy_from_slice(&piece[..taken]);
        self.name_length += piece.len();
    }
}
