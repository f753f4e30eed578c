//! Attackers without a stack: raw frames at a fixed rate, from addresses that nobody answers
//! for. Every SYN-ACK says all that is needed to go on, so they remember nothing of a
//! connection (slow ones: where it stands), and the rate is what was asked for, not what the
//! server lets through. Against the control, which answers nothing, the same frames are sent
//! without waiting. Bounded in rate and time. Not here: what they send ([`super::hellos`]).

use super::net::{ATTACKING, CONTROL, TARGET};
use super::shared::frames::Template;
use super::shared::packet::{BATCH, Batch, PacketSocket, Pool, Way};
use super::shared::segment::{Tcp, tcp};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum segment size 1,460 bytes (RFC 9293 section 3.7.1).
const OPTIONS: [u8; 4] = [2, 4, 5, 0xb4];
/// Addresses of each prefix (/24) that attackers come from.
const HOSTS: u64 = 250;
const FIRST_PORT: u64 = 1024;
const PORTS: u64 = 60_000;
/// The number of one, times this, is where its stream begins; times the inverse, the other way
/// round.
const SEQUENCE: u32 = 0x9e37_79b9;
const OF_SEQUENCE: u32 = 0x144c_bc89;
const _: () = assert!(SEQUENCE.wrapping_mul(OF_SEQUENCE) == 1);
/// Slow ones send so much at a time.
const SLOW_BYTES: usize = 20;
const SLOW_PAUSE: Duration = Duration::from_millis(500);
/// Slow ones that are remembered; of more, those beyond say nothing after their first piece.
const SLOW_AT_A_TIME: usize = 200_000;
/// They send and answer in turns of this length, as tools for it do, and as network cards that
/// moderate their interrupts hand frames over: not frame by frame.
const TURN: Duration = Duration::from_micros(500);
/// What one has fallen behind by is not made up for beyond this.
const LATE: Duration = Duration::from_millis(50);

/// What attackers do once they are connected.
#[derive(Clone)]
pub(crate) enum Manner {
    /// They send only SYNs.
    Syn,
    /// They send this, acknowledge an end, and reset a connection on which anything else comes.
    Sends(Vec<u8>),
    /// They send this and never acknowledge anything.
    Silent(Vec<u8>),
    /// They send this, some bytes now and some later, and never the last one.
    Slow(Vec<u8>),
    /// They are no such attackers: [`super::sockets`].
    Sockets(Vec<u8>),
}

/// What came about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// SYNs sent.
    pub(crate) opened: u64,
    /// Of those, answered by a SYN-ACK, which may come twice.
    pub(crate) connected: u64,
    /// Frames sent.
    pub(crate) frames: u64,
    /// Segments with a payload that came back.
    pub(crate) answers: u64,
    /// Ends that came back (FIN).
    pub(crate) ends: u64,
    /// Resets that came back.
    pub(crate) resets: u64,
    /// Frames that came back and were not looked at in time.
    pub(crate) unseen: u64,
}

/// Attackers of one kind. Made and run on a thread that lives in their namespace.
pub(crate) struct Attackers {
    is_control: bool,
    receiver: PacketSocket,
    voice: Voice,
}

/// What they say, and to what.
struct Voice {
    is_slow: bool,
    is_silent: bool,
    is_control: bool,
    prefixes: u64,
    syn: Template,
    bare: Template,
    reset: Template,
    /// What follows a SYN-ACK at once: where in the stream, and what.
    then: Vec<(u32, Template)>,
    /// What follows those later.
    later: Vec<(u32, Template)>,
    sender: PacketSocket,
    first: u64,
    /// Who has had a SYN-ACK, by their number.
    connected: Vec<bool>,
    pool: Pool,
    slow: VecDeque<Slow>,
}

/// A connection that has not sent all that it is going to.
struct Slow {
    due: Instant,
    from: SocketAddr,
    sequence: u32,
    acknowledged: u32,
    next: usize,
}

