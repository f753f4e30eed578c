//! Characters outside of ASCII: where they are whole UTF-8, and their classes.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the same promise stands for each: the instructions are there"
)]
#![expect(
    unsafe_code,
    reason = "calls what the instructions have to be there for"
)]

use super::Vector;
use crate::pattern::class;

/// The classes of characters outside of ASCII, each at its first byte.
#[derive(Clone, Copy, Default)]
pub(crate) struct Classes {
    pub(crate) letter: u64,
    pub(crate) number: u64,
    pub(crate) space: u64,
    pub(crate) upper: u64,
    pub(crate) lower: u64,
}

/// What is outside of ASCII in a block.
pub(super) struct Wide {
    pub(super) classes: Classes,
    /// What of the block are whole characters, up to what is no UTF-8.
    pub(super) inside: u64,
    pub(super) broken: bool,
}

/// First bytes of characters of two bytes and more, of three and more, of four.
#[derive(Clone, Copy)]
pub(crate) struct Leads {
    pub(crate) two: u64,
    pub(crate) three: u64,
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for AVX-512"))]
    pub(crate) four: u64,
}

impl Wide {
    #[inline(always)]
    pub(super) unsafe fn read<V: Vector>(
        vector: V,
        high: u64,
        inside: u64,
        ends: bool,
        block: &[u8],
        cased: bool,
    ) -> Self {
        // SAFETY: the caller's promise.
        let (continuation, three, four) = unsafe {
            (
                vector.continuation(),
                vector.at_least(0xe0),
                vector.at_least(0xf0),
            )
        };
        let lead = high & !continuation;
        let expected = (lead << 1) | (three << 2) | (four << 3);
        let mut inside = inside;
        let mut broken = false;
        let mut known = !0;
        if !ends {
            let parted = (lead & (1 << 63)) | (three & (3 << 62)) | (four & (7 << 61));
            inside &= below_lowest(parted);
            // With the first byte of the one that is parted: it continues nothing either.
            known = inside << 1 | 1;
        }
        let wrong = (expected ^ continuation) & known;
        if wrong != 0 {
            // A byte that continues nothing, or behind a character that is not continued.
            let before = below_lowest(wrong);
            let character = lead & before;
            let lowest = wrong & wrong.wrapping_neg();
            let cut = if expected & lowest == 0 || character == 0 {
                before
            } else {
                (1 << (63 - character.leading_zeros())) - 1
            };
            inside &= cut;
            broken = true;
        }
        let leads = Leads {
            two: lead & inside,
            three: three & inside,
            four: four & inside,
        };
        // SAFETY: the caller's promise.
        let (mut classes, mut left) = unsafe { vector.classes(block, leads, cased) };
        if left != 0 {
            let mut bits = Aligned([0; 64]);
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                match code_point(block, i) {
                    Some(code_point) => bits.0[i] = class::of(code_point),
                    None => {
                        inside &= (1 << i) - 1;
                        broken = true;
                        break;
                    }
                }
            }
            // SAFETY: there are 64 bytes; the instructions are the caller's promise.
            let bits = unsafe { V::load(bits.0.as_ptr()) };
            // SAFETY: the caller's promise.
            let with = |class: u8| unsafe { bits.test(class) };
            classes.letter |= with(class::LETTER);
            classes.number |= with(class::NUMBER);
            classes.space |= with(class::SPACE);
            if cased {
                classes.upper |= with(class::UPPER);
                classes.lower |= with(class::LOWER);
            }
        }
        Self {
            classes,
            inside,
            broken,
        }
    }
}

/// The character at `i`, whose bytes continue as its first one says; `None` if it is over-long,
/// a surrogate or more than Unicode has.
#[inline(always)]
fn code_point(block: &[u8], i: usize) -> Option<u32> {
    let first = u32::from(block[i]);
    let next = |k: usize| u32::from(block[i + k] & 0x3f);
    if first < 0xe0 {
        return (first >= 0xc2).then(|| (first & 0x1f) << 6 | next(1));
    }
    if first < 0xf0 {
        let code_point = (first & 0xf) << 12 | next(1) << 6 | next(2);
        return (code_point >= 0x800 && code_point & 0xf800 != 0xd800).then_some(code_point);
    }
    let code_point = (first & 0xf) << 18 | next(1) << 12 | next(2) << 6 | next(3);
    (first < 0xf5 && (0x1_0000..0x11_0000).contains(&code_point)).then_some(code_point)
}

/// Bits for each 2,048 code points of the first 131,072, for each class: laid out by the build
/// script. For AVX-512.
#[cfg(target_arch = "x86_64")]
pub(crate) static WINDOWS: Aligned<[u8; 64 * 5 * 256]> = Aligned(*include_bytes!(concat!(
    env!("OUT_DIR"),
    "/class_windows.bin"
)));

/// Where a cache line starts.
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

/// All bits below the lowest of a word; all if there is none.
#[inline(always)]
fn below_lowest(word: u64) -> u64 {
    (word & word.wrapping_neg()).wrapping_sub(1)
}
