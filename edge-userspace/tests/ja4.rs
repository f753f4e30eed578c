//! Every hello that the scanner reads to its end has a fingerprint, and no other: none can
//! slip past the rules for want of one.

#[path = "../../edge-common/tests/common/files.rs"]
#[expect(dead_code, reason = "this file uses its own part of it")]
mod files;
#[path = "../../edge-common/tests/common/generated.rs"]
mod generated;
#[path = "../../edge-common/tests/common/made.rs"]
#[expect(dead_code, reason = "this file uses its own part of it")]
mod made;

use edge_common::client_hello::{ClientHello, Scanned};
use edge_userspace::ja4::Ja4;
use generated::Stream;

/// What the scanner makes of a handshake message, however many items it has.
fn scanned(handshake: &[u8]) -> Scanned {
    let mut hello = ClientHello::at_handshake();
    for _ in 0..=handshake.len() {
        match hello.advance(handshake) {
            Scanned::TooLong => hello.allow_more_items(),
            scanned => return scanned,
        }
    }
    panic!("the scanner does not come to an end");
}

#[test]
fn what_is_judged_has_a_fingerprint() {
    let all = files::all();
    let whole_files = (all.iter())
        .filter(|file| matches!(file.scanned, Scanned::Found | Scanned::Absent))
        .map(|file| file.bytes.clone());
    let stream = Stream::new(7, whole_files).take(100_000);
    let files = all.iter().map(|file| file.bytes.clone());
    let (mut whole, mut seen) = (0, 0);
    for bytes in files.chain(stream) {
        let Some(handshake) = bytes.get(5..) else {
            continue;
        };
        seen += 1;
        let is_whole = matches!(scanned(handshake), Scanned::Found | Scanned::Absent);
        whole += u32::from(is_whole);
        let Some(ja4) = Ja4::of(handshake) else {
            assert!(!is_whole, "{}", hex::encode(bytes));
            continue;
        };
        let parts: Vec<_> = ja4.as_str().split('_').map(str::len).collect();
        assert_eq!(parts, [10, 12, 12], "{ja4}");
    }
    assert!(seen > 90_000 && whole > 20_000, "{whole} of {seen}");
}
