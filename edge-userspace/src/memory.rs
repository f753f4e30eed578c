//! Small pieces of memory, kept by the thread that freed them for its next ones.
//!
//! A request takes some thirty pieces of memory from its first byte to its answer's last, and
//! requests that run beside each other take theirs together. Of each size the C library has seven
//! pieces at hand for a thread; beyond them it looks through what it has, and joins and cuts it.
//! Here a thread that serves has many more, in a list for each size: to take one costs two loads
//! and two stores.
//!
//! All memory is the system's ([`System`]), asked for in the sizes that the C library gives out
//! anyway. A thread keeps nothing until it [begins to](Keeping::begin), at most
//! [`MOST_KEPT_BYTES`], and gives it back when it ends. Not here: large pieces, which go through as
//! they are.
#![expect(
    unsafe_code,
    reason = "named island: an allocator is unsafe to write, and its lists lie in what is free"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

/// What one thread keeps at most, bytes.
pub const MOST_KEPT_BYTES: usize = 1024 * 1024;
/// And how many pieces of one size.
const MOST_OF_A_SIZE: u32 = 128;
/// Sizes go up by so many bytes, as the C library's do.
const STEP: usize = 16;
/// And are so many more than a multiple of it: what the C library notes of a piece takes the rest.
const MORE: usize = 8;
/// The largest that is kept is `SIZES * STEP + MORE` bytes.
const SIZES: usize = 256;

/// Whether pieces of that layout are kept, and in which list: all of a list have one size.
#[inline]
const fn size_of(layout: Layout) -> Option<usize> {
    let size = match (layout.size() + MORE - 1) / STEP {
        0 => 1,
        size => size,
    };
    if size <= SIZES && layout.align() <= STEP {
        Some(size)
    } else {
        None
    }
}

/// What is asked of the system for a piece of that size.
#[inline]
const fn whole(size: usize) -> Layout {
    match Layout::from_size_align(bytes(size), STEP) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

#[inline]
const fn bytes(size: usize) -> usize {
    size * STEP + MORE
}

/// The pieces of one size.
struct List {
    /// The last that was put there; in it lies where the one before is, and so on.
    first: Cell<*mut u8>,
    count: Cell<u32>,
}

/// What a thread keeps.
struct Lists {
    is_keeping: Cell<bool>,
    kept_bytes: Cell<usize>,
    lists: [List; SIZES + 1],
}

thread_local! {
    // Nothing is done when a thread ends, so that it is there to the very end of each.
    static LISTS: Lists = const {
        Lists {
            is_keeping: Cell::new(false),
            kept_bytes: Cell::new(0),
            lists: [const {
                List {
                    first: Cell::new(ptr::null_mut()),
                    count: Cell::new(0),
                }
            }; SIZES + 1],
        }
    };
}

impl Lists {
    /// A piece of that size; null: there is none.
    #[inline]
    fn take(&self, size: usize) -> *mut u8 {
        let list = &self.lists[size];
        let piece = list.first.get();
        if !piece.is_null() {
            // SAFETY: whoever put the piece there owned it, wrote this into it and gave it up;
            // only this thread sees the list.
            list.first.set(unsafe { piece.cast::<*mut u8>().read() });
            list.count.set(list.count.get() - 1);
            self.kept_bytes.set(self.kept_bytes.get() - bytes(size));
        }
        piece
    }

    /// Keeps a piece of that size, if there is room.
    ///
    /// # Safety
    /// The caller owns it, all `bytes(size)` of it, and gives it up if it is kept.
    #[inline]
    unsafe fn put(&self, size: usize, piece: *mut u8) -> bool {
        let list = &self.lists[size];
        let kept_bytes = self.kept_bytes.get() + bytes(size);
        let has_room = list.count.get() < MOST_OF_A_SIZE && kept_bytes <= MOST_KEPT_BYTES;
        if !(self.is_keeping.get() && has_room) {
            return false;
        }
        // SAFETY: it is the caller's, it is aligned to 16 bytes and has 24 at least.
        unsafe { piece.cast::<*mut u8>().write(list.first.get()) };
        list.first.set(piece);
        list.count.set(list.count.get() + 1);
        self.kept_bytes.set(kept_bytes);
        true
    }
}

/// The program's allocator. Threads that [keep](Keeping) small pieces take them from there first.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: each piece is the system's. A small one has been asked for by the layout of its size,
// which follows from the caller's and holds it; so it may be given out again for any layout of that
// size, and goes back by the same layout. Large ones go through as they are.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = size_of(layout) else {
            // SAFETY: as the caller promised.
            return unsafe { System.alloc(layout) };
        };
        let piece = LISTS.with(|lists| lists.take(size));
        if !piece.is_null() {
            return piece;
        }
        // SAFETY: it is not empty.
        unsafe { System.alloc(whole(size)) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(size) = size_of(layout) else {
            // SAFETY: as the caller promised.
            return unsafe { System.alloc_zeroed(layout) };
        };
        let piece = LISTS.with(|lists| lists.take(size));
        if !piece.is_null() {
            // SAFETY: so much of it at least has been taken.
            unsafe { piece.write_bytes(0, layout.size()) };
            return piece;
        }
        // SAFETY: it is not empty.
        unsafe { System.alloc_zeroed(whole(size)) }
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        let Some(size) = size_of(layout) else {
            // SAFETY: as the caller promised.
            return unsafe { System.dealloc(piece, layout) };
        };
        // SAFETY: the caller gives up what was given out for that layout, and so has that size.
        if !LISTS.with(|lists| unsafe { lists.put(size, piece) }) {
            // SAFETY: by that layout it was asked for.
            unsafe { System.dealloc(piece, whole(size)) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that it is not too large for one.
        let new = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        match (size_of(layout), size_of(new)) {
            (Some(size), Some(new_size)) if size == new_size => return piece,
            // SAFETY: as the caller promised.
            (None, None) => return unsafe { System.realloc(piece, layout, new_bytes) },
            _ => {}
        }
        // SAFETY: it is not empty, as the caller promised.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            let count = layout.size().min(new_bytes);
            // SAFETY: both have so many bytes, and they are two.
            unsafe { ptr::copy_nonoverlapping(piece, moved, count) };
            // SAFETY: the caller gives it up.
            unsafe { self.dealloc(piece, layout) };
        }
        moved
    }
}

/// As long as it lives its thread keeps small pieces that are freed there.
#[derive(Debug)]
pub struct Keeping {
    // It ends where it began.
    _thread: PhantomData<*mut u8>,
}

impl Keeping {
    /// From now on. Nothing comes of it where [`Allocator`] is not the program's.
    #[must_use]
    pub fn begin() -> Self {
        LISTS.with(|lists| lists.is_keeping.set(true));
        Self {
            _thread: PhantomData,
        }
    }

    /// What this thread keeps now, bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        LISTS.with(|lists| lists.kept_bytes.get())
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        LISTS.with(|lists| {
            lists.is_keeping.set(false);
            for size in 1..=SIZES {
                loop {
                    let piece = lists.take(size);
                    if piece.is_null() {
                        break;
                    }
                    // SAFETY: it was kept and now is not; by that layout it was asked for.
                    unsafe { System.dealloc(piece, whole(size)) };
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
