//! What this process may do (capabilities(7)), as far as the commands ask.

/// What the kernel half and the network namespaces need, with their bits
/// (include/uapi/linux/capability.h). CAP_SYS_ADMIN covers CAP_PERFMON.
pub(crate) const NEEDED: [(&str, u32); 3] = [
    ("CAP_BPF", 39),
    ("CAP_NET_ADMIN", 12),
    ("CAP_SYS_ADMIN", 21),
];

/// Raising limits.
pub(crate) const SYS_RESOURCE: u32 = 24;

/// The effective set, from the text of `/proc/PID/status`; nothing when it is not told.
pub(crate) fn effective(status: &str) -> u64 {
    (status.lines())
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

/// This process's.
pub(crate) fn ours() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| effective(&status))
}

/// Whether this process has all that is [`NEEDED`].
pub(crate) fn has_needed() -> bool {
    let ours = ours();
    NEEDED.iter().all(|(_, bit)| ours >> bit & 1 == 1)
}
