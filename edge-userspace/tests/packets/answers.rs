//! Whether what the program made of a refused packet is a good packet.

use super::case::Answer;
use super::dissect::Segment;
use super::model::Fate;

/// Holds what was sent back, or up, against the frame that it was made of: a well-formed
/// packet of the same connection, in the other direction or the same, with right checksums.
pub(crate) fn assert_made(
    made: &[u8],
    kind: Answer,
    fate: &Fate,
    of: &[u8],
    segment: &Segment<'_>,
) {
    let (sequence, acknowledged, back) = match fate {
        Fate::Answer(sequence, acknowledged) => (*sequence, *acknowledged, true),
        Fate::ResetServer(sequence, acknowledged) => (*sequence, *acknowledged, false),
        Fate::Pass | Fate::Drop => panic!("nothing is made"),
    };
    // As it would be the other way round.
    let turned = |from: &[u8], to: &[u8]| {
        if back {
            [to, from].concat()
        } else {
            [from, to].concat()
        }
    };
    let at = segment.network_at;
    assert_eq!(
        made[..12],
        turned(&of[..6], &of[6..12]),
        "Ethernet addresses"
    );
    assert_eq!(made[12..at], of[12..at], "tags and type");
    let (ip, was) = (&made[at..], &of[at..]);
    let (tcp, mut pseudo) = if ip[0] >> 4 == 4 {
        assert_eq!(ip[0], 0x45);
        assert_eq!(ip[12..20], turned(&was[12..16], &was[16..20]), "addresses");
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
        assert_eq!(fold(&ip[..20]), 0xffff, "IPv4 checksum");
        (&ip[20..], ip[12..20].to_vec())
    } else {
        assert_eq!(ip[8..40], turned(&was[8..24], &was[24..40]), "addresses");
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
    let ports = [segment.flow.client_port_be, segment.flow.server_port_be].map(u16::to_ne_bytes);
    assert_eq!(tcp[..4], turned(&ports[0], &ports[1]), "ports");
    assert_eq!((word(4), word(8)), (sequence, acknowledged));
    let header = usize::from(tcp[12] >> 4) * 4;
    if back && kind == Answer::Alert {
        assert_eq!(tcp[13], 0x19, "FIN, PSH, ACK");
        assert_eq!(tcp[header..], [21, 3, 3, 0, 2, 2, 49]);
    } else {
        assert_eq!(tcp[13], 0x14, "RST, ACK");
        assert_eq!(tcp.len(), 20);
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
