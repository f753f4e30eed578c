//! Room for the bodies that are held until they have been sent on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a piece costs besides its bytes.
const PIECE_BYTES: u64 = 64;

/// The room of all threads together.
#[derive(Debug)]
pub struct Room {
    most_bytes: u64,
    bytes: AtomicU64,
}

/// One body's part of it; given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    room: Arc<Room>,
    bytes: u64,
}

impl Room {
    /// For so many bytes.
    #[must_use]
    pub fn new(most_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            most_bytes,
            bytes: AtomicU64::new(0),
        })
    }

    /// Nothing is held yet.
    #[must_use]
    pub fn hold(self: &Arc<Self>) -> Held {
        Held {
            room: Arc::clone(self),
            bytes: 0,
        }
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Most bytes.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }
}

impl Held {
    /// Takes room for a piece of that size, if there is any.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64 + PIECE_BYTES;
        let before = self.room.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        before + bytes <= self.room.most_bytes
    }

    /// What it has taken, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it would have no room if it were alone.
    #[must_use]
    pub fn never_fits(&self) -> bool {
        self.bytes > self.room.most_bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_and_comes_back() {
        let room = Room::new(10_000);
        let (mut a, mut b) = (room.hold(), room.hold());
        assert!(a.take(5000));
        assert!(!b.take(5000), "both cost something besides");
        drop(b);
        let mut c = room.hold();
        assert!(c.take(4000));
        assert!(!c.take(4000) && !c.never_fits(), "alone it would fit");
        assert!(!c.take(4000) && c.never_fits(), "this is too much");
        drop((a, c));
        assert_eq!(room.bytes(), 0);
    }
}
