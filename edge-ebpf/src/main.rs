//! The XDP programs: they judge a TLS ClientHello before the TCP stack or the daemon spend
//! anything on it, whether it comes in one TCP segment or in several.
//!
//! The way of a packet, from program to program by tail call, so that the verifier has
//! each to itself:
//!
//! - `edge_xdp` finds the segment ([`packet`]) and what is known of its connection
//!   ([`flows`]), asks whether a new hello has a connection ([`connection`]), and scans and
//!   judges one that is all in sight ([`source`], [`judge`]).
//! - `edge_scan` goes on with a hello that is not: the next segment of one, one that lies
//!   in several buffers, one with very many extensions. It keeps what is unfinished.
//! - `edge_proxy` skips a PROXY protocol header before the hello ([`proxy`]).
//! - `edge_judge` gives the verdict on what those two came to ([`judge`]), remembers and counts
//!   it.
//! - `edge_answer` turns the packet of a refused hello into the answer ([`answer`]).
//!
//! They reject only on positive evidence: whatever they cannot see or tell, or the stack
//! will not take ([`checksum`]), passes, and the daemon decides.
//!
//! `edge_pass` is the stub for the peer of a veth pair in tests and demo: the kernel
//! transmits XDP_TX frames over veth only when the peer runs an XDP program too.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod answer;
mod checksum;
mod connection;
mod events;
mod flows;
mod judge;
mod known;
mod maps;
mod packet;
mod proxy;
mod rehearsal;
mod scan;
mod scratch;
mod source;

use aya_ebpf::{bindings::xdp_action::XDP_PASS, macros::xdp, programs::XdpContext};
use connection::Connection;
use edge_common::client_hello::{Scanned, Source as _};
use edge_common::flow::state;
use edge_common::policy::{Counter, Reason, Settings};
use edge_common::token::KeyId;
use maps::Next;
use packet::Segment;
use scratch::{Outcome, RateBy, Scratch};

/// The first program, the one that is attached. Needs Linux 5.18 for frames in several
/// buffers; the product's floor is 6.1.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_xdp(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else {
        return XDP_PASS;
    };
    scratch.count(Counter::Packets as u32);
    let step = segment(&ctx, scratch);
    // Most hellos are judged in the same program: a jump into another costs some ten
    // nanoseconds.
    if matches!(step, Ok(Next::Judge)) {
        return judged(&ctx, scratch);
    }
    finish(&ctx, scratch, step)
}

/// Goes on with a hello that `edge_xdp` has not seen to its end.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_scan(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else {
        return XDP_PASS;
    };
    let step = scan::chunk(&ctx, scratch);
    finish(&ctx, scratch, step)
}

/// Skips a PROXY protocol header.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_proxy(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else {
        return XDP_PASS;
    };
    let step = proxy::header(&ctx, scratch, maps::settings());
    finish(&ctx, scratch, step)
}

/// Judges a hello.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_judge(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else {
        return XDP_PASS;
    };
    judged(&ctx, scratch)
}

/// Answers a refused hello.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_answer(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else {
        return XDP_PASS;
    };
    answer::answer(&ctx, scratch, maps::settings())
}

/// Runs a frame again as if it were new: for the benches.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_again(ctx: XdpContext) -> u32 {
    rehearsal::again(&ctx)
}

