//! Leave for aya to read and write the shared types as bytes. Userspace only.
#![expect(unsafe_code, reason = "named island: Pod is an unsafe trait")]

use crate::flow::{Event, FlowKey, FlowSet, FlowSlot, Rejected};
use crate::policy::{Clock, KeyPolicy, Settings};
use crate::rehearsal::Rehearsal;

macro_rules! pod {
    ($($name:ty),*) => {$(
        // SAFETY: repr(C), integers only, no implicit padding (asserted beside the type),
        // so every byte is initialised and every bit pattern is a value.
        unsafe impl aya::Pod for $name {}
    )*};
}

pod!(
    FlowKey, FlowSet, FlowSlot, Rejected, Event, KeyPolicy, Settings, Clock, Rehearsal
);
