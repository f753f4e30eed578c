//! A second opinion on frames: what the verdict must be, and what must become of each
//! connection. It keeps every byte of a hello under way and scans the whole again with each
//! segment, where the program keeps a scan and a few bytes. The scanner and the judge are
//! the product's own, in userspace; the way to them is not.

use super::case::{Answer, Common, Heartbeat, Wish};
use super::dissect::{Checksum, FIN, RST, SYN, Segment, dissect};
use super::edge::policy;
use edge_common::client_hello::{ClientHello, Scanned};
use edge_common::flow::FlowKey;
use edge_common::policy::{KeyPolicy, Keys, Reason, Verdict, Window, judge};
use edge_common::token::KeyId;
use std::collections::{BTreeMap, HashMap};

/// The most segments of a hello.
const SEGMENTS: u32 = 12;
/// The most bytes of an unfinished hello.
const HELLO_BYTES: usize = (16 << 10) + 512;
/// Further on than this from its hello a connection is another one.
const SAME_CONNECTION: u32 = 1 << 20;
/// What is read of a packet at a time, when it does not lie before the program in one piece.
const CHUNK_BYTES: usize = 2048;

/// The data's keys and time, as userspace would hold them, and the connections seen.
pub(crate) struct Model {
    keys: HashMap<KeyId, KeyPolicy>,
    ports: Vec<u16>,
    now_s: u64,
    flows: HashMap<FlowKey, Entry>,
}

/// A connection.
#[derive(Clone, Debug)]
struct Entry {
    state: State,
    first: u32,
    /// Of a refused one: what the client had acknowledged, what the server expects, and the
    /// end of what was refused.
    acknowledged: u32,
    next: u32,
    end: u32,
}

#[derive(Clone, Debug)]
enum State {
    /// The hello's bytes so far, and in how many segments.
    Begun(Vec<u8>, u32),
    Judged,
    Rejected,
    Closed,
}

/// What must come of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) reason: Reason,
    pub(crate) key_id: KeyId,
    pub(crate) fate: Fate,
    /// The hello had come in several segments.
    pub(crate) resumed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    /// Turned into an answer to the client with these sequence and acknowledgement numbers.
    Answer(u32, u32),
    /// Turned into a reset for the server with these.
    ResetServer(u32, u32),
}

impl Expected {
    fn pass(reason: Reason) -> Self {
        Self {
            reason,
            key_id: KeyId(0),
            fate: Fate::Pass,
            resumed: false,
        }
    }

    /// Every counter that must move, while all events are sent.
    pub(crate) fn counters(&self, wish: &Wish) -> BTreeMap<&'static str, u64> {
        let mut counters = BTreeMap::from([("packets", 1), (self.reason.name(), 1)]);
        let verdict = self.reason.verdict();
        if !matches!(verdict, Verdict::Pass | Verdict::Unconnected) {
            counters.extend([("hellos", 1), ("events_sent", 1)]);
            if self.resumed {
                counters.insert("hellos_resumed", 1);
            }
        }
        if verdict == Verdict::Reject || self.reason == Reason::RejectedAgain {
            let answered = match (wish.answer, &self.fate) {
                (Answer::Drop, _) => "answered_drop",
                (_, Fate::ResetServer(..)) => "answered_up",
                (Answer::Alert, _) => "answered_alert",
                (Answer::Rst, _) => "answered_rst",
            };
            counters.insert(answered, 1);
        }
        counters
    }
}

struct Known<'a>(&'a HashMap<KeyId, KeyPolicy>, bool);

impl Keys for Known<'_> {
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy> {
        self.0.get(&id)
    }

    fn complete(&self) -> bool {
        self.1
    }
}

impl Model {
    pub(crate) fn new(common: &Common) -> Self {
        Self {
            keys: common.keys.iter().map(policy).collect(),
            ports: common.ports.clone(),
            now_s: common.now_s,
            flows: HashMap::new(),
        }
    }

    /// The connections that are known.
    pub(crate) fn flows(&self) -> Vec<FlowKey> {
        self.flows.keys().copied().collect()
    }

    /// Knows no connection any more.
    pub(crate) fn forget(&mut self) {
        self.flows.clear();
    }

