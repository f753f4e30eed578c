use super::*;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::ReadBuf;

/// What stands behind the header in these tests.
const HELLO: &[u8] = b"\x16\x03\x01 a hello";

fn v2(command: u8, family: u8, addresses: &[u8], tlvs: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses.len() + tlvs.len()).unwrap();
    let head = [command, family];
    [V2_SIGNATURE, &head, &length.to_be_bytes(), addresses, tlvs].concat()
}

/// 192.0.2.7:51000 to 198.51.100.1:443.
const IPV4: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 1, 0xc7, 0x38, 0x01, 0xbb];

/// The same ports between two IPv6 addresses.
fn ipv6(client: &str) -> Vec<u8> {
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let ports = [0xc7, 0x38, 0x01, 0xbb];
    [&octets(client)[..], &octets("2001:db8::1"), &ports].concat()
}

/// Headers that are good, and whom they name.
fn good() -> Vec<(Vec<u8>, Option<&'static str>)> {
    let tlvs = [&[1, 0, 2, b'h', b'2', 4, 0, 3, 0, 0, 0][..], &[0xff; 300]].concat();
    let unix = [b'/'; 216];
    vec![
        (
            b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n".to_vec(),
            Some("192.0.2.7:51000"),
        ),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 51000 443\r\n".to_vec(),
            Some("[2001:db8::7]:51000"),
        ),
        (
            b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 51000 443\r\n".to_vec(),
            Some("192.0.2.7:51000"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        // The longest line that section 2.1 reckons with.
        (
            [
                b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535".to_vec(),
                vec![b' '; V1_MAX_BYTES - 58 - 2],
                b"\r\n".to_vec(),
            ]
            .concat(),
            None,
        ),
        (v2(0x21, 0x11, IPV4, &[]), Some("192.0.2.7:51000")),
        (v2(0x21, 0x11, IPV4, &tlvs), Some("192.0.2.7:51000")),
        (
            v2(0x21, 0x21, &ipv6("2001:db8::7"), &tlvs),
            Some("[2001:db8::7]:51000"),
        ),
        (
            v2(0x21, 0x21, &ipv6("::ffff:192.0.2.7"), &[]),
            Some("192.0.2.7:51000"),
        ),
        (
            v2(0x21, 0x11, IPV4, &[0; 2048 - 12]),
            Some("192.0.2.7:51000"),
        ),
        (v2(0x20, 0x00, &[], &[]), None),
        (v2(0x20, 0x11, IPV4, &[]), None),
        (v2(0x20, 0x11, &[], &tlvs), None),
        (v2(0x20, 0x21, b"short", &[]), None),
        (v2(0x21, 0x00, &[], &tlvs), None),
        (v2(0x21, 0x31, &unix, &tlvs), None),
    ]
}

fn bad() -> Vec<(Vec<u8>, ProxyHeader)> {
    use ProxyHeader::{Malformed, Missing, TooLong};
    let line = |text: &str| text.as_bytes().to_vec();
    vec![
        (HELLO.to_vec(), Missing),
        (line("GET / HTTP/1.1\r\n"), Missing),
        (line("PROXYTCP4 1.2.3.4 1.2.3.4 1 2\r\n"), Missing),
        (line("proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n"), Missing),
        (line("\r\n\r\n\r\n"), Missing),
        (line("PROXY \r\n"), Malformed),
        (line("PROXY TCP4\r\n"), Malformed),
        (line("PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n"), Malformed),
        (line("PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n"), Malformed),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n"), Malformed),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n"), Malformed),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n"), Malformed),
        (line("PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n"), Malformed),
        (line("PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n"), Malformed),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n"), Malformed),
        (line("PROXY TCP4 ::1 ::1 1 2\r\n"), Malformed),
        (line("PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n"), Malformed),
        (line("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\r\n"), Malformed),
        (
            [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 200]].concat(),
            TooLong,
        ),
        (
            [
                b"PROXY UNKNOWN ".to_vec(),
                vec![b'x'; 200],
                b"\r\n".to_vec(),
            ]
            .concat(),
            TooLong,
        ),
        (v2(0x11, 0x11, IPV4, &[]), Malformed),
        (v2(0x22, 0x11, IPV4, &[]), Malformed),
        (v2(0x21, 0x12, IPV4, &[]), Malformed),
        (v2(0x21, 0x22, &ipv6("::1"), &[]), Malformed),
        (v2(0x21, 0x41, IPV4, &[]), Malformed),
        (v2(0x21, 0x11, &IPV4[..11], &[]), Malformed),
        (v2(0x21, 0x21, IPV4, &[]), Malformed),
        (v2(0x21, 0x31, &[b'/'; 215], &[]), Malformed),
        (v2(0x21, 0x11, IPV4, &[0; 2048 - 11]), TooLong),
        (v2(0x20, 0x00, &[], &[0; 60_000]), TooLong),
    ]
}

