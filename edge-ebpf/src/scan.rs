//! The scan of a hello that is not all in sight: chunk by chunk through a buffer, which
//! holds what the scanner has left of what came before, and then more of the packet.
//!
//! A packet of many chunks, or a hello of many extensions, goes round by tail call.

use aya_ebpf::{EbpfContext as _, helpers::generated::bpf_xdp_load_bytes, programs::XdpContext};
use edge_common::client_hello::{MAX_PARTIAL, Scanned};
use edge_common::flow::KEPT_BYTES;
use edge_common::policy::Reason;

use crate::Step;
use crate::checksum::{self, Checksum};
use crate::flows;
use crate::maps::{self, Next};
use crate::packet::{self, opaque, read_u64};
use crate::scratch::{BUFFER_MASK, CHUNK_BYTES, Outcome, Scratch};
use crate::source::Buffer;

/// The most segments and bytes of a hello that are followed.
const MAX_SEGMENTS: u32 = 12;
pub(crate) const MAX_HELLO_BYTES: u32 = (16 << 10) + 512;

/// Loads a chunk if the scanner waits for one, and scans.
#[inline(always)]
pub(crate) fn chunk(ctx: &XdpContext, scratch: &mut Scratch) -> Step {
    if scratch.filled <= MAX_PARTIAL as u32
        && scratch.loaded < scratch.payload_bytes
        && !load(ctx, scratch)
    {
        return give_up(scratch, Outcome::NotLinear);
    }
    let filled = (opaque(u64::from(scratch.filled)) & u64::from(BUFFER_MASK)) as u32;
    let source = Buffer::of(scratch, filled);
    match scratch.record.hello.step(&source) {
        Scanned::NotTls => {
            // What had begun like a hello is none.
            flows::forget(scratch);
            Err(Reason::NotHello)
        }
        Scanned::Paused => Ok(Next::Scan),
        Scanned::Incomplete => {
            keep_rest(scratch, filled);
            if scratch.loaded < scratch.payload_bytes {
                Ok(Next::Scan)
            } else {
                keep(ctx, scratch)
            }
        }
        scanned => {
            scratch.outcome = Outcome::of(scanned) as u32;
            Ok(Next::Judge)
        }
    }
}

#[inline(always)]
fn give_up(scratch: &mut Scratch, outcome: Outcome) -> Step {
    scratch.outcome = outcome as u32;
    Ok(Next::Judge)
}

/// Appends the next part of the payload to the buffer.
#[inline(always)]
fn load(ctx: &XdpContext, scratch: &mut Scratch) -> bool {
    let left = scratch.payload_bytes - scratch.loaded;
    let count = if left < CHUNK_BYTES {
        left
    } else {
        CHUNK_BYTES
    };
    // At least one: Linux 6.1 does not see it from the comparison above.
    let less_one = opaque(u64::from(count - 1));
    if less_one >= u64::from(CHUNK_BYTES) {
        return false;
    }
    let count = (less_one + 1) as u32;
    let filled = (opaque(u64::from(scratch.filled)) & (KEPT_BYTES as u64 - 1)) as usize;
    let to = (&raw mut scratch.buffer) as usize + filled;
    let from = scratch.payload_at + scratch.loaded;
    // SAFETY: the context is the program's own; the buffer has room for a chunk behind
    // what is kept.
    let failed = unsafe { bpf_xdp_load_bytes(ctx.as_ptr().cast(), from, to as *mut _, count) };
    if failed != 0 {
        return false;
    }
    scratch.loaded += count;
    scratch.filled = filled as u32 + count;
    true
}

/// Moves what the scanner has not consumed to the buffer's front.
#[inline(always)]
fn keep_rest(scratch: &mut Scratch, filled: u32) {
    let consumed = scratch.record.hello.consume(filled);
    let start = (&raw const scratch.buffer) as usize;
    let from = start + (opaque(u64::from(consumed)) & u64::from(BUFFER_MASK)) as usize;
    let mut word = 0;
    while word < KEPT_BYTES / 8 {
        let value = read_u64(from + 8 * word);
        // SAFETY: the buffer's first words.
        unsafe {
            (&raw mut scratch.buffer)
                .cast::<u64>()
                .add(word)
                .write_volatile(value)
        };
        word += 1;
    }
    scratch.filled = filled - consumed;
}

/// Keeps the unfinished hello for its next segment. Not what the stack will not take: the
/// true copy is still to come.
#[inline(always)]
fn keep(ctx: &XdpContext, scratch: &mut Scratch) -> Step {
    let next = scratch.sequence.wrapping_add(scratch.payload_bytes);
    let record = &mut scratch.record;
    record.hello_bytes = next.wrapping_sub(record.first);
    if record.segments >= MAX_SEGMENTS || record.hello_bytes > MAX_HELLO_BYTES {
        return give_up(scratch, Outcome::Oversize);
    }
    match checksum::look(ctx, scratch) {
        Checksum::Right => {}
        Checksum::Wrong => return Err(Reason::ChecksumWrong),
        Checksum::TooLong => return give_up(scratch, Outcome::Oversize),
        Checksum::NotLinear => return give_up(scratch, Outcome::NotLinear),
    }
    packet::forget(scratch);
    let record = &mut scratch.record;
    record.next = next;
    record.kept_bytes = scratch.filled;
    let mut word = 0;
    while word < KEPT_BYTES / 8 {
        // SAFETY: the buffer's first words, and as many of the record.
        unsafe {
            let value = (&raw const scratch.buffer)
                .cast::<u64>()
                .add(word)
                .read_volatile();
            (&raw mut scratch.record.kept)
                .cast::<u64>()
                .add(word)
                .write_volatile(value);
        }
        word += 1;
    }
    scratch.monotonic_ns = maps::monotonic_ns(scratch);
    let is_first = scratch.record.segments == 1;
    if is_first {
        scratch.record.began_ns = scratch.monotonic_ns;
    }
    match flows::put::<true>(scratch) {
        Ok(()) => {}
        Err(flows::Unplaced::NoRoom) => return give_up(scratch, Outcome::NotKept),
        Err(flows::Unplaced::Overtaken) => return Err(Reason::Retransmitted),
    }
    packet::forget(scratch);
    Err(if is_first {
        Reason::HelloBegun
    } else {
        Reason::HelloContinued
    })
}
