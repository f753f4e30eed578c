//! Where the slots lie: memory of the process, in huge pages if there are any.
//!
//! With pages of 4 KiB a look-up in a large table waits for the processor's own tables of
//! pages as long as for the slot. All of it is touched at the start, so that no request waits
//! for a page.
#![expect(
    unsafe_code,
    reason = "named island: mmap(2) and madvise(2) have no safe wrapper"
)]

use super::slot::Slot;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Of the huge pages that are asked for; on other processors than these it may be another,
/// which costs speed alone.
const HUGE_BYTES: usize = 2 << 20;
/// The smallest page.
const PAGE_BYTES: usize = 4096;

const _: () = assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 64);

/// Slots, all empty at first.
pub(super) struct Memory {
    slots: NonNull<Slot>,
    len: usize,
    /// The mapping, which is a little larger, so that the slots begin with a huge page.
    mapping: NonNull<u8>,
    mapping_bytes: usize,
}

// SAFETY: all that is reached through it is atomics, and the mapping is no thread's own.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps so many slots.
    pub(super) fn new(len: usize, huge_pages: bool) -> io::Result<Self> {
        let bytes = (len.checked_mul(size_of::<Slot>()))
            .filter(|bytes| *bytes > 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let huge = huge_pages && bytes >= HUGE_BYTES;
        let align = if huge { HUGE_BYTES } else { PAGE_BYTES };
        let mapping_bytes = (bytes.checked_add(align)).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapping_bytes,
                protection,
                MapFlags::PRIVATE,
            )
        }?;
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        let before = mapping.as_ptr().align_offset(align);
        // SAFETY: less than `align`, by which the mapping is longer than the slots.
        let slots = unsafe { mapping.add(before) }.cast::<Slot>();
        let memory = Self {
            slots,
            len,
            mapping,
            mapping_bytes,
        };
        if huge {
            // SAFETY: the range is ours and in use by nobody yet. A kernel that has no huge
            // pages, or none to give, leaves the small ones.
            let _ = unsafe { madvise(slots.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        memory.touch(bytes);
        Ok(memory)
    }

    /// Has every page there, empty as it is.
    fn touch(&self, bytes: usize) {
        for page in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: within the slots.
            let byte = unsafe { self.slots.cast::<AtomicU8>().add(page) };
            // SAFETY: mapped, all zero, and a byte has no alignment to keep.
            unsafe { byte.as_ref() }.store(0, Relaxed);
        }
    }
}

impl Deref for Memory {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        // SAFETY: mapped as long as `self`, aligned to a page at least; every word of a slot
        // is an atomic, for which any bytes are good, and all are zero at first.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, and nothing borrows from it any more.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Has the line of a slot fetched.
#[inline]
pub(super) fn prefetch(slot: &Slot) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(slot).cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing, and no register is changed.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{at}]",
            at = in(reg) ptr::from_ref(slot),
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = slot;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_begin_empty_and_each_on_a_line_of_its_own() {
        for (len, huge_pages) in [(16, true), (16, false), (1 << 16, true), (1 << 16, false)] {
            let memory = Memory::new(len, huge_pages).unwrap();
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|slot| slot.peek().is_nothing()));
            assert_eq!(memory.as_ptr().addr() % 64, 0);
            let huge = huge_pages && len * 64 >= HUGE_BYTES;
            assert!(!huge || memory.as_ptr().addr().is_multiple_of(HUGE_BYTES));
        }
    }

    #[test]
    fn what_no_machine_has_is_an_error() {
        assert!(Memory::new(usize::MAX, false).is_err());
        assert!(Memory::new(1 << 56, true).is_err());
        assert!(Memory::new(0, true).is_err());
    }
}
