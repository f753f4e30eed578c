//! Clients without a stack: they open connections by raw frames, send what they are told to
//! and never acknowledge anything after it. Every SYN-ACK says all that is needed to go on,
//! so no state is kept and the rate is the wire's.

use super::frames::Template;
use super::packet::{BATCH, Batch, PacketSocket, Pool, Way};
use super::segment::{Tcp, tcp};
use super::wire::{CLIENT_INTERFACE, Family};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// SYNs that may be without an answer.
const OUTSTANDING: u64 = 128;
/// A SYN that had no answer for so long was lost, or will have none.
const LOST_AFTER: Duration = Duration::from_millis(20);
/// Maximum segment size 1,460 bytes (RFC 9293 section 3.7.1).
const OPTIONS: [u8; 4] = [2, 4, 5, 0xb4];

/// Clients that never go beyond their SYN have ports from here on.
const FILLER_PORT: u16 = 50_000;

/// The `index`th client of this family that no stack knows: an address and a port.
pub(crate) fn client(family: Family, index: u64) -> SocketAddr {
    // 32,768 prefixes (IPv4: all that there are), then the next port.
    let port = 1024 + (index >> 15) % u64::from(FILLER_PORT - 1024);
    SocketAddr::new(family.foreign((index & 0x7fff) as u32), port as u16)
}

/// Which client has this address, the other way round.
fn index_of(client: SocketAddr) -> u64 {
    let prefix = match client.ip() {
        IpAddr::V4(address) => (address.to_bits() >> 8) & 0x7fff,
        IpAddr::V6(address) => u32::from(address.segments()[3]),
    };
    u64::from(client.port().wrapping_sub(1024)) << 15 | u64::from(prefix)
}

/// What such clients do once they are connected.
pub(crate) struct Clients {
    family: Family,
    syn: Template,
    then: Vec<(u32, Template)>,
    sender: PacketSocket,
    receiver: PacketSocket,
}

/// What came about.
#[derive(Default)]
pub(crate) struct Done {
    /// SYNs sent.
    pub(crate) opened: u64,
    /// SYN-ACKs answered: handshakes completed, and hellos sent.
    pub(crate) connected: u64,
    /// Frames sent, all told.
    pub(crate) frames: u64,
    /// Segments with a payload that came back.
    pub(crate) answers: u64,
    /// Resets that came back.
    pub(crate) resets: u64,
    /// Clients that are connected, a bit each.
    bits: Vec<u64>,
}

impl Done {
    /// Whether this client was connected and has sent all that it had to.
    pub(crate) fn has_sent(&self, client: SocketAddr) -> bool {
        let index = index_of(client);
        let word = self.bits.get((index >> 6) as usize).copied();
        word.unwrap_or(0) >> (index & 63) & 1 == 1
    }

    fn connect(&mut self, client: SocketAddr) {
        let index = index_of(client);
        let (word, bit) = ((index >> 6) as usize, 1 << (index & 63));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        // A SYN-ACK may come twice.
        self.connected += u64::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
    }
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            opened,
            connected,
            frames,
            answers,
            resets,
            ..
        } = self;
        write!(
            f,
            "{opened} opened, {connected} connected, {frames} frames sent, \
             {answers} answers and {resets} resets back"
        )
    }
}

impl Clients {
    /// Clients of the calling thread's namespace that send these pieces of a stream, after a
    /// bare acknowledgement if `acknowledge` and with it if not.
    pub(crate) fn new(family: Family, acknowledge: bool, pieces: &[&[u8]]) -> Self {
        let to = family.server();
        let mut then = Vec::new();
        if acknowledge {
            then.push((0, Template::new(to, Tcp::ACK, &[], &[])));
        }
        let mut at = 0;
        for piece in pieces {
            // With PSH, as the end of a write has it.
            then.push((at, Template::new(to, Tcp::ACK | Tcp::PSH, &[], piece)));
            at += piece.len() as u32;
        }
        Self {
            family,
            syn: Template::new(to, Tcp::SYN, &OPTIONS, &[]),
            then,
            sender: PacketSocket::sender(CLIENT_INTERFACE),
            receiver: PacketSocket::receiver(CLIENT_INTERFACE, Way::Incoming, 64 << 20),
        }
    }

