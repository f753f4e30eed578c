//! How the C library's allocator gives large pieces of memory back.
//!
//! Each thread has a part of memory of its own, and what one thread has freed there another does
//! not get: with the default rule, which sends more and more to these parts as large pieces are
//! freed, a room for bodies that threads fill by turns took half as much again. Not here: who
//! allocates such pieces ([`crate::prompt`], for bodies).
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "named island: mallopt(3) has no safe wrapper")
)]

/// Pieces of this size and more are mapped, and given back to the system when they are freed. It
/// is larger than what is read ahead of an upstream at a time, which comes and goes all the time.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: libc::c_int = 192 * 1024;

/// What a thread's part keeps of freed memory. What belongs to a long answer comes and goes
/// together, and giving it back each time costs the faults to have it again.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 2 * 1024 * 1024;

/// Fixes these sizes, which otherwise grow. To be called before there are other threads.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES),
    ] {
        // SAFETY: mallopt(3) takes numbers alone; it fails without any effect, and then all is as
        // it would be without.
        unsafe {
            libc::mallopt(what, bytes);
        }
    }
}
