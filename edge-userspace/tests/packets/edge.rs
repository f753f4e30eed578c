//! The real object in the real kernel, attached to nothing, at a time of the test's own.

use super::case::{Action, Answer, Common, Heartbeat, Key, Wish};
use super::frames::syn;
use aya::maps::{MapData, RingBuf};
use edge_common::flow::{Event, FlowKey, Rejected};
use edge_common::policy::{self, Clock, Counter, KeyPolicy, Reason, Settings, Verdict};
use edge_common::token::KeyId;
use edge_userspace::kernel::{ClockMap, Program, Sizes, clock_now, named, object};
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;

pub(crate) struct Edge {
    program: Program,
    clock: ClockMap,
    events: RingBuf<MapData>,
    rejects: RingBuf<MapData>,
    now_s: u64,
    wish: Option<Wish>,
    /// What the counters showed after the last run.
    counters: Vec<u64>,
}

/// What one run did.
pub(crate) struct Seen {
    pub(crate) action: u32,
    pub(crate) frame: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// Refused connections of which the daemon is told.
    pub(crate) rejects: Vec<FlowKey>,
    /// At most so much later than was wished the program ran, nanoseconds. It cannot run
    /// again for that, for its tables remember.
    pub(crate) held_up_ns: u64,
}

impl Seen {
    /// Whether the program ran within the second that was wished.
    pub(crate) fn in_time(&self) -> bool {
        self.held_up_ns < SECOND_NS * 2 / 5
    }
}

/// Counters by name, those that moved.
pub(crate) type Moved = BTreeMap<String, u64>;

impl Edge {
    /// Loads the object with the fixtures' keys and ports.
    pub(crate) fn load(common: &Common) -> Self {
        Self::load_with(common, &Sizes::SMALL)
    }

    /// The same with tables of these sizes.
    pub(crate) fn load_with(common: &Common, sizes: &Sizes) -> Self {
        let mut program = Program::load(object::OBJECT, sizes).unwrap();
        program.set_ports(&common.ports).unwrap();
        for key in &common.keys {
            let (id, policy) = policy(key);
            assert!(program.put_key(id, &policy).unwrap());
        }
        Self {
            clock: program.take_clock().unwrap(),
            events: program.take_events().unwrap(),
            rejects: program.take_rejects().unwrap(),
            counters: program.counters().unwrap(),
            program,
            now_s: common.now_s,
            wish: None,
        }
    }

    /// Runs the program once on a frame.
    pub(crate) fn run(&mut self, wish: &Wish, frame: &[u8]) -> Seen {
        if self.wish.as_ref() != Some(wish) {
            self.program
                .set_settings(&settings(wish, u32::MAX))
                .unwrap();
            self.wish = Some(wish.clone());
        }
        let before = clock_now().heartbeat_ns;
        self.clock.set(&self.time(wish, before)).unwrap();
        let run = self.program.test_run(Program::EDGE, frame, 1).unwrap();
        let held_up_ns = clock_now().heartbeat_ns - before;
        Seen {
            action: run.action,
            frame: run.frame,
            events: self.drain(),
            rejects: self.drain_rejects(),
            held_up_ns,
        }
    }

    /// The same, and what was counted.
    pub(crate) fn run_counted(&mut self, wish: &Wish, frame: &[u8]) -> (Seen, Moved) {
        let seen = self.run(wish, frame);
        (seen, self.moved())
    }

    /// Makes the program forget a connection, by a SYN of a new one.
    pub(crate) fn forget(&mut self, wish: &Wish, flow: &FlowKey) {
        let seen = self.run(wish, &syn(flow));
        assert_eq!(seen.action, Action::Pass.number());
    }

    /// The same wherever the connection began, by a second SYN: the first may have been
    /// taken for a late copy of the connection's own.
    pub(crate) fn forget_anyhow(&mut self, wish: &Wish, flow: &FlowKey) {
        self.forget(wish, flow);
        let mut other = syn(flow);
        let last_of_sequence = other.len() - 13;
        other[last_of_sequence] ^= 0x80;
        let seen = self.run(wish, &other);
        assert_eq!(seen.action, Action::Pass.number());
    }

    /// Runs the program on frames one after the other; what it has to tell stays in the
    /// rings. Returns the counters that moved.
    pub(crate) fn run_silently(
        &mut self,
        wish: &Wish,
        events_per_second: u32,
        frames: &[Vec<u8>],
    ) -> Moved {
        self.wish = None;
        self.program
            .set_settings(&settings(wish, events_per_second))
            .unwrap();
        for frame in frames {
            self.clock
                .set(&self.time(wish, clock_now().heartbeat_ns))
                .unwrap();
            self.program.test_run(Program::EDGE, frame, 1).unwrap();
        }
        self.moved()
    }

    /// Takes the events out of the ring.
    pub(crate) fn drain(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(item) = self.events.next() {
            events.push(decode(&item));
        }
        events
    }

    fn drain_rejects(&mut self) -> Vec<FlowKey> {
        let mut flows = Vec::new();
        while let Some(item) = self.rejects.next() {
            assert_eq!(item.len(), size_of::<Rejected>());
            flows.push(flow_key(&item[8..]));
        }
        flows
    }

    /// How many instructions the verifier walked for each program.
    pub(crate) fn verified_instructions(&mut self) -> Vec<(&'static str, u32)> {
        let look = |name| {
            let instructions = self.program.verified_instructions(name).unwrap();
            (name, instructions.expect("this kernel tells"))
        };
        Program::names().map(look).collect()
    }

