//! The XDP program: judges a whole TLS ClientHello in one TCP segment before the TCP
//! stack or the daemon spend anything on it.
//!
//! It finds the payload ([`packet`]), lets `edge-common` scan and judge it through
//! [`source`] and [`maps`], counts the reason, and crafts the answer to a reject
//! ([`answer`]). It rejects only on positive evidence: whatever it cannot see or tell
//! passes, and the daemon decides.
//!
//! `edge_pass` is the stub for the peer of a veth pair in tests and demo: the kernel
//! transmits XDP_TX frames over veth only when the peer runs an XDP program too.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod answer;
mod events;
mod maps;
mod packet;
mod source;

use aya_ebpf::{bindings::xdp_action::XDP_PASS, macros::xdp, programs::XdpContext};
use edge_common::client_hello::Scanned;
use edge_common::policy::{Counter, Reason, Settings, Verdict, Window, judge};
use maps::{PolicyMap, count};
use packet::Scratch;

/// The edge's program. Needs Linux 5.11 (`bpf_ktime_get_coarse_ns`), 5.18 for frames in
/// several buffers; the product's floor is 6.1.
#[xdp(frags)]
pub fn edge_xdp(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else {
        return XDP_PASS;
    };
    count(Counter::Packets as u32);
    let Some(settings) = maps::settings() else {
        return XDP_PASS;
    };
    let reason = decide(&ctx, scratch, settings);
    count(reason as u32);
    match reason.verdict() {
        Verdict::Pass | Verdict::Unconnected => XDP_PASS,
        Verdict::Accept | Verdict::Legacy | Verdict::Undecided => {
            seen(&ctx, scratch, settings, reason);
            XDP_PASS
        }
        Verdict::Reject => {
            seen(&ctx, scratch, settings, reason);
            answer::answer(&ctx, scratch, settings)
        }
    }
}

/// Passes every frame.
#[xdp(frags)]
pub fn edge_pass(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

#[inline(always)]
fn seen(ctx: &XdpContext, scratch: &Scratch, settings: &Settings, reason: Reason) {
    count(Counter::Hellos as u32);
    events::sample(scratch, settings, reason);
    #[cfg(feature = "log")]
    aya_log_ebpf::debug!(ctx, "hello {}: {}", scratch.payload_bytes, reason.name());
    let _ = ctx;
}

#[inline(always)]
fn decide(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings) -> Reason {
    if let Err(reason) = packet::parse(ctx, scratch) {
        return reason;
    }
    let source = source::Payload::new(ctx, scratch);
    scratch.hello.restart(&source);
    let scanned = scratch.hello.step(&source);
    if scanned == Scanned::NotTls {
        // Nearly every packet: it need not know the time.
        return Reason::NotHello;
    }
    scratch.monotonic_ns = maps::monotonic_ns();
    if source.cut_short(ctx, scratch, scanned) {
        return Reason::NotLinear;
    }
    let Some(now_s) = maps::now_s(settings, scratch.monotonic_ns) else {
        // Without a clock nothing that was seen can be held against anyone.
        return Reason::HeartbeatStale;
    };
    let window = Window {
        back_s: settings.window_back_s,
        ahead_s: settings.window_ahead_s,
    };
    let keys = PolicyMap { settings };
    let look = || judge(&scratch.hello, scanned, &keys, now_s, window);
    let mut reason = look();
    if reason == Reason::TagWrong {
        // The entry may have been replaced under our eyes (see `PolicyMap::policy`): two
        // looks must agree before anyone is refused for it.
        reason = look();
    }
    if settings.deny_legacy != 0 && reason.verdict() == Verdict::Legacy {
        return Reason::LegacyDenied;
    }
    reason
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
