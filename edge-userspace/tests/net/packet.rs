//! Whole frames, sent and received on one interface by an AF_PACKET socket. Not here: what
//! is in them ([`super::frames`]).

use super::system;
use std::os::fd::{AsFd as _, OwnedFd};

/// Frames that one call to the kernel takes.
pub(crate) const BATCH: usize = 64;
const FRAME_BYTES: usize = 2048;

/// One end of an interface of the namespace in which it was opened.
pub(crate) struct PacketSocket(OwnedFd);

/// Which frames a socket gets, by what the kernel says of them (SKF_AD_PKTTYPE).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Those that come in.
    Incoming,
    /// Those that go out.
    Outgoing,
}

impl PacketSocket {
    /// Sends only: receives nothing.
    pub(crate) fn sender(interface: &str) -> Self {
        let socket = system::packet_socket().unwrap();
        let index = nix::net::if_::if_nametoindex(interface).unwrap();
        system::bind_packet(socket.as_fd(), index, false).unwrap();
        Self(socket)
    }

    /// Receives what goes this way, with room for `room_bytes` (the kernel's count of them,
    /// overhead included), and sends.
    pub(crate) fn receiver(interface: &str, way: Way, room_bytes: i32) -> Self {
        let socket = system::packet_socket().unwrap();
        let fd = socket.as_fd();
        let (level, force) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        system::set_option(fd, level, force, &room_bytes).unwrap();
        // ld #type; jeq #PACKET_OUTGOING, then this way, else the other; ret.
        let (outgoing, incoming) = match way {
            Way::Outgoing => (u32::MAX, 0),
            Way::Incoming => (0, u32::MAX),
        };
        let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let kind = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
        let mut filter = [
            line(0x28, 0, 0, kind),
            line(0x15, 0, 1, u32::from(libc::PACKET_OUTGOING)),
            line(0x06, 0, 0, outgoing),
            line(0x06, 0, 0, incoming),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        system::set_option(fd, level, libc::SO_ATTACH_FILTER, &program).unwrap();
        let index = nix::net::if_::if_nametoindex(interface).unwrap();
        system::bind_packet(fd, index, true).unwrap();
        Self(socket)
    }

    /// Sends every frame.
    pub(crate) fn send<'a>(&self, frames: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
        let mut sent = 0;
        while sent < frames.len() {
            let next = frames.clone().skip(sent).take(BATCH);
            match system::send_frames(self.0.as_fd(), next) {
                Ok(more) => sent += more,
                // The interface's queue is full: it empties by itself.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    std::thread::yield_now();
                }
                Err(error) => panic!("cannot send frames: {error}"),
            }
        }
    }

    /// Gives every frame that waits to `each`, at most one batch; tells how many there were.
    pub(crate) fn receive(&self, batch: &mut Batch, mut each: impl FnMut(&[u8])) -> usize {
        system::receive_frames(self.0.as_fd(), &mut batch.buffers, &mut batch.lengths).unwrap();
        for (buffer, length) in batch.buffers.iter().zip(&batch.lengths) {
            each(&buffer[..*length]);
        }
        batch.lengths.len()
    }

    /// Waits until a frame is there, `for_ms` milliseconds at most.
    pub(crate) fn wait(&self, for_ms: i64) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let for_ns = for_ms * 1_000_000;
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: for_ns,
        };
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Frames that were thrown away for want of room since the last call.
    pub(crate) fn lost(&self) -> u32 {
        system::packet_statistics(self.0.as_fd()).unwrap().1
    }
}

/// Room for one batch of received frames.
pub(crate) struct Batch {
    buffers: Vec<Vec<u8>>,
    lengths: Vec<usize>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            buffers: vec![vec![0; FRAME_BYTES]; BATCH],
            lengths: Vec::new(),
        }
    }
}

/// Frames to be sent, in buffers that are used again.
#[derive(Default)]
pub(crate) struct Pool {
    frames: Vec<Vec<u8>>,
    used: usize,
}

impl Pool {
    /// Room for one more.
    pub(crate) fn next(&mut self) -> &mut Vec<u8> {
        if self.used == self.frames.len() {
            self.frames.push(Vec::new());
        }
        self.used += 1;
        &mut self.frames[self.used - 1]
    }

    /// Sends all of them; tells how many there were.
    pub(crate) fn send(&mut self, sender: &PacketSocket) -> u64 {
        sender.send(self.frames[..self.used].iter().map(Vec::as_slice));
        std::mem::take(&mut self.used) as u64
    }
}
