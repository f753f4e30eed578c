//! The streams that are open, by their numbers, and those that were reset lately.

use std::collections::VecDeque;

/// So many streams that were reset are remembered: frames for them may have been on their way
/// (RFC 9113 section 5.4.2).
const REMEMBERED: usize = 256;
/// So many gaps in the identifiers that a client has used are remembered; most clients leave none.
const GAPS: usize = 64;
/// Places that are kept when no stream is open.
const KEPT: usize = 4;

/// A stream, as the caller names it. Good until its last event, or until the caller ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    pub(crate) place: u32,
    pub(crate) id: u32,
}

impl Stream {
    /// A number below that of the most streams that were open at a time: a place for what the
    /// caller knows of it, which another stream has later.
    #[must_use]
    pub fn place(self) -> usize {
        self.place as usize
    }

    /// Its identifier (RFC 9113 section 5.1.1).
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }
}

/// What is known of an open stream.
#[derive(Debug)]
pub(crate) struct State {
    id: u32,
    /// What the client has room for by its window, bytes; below zero after SETTINGS that lower
    /// it (section 6.9.2).
    pub(crate) room: i64,
    /// What the client may still send, bytes.
    pub(crate) credit: i64,
    /// Given to the caller, and not read by it: bytes.
    pub(crate) unread: u32,
    /// Read, and not given back to the client: bytes.
    pub(crate) owed: u32,
    /// The client holds its body back until it is asked for it, or answered (`expect:
    /// 100-continue`).
    pub(crate) expects_continue: bool,
    /// What its `content-length` says is still to come.
    pub(crate) left: Option<u64>,
    /// The request has come to its end.
    pub(crate) is_received: bool,
    /// The answer has.
    pub(crate) is_sent: bool,
    /// The caller wants no more of the request.
    pub(crate) is_unwanted: bool,
    /// The caller has more to send than there was room for.
    pub(crate) waits: bool,
    /// It is among those that wait their turn.
    pub(crate) is_queued: bool,
}

impl State {
    pub(crate) fn new(id: u32, room: i64, credit: i64) -> Self {
        Self {
            id,
            room,
            credit,
            unread: 0,
            owed: 0,
            expects_continue: false,
            left: None,
            is_received: false,
            is_sent: false,
            is_unwanted: false,
            waits: false,
            is_queued: false,
        }
    }
}

/// All streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    places: Vec<Option<State>>,
    free: Vec<u32>,
    /// In the order of their identifiers, which only rise.
    open: Vec<Stream>,
    /// With what the client may still have sent on each before it heard of that, bytes.
    reset: VecDeque<(u32, i64)>,
    /// Identifiers that a client has passed over: the first and the last of each gap.
    skipped: VecDeque<(u32, u32)>,
}