impl Attackers {
    /// From so many prefixes (/24), against the server or against the control.
    pub(crate) fn new(manner: &Manner, prefixes: u64, is_control: bool) -> Self {
        // No two runs use one address and port, as far as they go.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        const ACK: u8 = Tcp::ACK;
        let with_push = |payload: &[u8]| Template::new(TARGET, ACK | Tcp::PSH, &[], payload);
        let bare = || Template::new(TARGET, ACK, &[], &[]);
        let (mut then, mut later) = (Vec::new(), Vec::new());
        match manner {
            Manner::Syn | Manner::Sockets(_) => {}
            Manner::Sends(bytes) | Manner::Silent(bytes) => {
                then.push((0, bare()));
                then.push((0, with_push(bytes)));
            }
            Manner::Slow(bytes) => {
                then.push((0, bare()));
                let mut at = 0;
                for piece in bytes[..bytes.len() - 1].chunks(SLOW_BYTES) {
                    let template = with_push(piece);
                    if at == 0 { &mut then } else { &mut later }.push((at, template));
                    at += piece.len() as u32;
                }
            }
        }
        let interface = if is_control { CONTROL } else { ATTACKING };
        let voice = Voice {
            is_slow: matches!(manner, Manner::Slow(_)),
            is_silent: !matches!(manner, Manner::Sends(_)),
            is_control,
            prefixes,
            syn: Template::new(TARGET, Tcp::SYN, &OPTIONS, &[]),
            bare: bare(),
            reset: Template::new(TARGET, Tcp::RST, &[], &[]),
            then,
            later,
            sender: PacketSocket::sender(interface),
            first: NEXT.fetch_add(1 << 20, Ordering::Relaxed),
            connected: Vec::new(),
            pool: Pool::default(),
            slow: VecDeque::new(),
        };
        Self {
            is_control,
            receiver: PacketSocket::receiver(interface, Way::Incoming, 64 << 20),
            voice,
        }
    }

    /// Opens so many connections a second for so long.
    pub(crate) fn run(&mut self, per_second: u64, time: Duration) -> Done {
        let mut done = Done::default();
        let mut batch = Batch::new();
        let began = Instant::now();
        let late = (LATE.as_secs_f64() * per_second as f64).ceil() as u64;
        // What it would have opened, less what it could not.
        let mut skipped = 0;
        loop {
            let elapsed = began.elapsed();
            if elapsed >= time {
                break;
            }
            let due = (elapsed.as_secs_f64() * per_second as f64) as u64 - skipped;
            let mut owed = due.saturating_sub(done.opened);
            if owed > late {
                skipped += owed - late;
                owed = late;
            }
            for _ in 0..owed.min(BATCH as u64) {
                self.voice.open(&mut done);
            }
            self.voice.send(&mut done);
            self.answer(&mut batch, &mut done);
            self.voice.go_on(&mut done);
            if owed <= BATCH as u64 {
                std::thread::sleep(TURN);
            }
        }
        // Those that are on their way are answered still.
        let ended = Instant::now();
        while !self.is_control && ended.elapsed() < Duration::from_millis(20) {
            if self.answer(&mut batch, &mut done) == 0 {
                self.receiver.wait(1);
            }
        }
        done.unseen = self.receiver.lost().into();
        done
    }

    /// Answers what has come, some batches at most; tells how many frames it was.
    fn answer(&mut self, batch: &mut Batch, done: &mut Done) -> usize {
        let mut heard = 0;
        for _ in 0..8 {
            let more = self.receiver.receive(batch, |frame| {
                // The stack's own connections run over the same wire.
                if let Some(tcp) = tcp(frame).filter(|tcp| is_ours(tcp.to)) {
                    self.voice.answer(&tcp, done);
                }
            });
            self.voice.send(done);
            heard += more;
            if more == 0 {
                break;
            }
        }
        heard
    }
}

