//! The answers to a refused hello: the packet at hand becomes the answer.
//!
//! To the client, by turning it round: `alert`, a TLS fatal `access_denied` (RFC 8446
//! section 6.2) with FIN, so that the client's library says why; `rst`, a TCP reset. To the
//! server, by rewriting it in its own direction: a reset at the sequence number that the
//! server expects, so that nothing of the connection stays there. If the packet cannot be
//! resized the reject stands and the packet is dropped, counted.

use aya_ebpf::{
    EbpfContext,
    bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_TX},
    helpers::generated::bpf_xdp_adjust_tail,
    programs::XdpContext,
};
use edge_common::policy::{Answer, Counter, Settings};

use crate::events;
use crate::packet::{
    self, MAX_HEADERS_MASK, opaque, read_be16, read_u8, read_u32, write_u8, write_u16, write_u32,
};
use crate::scratch::{Errand, Scratch};

// As they lie in memory, in words: alert record, TLS 1.2 on the wire, two bytes:
// fatal (2), access_denied (49).
const ALERT_WORD: u32 = u32::from_ne_bytes([0x15, 0x03, 0x03, 0x00]);
const ALERT_HALF: u16 = u16::from_ne_bytes([0x02, 0x02]);
const ALERT_BYTE: u8 = 0x31;
const ALERT_BYTES: usize = 7;

const TCP_BYTES: usize = 20;
/// NOP, NOP, timestamps of ten bytes (RFC 7323 appendix A).
const TIMESTAMPS_HEAD: u32 = u32::from_ne_bytes([1, 1, 8, 10]);
const TIMESTAMPS_BYTES: usize = 12;
/// How far the answer's clock is put ahead of what the client has last seen of the
/// server's, so that an ACK of the real stack on its way does not make the answer look
/// old (PAWS, RFC 7323 section 5). Milliseconds on Linux; a thousandth of PAWS' horizon.
const TIMESTAMP_LEAD: u32 = 1 << 20;

const FLAGS_FIN_PSH_ACK: u8 = 0x19;
const FLAGS_RST_ACK: u8 = 0x14;
const HOP_LIMIT: u8 = 64;
const PROTOCOL_TCP: u8 = 6;

/// Writes words and adds them to an Internet checksum (RFC 1071) on the way.
struct Writer {
    at: usize,
    sum: u64,
}

impl Writer {
    #[inline(always)]
    fn word(&mut self, at: usize, word: u32) {
        write_u32(self.at + at, word);
        self.sum += u64::from(word);
    }

