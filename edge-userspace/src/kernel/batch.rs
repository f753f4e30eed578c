//! Puts many entries into a BPF map with one call, which aya does not offer. Not here: which
//! entries, and what to do when the kernel will not ([`super::program`]).
#![expect(unsafe_code, reason = "named island: bpf(2) has no safe wrapper")]

use aya::Pod;
use aya::maps::{HashMap, IterableMap as _, MapData};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, AsRawFd as _};

/// include/uapi/linux/bpf.h, Linux 5.6. Hash maps take it.
const BPF_MAP_UPDATE_BATCH: libc::c_long = 26;

/// `union bpf_attr`, its member `batch`.
#[repr(C)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}

/// Adds or replaces each of `keys` with its value, in order. Which of them are new is not told.
///
/// # Errors
/// As one entry's update would, and `EINVAL` on a kernel without batches. Any number of the
/// first entries may be in the map then: not every kernel tells how many.
pub(super) fn update<K: Pod, V: Pod>(
    map: &mut HashMap<MapData, K, V>,
    keys: &[K],
    values: &[V],
) -> Result<(), Errno> {
    assert_eq!(keys.len(), values.len(), "a value for each key");
    let mut batch = Batch {
        in_batch: 0,
        out_batch: 0,
        keys: keys.as_ptr().addr() as u64,
        values: values.as_ptr().addr() as u64,
        count: u32::try_from(keys.len()).map_err(|_| Errno::TOOBIG)?,
        map_fd: map.map().fd().as_fd().as_raw_fd().cast_unsigned(),
        element_flags: 0,
        flags: 0,
    };
    // SAFETY: the kernel reads `count` keys and values, which outlive the call and are plain
    // bytes (`Pod`) of the map's lengths (a typed map is made only when they are), and writes
    // `count` of the attributes, which are ours.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_UPDATE_BATCH,
            &raw mut batch,
            size_of::<Batch>(),
        )
    };
    if done < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    Ok(())
}