    /// Sends this many SYNs that nothing comes after.
    pub(crate) fn fill_backlog(family: Family, count: u64) {
        let fillers = Self::new(family, false, &[]);
        let mut pool = Pool::default();
        for index in 0..count {
            let mut client = client(family, index);
            client.set_port(FILLER_PORT);
            fillers.syn.fill(pool.next(), client, index as u32, 0);
        }
        pool.send(&fillers.sender);
    }

    /// Opens connections from client number `from` on: until `count` handshakes are done or
    /// the time is over.
    pub(crate) fn run(&self, from: u64, count: u64, limit: Duration) -> Done {
        let since = Instant::now();
        let mut done = Done::default();
        let mut pool = Pool::default();
        let mut batch = Batch::new();
        let mut outstanding = 0u64;
        let mut heard = Instant::now();
        while done.connected < count && since.elapsed() < limit {
            let room = OUTSTANDING.saturating_sub(outstanding).min(BATCH as u64);
            let room = room.min((count - done.connected).saturating_sub(outstanding));
            for _ in 0..room {
                let client = client(self.family, from + done.opened);
                let first = (done.opened as u32).wrapping_mul(0x9e37_79b9);
                self.syn.fill(pool.next(), client, first, 0);
                done.opened += 1;
            }
            outstanding += room;
            done.frames += pool.send(&self.sender);
            if self.answer(&mut batch, &mut pool, &mut done, &mut outstanding) > 0 {
                heard = Instant::now();
            } else if heard.elapsed() > LOST_AFTER {
                outstanding = 0;
            } else if room == 0 {
                self.receiver.wait(1);
            }
        }
        // Some are on their way still.
        let ended = Instant::now();
        let mut silent = 0;
        while silent < 20 && ended.elapsed() < Duration::from_secs(10) {
            if self.answer(&mut batch, &mut pool, &mut done, &mut outstanding) == 0 {
                self.receiver.wait(5);
                silent += 1;
            } else {
                silent = 0;
            }
        }
        assert_eq!(self.receiver.lost(), 0, "not every answer was seen");
        done
    }

    /// Answers what has come, some batches at most; tells how many frames it was.
    fn answer(
        &self,
        batch: &mut Batch,
        pool: &mut Pool,
        done: &mut Done,
        outstanding: &mut u64,
    ) -> usize {
        // The stack's own connections run over the same wire.
        let is_ours = |tcp: &Tcp<'_>| {
            let foreign = self.family.foreign((index_of(tcp.to) & 0x7fff) as u32);
            tcp.to.ip() == foreign && (1024..FILLER_PORT).contains(&tcp.to.port())
        };
        let mut received = 0;
        for _ in 0..8 {
            let more = self.receiver.receive(batch, |frame| {
                let Some(tcp) = tcp(frame).filter(is_ours) else {
                    return;
                };
                if tcp.flags & Tcp::RST != 0 {
                    done.resets += 1;
                } else if tcp.flags & Tcp::SYN != 0 {
                    done.connect(tcp.to);
                    *outstanding = outstanding.saturating_sub(1);
                    let acknowledged = tcp.sequence.wrapping_add(1);
                    for (at, template) in &self.then {
                        let sequence = tcp.acknowledged.wrapping_add(*at);
                        template.fill(pool.next(), tcp.to, sequence, acknowledged);
                    }
                } else if !tcp.payload.is_empty() {
                    done.answers += 1;
                }
            });
            if more == 0 {
                break;
            }
            received += more;
        }
        done.frames += pool.send(&self.sender);
        received
    }
}
