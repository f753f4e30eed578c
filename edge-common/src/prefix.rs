//! The prefix table: how many connections without a token each source prefix has opened
//! (IPv4 /24, IPv6 /64).
//!
//! A set is 128 bytes: five entries of three words, the prefix and its bucket's two words
//! ([`crate::rate`]). A bucket that is empty again is as good as none, so its entry is free.
//! Userspace writes the table, but for `shed`, which is the kernel's. Here is the layout,
//! and the look that both take.

use crate::flow::FlowKey;
use crate::siphash;
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a set.
pub const WAYS: usize = 5;
/// Words of a set.
pub const SET_WORDS: usize = 16;
/// One set: entry `i` is the words `3 i`, the prefix or 0, `3 i + 1`, accepted connections,
/// and `3 i + 2`, what the kernel let through while the former was pressed.
pub type Set = [AtomicU64; SET_WORDS];

/// The prefix of a client's address as in [`FlowKey::client`]. Never 0.
///
/// IPv4 prefixes have zeros where an IPv6 address has its first 16 bits; no address that
/// is routed begins so.
#[inline(always)]
#[must_use]
pub const fn of(client: &[u32; 4]) -> u64 {
    let [a, b, c, d] = *client;
    if a == 0 && b == 0 && c == FlowKey::MAPPED {
        let network = u32::from_be(d) >> 8;
        return 1 << 63 | (network as u64) << 16;
    }
    let prefix = a as u64 | (b as u64) << 32;
    if prefix == 0 { 1 } else { prefix }
}

/// The number of the set in which a prefix lies.
#[inline(always)]
#[must_use]
pub const fn place(prefix: u64, secret: siphash::Key, sets_mask: u32) -> u32 {
    crate::flow::mix(prefix ^ secret[1], secret[0]) as u32 & sets_mask
}

/// The prefix's bucket, if this set has one: accepted connections, and `shed`.
#[must_use]
pub fn bucket(set: &Set, prefix: u64) -> Option<(&AtomicU64, &AtomicU64)> {
    let at = bucket_by(|word| set[word].load(Ordering::Relaxed), prefix)?;
    Some((&set[at], &set[at + 1]))
}

/// The number of the first word of the prefix's bucket, reading the set's words by number:
/// the BPF target has no atomic loads, and reads as volatile.
#[inline(always)]
#[must_use]
pub fn bucket_by(word: impl Fn(usize) -> u64, prefix: u64) -> Option<usize> {
    let mut entry = 0;
    while entry < WAYS {
        if word(3 * entry) == prefix {
            return Some(3 * entry + 1);
        }
        entry += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv6Addr};

    fn prefix(address: &str) -> u64 {
        let address = match address.parse().unwrap() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        of(&words(address))
    }

    fn words(address: Ipv6Addr) -> [u32; 4] {
        let octets = address.octets();
        core::array::from_fn(|i| u32::from_ne_bytes(octets[4 * i..][..4].try_into().unwrap()))
    }

    #[test]
    fn ipv4_by_24_bits_and_ipv6_by_64() {
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.254"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8:0:1::1"), prefix("2001:db8:0:1:ffff::"));
        assert_ne!(prefix("2001:db8:0:1::1"), prefix("2001:db8:0:2::1"));
        for other in [
            "2001:db8::",
            "fe80::1",
            "::1",
            "64:ff9b::192.0.2.1",
            "ff02::1",
        ] {
            assert_ne!(prefix("0.0.0.0"), prefix(other));
            assert_ne!(prefix(other), 0);
        }
    }
}
