//! Tables that the kernel half and the daemon both see, as words that either may change at
//! any time. Here is where they lie, a BPF array that is mapped or memory of our own; what
//! the words mean is said by who uses them.
#![expect(unsafe_code, reason = "named island: mmap(2) has no safe wrapper")]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// The words of a table.
pub enum Memory {
    /// A BPF array with `BPF_F_MMAPABLE` (Linux 5.5).
    Mapped(Mapped),
    /// Ours alone.
    Own(Box<[AtomicU64]>),
}

/// A mapped BPF array. It stays as long as this does, whatever becomes of the descriptor.
pub struct Mapped {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: all that is reached through it is atomics, and the mapping is no thread's own.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Memory {
    /// Memory of our own, all zero.
    #[must_use]
    pub fn own(words: usize) -> Self {
        Self::Own((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Maps a BPF array whose values are `words` words together, to read and to write.
    ///
    /// # Errors
    /// When the array is smaller, or was made without `BPF_F_MMAPABLE`.
    pub fn map(array: impl AsFd, words: usize) -> io::Result<Self> {
        let bytes = (words.checked_mul(size_of::<AtomicU64>()))
            .filter(|bytes| *bytes > 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                array,
                0,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self::Mapped(Mapped { start, words }))
    }
}

impl Deref for Memory {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Own(words) => words,
        }
    }
}

impl Deref for Mapped {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is that long, begins at a page, lives as long as `self`, holds
        // integers only, and whoever else writes does so by words that atomics may race with.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let bytes = self.words * size_of::<AtomicU64>();
        // SAFETY: it was mapped by us with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * 8).unwrap();
        let [one, other] = [(); 2].map(|()| Memory::map(&file, 64).unwrap());
        drop(file);
        assert_eq!(one.len(), 64);
        one[63].store(77, Ordering::Relaxed);
        assert_eq!(other[63].load(Ordering::Relaxed), 77);
        drop(one);
        assert_eq!(other[63].load(Ordering::Relaxed), 77);
    }

    #[test]
    fn no_words_cannot_be_mapped() {
        let file = tempfile::tempfile().unwrap();
        for words in [0, usize::MAX] {
            let error = Memory::map(&file, words).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
