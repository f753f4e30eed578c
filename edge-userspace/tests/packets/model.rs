//! A second opinion on frames, in plain slices: where the payload is, what the verdict must
//! be, and whether an answer is a good packet. The scanner and the judge are the product's
//! own, in userspace; the way to them is not.

use super::case::{Answer, Common, Heartbeat, Wish};
use super::edge::policy;
use edge_common::client_hello::{ClientHello, Scanned};
use edge_common::flow::FlowKey;
use edge_common::policy::{KeyPolicy, Keys, Reason, Window, judge};
use edge_common::token::KeyId;
use std::collections::HashMap;

/// The data's keys and time, as userspace would hold them.
pub(crate) struct Model {
    keys: HashMap<KeyId, KeyPolicy>,
    ports: Vec<u16>,
    now_s: u64,
}

/// A data segment for one of our ports.
pub(crate) struct Segment<'a> {
    pub(crate) flow: FlowKey,
    /// By the IP header.
    pub(crate) payload_bytes: usize,
    /// As much of it as the frame has.
    pub(crate) payload: &'a [u8],
    sequence: u32,
    acknowledged: u32,
    network_at: usize,
}

struct Known<'a>(&'a HashMap<KeyId, KeyPolicy>, bool);

impl Keys for Known<'_> {
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy> {
        self.0.get(&id)
    }

    fn complete(&self) -> bool {
        self.1
    }
}

impl Model {
    pub(crate) fn new(common: &Common) -> Self {
        Self {
            keys: common.keys.iter().map(policy).collect(),
            ports: common.ports.clone(),
            now_s: common.now_s,
        }
    }

    /// What userspace makes of the first bytes of a connection.
    pub(crate) fn judge(&self, wish: &Wish, payload: &[u8]) -> (Reason, ClientHello) {
        let mut hello = ClientHello::at_record();
        let scanned = hello.advance(payload);
        let window = Window {
            back_s: wish.window_back_s,
            ahead_s: wish.window_ahead_s,
        };
        let known = Known(&self.keys, wish.policy_complete);
        let reason = judge(&hello, scanned, &known, self.now_s, window);
        let reason = match reason {
            Reason::NoToken | Reason::AcmeChallenge if wish.deny_legacy => Reason::LegacyDenied,
            reason => reason,
        };
        debug_assert!(scanned != Scanned::Incomplete || reason == Reason::Incomplete);
        (reason, hello)
    }

    /// What the kernel must count for a frame in one buffer, and whose key it must name.
    pub(crate) fn expect(&self, wish: &Wish, frame: &[u8]) -> (Reason, KeyId) {
        let segment = match self.dissect(frame) {
            Ok(segment) => segment,
            Err(reason) => return (reason, KeyId(0)),
        };
        let (reason, hello) = self.judge(wish, segment.payload);
        let key_id = hello.token().map_or(KeyId(0), |token| token.key_id);
        let missing = segment.payload.len() < segment.payload_bytes;
        let clock = matches!(wish.heartbeat, Heartbeat::Fresh | Heartbeat::Ahead);
        // What the part that is there proves by itself; the rest needs the segment's end.
        let by_itself = matches!(
            reason,
            Reason::NotHello
                | Reason::HelloMalformed
                | Reason::RecordFragmented
                | Reason::HelloTooLong
        );
        let reason = if missing && !by_itself {
            Reason::NotLinear
        } else if !clock && reason != Reason::NotHello {
            Reason::HeartbeatStale
        } else {
            reason
        };
        (reason, key_id)
    }

