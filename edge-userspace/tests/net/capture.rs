//! What really went over the wire, counted by other means than the edge's own: an AF_PACKET
//! socket on the client's interface, streams put together by sequence number, and TLS records
//! walked. It shares no code with the scanner. Not here: what the edge says it saw.

use super::packet::{Batch, PacketSocket, Way};
use super::segment::{Tcp, tcp};
use super::wire::{CLIENT_INTERFACE, PORT, Wire};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes of each stream that are kept: more than the longest first flight.
const KEPT_BYTES: u32 = 24 * 1024;
/// Room for frames that wait to be looked at.
const ROOM_BYTES: i32 = 256 << 20;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Connections whose first SYN was seen.
    pub(crate) connections: u64,
    /// First hellos that were sent to their last byte.
    pub(crate) hellos: u64,
    /// Of those, hellos that came in more than one segment.
    pub(crate) in_segments: u64,
    /// First hellos that were begun and never sent to their end.
    pub(crate) unfinished: u64,
    /// Second hellos, after a HelloRetryRequest.
    pub(crate) second: u64,
    /// Segments of which every byte had been sent before.
    pub(crate) retransmitted: u64,
    /// Segments with a payload.
    pub(crate) segments: u64,
    /// Those of them in a frame with a VLAN tag.
    pub(crate) tagged: u64,
    /// SYNs, of which a connection has more than one only when the first had no answer.
    pub(crate) syns: u64,
}

/// A running capture of what the client's side sends.
pub(crate) struct Capture {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Counted>,
}

impl Capture {
    pub(crate) fn start(wire: &Wire) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let socket = (wire.client)
            .run(|| PacketSocket::receiver(CLIENT_INTERFACE, Way::Outgoing, ROOM_BYTES));
        let thread = std::thread::spawn({
            let end = Arc::clone(&end);
            move || count(&socket, &end)
        });
        Self { end, thread }
    }

    /// What was counted up to now.
    pub(crate) fn finish(self) -> Counted {
        self.end.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn count(socket: &PacketSocket, end: &AtomicBool) -> Counted {
    let mut batch = Batch::new();
    let mut streams: HashMap<(SocketAddr, u32), Stream> = HashMap::new();
    let mut latest: HashMap<SocketAddr, u32> = HashMap::new();
    let mut counted = Counted::default();
    loop {
        let ending = end.load(Ordering::Acquire);
        let received = socket.receive(&mut batch, |frame| {
            let Some(tcp) = tcp(frame).filter(|tcp| tcp.to.port() == PORT) else {
                return;
            };
            if tcp.flags & Tcp::SYN != 0 {
                counted.syns += 1;
                latest.insert(tcp.from, tcp.sequence);
                streams.entry((tcp.from, tcp.sequence)).or_default();
            } else if let Some(first) = latest.get(&tcp.from) {
                let stream = streams.get_mut(&(tcp.from, *first)).unwrap();
                let at = tcp.sequence.wrapping_sub(first.wrapping_add(1));
                if !tcp.payload.is_empty() {
                    counted.segments += 1;
                    counted.tagged += u64::from(frame[12..14] == [0x81, 0]);
                    counted.retransmitted += u64::from(!stream.put(at, tcp.payload));
                }
            }
        });
        if received == 0 {
            if ending {
                break;
            }
            socket.wait(20);
        }
    }
    assert_eq!(socket.lost(), 0, "the capture did not see everything");
    for stream in streams.values() {
        stream.add_to(&mut counted);
    }
    counted
}

/// The beginning of what one client sent.
#[derive(Default)]
struct Stream {
    /// By offset; what was sent first counts, as in a stack.
    bytes: Vec<u8>,
    /// Which of them have been sent.
    known: Vec<bool>,
    /// Where the first segment of the stream ends.
    first_end: usize,
    sent_to: u32,
}

impl Stream {
    /// Takes a segment; tells whether any of it is new.
    fn put(&mut self, at: u32, payload: &[u8]) -> bool {
        let end = at.wrapping_add(payload.len() as u32);
        let mut is_new = end.wrapping_sub(self.sent_to) as i32 > 0;
        if at < KEPT_BYTES {
            let (at, end) = (at as usize, at as usize + payload.len());
            if at == 0 && self.first_end == 0 {
                self.first_end = end;
            }
            if self.bytes.len() < end {
                self.bytes.resize(end, 0);
                self.known.resize(end, false);
            }
            let places = self.bytes[at..].iter_mut().zip(&mut self.known[at..]);
            for ((place, known), byte) in places.zip(payload) {
                if !std::mem::replace(known, true) {
                    *place = *byte;
                    is_new = true;
                }
            }
        }
        if end.wrapping_sub(self.sent_to) as i32 > 0 {
            self.sent_to = end;
        }
        is_new
    }

    fn add_to(&self, counted: &mut Counted) {
        counted.connections += 1;
        let whole = (self.known.iter()).position(|known| !known);
        let bytes = &self.bytes[..whole.unwrap_or(self.bytes.len())];
        match hello_at(bytes, 0) {
            Hello::None => {}
            Hello::Unfinished => counted.unfinished += 1,
            Hello::Whole(end) => {
                counted.hellos += 1;
                counted.in_segments += u64::from(self.first_end < end);
                // A change_cipher_spec record may go before the second (RFC 8446, D.4).
                let end = match bytes.get(end..end + 6) {
                    Some([20, 3, 3, 0, 1, 1]) => end + 6,
                    _ => end,
                };
                counted.second += u64::from(matches!(hello_at(bytes, end), Hello::Whole(_)));
            }
        }
    }
}

enum Hello {
    None,
    Unfinished,
    /// It ends here.
    Whole(usize),
}

/// A ClientHello in one record: type 22, a version, a length; message type 1 and its length
/// (RFC 8446 sections 5.1 and 4).
fn hello_at(bytes: &[u8], at: usize) -> Hello {
    match bytes.get(at..).unwrap_or_default() {
        [22, 3, _, high, low, 1, ..] => {
            let end = at + 5 + usize::from(u16::from_be_bytes([*high, *low]));
            if bytes.len() < end {
                Hello::Unfinished
            } else {
                Hello::Whole(end)
            }
        }
        [] => Hello::None,
        begun if begun.len() < 6 && begun[0] == 22 => Hello::Unfinished,
        _ => Hello::None,
    }
}