impl Streams {
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Opens one; its identifier is above all that were opened before.
    pub(crate) fn open(&mut self, state: State) -> Stream {
        let id = state.id;
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(state);
                place
            }
            None => {
                self.places.push(Some(state));
                // As many as are open at a time: 65,535 at the most.
                self.places.len() as u32 - 1
            }
        };
        let stream = Stream { place, id };
        self.open.push(stream);
        stream
    }

    /// The open stream of that identifier.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Stream> {
        let at = self.open.binary_search_by_key(&id, |stream| stream.id);
        at.ok().map(|at| self.open[at])
    }

    #[inline]
    pub(crate) fn get(&self, stream: Stream) -> Option<&State> {
        let state = self.places.get(stream.place())?.as_ref();
        state.filter(|state| state.id == stream.id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, stream: Stream) -> Option<&mut State> {
        let state = self.places.get_mut(stream.place())?.as_mut();
        state.filter(|state| state.id == stream.id)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Stream, &mut State)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(place, state)| {
            let state = state.as_mut()?;
            let (id, place) = (state.id, place as u32);
            Some((Stream { place, id }, state))
        })
    }

    /// Forgets one.
    pub(crate) fn close(&mut self, stream: Stream) -> Option<State> {
        let place = self.places.get_mut(stream.place())?;
        let state = place.take_if(|state| state.id == stream.id)?;
        if let Ok(at) = (self.open).binary_search_by_key(&stream.id, |open| open.id) {
            self.open.remove(at);
        }
        self.free.push(stream.place);
        if self.open.is_empty() && self.places.len() > KEPT {
            self.places.truncate(KEPT);
            self.places.shrink_to(KEPT);
            self.free = (0..KEPT as u32).collect();
            self.open.shrink_to(KEPT);
        }
        Some(state)
    }

    /// Notes that a stream was reset by us, on which the client might still send so much.
    pub(crate) fn note_reset(&mut self, id: u32, credit: i64) {
        if self.reset.len() == REMEMBERED {
            self.reset.pop_front();
        }
        self.reset.push_back((id, credit));
    }

    /// Notes that after stream `last` a client opens stream `next`, both odd, or 0 for none yet.
    pub(crate) fn note_skipped(&mut self, last: u32, next: u32) {
        let first = if last == 0 { 1 } else { last + 2 };
        if first < next {
            if self.skipped.len() == GAPS {
                self.skipped.pop_front();
            }
            self.skipped.push_back((first, next - 2));
        }
    }

    /// Whether a stream is known never to have been opened, though a higher one was. A client of
    /// many gaps is not told so of the older ones.
    pub(crate) fn was_skipped(&self, id: u32) -> bool {
        let mut gaps = self.skipped.iter().rev();
        gaps.any(|(first, last)| (*first..=*last).contains(&id))
    }

    /// What may still come on a stream that was reset not long ago.
    pub(crate) fn reset_credit(&mut self, id: u32) -> Option<&mut i64> {
        let mut resets = self.reset.iter_mut().rev();
        let reset = resets.find(|(reset, _)| *reset == id);
        reset.map(|(_, credit)| credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_by_their_numbers_and_places_are_used_again() {
        let mut streams = Streams::default();
        let open = |streams: &mut Streams, id| streams.open(State::new(id, 0, 0));
        let (one, three, nine) = (
            open(&mut streams, 1),
            open(&mut streams, 3),
            open(&mut streams, 9),
        );
        assert_eq!(streams.find(3), Some(three));
        assert_eq!(streams.find(5), None);
        assert!(streams.close(three).is_some());
        assert!(streams.close(three).is_none());
        assert!(streams.get(three).is_none());
        assert_eq!((streams.find(1), streams.find(9)), (Some(one), Some(nine)));
        let eleven = open(&mut streams, 11);
        assert_eq!(eleven.place(), three.place());
        assert!(streams.get_mut(three).is_none(), "another has its place");
        assert!(streams.get(eleven).is_some());
        assert_eq!(streams.count(), 3);
    }

    #[test]
    fn a_connection_that_rests_keeps_few_places() {
        let mut streams = Streams::default();
        for _ in 0..2 {
            let open = (0..100).map(|number| streams.open(State::new(number * 2 + 1, 0, 0)));
            let open: Vec<_> = open.collect();
            assert!(open.iter().all(|stream| stream.place() < 100));
            for stream in open {
                assert!(streams.close(stream).is_some());
            }
            assert_eq!((streams.places.len(), streams.free.len()), (KEPT, KEPT));
        }
    }

    #[test]
    fn numbers_that_were_passed_over_are_known_for_a_while() {
        let mut streams = Streams::default();
        for (last, next) in [(0, 1), (1, 3), (3, 9), (9, 11)] {
            streams.note_skipped(last, next);
        }
        let skipped = (1..=11).step_by(2).filter(|id| streams.was_skipped(*id));
        assert_eq!(skipped.collect::<Vec<_>>(), [5, 7]);
        let mut streams = Streams::default();
        for number in 0..=GAPS as u32 {
            streams.note_skipped((4 * number).saturating_sub(1), 4 * number + 3);
        }
        assert!(!streams.was_skipped(1));
        assert!(streams.was_skipped(5) && streams.was_skipped(4 * GAPS as u32 + 1));
        assert_eq!(streams.skipped.len(), GAPS);
    }

    #[test]
    fn resets_are_remembered_for_a_while() {
        let mut streams = Streams::default();
        for id in 0..=REMEMBERED as u32 {
            streams.note_reset(id, 7);
        }
        assert_eq!(streams.reset_credit(0), None);
        assert_eq!(streams.reset_credit(1), Some(&mut 7));
        assert!(streams.reset_credit(REMEMBERED as u32).is_some());
    }
}