/// Gives its pieces one a read, then ends.
struct Pieces<'a>(Vec<&'a [u8]>);

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.first_mut() {
            let (now, later) = piece.split_at(piece.len().min(buffer.remaining()));
            buffer.put_slice(now);
            *piece = later;
            if later.is_empty() {
                self.0.remove(0);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads what `pieces` give; what stands behind the header is put together again.
async fn read_all(pieces: Vec<&[u8]>) -> Result<(Option<SocketAddr>, Vec<u8>), ProxyHeader> {
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
    let mut stream = Pieces(pieces.collect());
    let preface = read(&mut stream).await?;
    let mut behind = preface.ahead.to_vec();
    behind.extend(stream.0.concat());
    Ok((preface.client, behind))
}

#[tokio::test]
async fn a_header_may_be_cut_anywhere_and_takes_nothing_of_what_follows() {
    for (header, client) in good() {
        let client = client.map(|text| text.parse().unwrap());
        let bytes = [&header[..], HELLO].concat();
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let read = read_all(vec![first, second]).await;
            let expected = Ok((client, HELLO.to_vec()));
            assert_eq!(read, expected, "{} at {at}", header.escape_ascii());
        }
        let read = read_all(bytes.chunks(1).collect()).await;
        assert_eq!(read, Ok((client, HELLO.to_vec())), "byte by byte");
    }
}

#[tokio::test]
async fn no_beginning_of_a_header_is_one() {
    for (header, _) in good() {
        for end in 0..header.len() {
            let read = read_all(vec![&header[..end]]).await;
            assert_eq!(read, Err(ProxyHeader::Incomplete), "{end} bytes");
        }
    }
}

#[tokio::test]
async fn what_is_no_header_is_told_by_name_however_it_is_cut() {
    for (bytes, why) in bad() {
        for size in [1, 2, 7, 13, bytes.len()] {
            let read = read_all(bytes.chunks(size).collect()).await;
            assert_eq!(read, Err(why), "{} by {size}", bytes.escape_ascii());
        }
    }
}

#[tokio::test]
async fn too_long_a_header_is_not_waited_for() {
    let endless = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; V1_MAX_BYTES - 14]].concat();
    assert_eq!(read_all(vec![&endless]).await, Err(ProxyHeader::TooLong));
    let announced = v2(0x20, 0x00, &[], &[0; 60_000]);
    let read = read_all(vec![&announced[..V2_HEADER]]).await;
    assert_eq!(read, Err(ProxyHeader::TooLong));
}

#[test]
fn any_bytes_are_a_header_or_not_and_none_panics() {
    for (header, _) in good() {
        for at in 0..header.len().min(64) {
            for byte in 0..=u8::MAX {
                let mut changed = header.clone();
                changed[at] = byte;
                if let Ok(Some((length, _))) = parse(&changed) {
                    assert!(length <= V2_MAX_BYTES && length <= changed.len());
                }
            }
        }
    }
}