/// Passes every frame.
#[xdp(frags)]
#[inline(always)] // into the entry point that the macro makes: else it is a call
pub fn edge_pass(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// Where a handshake record tells the type of its message, and that of a ClientHello
/// (RFC 8446 section 4).
const TYPE_AT: u64 = 5;
const CLIENT_HELLO: u8 = 1;

/// What a program comes to: it is the packet's last, or another goes on.
pub(crate) type Step = Result<Next, Reason>;

#[inline(always)]
fn judged(ctx: &XdpContext, scratch: &mut Scratch) -> u32 {
    if judge::hello(ctx, scratch, maps::settings()) {
        maps::go_on(ctx, Next::Answer);
    }
    XDP_PASS
}

#[inline(always)]
fn finish(ctx: &XdpContext, scratch: &mut Scratch, step: Step) -> u32 {
    match step {
        Ok(next) => {
            maps::go_on(ctx, next);
            // The programs are there before the first is attached, and a packet goes
            // round less often than the kernel allows.
            scratch.count(Reason::NotLinear as u32);
            scratch.count(Counter::Hellos as u32);
            XDP_PASS
        }
        Err(reason) => {
            scratch.count_any(reason as u32);
            if reason as u32 == Reason::NoConnection as u32 {
                aya_ebpf::bindings::xdp_action::XDP_DROP
            } else {
                XDP_PASS
            }
        }
    }
}

#[inline(always)]
fn segment(ctx: &XdpContext, scratch: &mut Scratch) -> Step {
    let segment = packet::parse(ctx, scratch)?;
    let settings = maps::settings();
    let is_known = flows::look(scratch, settings);
    match segment {
        Segment::Syn => {
            if is_known {
                known::opened(scratch);
            }
            Err(if scratch.payload_bytes == 0 {
                Reason::NoPayload
            } else {
                Reason::SynPayload
            })
        }
        Segment::Bare if is_known => known::bare(scratch),
        Segment::Bare => Err(Reason::NoPayload),
        Segment::Payload => payload(ctx, scratch, settings, is_known),
    }
}

#[inline(always)]
fn payload(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings, is_known: bool) -> Step {
    scratch.rate_by = RateBy::Sender as u32;
    if settings.has_proxied_ports != 0
        && maps::proxied(u16::from_be(scratch.record.flow.server_port_be))
    {
        scratch.rate_by = RateBy::Nobody as u32;
    }
    let source = source::Payload::of(ctx, scratch);
    let (may_begin, is_method) = match source.first_two() {
        Some(first) => (begins(first, scratch.payload_bytes), begins_http(first)),
        // Not in sight: it may be anything.
        None => (true, false),
    };
    if is_known {
        let is_hello = may_begin && source.u8(TYPE_AT) == Some(CLIENT_HELLO);
        match known::payload(scratch, is_hello) {
            // A hello of a connection that is not known any more.
            known::Seen::New => {}
            known::Seen::Step(step) => return step,
        }
    }
    if scratch.rate_by != RateBy::Sender as u32 {
        return Ok(Next::Proxy);
    }
    if !may_begin && (settings.check_connection == 0 || is_method) {
        return Err(Reason::NotHello);
    }
    let expected = connected(ctx, scratch, settings);
    if !may_begin {
        // What a connection says later, too, may be seen here first.
        return match expected {
            Ok(Expected::First) => Ok(not_tls(scratch)),
            _ => Err(Reason::NotHello),
        };
    }
    let expected = expected?;
    begin(scratch);
    let source = source::Payload::of(ctx, scratch);
    scratch.record.hello.restart(&source);
    match scratch.record.hello.step(&source) {
        Scanned::NotTls if expected as u32 == Expected::First as u32 => {
            scratch.outcome = Outcome::NotTls as u32;
            Ok(Next::Judge)
        }
        Scanned::NotTls => Err(Reason::NotHello),
        Scanned::Incomplete | Scanned::Paused => Ok(Next::Scan),
        scanned => {
            scratch.outcome = if !packet::has(ctx, scratch.payload_at + scratch.payload_bytes) {
                // It skipped to an end that the frame does not have.
                Outcome::NotLinear as u32
            } else {
                Outcome::of(scanned) as u32
            };
            Ok(Next::Judge)
        }
    }
}

/// What a connection expects.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Expected {
    /// This segment, or nobody looked.
    This = 0,
    /// This segment, and it is the first with a payload.
    First = 1,
}

/// Goes on only where the edge listens and with a connection behind the packet, if that is
/// asked for.
#[inline(always)]
fn connected(
    ctx: &XdpContext,
    scratch: &mut Scratch,
    settings: &Settings,
) -> Result<Expected, Reason> {
    if settings.check_connection == 0 {
        return Ok(Expected::This);
    }
    // First: the look-up would find a listener on the wildcard address for whatever address
    // the packet goes to.
    if !maps::is_listening(scratch, settings) {
        return Err(Reason::NoListener);
    }
    match connection::look(ctx, scratch, settings) {
        Connection::Begins => Ok(Expected::First),
        Connection::Known => Ok(Expected::This),
        Connection::Other => Err(Reason::Stray),
        Connection::None => Err(Reason::NoConnection),
        Connection::NoListener => Err(Reason::NoListener),
    }
}

/// Whether a payload with these first bytes may begin a hello: a handshake record
/// (RFC 8446 section 5.1) of any version 3.
#[inline(always)]
fn begins(first: u16, bytes: u32) -> bool {
    first == 0x1603 || (bytes == 1 && first == 0x1600)
}

/// Whether a payload with these first bytes may begin a request of HTTP, whose client the
/// daemon tells that this port speaks TLS: methods are capital letters (RFC 9110 section 9.1).
#[inline(always)]
fn begins_http(first: u16) -> bool {
    (first >> 8).wrapping_sub(b'A' as u16) < 26
}

/// A connection that begins with neither.
#[inline(always)]
fn not_tls(scratch: &mut Scratch) -> Next {
    begin(scratch);
    scratch.outcome = Outcome::NotTls as u32;
    Next::Judge
}

/// Begins the record of a new hello. Fences keep the zeros apart: a longer run of them
/// would become a call of `memset`, byte by byte.
#[inline(always)]
fn begin(scratch: &mut Scratch) {
    scratch.record.state = state::BEGUN;
    scratch.record.first = scratch.sequence;
    scratch.record.next = scratch.sequence;
    scratch.record.segments = 1;
    scratch.record.kept_bytes = 0;
    packet::forget(scratch);
    scratch.record.reason = 0;
    scratch.record.padding = 0;
    packet::forget(scratch);
    scratch.record.judged_ns = 0;
    packet::forget(scratch);
    scratch.record.key_id = KeyId(0);
    packet::forget(scratch);
    scratch.loaded = 0;
    scratch.filled = 0;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