    /// Finds the payload as RFC 791, 8200 and 9293 have it, within what the edge follows.
    pub(crate) fn dissect<'a>(&self, frame: &'a [u8]) -> Result<Segment<'a>, Reason> {
        let cut = Reason::HeaderTruncated;
        let be16 = |at: usize| -> Result<u16, Reason> {
            let bytes = frame.get(at..at + 2).ok_or(cut)?;
            Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let mut kind_at = 12;
        if matches!(be16(kind_at)?, 0x8100 | 0x88a8) {
            kind_at += 4;
            if be16(kind_at)? == 0x8100 {
                kind_at += 4;
            }
        }
        let network_at = kind_at + 2;
        let ip = frame.get(network_at..).ok_or(cut)?;
        let (header_bytes, total, addresses) = match be16(kind_at)? {
            0x0800 => {
                let ip = ip.get(..20).ok_or(cut)?;
                let header = usize::from(ip[0] & 15) * 4;
                let total = usize::from(be16(network_at + 2)?);
                if ip[0] >> 4 != 4 || header < 20 || total < header {
                    return Err(cut);
                }
                if ip[9] != 6 {
                    return Err(Reason::OtherProtocol);
                }
                if u16::from_be_bytes([ip[6] & 0x3f, ip[7]]) != 0 {
                    return Err(Reason::IpFragment);
                }
                let mapped = |a: &[u8]| [&[0; 10][..], &[255, 255], a].concat();
                (header, total, [mapped(&ip[12..16]), mapped(&ip[16..20])])
            }
            0x86dd => {
                let ip = ip.get(..40).ok_or(cut)?;
                if ip[0] >> 4 != 6 {
                    return Err(cut);
                }
                match ip[6] {
                    6 => {}
                    44 => return Err(Reason::IpFragment),
                    _ => return Err(Reason::OtherProtocol),
                }
                let total = 40 + usize::from(be16(network_at + 4)?);
                (40, total, [ip[8..24].to_vec(), ip[24..40].to_vec()])
            }
            _ => return Err(Reason::OtherEtherType),
        };
        let packet = &ip[..ip.len().min(total)];
        let tcp = ip.get(header_bytes..header_bytes + 20).ok_or(cut)?;
        if !self.ports.contains(&u16::from_be_bytes([tcp[2], tcp[3]])) {
            return Err(Reason::OtherPort);
        }
        let payload_at = header_bytes + usize::from(tcp[12] >> 4) * 4;
        if payload_at < header_bytes + 20 || total < payload_at {
            return Err(cut);
        }
        if total == payload_at {
            return Err(Reason::NoPayload);
        }
        match (tcp[13] & 2 != 0, tcp[13] & 4 != 0, tcp[13] & 16 != 0) {
            (true, _, _) => return Err(Reason::SynPayload),
            (false, false, true) => {}
            _ => return Err(Reason::OddFlags),
        }
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        let address = |a: &[u8]| {
            std::array::from_fn(|i| u32::from_ne_bytes(a[4 * i..][..4].try_into().unwrap()))
        };
        Ok(Segment {
            flow: FlowKey {
                client: address(&addresses[0]),
                server: address(&addresses[1]),
                client_port_be: u16::from_ne_bytes([tcp[0], tcp[1]]),
                server_port_be: u16::from_ne_bytes([tcp[2], tcp[3]]),
                padding: 0,
            },
            payload_bytes: total - payload_at,
            payload: packet.get(payload_at..).unwrap_or_default(),
            sequence: word(4),
            acknowledged: word(8),
            network_at,
        })
    }
}

/// Holds an answer against the frame it answers: a well-formed packet of the same
/// connection in the other direction, with right checksums.
pub(crate) fn assert_answers(answer: &[u8], kind: Answer, to: &[u8], segment: &Segment<'_>) {
    let at = segment.network_at;
    assert_eq!(
        (&answer[..6], &answer[6..12]),
        (&to[6..12], &to[..6]),
        "Ethernet addresses"
    );
    assert_eq!(answer[12..at], to[12..at], "tags and type");
    let (ip, was) = (&answer[at..], &to[at..]);
    let (tcp, mut pseudo) = if ip[0] >> 4 == 4 {
        assert_eq!(ip[0], 0x45);
        assert_eq!(
            (&ip[12..16], &ip[16..20]),
            (&was[16..20], &was[12..16]),
            "addresses"
        );
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
        assert_eq!(fold(&ip[..20]), 0xffff, "IPv4 checksum");
        (&ip[20..], ip[12..20].to_vec())
    } else {
        assert_eq!(
            (&ip[8..24], &ip[24..40]),
            (&was[24..40], &was[8..24]),
            "addresses"
        );
        assert_eq!(
            usize::from(u16::from_be_bytes([ip[4], ip[5]])),
            ip.len() - 40
        );
        (&ip[40..], ip[8..40].to_vec())
    };
    pseudo.extend([0, 6]);
    pseudo.extend((tcp.len() as u16).to_be_bytes());
    pseudo.extend(tcp);
    assert_eq!(fold(&pseudo), 0xffff, "TCP checksum");

    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    assert_eq!(tcp[..2], segment.flow.server_port_be.to_ne_bytes());
    assert_eq!(tcp[2..4], segment.flow.client_port_be.to_ne_bytes());
    assert_eq!(word(4), segment.acknowledged);
    assert_eq!(
        word(8),
        segment.sequence.wrapping_add(segment.payload_bytes as u32)
    );
    let header = usize::from(tcp[12] >> 4) * 4;
    match kind {
        Answer::Alert => {
            assert_eq!(tcp[13], 0x19, "FIN, PSH, ACK");
            assert_eq!(tcp[header..], [21, 3, 3, 0, 2, 2, 49]);
        }
        Answer::Rst => {
            assert_eq!(tcp[13], 0x14, "RST, ACK");
            assert_eq!(tcp.len(), 20);
        }
        Answer::Drop => panic!("a drop has no answer"),
    }
}

/// The Internet checksum's sum, all ones when it is right (RFC 1071).
fn fold(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
