//! The look-up of a batch, compiled with AVX2: its loops over lines become vector code.

use crate::arch::look_up::{mediums, shorts};
use crate::exact::look_up::LookUp;
use crate::lookup::batch::Batch;

#[expect(clippy::redundant_closure, reason = "see below")]
/// See `arch::look_up::take`.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(crate) fn take(look_up: &mut LookUp<'_>, text: &[u8], batch: &mut Batch) {
    // Closures are compiled with the instructions of this function, functions handed on are not.
    look_up.take_with(
        text,
        batch,
        |first, batch| shorts(first, batch),
        |tables, batch| mediums(tables, batch),
    );
}