impl Voice {
    fn open(&mut self, done: &mut Done) {
        let from = attacker(self.first + done.opened, self.prefixes);
        let sequence = (done.opened as u32).wrapping_mul(SEQUENCE);
        self.syn.fill(self.pool.next(), from, sequence, 0);
        self.connected.push(false);
        done.opened += 1;
        if self.is_control {
            let after = sequence.wrapping_add(1);
            self.follow(from, after, 0x1000_0000);
        }
    }

    /// What follows a SYN-ACK.
    fn follow(&mut self, from: SocketAddr, sequence: u32, acknowledged: u32) {
        for (at, template) in &self.then {
            let sequence = sequence.wrapping_add(*at);
            template.fill(self.pool.next(), from, sequence, acknowledged);
        }
        if self.is_slow && self.slow.len() < SLOW_AT_A_TIME {
            self.slow.push_back(Slow {
                due: Instant::now() + SLOW_PAUSE,
                from,
                sequence,
                acknowledged,
                next: 0,
            });
        }
    }

    /// The next pieces of those who are slow: they are due in the order of the queue.
    fn go_on(&mut self, done: &mut Done) {
        let now = Instant::now();
        for _ in 0..BATCH {
            if self.slow.front().is_none_or(|slow| slow.due > now) {
                break;
            }
            let Some(mut slow) = self.slow.pop_front() else {
                break;
            };
            let Some((at, template)) = self.later.get(slow.next) else {
                continue;
            };
            let sequence = slow.sequence.wrapping_add(*at);
            template.fill(self.pool.next(), slow.from, sequence, slow.acknowledged);
            slow.next += 1;
            slow.due = now + SLOW_PAUSE;
            self.slow.push_back(slow);
        }
        self.send(done);
    }

    fn send(&mut self, done: &mut Done) {
        done.frames += self.pool.send(&self.sender);
    }

    fn answer(&mut self, tcp: &Tcp<'_>, done: &mut Done) {
        let (to, acknowledged) = (tcp.to, tcp.acknowledged);
        let is_end = tcp.flags & Tcp::FIN != 0;
        if tcp.flags & Tcp::RST != 0 {
            done.resets += 1;
            return;
        }
        if tcp.flags & Tcp::SYN != 0 {
            let sequence = acknowledged.wrapping_sub(1);
            let number = sequence.wrapping_mul(OF_SEQUENCE);
            if let Some(connected) = self.connected.get_mut(number as usize) {
                done.connected += u64::from(!std::mem::replace(connected, true));
            }
            self.follow(to, acknowledged, tcp.sequence.wrapping_add(1));
            return;
        }
        let bytes = tcp.payload.len() as u32;
        done.answers += u64::from(bytes > 0);
        done.ends += u64::from(is_end);
        if self.is_silent {
            return;
        }
        if is_end {
            // As a stack does, whose program then closes.
            let behind = tcp.sequence.wrapping_add(bytes + 1);
            self.bare.fill(self.pool.next(), to, acknowledged, behind);
        } else if bytes > 0 {
            self.reset.fill(self.pool.next(), to, acknowledged, 0);
        }
    }
}

/// The `index`th of them.
fn attacker(index: u64, prefixes: u64) -> SocketAddr {
    let prefix = (index % prefixes) as u32;
    let host = (index / prefixes % HOSTS) as u32;
    let port = FIRST_PORT + index / (prefixes * HOSTS) % PORTS;
    let address = Ipv4Addr::from_bits(0x0a80_0001 + (prefix << 8) + host);
    SocketAddr::new(address.into(), port as u16)
}

fn is_ours(address: SocketAddr) -> bool {
    let IpAddr::V4(ip) = address.ip() else {
        return false;
    };
    ip.to_bits() & 0xff80_0000 == 0x0a80_0000 && u64::from(address.port()) >= FIRST_PORT
}
