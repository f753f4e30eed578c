//! The replay table: which tokens have been used, and by whom. A token is good for one
//! connection; the same bytes on another one are a replay.
//!
//! A set is 128 bytes, two cache lines that are fetched together: seven entries of two
//! words each. A token may lie in either of two sets. An entry whose token could still be
//! used is never overwritten, so nobody can push another's token out; when both sets are
//! full the token cannot be remembered, and its holder is told so by the lane it gets.
//!
//! Userspace writes the table ([the owner] of the memory); the kernel only looks. Here is
//! the layout, and the look that both take.
//!
//! [the owner]: crate#who-writes-what

use crate::flow::FlowKey;
use crate::siphash::{self, siphash24_20};
use crate::token::Token;
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a set.
pub const WAYS: usize = 7;
/// Words of a set.
pub const SET_WORDS: usize = 16;
/// One set: entry `i` is the words `2 i`, the [`id`] or 0, and `2 i + 1`, the [`Holder`].
pub type Set = [AtomicU64; SET_WORDS];

/// Who used a token, and until when that matters: 48 bits of the connection's mark above
/// the low 16 bits of the second, Unix time, after which the token is out of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(pub u64);

/// What a token is remembered by. Never 0.
///
/// The tag is the key holder's SipHash over everything in the token: only a holder of a
/// key can choose tags, and only those of its own key, whose id is part of this.
#[inline(always)]
#[must_use]
pub const fn id(token: &Token) -> u64 {
    let id = token.tag ^ token.key_id.0.rotate_left(32);
    if id == 0 { 1 } else { id }
}

/// The two sets in which a token may lie, by their numbers. They may be the same.
#[inline(always)]
#[must_use]
pub const fn places(id: u64, secret: siphash::Key, sets_mask: u32) -> [u32; 2] {
    let mixed = crate::flow::mix(id ^ secret[0], secret[1]);
    [mixed as u32 & sets_mask, (mixed >> 32) as u32 & sets_mask]
}

/// A connection's mark: its client's address and both ports, so that a local translation
/// of the server's address does no harm. SipHash under the table's secret: the mark of
/// another connection cannot be aimed at.
#[inline(always)]
#[must_use]
pub fn mark(flow: &FlowKey, secret: siphash::Key) -> u64 {
    let [a, b, c, d] = flow.client;
    let words = [a as u64 | (b as u64) << 32, c as u64 | (d as u64) << 32];
    let ports = flow.client_port_be as u32 | (flow.server_port_be as u32) << 16;
    siphash24_20(secret, words, ports) >> 16
}

impl Holder {
    /// The connection with this [`mark`], until the end of this second.
    #[must_use]
    pub const fn new(mark: u64, last_s: u64) -> Self {
        Self(mark << 16 | last_s & 0xffff)
    }

    /// Whether it is the connection with this [`mark`].
    #[inline(always)]
    #[must_use]
    pub const fn is(self, mark: u64) -> bool {
        self.0 >> 16 == mark
    }

    /// Whether the token could still be used at `now_s`. Windows are far shorter than the
    /// 32,768 seconds that the 16 bits can tell apart.
    #[must_use]
    pub const fn is_live(self, now_s: u64) -> bool {
        let left = (self.0 as u16).wrapping_sub(now_s as u16) as i16;
        left >= 0
    }
}

/// Who used the token, if this set knows.
#[must_use]
pub fn holder(set: &Set, id: u64) -> Option<Holder> {
    holder_by(|word| set[word].load(Ordering::Relaxed), id)
}

/// The same, reading the set's words by number: the BPF target has no atomic loads, and
/// reads as volatile.
#[inline(always)]
#[must_use]
pub fn holder_by(word: impl Fn(usize) -> u64, id: u64) -> Option<Holder> {
    let mut entry = 0;
    while entry < WAYS {
        if word(2 * entry) == id {
            return Some(Holder(word(2 * entry + 1)));
        }
        entry += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_lives_to_the_end_of_its_last_second_also_across_the_wrap() {
        for last_s in [1_800_000_000u64, 65_535, 65_536 + 3, (1 << 17) - 1] {
            let holder = Holder::new(0xabcd_ef01_2345, last_s);
            assert!(holder.is(0xabcd_ef01_2345) && !holder.is(0xabcd_ef01_2344));
            assert!(holder.is_live(last_s) && holder.is_live(last_s - 4200));
            assert!(!holder.is_live(last_s + 1) && !holder.is_live(last_s + 20_000));
        }
    }

    #[test]
    fn an_entry_is_found_wherever_it_stands() {
        for entry in 0..WAYS {
            let set: Set = Default::default();
            set[2 * entry].store(77, Ordering::Relaxed);
            set[2 * entry + 1].store(5 << 16, Ordering::Relaxed);
            assert_eq!(holder(&set, 77), Some(Holder(5 << 16)));
            assert_eq!(holder(&set, 78), None);
        }
    }

    #[test]
    fn places_are_within_the_table_and_use_all_of_it() {
        let mut used = vec![0u32; 256];
        for id in 1..=5120 {
            for place in places(id, [3, 4], 255) {
                used[place as usize] += 1;
            }
        }
        // 40 expected; a set that is far off would fill early.
        assert!(
            used.iter().all(|count| (10..=80).contains(count)),
            "{used:?}"
        );
    }
}
