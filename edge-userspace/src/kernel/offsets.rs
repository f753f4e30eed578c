//! Where the running kernel keeps a socket's sequence numbers: from its own type
//! description (BTF, Documentation/bpf/btf.rst), since structures move between versions.
//!
//! The program compares a hello's numbers with them, so that a segment that nobody's
//! connection expects has no effect. Without them it only knows that there is a socket.

use std::fs;
use std::path::Path;

/// Offsets in bytes, and numbers of types; 0 where one is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    /// `tcp_request_sock.rcv_isn`: the client's initial sequence number.
    pub(super) request_rcv_isn: u32,
    /// `tcp_request_sock.snt_isn`: the server's.
    pub(super) request_snt_isn: u32,
    /// `tcp_sock.rcv_nxt`: what is expected of the client next.
    pub(super) socket_rcv_nxt: u32,
    /// The number of the type `tcp_sock`.
    pub(super) tcp_sock: u32,
    /// The number of the function `bpf_rdonly_cast` (Linux 6.2).
    pub(super) cast: u32,
}

const MAGIC: u16 = 0xeb9f;
/// The kernel's own description is about six megabytes; this only guards.
const MAX_BYTES: u64 = 256 << 20;

// Kinds of types: include/uapi/linux/btf.h.
const STRUCT: u32 = 4;
const FUNCTION: u32 = 12;

impl Offsets {
    /// Of the running kernel. All 0 when it does not tell.
    #[must_use]
    pub(super) fn of_kernel() -> Self {
        let path = Path::new("/sys/kernel/btf/vmlinux");
        let fits = fs::metadata(path).is_ok_and(|file| file.len() <= MAX_BYTES);
        let bytes = if fits { fs::read(path).ok() } else { None };
        bytes
            .and_then(|bytes| Self::find(&bytes))
            .unwrap_or_default()
    }

    /// Whether all are known.
    #[must_use]
    pub(super) const fn are_known(self) -> bool {
        self.request_rcv_isn != 0 && self.request_snt_isn != 0 && self.socket_rcv_nxt != 0
    }

    fn find(bytes: &[u8]) -> Option<Self> {
        let magic = bytes.first_chunk().map(|b| u16::from_ne_bytes(*b))?;
        if magic != MAGIC {
            return None;
        }
        let [header, types_at, types, strings_at, strings] =
            [4, 8, 12, 16, 20].map(|at| word(bytes, at).map(|value| value as usize));
        let header = header?;
        let types = part(bytes, header + types_at?, types?)?;
        let strings = part(bytes, header + strings_at?, strings?)?;
        let mut offsets = Self::default();
        let mut at = 0;
        let mut number = 0;
        while at + 12 <= types.len() {
            // Types are numbered from 1.
            number += 1;
            let name = word(types, at)?;
            let info = word(types, at + 4)?;
            let members = (info & 0xffff) as usize;
            let kind = info >> 24 & 0x1f;
            at += 12;
            if kind == STRUCT {
                let wanted: &mut [(&[u8], &mut u32)] = match text(strings, name) {
                    Some(b"tcp_request_sock") => &mut [
                        (b"rcv_isn", &mut offsets.request_rcv_isn),
                        (b"snt_isn", &mut offsets.request_snt_isn),
                    ],
                    Some(b"tcp_sock") => {
                        offsets.tcp_sock = number;
                        &mut [(b"rcv_nxt", &mut offsets.socket_rcv_nxt)]
                    }
                    _ => &mut [],
                };
                for (name, offset) in wanted {
                    if let Some(found) = member(types, strings, at, members, info, name) {
                        **offset = found;
                    }
                }
            }
            if kind == FUNCTION && text(strings, name) == Some(b"bpf_rdonly_cast") {
                offsets.cast = number;
            }
            at += beyond(kind, members)?;
        }
        Some(offsets)
    }
}

/// The offset in bytes of a member with this name among those that begin at `at`.
fn member(
    types: &[u8],
    strings: &[u8],
    at: usize,
    count: usize,
    info: u32,
    name: &[u8],
) -> Option<u32> {
    let place = |index: usize| at + 12 * index;
    let found = (0..count).find(|index| {
        let its = word(types, place(*index)).and_then(|its| text(strings, its));
        its == Some(name)
    })?;
    let bits = word(types, place(found) + 8)?;
    // With the kind's flag the upper byte is a bit field's size.
    let bits = if info >> 31 == 1 {
        bits & 0xff_ffff
    } else {
        bits
    };
    (bits % 8 == 0).then_some(bits / 8)
}

/// How many bytes follow a type of this kind.
const fn beyond(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, declaration tags.
        1 | 14 | 17 => 4,
        3 => 12,
        // Structures, unions, sections, 64-bit enumerations.
        4 | 5 | 15 | 19 => 12 * count,
        // Enumerations, prototypes.
        6 | 13 => 8 * count,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn part(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(length)?)
}

fn text(strings: &[u8], at: u32) -> Option<&[u8]> {
    let from = strings.get(at as usize..)?;
    let end = from.iter().position(|byte| *byte == 0)?;
    Some(&from[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with one structure of each kind of member that there is.
    fn description(flag: bool) -> Vec<u8> {
        let strings =
            b"\0bpf_rdonly_cast\0tcp_sock\0rcv_nxt\0tcp_request_sock\0rcv_isn\0snt_isn\0other\0";
        let at = |name: &[u8]| {
            let found = strings
                .windows(name.len() + 2)
                .position(|w| w[0] == 0 && &w[1..=name.len()] == name && w[name.len() + 1] == 0);
            found.unwrap() as u32 + 1
        };
        let mut words: Vec<u32> = Vec::new();
        let flagged = u32::from(flag) << 31;
        words.extend([0, 1 << 24, 4, 32]); // an integer
        words.extend([0, 3 << 24, 0, 1, 1, 7]); // an array
        words.extend([at(b"other"), 6 << 24 | 1, 4, at(b"other"), 1]); // an enumeration
        words.extend([at(b"tcp_sock"), flagged | 4 << 24 | 2, 64]);
        words.extend([at(b"other"), 1, 0, at(b"rcv_nxt"), 1, 8 * 44]);
        words.extend([at(b"other"), 4 << 24 | 1, 8, at(b"rcv_isn"), 1, 8]);
        words.extend([at(b"tcp_request_sock"), flagged | 4 << 24 | 2, 64]);
        words.extend([at(b"rcv_isn"), 1, 8 * 20, at(b"snt_isn"), 1, 8 * 24]);
        words.extend([0, 13 << 24, 0]); // a prototype
        words.extend([at(b"bpf_rdonly_cast"), 12 << 24 | 1, 7]);
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            bytes.extend((word as u32).to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_among_types_of_every_length() {
        let wanted = Offsets {
            request_rcv_isn: 20,
            request_snt_isn: 24,
            socket_rcv_nxt: 44,
            tcp_sock: 4,
            cast: 8,
        };
        for flag in [false, true] {
            assert_eq!(Offsets::find(&description(flag)), Some(wanted));
        }
    }

    #[test]
    fn what_is_cut_short_or_unknown_tells_nothing_wrong() {
        let whole = description(false);
        let right = Offsets::find(&whole).unwrap();
        for length in 0..whole.len() {
            let found = Offsets::find(&whole[..length]).unwrap_or_default();
            assert!(found == right || !found.are_known(), "{length}: {found:?}");
        }
        assert_eq!(
            Offsets::find(b"\x7fELF and more of it, which is no such thing"),
            None
        );
    }
}