    #[inline(always)]
    fn checksum(&self) -> u16 {
        let mut sum = (self.sum & 0xffff_ffff) + (self.sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }
}

/// What a packet becomes.
const ALERT: u8 = 0;
const RESET: u8 = 1;
const RESET_SERVER: u8 = 2;

/// Does the errand and returns the XDP action.
#[inline(always)]
pub(crate) fn answer(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings) -> u32 {
    const REFUSE: u32 = Errand::Refuse as u32;
    const RESET_SERVER: u32 = Errand::ResetServer as u32;
    const CLOSE: u32 = Errand::Close as u32;
    match scratch.errand {
        CLOSE => match reset_server(ctx, scratch) {
            Some(()) => XDP_PASS,
            // The client's packet has lost its end: what is left is no loss.
            None => XDP_DROP,
        },
        RESET_SERVER => {
            let reset = reset_server(ctx, scratch);
            let by_configuration = settings.answer == Answer::Drop as u32;
            counted(scratch, reset, by_configuration, XDP_PASS)
        }
        errand => {
            if errand == REFUSE {
                events::rejected(scratch);
            } else if !events::may_answer_again(scratch) {
                // What goes on sending gets no more answers than others.
                scratch.count(Counter::AnsweredDrop as u32);
                return XDP_DROP;
            }
            to_client(ctx, scratch, settings)
        }
    }
}

/// Counts a reset for the server as the answer to a refused hello.
#[inline(always)]
fn counted(scratch: &mut Scratch, reset: Option<()>, by_configuration: bool, action: u32) -> u32 {
    if reset.is_none() {
        scratch.count(Counter::AnswerFailed as u32);
        return XDP_DROP;
    }
    if by_configuration {
        scratch.count(Counter::AnsweredDrop as u32);
    } else {
        scratch.count(Counter::AnsweredUp as u32);
    }
    action
}

#[inline(always)]
fn reset_server(ctx: &XdpContext, scratch: &mut Scratch) -> Option<()> {
    send::<RESET_SERVER, false>(ctx, scratch)
}

#[inline(always)]
fn to_client(ctx: &XdpContext, scratch: &mut Scratch, settings: &Settings) -> u32 {
    const BY_ALERT: u32 = Answer::Alert as u32;
    const BY_RST: u32 = Answer::Rst as u32;
    let sent = match settings.answer {
        BY_ALERT => {
            timestamps(ctx, scratch);
            packet::forget(scratch);
            if scratch.has_stamps != 0 {
                send::<ALERT, true>(ctx, scratch)
            } else {
                send::<ALERT, false>(ctx, scratch)
            }
        }
        BY_RST => send::<RESET, false>(ctx, scratch),
        _ => {
            scratch.count(Counter::AnsweredDrop as u32);
            return XDP_DROP;
        }
    };
    match sent {
        Some(()) if settings.answer == BY_ALERT => scratch.count(Counter::AnsweredAlert as u32),
        Some(()) => scratch.count(Counter::AnsweredRst as u32),
        None => {
            scratch.count(Counter::AnswerFailed as u32);
            return XDP_DROP;
        }
    }
    XDP_TX
}

/// Looks for the timestamps option (RFC 7323 section 3.2), which an answer must carry
/// when the connection uses it, and leaves it in the scratch memory.
#[inline(always)]
fn timestamps(ctx: &XdpContext, scratch: &mut Scratch) {
    let end = packet::end(ctx);
    let start = packet::start(ctx) + (scratch.transport_at & MAX_HEADERS_MASK) as usize + TCP_BYTES;
    scratch.has_stamps = 0;
    // Where nearly every stack puts it.
    if scratch.options_bytes >= 12 && start + 12 <= end && read_u32(start) == TIMESTAMPS_HEAD {
        scratch.has_stamps = 1;
        scratch.stamp_value = read_u32(start + 4);
        scratch.stamp_echo = read_u32(start + 8);
        return;
    }
    scratch.option_at = 0;
    let mut turn = 0;
    while turn < 20 {
        turn += 1;
        packet::forget(scratch);
        let at = scratch.option_at;
        let option = start + (opaque(u64::from(at)) & 63) as usize;
        if at + 2 > scratch.options_bytes || option + 2 > end {
            return;
        }
        let kind = read_u8(option);
        if kind == 0 {
            return;
        }
        if kind == 1 {
            scratch.option_at = at + 1;
            continue;
        }
        if kind == 8 {
            if at + 10 <= scratch.options_bytes && option + 10 <= end {
                scratch.has_stamps = 1;
                scratch.stamp_value = read_u32(option + 2);
                scratch.stamp_echo = read_u32(option + 6);
            }
            return;
        }
        let length = u32::from(read_u8(option + 1));
        if length < 2 || length > 40 {
            return;
        }
        scratch.option_at = at + length;
    }
}

#[inline(always)]
fn send<const KIND: u8, const STAMPED: bool>(
    ctx: &XdpContext,
    scratch: &mut Scratch,
) -> Option<()> {
    let ip_bytes = if scratch.is_ipv6 != 0 { 40 } else { 20 };
    let tcp_bytes = TCP_BYTES + if STAMPED { TIMESTAMPS_BYTES } else { 0 };
    let segment_bytes = tcp_bytes + if KIND == ALERT { ALERT_BYTES } else { 0 };
    resize(ctx, scratch.network_at + (ip_bytes + segment_bytes) as u32)?;

    let frame = packet::start(ctx);
    let end = packet::end(ctx);
    if frame + 14 > end {
        return None;
    }
    if KIND != RESET_SERVER {
        turn_round(frame);
    }
    let network = frame + (opaque(u64::from(scratch.network_at)) & 31) as usize;
    let sum = if scratch.is_ipv6 != 0 {
        if network + 40 > end {
            return None;
        }
        write_ipv6::<KIND>(network, scratch, segment_bytes as u16)
    } else {
        if network + 20 > end {
            return None;
        }
        write_ipv4::<KIND>(network, scratch, segment_bytes as u16)
    };
    let transport = network + ip_bytes;
    if transport + segment_bytes > end {
        return None;
    }
    write_tcp::<KIND, STAMPED>(transport, sum, scratch);
    Some(())
}

/// Swaps the Ethernet addresses of the frame at this address, 14 bytes in sight.
#[inline(always)]
fn turn_round(frame: usize) {
    let (to, to_tail) = (read_u32(frame), read_be16(frame + 4));
    let (from, from_tail) = (read_u32(frame + 6), read_be16(frame + 10));
    write_u32(frame, from);
    write_u16(frame + 4, from_tail.to_be());
    write_u32(frame + 6, to);
    write_u16(frame + 10, to_tail.to_be());
}

#[inline(always)]
fn resize(ctx: &XdpContext, bytes: u32) -> Option<()> {
    let now = packet::frame_bytes(ctx);
    // SAFETY: the context is the program's own; packet pointers are read anew afterwards.
    let failed = unsafe { bpf_xdp_adjust_tail(ctx.as_ptr().cast(), bytes as i32 - now as i32) };
    (failed == 0).then_some(())
}

/// Returns the pseudo-header's sum (RFC 9293 section 3.1), not yet folded.
#[inline(always)]
fn write_ipv4<const KIND: u8>(network: usize, scratch: &Scratch, segment_bytes: u16) -> u64 {
    let length = (20 + segment_bytes).to_be_bytes();
    let mut header = Writer {
        at: network,
        sum: 0,
    };
    header.word(0, u32::from_ne_bytes([0x45, 0, length[0], length[1]]));
    // No identification, don't fragment.
    header.word(4, u32::from_ne_bytes([0, 0, 0x40, 0]));
    header.word(8, u32::from_ne_bytes([HOP_LIMIT, PROTOCOL_TCP, 0, 0]));
    let flow = &scratch.record.flow;
    let (from, to) = if KIND == RESET_SERVER {
        (flow.client[3], flow.server[3])
    } else {
        (flow.server[3], flow.client[3])
    };
    header.word(12, from);
    header.word(16, to);
    write_u16(network + 10, header.checksum());
    u64::from(from) + u64::from(to) + u64::from(pseudo_tail(segment_bytes))
}

#[inline(always)]
fn write_ipv6<const KIND: u8>(network: usize, scratch: &Scratch, segment_bytes: u16) -> u64 {
    let length = segment_bytes.to_be_bytes();
    write_u32(network, u32::from_ne_bytes([0x60, 0, 0, 0]));
    write_u32(
        network + 4,
        u32::from_ne_bytes([length[0], length[1], PROTOCOL_TCP, HOP_LIMIT]),
    );
    let mut addresses = Writer {
        at: network + 8,
        sum: 0,
    };
    let flow = &scratch.record.flow;
    let (from_at, to_at) = if KIND == RESET_SERVER {
        (16, 0)
    } else {
        (0, 16)
    };
    let mut word = 0;
    while word < 4 {
        addresses.word(from_at + 4 * word, flow.server[word]);
        addresses.word(to_at + 4 * word, flow.client[word]);
        word += 1;
    }
    addresses.sum + u64::from(pseudo_tail(segment_bytes))
}

#[inline(always)]
fn pseudo_tail(segment_bytes: u16) -> u32 {
    let length = segment_bytes.to_be_bytes();
    u32::from_ne_bytes([0, PROTOCOL_TCP, length[0], length[1]])
}

#[inline(always)]
fn write_tcp<const KIND: u8, const STAMPED: bool>(
    transport: usize,
    pseudo: u64,
    scratch: &Scratch,
) {
    let record = &scratch.record;
    let (client, server) = (record.flow.client_port_be, record.flow.server_port_be);
    let (ports, sequence, acknowledged) = if KIND == RESET_SERVER {
        // RFC 9293 section 3.10.7.4: exactly what the server expects next.
        let ports = u32::from(client) | u32::from(server) << 16;
        (ports, record.next, record.acknowledged)
    } else {
        let ports = u32::from(server) | u32::from(client) << 16;
        // All that the client has sent, so that it need not send it again.
        let end = scratch.sequence.wrapping_add(scratch.payload_bytes);
        let ahead = end.wrapping_sub(record.end) as i32 > 0;
        (
            ports,
            record.acknowledged,
            if ahead { end } else { record.end },
        )
    };
    let words: u8 = if STAMPED { 8 } else { 5 };
    let (flags, window) = if KIND == ALERT {
        (FLAGS_FIN_PSH_ACK, 0xff)
    } else {
        (FLAGS_RST_ACK, 0)
    };

    let mut header = Writer {
        at: transport,
        sum: pseudo,
    };
    header.word(0, ports);
    header.word(4, sequence.to_be());
    header.word(8, acknowledged.to_be());
    header.word(12, u32::from_ne_bytes([words << 4, flags, window, window]));
    // Checksum and urgent pointer.
    header.word(16, 0);
    let mut payload = transport + TCP_BYTES;
    if STAMPED {
        let ahead = u32::from_be(scratch.stamp_echo).wrapping_add(TIMESTAMP_LEAD);
        header.word(20, TIMESTAMPS_HEAD);
        header.word(24, ahead.to_be());
        header.word(28, scratch.stamp_value);
        payload += TIMESTAMPS_BYTES;
    }
    if KIND == ALERT {
        write_u32(payload, ALERT_WORD);
        write_u16(payload + 4, ALERT_HALF);
        write_u8(payload + 6, ALERT_BYTE);
        header.sum += u64::from(ALERT_WORD) + u64::from(ALERT_HALF);
        header.sum += u64::from(u16::from_ne_bytes([ALERT_BYTE, 0]));
    }
    write_u16(transport + 16, header.checksum());
}
