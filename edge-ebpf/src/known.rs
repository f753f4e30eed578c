//! A segment of a connection that the flow table knows.
//!
//! The first copy of a byte is the one that counts, as in the stack; what comes twice
//! passes uncounted. Sequence numbers are compared as RFC 9293 section 3.4 has it.

use edge_common::flow::{KEPT_BYTES, state};
use edge_common::policy::Reason;

use crate::Step;
use crate::flows;
use crate::maps::Next;
use crate::packet::{TCP_FIN, TCP_RST};
use crate::scratch::{Errand, NO_WAY, Outcome, Scratch};

/// Further behind a hello's first byte than this its connection is another one. More than
/// a hello can take, less than any stack's window is likely to leave between two uses of
/// the same addresses.
const SAME_CONNECTION: u32 = 1 << 20;
/// The alert's seven bytes and the FIN.
const ALERT_AND_FIN: u32 = 8;

/// What the table knows of a segment with payload.
pub(crate) enum Seen {
    /// What to do.
    Step(Step),
    /// Nothing: it begins anew.
    New,
}

/// A connection with these addresses begins: the old one is history. Unless it is a late
/// copy of its own SYN.
#[inline(always)]
pub(crate) fn opened(scratch: &mut Scratch) {
    let is_ours = matches!(flows::take(scratch), Ok(true));
    if is_ours && scratch.sequence.wrapping_add(1) != scratch.record.first {
        flows::forget(scratch);
    }
}

/// A segment without payload.
#[inline(always)]
pub(crate) fn bare(scratch: &mut Scratch) -> Step {
    match flows::take(scratch) {
        Ok(true) => {}
        _ => return Err(Reason::NoPayload),
    }
    let record = &scratch.record;
    let same = scratch.sequence.wrapping_sub(record.first) < SAME_CONNECTION;
    if record.state != state::REJECTED || !same {
        return Err(Reason::NoPayload);
    }
    let ends = scratch.tcp_flags & u32::from(TCP_FIN | TCP_RST) != 0;
    let answered = record.acknowledged.wrapping_add(ALERT_AND_FIN);
    // Only the exact acknowledgement: another may be of a new connection.
    if !ends && scratch.acknowledged != answered {
        return Err(Reason::NoPayload);
    }
    flows::close(scratch);
    scratch.count(Reason::RejectClosed as u32);
    scratch.errand = Errand::Close as u32;
    Ok(Next::Answer)
}

/// A segment with payload. `is_hello`: it begins as a hello does.
#[inline(always)]
pub(crate) fn payload(scratch: &mut Scratch, is_hello: bool) -> Seen {
    match flows::take(scratch) {
        Ok(true) => {}
        Ok(false) => {
            scratch.way = NO_WAY;
            return Seen::New;
        }
        Err(flows::Contended) => return Seen::Step(Err(Reason::NotHello)),
    }
    let record = &scratch.record;
    let offset = scratch.sequence.wrapping_sub(record.first);
    if offset >= SAME_CONNECTION {
        return Seen::New;
    }
    match record.state {
        state::BEGUN => begun(scratch),
        state::JUDGED => {
            if offset < record.hello_bytes {
                Seen::Step(Err(Reason::Retransmitted))
            } else if is_hello {
                Seen::Step(Err(Reason::HelloAgain))
            } else {
                Seen::Step(Err(Reason::NotHello))
            }
        }
        _ => {
            scratch.count(Reason::RejectedAgain as u32);
            scratch.errand = Errand::RefuseAgain as u32;
            Seen::Step(Ok(Next::Answer))
        }
    }
}

/// A hello is under way.
#[inline(always)]
fn begun(scratch: &mut Scratch) -> Seen {
    let ahead = scratch.sequence.wrapping_sub(scratch.record.next) as i32;
    scratch.record.segments += 1;
    if ahead > 0 {
        scratch.outcome = Outcome::OutOfOrder as u32;
        return Seen::Step(Ok(Next::Judge));
    }
    let seen = ahead.wrapping_neg() as u32;
    if seen >= scratch.payload_bytes {
        return Seen::Step(Err(Reason::Retransmitted));
    }
    scratch.loaded = seen;
    scratch.filled = scratch.record.kept_bytes;
    // Other hellos have used the buffer since.
    let mut word = 0;
    while word < KEPT_BYTES / 8 {
        // SAFETY: the record's kept words, and as many of the buffer's first.
        unsafe {
            let value = (&raw const scratch.record.kept)
                .cast::<u64>()
                .add(word)
                .read_volatile();
            (&raw mut scratch.buffer)
                .cast::<u64>()
                .add(word)
                .write_volatile(value);
        }
        word += 1;
    }
    Seen::Step(Ok(Next::Scan))
}