    /// The segment in a frame.
    pub(crate) fn dissect<'a>(&self, frame: &'a [u8]) -> Result<Segment<'a>, Reason> {
        dissect(frame, &self.ports)
    }

    /// What userspace makes of the first bytes of a connection.
    pub(crate) fn judge(&self, wish: &Wish, payload: &[u8]) -> (Reason, ClientHello) {
        let mut hello = ClientHello::at_record();
        let scanned = hello.advance(payload);
        (self.judge_scanned(wish, &hello, scanned), hello)
    }

    fn judge_scanned(&self, wish: &Wish, hello: &ClientHello, scanned: Scanned) -> Reason {
        let window = Window {
            back_s: wish.window_back_s,
            ahead_s: wish.window_ahead_s,
        };
        let known = Known(&self.keys, wish.policy_complete);
        match judge(hello, scanned, &known, self.now_s, window) {
            Reason::NoToken | Reason::AcmeChallenge if wish.deny_legacy => Reason::LegacyDenied,
            reason => reason,
        }
    }

    /// What must come of the next frame.
    pub(crate) fn see(&mut self, wish: &Wish, frame: &[u8]) -> Expected {
        let segment = match self.dissect(frame) {
            Ok(segment) => segment,
            Err(reason) => return Expected::pass(reason),
        };
        if segment.flags & SYN != 0 {
            // Not by a late copy of the connection's own SYN.
            let is_own = |entry: &Entry| segment.sequence.wrapping_add(1) == entry.first;
            if !self.flows.get(&segment.flow).is_some_and(is_own) {
                self.flows.remove(&segment.flow);
            }
            return Expected::pass(if segment.payload_bytes == 0 {
                Reason::NoPayload
            } else {
                Reason::SynPayload
            });
        }
        let entry = self.flows.get(&segment.flow);
        let entry = entry
            .filter(|entry| segment.sequence.wrapping_sub(entry.first) < SAME_CONNECTION)
            .cloned();
        if segment.payload_bytes == 0 {
            return self.bare(&segment, entry);
        }
        let Some(entry) = entry else {
            return self.first(wish, &segment);
        };
        match &entry.state {
            State::Begun(bytes, segments) => {
                self.goes_on(wish, &segment, &entry, bytes.clone(), *segments)
            }
            State::Judged => {
                let offset = segment.sequence.wrapping_sub(entry.first);
                Expected::pass(if offset < entry.end.wrapping_sub(entry.first) {
                    Reason::Retransmitted
                } else if may_begin(&segment) && segment.payload.get(5) == Some(&1) {
                    Reason::HelloAgain
                } else {
                    Reason::NotHello
                })
            }
            State::Rejected | State::Closed => Expected {
                fate: match wish.answer {
                    Answer::Drop => Fate::Drop,
                    _ => Fate::Answer(entry.acknowledged, later(segment.end(), entry.end)),
                },
                ..Expected::pass(Reason::RejectedAgain)
            },
        }
    }

    /// A segment without payload matters to a refused connection alone.
    fn bare(&mut self, segment: &Segment<'_>, entry: Option<Entry>) -> Expected {
        if let Some(mut entry) = entry
            && matches!(entry.state, State::Rejected)
            && (segment.flags & (FIN | RST) != 0
                || segment.acknowledged == entry.acknowledged.wrapping_add(8))
        {
            let fate = Fate::ResetServer(entry.next, entry.acknowledged);
            entry.state = State::Closed;
            self.flows.insert(segment.flow, entry);
            return Expected {
                fate,
                ..Expected::pass(Reason::RejectClosed)
            };
        }
        Expected::pass(Reason::NoPayload)
    }

    /// Payload of a connection that is not known.
    fn first(&mut self, wish: &Wish, segment: &Segment<'_>) -> Expected {
        if !may_begin(segment) {
            return Expected::pass(Reason::NotHello);
        }
        let missing = segment.payload.len() < segment.payload_bytes;
        let first_step = ClientHello::at_record().step(segment.payload);
        let bytes = match first_step {
            Scanned::Incomplete | Scanned::Paused if missing => whole_chunks(segment.payload),
            Scanned::NotTls => segment.payload,
            // Whatever it is, the rest may say otherwise to the stack.
            _ if missing => {
                return self.verdict(wish, segment, segment.sequence, Err(Reason::NotLinear), 1);
            }
            _ => segment.payload,
        };
        let mut hello = ClientHello::at_record();
        let scanned = hello.advance(bytes);
        if missing && scanned == Scanned::Incomplete {
            return self.verdict(wish, segment, segment.sequence, Err(Reason::NotLinear), 1);
        }
        self.scanned(wish, segment, segment.sequence, (scanned, hello), bytes, 1)
    }

    /// Payload of a connection whose hello is under way.
    fn goes_on(
        &mut self,
        wish: &Wish,
        segment: &Segment<'_>,
        entry: &Entry,
        mut bytes: Vec<u8>,
        segments: u32,
    ) -> Expected {
        let next = entry.first.wrapping_add(bytes.len() as u32);
        let ahead = segment.sequence.wrapping_sub(next) as i32;
        if ahead > 0 {
            return self.verdict(
                wish,
                segment,
                entry.first,
                Err(Reason::OutOfOrder),
                segments + 1,
            );
        }
        let seen = ahead.unsigned_abs() as usize;
        if seen >= segment.payload_bytes {
            return Expected::pass(Reason::Retransmitted);
        }
        let mut new = segment.payload.get(seen..).unwrap_or_default();
        let missing = segment.payload.len() < segment.payload_bytes;
        if missing {
            new = whole_chunks(new);
        }
        bytes.extend_from_slice(new);
        let mut hello = ClientHello::at_record();
        let scanned = hello.advance(&bytes[..]);
        if missing && scanned == Scanned::Incomplete {
            return self.verdict(
                wish,
                segment,
                entry.first,
                Err(Reason::NotLinear),
                segments + 1,
            );
        }
        self.scanned(
            wish,
            segment,
            entry.first,
            (scanned, hello),
            &bytes,
            segments + 1,
        )
    }

    fn scanned(
        &mut self,
        wish: &Wish,
        segment: &Segment<'_>,
        first: u32,
        (scanned, hello): (Scanned, ClientHello),
        bytes: &[u8],
        segments: u32,
    ) -> Expected {
        match scanned {
            Scanned::NotTls => {
                // What had begun like a hello is none.
                if segments > 1 {
                    self.flows.remove(&segment.flow);
                }
                Expected::pass(Reason::NotHello)
            }
            Scanned::Incomplete if segments >= SEGMENTS || bytes.len() > HELLO_BYTES => {
                self.verdict(wish, segment, first, Err(Reason::HelloOversize), segments)
            }
            Scanned::Incomplete if segment.checksum == Checksum::Wrong => {
                Expected::pass(Reason::ChecksumWrong)
            }
            Scanned::Incomplete => {
                let entry = Entry {
                    state: State::Begun(bytes.to_vec(), segments),
                    first,
                    acknowledged: 0,
                    next: 0,
                    end: 0,
                };
                self.flows.insert(segment.flow, entry);
                Expected::pass(if segments == 1 {
                    Reason::HelloBegun
                } else {
                    Reason::HelloContinued
                })
            }
            _ => self.verdict(wish, segment, first, Ok((scanned, hello)), segments),
        }
    }

    /// The hello is judged, or given up for a reason of the program's own.
    fn verdict(
        &mut self,
        wish: &Wish,
        segment: &Segment<'_>,
        first: u32,
        scanned: Result<(Scanned, ClientHello), Reason>,
        segments: u32,
    ) -> Expected {
        let clock = matches!(wish.heartbeat, Heartbeat::Fresh | Heartbeat::Ahead);
        let mut key_id = KeyId(0);
        let reason = match scanned {
            Err(reason) => reason,
            Ok((scanned, hello)) => {
                let whole = matches!(scanned, Scanned::Found | Scanned::Absent);
                key_id = match hello.token() {
                    Some(token) if scanned == Scanned::Found => token.key_id,
                    _ => KeyId(0),
                };
                if whole && !clock {
                    Reason::HeartbeatStale
                } else {
                    self.judge_scanned(wish, &hello, scanned)
                }
            }
        };
        let reason = match segment.checksum {
            _ if reason.verdict() != Verdict::Reject => reason,
            Checksum::Right => reason,
            // The stack throws it away, and nothing is remembered.
            Checksum::Wrong => return Expected::pass(Reason::ChecksumWrong),
            Checksum::Cut => Reason::NotLinear,
            Checksum::TooLong => Reason::HelloOversize,
        };
        let next = match self.flows.get(&segment.flow).map(|entry| &entry.state) {
            // What of this segment the server may have had before is not there yet.
            Some(State::Begun(bytes, _)) if segments > 1 => first.wrapping_add(bytes.len() as u32),
            _ => first,
        };
        let (state, fate) = if reason.verdict() != Verdict::Reject {
            (State::Judged, Fate::Pass)
        } else if wish.answer == Answer::Drop || wish.answers_per_second == 0 {
            (State::Closed, Fate::ResetServer(next, segment.acknowledged))
        } else {
            let fate = Fate::Answer(segment.acknowledged, segment.end());
            (State::Rejected, fate)
        };
        let entry = Entry {
            state,
            first,
            acknowledged: segment.acknowledged,
            next,
            end: segment.end(),
        };
        self.flows.insert(segment.flow, entry);
        Expected {
            reason,
            key_id,
            fate,
            resumed: segments > 1,
        }
    }
}

/// Whether the payload may begin a hello, by its first two bytes as far as they are there.
fn may_begin(segment: &Segment<'_>) -> bool {
    match (segment.payload, segment.payload_bytes) {
        ([22, 3, ..], _) | ([22], 1) => true,
        ([_, _, ..], _) | ([_], 1) => false,
        // Not in sight.
        _ => true,
    }
}

/// What is read of a part that ends before its time.
fn whole_chunks(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() / CHUNK_BYTES * CHUNK_BYTES]
}

/// The later of two sequence numbers.
fn later(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b) as i32 > 0 { a } else { b }
}
