//! Acknowledgements of streamed answers, held back while that pays.
//!
//! A stream's events are small, and whoever reads each at once has the kernel acknowledge each at
//! once: a packet for every event. Held back (`TCP_QUICKACK` off), one goes out for every 536
//! bytes or so. The kernel gives that up by itself when its timer of 40 ms finds one still held
//! back: events are then so slow that nothing is saved, or the upstream waits for the
//! acknowledgement before it sends on (Nagle's algorithm, RFC 9293 section 3.7.4), and an event
//! came late. Once in a while that is a machine that paused. An upstream with which it happens
//! again and again is left alone for a while, and each time longer.

use super::connect::Socket;
use std::cell::Cell;

/// A stream is looked at after so many pieces.
const LOOK_EVERY: u8 = 32;
/// So often it may happen to an upstream before it is left alone, and so often after that.
const TRUST: u32 = 128;
const LITTLE_TRUST: u32 = 4;
/// So many streams it is left alone, at first and at most.
const FEWEST_LEFT_OUT: u32 = 256;
const MOST_LEFT_OUT: u32 = 65_536;

/// What one thread knows of one upstream's streams.
#[derive(Debug)]
pub(super) struct Acks {
    /// So often it may still happen.
    trust: Cell<u32>,
    /// Streams that are still not to be tried.
    left_out: Cell<u32>,
    /// How many are left out next.
    next: Cell<u32>,
}

/// A stream whose acknowledgements are held back.
#[derive(Debug)]
pub(super) struct Holding {
    pieces: u8,
    has_paid: bool,
}

impl Default for Acks {
    fn default() -> Self {
        Self {
            trust: Cell::new(TRUST),
            left_out: Cell::new(0),
            next: Cell::new(FEWEST_LEFT_OUT),
        }
    }
}

impl Acks {
    /// A stream begins on that connection. None: its acknowledgements are left as they are.
    pub(super) fn begin(&self, socket: &Socket) -> Option<Holding> {
        if let Some(left) = self.left_out.get().checked_sub(1) {
            self.left_out.set(left);
            return None;
        }
        let holding = Holding {
            pieces: 0,
            has_paid: true,
        };
        socket.hold_acks().then_some(holding)
    }

    /// A piece of it came.
    pub(super) fn piece(&self, holding: &mut Option<Holding>, socket: &Socket) {
        let Some(held) = holding else { return };
        held.pieces += 1;
        if held.pieces < LOOK_EVERY {
            return;
        }
        held.pieces = 0;
        if !socket.holds_acks() {
            held.has_paid = false;
            self.gave_up();
            if self.left_out.get() > 0 || !socket.hold_acks() {
                *holding = None;
            }
        }
    }

    /// It came to its end.
    pub(super) fn end(&self, held: &Holding, socket: &Socket) {
        if !socket.holds_acks() {
            self.gave_up();
        } else if held.has_paid {
            self.paid();
        }
    }

    fn paid(&self) {
        self.trust.set((self.trust.get() + 1).min(TRUST));
        self.next.set(FEWEST_LEFT_OUT);
    }

    fn gave_up(&self) {
        let left = self.trust.get() - 1;
        if left > 0 {
            self.trust.set(left);
            return;
        }
        let next = self.next.get();
        self.left_out.set(next);
        self.next.set((next * 4).min(MOST_LEFT_OUT));
        self.trust.set(LITTLE_TRUST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    async fn connected() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        (theirs.unwrap().0, Socket::new(ours.unwrap()))
    }

    /// How many streams are not tried from now on.
    fn left_out(acks: &Acks, socket: &Socket) -> u32 {
        let mut left_out = 0;
        while acks.begin(socket).is_none() {
            left_out += 1;
        }
        left_out
    }

    #[tokio::test]
    async fn what_does_not_pay_is_left_out_longer_each_time() {
        let (_upstream, socket) = connected().await;
        let acks = Acks::default();
        for _ in 1..TRUST {
            acks.gave_up();
            assert_eq!(left_out(&acks, &socket), 0);
        }
        for expected in [256, 1024, 4096, 16_384, 65_536, 65_536] {
            while acks.left_out.get() == 0 {
                acks.gave_up();
            }
            assert_eq!(left_out(&acks, &socket), expected);
            assert_eq!(acks.trust.get(), LITTLE_TRUST);
        }
        acks.paid();
        for _ in 0..=LITTLE_TRUST {
            acks.gave_up();
        }
        assert_eq!(left_out(&acks, &socket), 256);
    }

    #[tokio::test]
    async fn one_that_pays_now_and_then_goes_on() {
        let (_upstream, socket) = connected().await;
        let acks = Acks::default();
        for _ in 0..10 * TRUST {
            acks.gave_up();
            acks.paid();
        }
        assert_eq!(left_out(&acks, &socket), 0);
    }

    #[tokio::test]
    async fn the_kernel_says_whether_they_are_still_held_back() {
        let (mut upstream, socket) = connected().await;
        let mut reader = socket.clone();
        let acks = Acks::default();
        let mut holding = acks.begin(&socket);
        assert!(socket.holds_acks());
        // One small piece and then nothing: the timer ends it.
        upstream.write_all(b"event").await.unwrap();
        reader.read_exact(&mut [0; 5]).await.unwrap();
        for _ in 0..1000 {
            if !socket.holds_acks() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!socket.holds_acks());
        for _ in 0..LOOK_EVERY {
            acks.piece(&mut holding, &socket);
        }
        assert_eq!(acks.trust.get(), TRUST - 1);
        // It is tried again, and has not paid all the same.
        assert!(socket.holds_acks());
        acks.end(&holding.unwrap(), &socket);
        assert_eq!(acks.trust.get(), TRUST - 1);
    }
}
