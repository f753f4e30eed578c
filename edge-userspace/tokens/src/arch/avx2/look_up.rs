//! The look-up of a batch, compiled with AVX2: its loops over lines become vector code.

use crate::arch::look_up::{mediums, shorts};
use crate::exact::look_up::LookUp;
use crate::lookup::batch::Batch;

/// See `arch::look_up::take`.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(crate) fn take(look_up: &mut LookUp<'_>, text: &[u8], batch: &mut Batch) {
    look_up.take_with(text, batch, shorts, mediums);
}
