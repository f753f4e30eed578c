//! How a test that needs more than a plain user's rights says that it did not run.
//!
//! `cargo test` without root or BPF must pass, yet never hide what it left out. A test that
//! needs the kernel begins with
//!
//! ```ignore
//! #[macro_use]
//! mod skip;
//!
//! #[test]
//! fn a_bad_tag_is_rejected_in_the_kernel() {
//!     needs_kernel!();
//!     // …
//! }
//! ```
//!
//! and where the kernel half is not permitted it returns at once, after one line
//! `SKIPPED name: why` on stderr and in the file that `EDGE_SKIPPED_FILE` names.
//! `cargo xtask test` sets that file, prints its lines at the end, and fails on them when
//! called with `--no-skips`. A need of another kind: [`skipped`] with the test's name;
//! [`skipped_optional`] for what no machine is asked to have, which `--no-skips` lets be.
//!
//! Files `tests/kernel_*.rs` form the group `kernel`, which `cargo xtask test` runs on one
//! thread, so that such a test may own a port, an interface or a pin path.
//!
//! Nothing here knows the product: whether BPF is permitted is asked of the kernel.

#![allow(
    dead_code,
    unused_macros,
    clippy::allow_attributes,
    reason = "each test file uses its own part of it"
)]

use std::io::Write as _;

/// Returns from the calling test, with a line that names it, unless the kernel half is
/// permitted: effective CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN (the last for network
/// namespaces), and BTF of the running kernel.
macro_rules! needs_kernel {
    () => {
        if let Err(why) = $crate::skip::kernel_permitted() {
            fn here() {}
            $crate::skip::skipped($crate::skip::caller(&here), &why);
            return;
        }
    };
}

/// Why the kernel half cannot be loaded here, if it cannot.
pub(crate) fn kernel_permitted() -> Result<(), String> {
    const NEEDED: [(&str, u32); 3] = // include/uapi/linux/capability.h
        [
            ("CAP_BPF", 39),
            ("CAP_NET_ADMIN", 12),
            ("CAP_SYS_ADMIN", 21),
        ];
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .ok_or("/proc/self/status has no CapEff line")?;
    for (name, bit) in NEEDED {
        if effective >> bit & 1 == 0 {
            return Err(format!("needs {name} (run as root)"));
        }
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("needs /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)".into());
    }
    Ok(())
}

/// Says that `test` did not run and why, where people and `cargo xtask test` read it.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    // Past the harness's capture, which hides the output of a test that passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("EDGE_SKIPPED_FILE") {
        // One write of one line in append mode: test processes do not mix their lines.
        let written = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            panic!("EDGE_SKIPPED_FILE={}: {error}", path.display());
        }
    }
}

/// As [`skipped`], for want of something that CI does not install.
pub(crate) fn skipped_optional(test: &str, why: &str) {
    skipped(test, &format!("optional: {why}"));
}

/// The path of the function around `marker`, a function item declared in it, without the
/// markers that the compiler adds for async tests.
pub(crate) fn caller<T>(_marker: &T) -> &'static str {
    let path = std::any::type_name::<T>();
    let path = path.strip_suffix("::here").unwrap_or(path);
    path.strip_suffix("::{{closure}}").unwrap_or(path)
}
