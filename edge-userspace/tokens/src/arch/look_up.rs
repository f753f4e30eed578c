//! The first step of a look-up, which most pieces end at.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(
        unsafe_code,
        reason = "calls what the instructions have to be there for"
    )
)]

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::exact::look_up::LookUp;
use crate::lookup::batch::Batch;
use crate::lookup::memo::medium_in;
use crate::lookup::{First, KEY, Tables, hash_medium, hash_short};

/// Takes a batch.
pub(crate) fn take(isa: Isa, look_up: &mut LookUp<'_>, text: &[u8], batch: &mut Batch) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            assert!(isa.is_available(), "{isa} is not available here");
            // SAFETY: it is available.
            unsafe { avx512::look_up::take(look_up, text, batch) }
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            assert!(isa.is_available(), "{isa} is not available here");
            // SAFETY: it is available.
            unsafe { avx2::look_up::take(look_up, text, batch) }
        }
        _ => look_up.take_with(text, batch, shorts, mediums),
    }
}

/// Looks the short pieces of a batch up in the first table: their tokens, and how many it does
/// not know, which are the first of `batch.missed` then.
#[inline(always)]
pub(crate) fn shorts(first: &First, batch: &mut Batch) -> (u64, usize) {
    let (mut tokens, mut missed) = (0, 0);
    for &key in &batch.short[..batch.shorts] {
        let entry = first[Tables::first_of(hash_short(key))];
        let hit = (entry ^ key) & KEY == 0;
        tokens += if hit { entry >> 56 } else { 0 };
        // SAFETY: there are no more than there are keys.
        unsafe { *batch.missed.get_unchecked_mut(missed) = key };
        missed += usize::from(!hit);
    }
    (tokens, missed)
}

/// Looks the pieces of eight to fifteen bytes of a batch up where the memo has most of them:
/// their tokens, and how many are not there, which are the first of `batch.medium` then.
#[inline(always)]
pub(crate) fn mediums(tables: &Tables<'_>, batch: &mut Batch) -> (u64, usize) {
    let keys = &mut batch.medium[..batch.mediums];
    for &key in &*keys {
        prefetch(tables.medium_line(hash_medium(key)));
    }
    let (mut tokens, mut missed) = (0, 0);
    for i in 0..keys.len() {
        let key = keys[i];
        let known = medium_in(tables.medium_line(hash_medium(key)), key);
        tokens += known;
        keys[missed] = key;
        missed += usize::from(known == 0);
    }
    (tokens, missed)
}

/// Has the line of memory fetched that this starts in.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing, and no register is changed.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{at}]",
            at = in(reg) std::ptr::from_ref(what).cast::<u8>(),
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = what;
}