    /// The invariants over all that was counted since the load.
    pub(crate) fn assert_sums(&self) {
        let of = |counter: Counter| self.counters[counter as usize];
        let sum = |verdict: Verdict| -> u64 {
            let reasons = Reason::ALL
                .iter()
                .filter(|reason| reason.verdict() == verdict);
            reasons.map(|reason| self.counters[*reason as usize]).sum()
        };
        let rejected = sum(Verdict::Reject);
        let hellos =
            sum(Verdict::Accept) + rejected + sum(Verdict::Legacy) + sum(Verdict::Undecided);
        assert_eq!(of(Counter::Hellos), hellos);
        assert_eq!(
            of(Counter::Packets),
            hellos + sum(Verdict::Pass) + sum(Verdict::Unconnected)
        );
        let answered = of(Counter::AnsweredAlert)
            + of(Counter::AnsweredRst)
            + of(Counter::AnsweredDrop)
            + of(Counter::AnsweredUp);
        let again = self.counters[Reason::RejectedAgain as usize];
        assert_eq!(rejected + again, answered + of(Counter::AnswerFailed));
        let events =
            of(Counter::EventsSent) + of(Counter::EventsSuppressed) + of(Counter::EventsLost);
        assert_eq!(events, hellos, "events were on all the time");
        let names = Reason::ALL
            .iter()
            .map(|r| *r as usize)
            .chain(Counter::ALL.iter().map(|c| *c as usize));
        let named: Vec<_> = names.collect();
        for (slot, value) in self.counters.iter().enumerate() {
            assert!(
                named.contains(&slot) || *value == 0,
                "slot {slot} has no name and counts"
            );
        }
    }

    /// How many packets the program has seen.
    pub(crate) fn packets(&self) -> u64 {
        self.counters[Counter::Packets as usize]
    }

    /// What was counted since it was last asked.
    pub(crate) fn moved(&mut self) -> Moved {
        let now = self.program.counters().unwrap();
        let before = std::mem::replace(&mut self.counters, now);
        let moved = named(&self.counters).zip(named(&before));
        let moved = moved.map(|((name, now), (_, before))| (name.to_owned(), now - before));
        moved.filter(|(_, count)| *count != 0).collect()
    }

    /// Half past the second that it is to be.
    fn time(&self, wish: &Wish, monotonic_ns: u64) -> Clock {
        let unix_ns = self.now_s * SECOND_NS + SECOND_NS / 2;
        let too_old = (wish.heartbeat_max_age_s + 1) * SECOND_NS;
        Clock {
            unix_offset_ns: unix_ns.wrapping_sub(monotonic_ns),
            heartbeat_ns: match wish.heartbeat {
                Heartbeat::Fresh => monotonic_ns,
                Heartbeat::Ahead => monotonic_ns + SECOND_NS,
                // 0 would say that there was none; the subtraction wraps on a young machine,
                // which is as old.
                Heartbeat::Stale => monotonic_ns.wrapping_sub(too_old).max(1),
                Heartbeat::Never => 0,
            },
        }
    }
}

/// The settings as the kernel reads them.
fn settings(wish: &Wish, events_per_second: u32) -> Settings {
    Settings {
        heartbeat_max_age_ns: wish.heartbeat_max_age_s * SECOND_NS,
        window_back_s: wish.window_back_s,
        window_ahead_s: wish.window_ahead_s,
        answer: match wish.answer {
            Answer::Alert => policy::Answer::Alert,
            Answer::Rst => policy::Answer::Rst,
            Answer::Drop => policy::Answer::Drop,
        } as u32,
        deny_legacy: u32::from(wish.deny_legacy),
        policy_complete: u32::from(wish.policy_complete),
        events_per_second,
        answers_per_second: wish.answers_per_second,
        secret: [0x0123_4567_89ab_cdef, 0x0f1e_2d3c_4b5a_6978],
        ..Settings::default()
    }
}

/// A key of the data as the kernel holds it.
pub(crate) fn policy(key: &Key) -> (KeyId, KeyPolicy) {
    let mac: [u8; 16] = hex::decode(&key.mac_key).unwrap().try_into().unwrap();
    let word = |at: usize| u64::from_le_bytes(mac[at..at + 8].try_into().unwrap());
    let policy = KeyPolicy {
        mac_key: [word(0), word(8)],
        not_before_s: key.not_before_s,
        not_after_s: key.not_after_s,
        flags: if key.revoked { KeyPolicy::REVOKED } else { 0 },
        ..KeyPolicy::UNLIMITED
    };
    (KeyId::from_hex(&key.key_id).unwrap(), policy)
}

fn decode(bytes: &[u8]) -> Event {
    assert_eq!(bytes.len(), size_of::<Event>());
    let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    Event {
        monotonic_ns: u64_at(0),
        key_id: KeyId(u64_at(8)),
        flow: flow_key(&bytes[16..]),
        reason: u32_at(56),
        payload_bytes: u32_at(60),
    }
}

fn flow_key(bytes: &[u8]) -> FlowKey {
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let u16_at = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap());
    let address = |at: usize| std::array::from_fn(|word| u32_at(at + 4 * word));
    FlowKey {
        client: address(0),
        server: address(16),
        client_port_be: u16_at(32),
        server_port_be: u16_at(34),
        padding: u32_at(36),
    }
}
