//! What a good hello may offer, and where: the token's place, look-alikes, duplicates,
//! GREASE, hellos with very many extensions or none.

mod common;

use common::made::Hello;
use common::{Offer, Oracle, TOKEN, oracle, scan};
use edge_common::client_hello::{ClientHello, MAX_ITEMS, STEP_TURNS, Scanned, Source};
use edge_common::token::Text;

/// Scans a hello with these names and holds it against rustls and the protocol's words.
fn offer(names: &[&[u8]]) -> Offer {
    let bytes = Hello::offering(names).record();
    let list: Vec<_> = names.iter().map(|name| name.to_vec()).collect();
    assert!(matches!(oracle(&bytes), Oracle::Names(seen) if seen == list));
    let (scanned, hello) = scan(&bytes);
    let seen = Offer::seen(scanned, &hello);
    assert_eq!(seen, Offer::of(&list), "{names:?}");
    seen
}

#[test]
fn a_token_in_any_place() {
    let token = TOKEN.as_bytes();
    for names in [
        &[token][..],
        &[token, b"h2", b"http/1.1"],
        &[b"h2", token, b"http/1.1"],
        &[b"h2", b"http/1.1", token],
    ] {
        let offer = offer(names);
        assert_eq!((offer.scanned, offer.tokens), (Scanned::Found, 1));
        let token = offer.token.unwrap();
        assert_eq!(token.key_id.to_string(), "16c90ee8f37ea61f");
        assert_eq!(token.issued_at_s, 1_800_000_000);
        assert_eq!(token.nonce.to_le_bytes(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            token.tag.to_le_bytes(),
            [0xfa, 0xee, 0x5d, 0x05, 0x69, 0x28, 0xa2, 0x60]
        );
    }
}

#[test]
fn the_first_of_several_tokens_counts() {
    let token = TOKEN.as_bytes();
    let other = TOKEN.replace("6b49d200", "6b49d201");
    assert_eq!(offer(&[token, token]).tokens, 2);
    assert_eq!(
        offer(&[token, b"h2", other.as_bytes()])
            .token
            .unwrap()
            .issued_at_s,
        0x6b49_d200
    );
    assert_eq!(
        offer(&[other.as_bytes(), token]).token.unwrap().issued_at_s,
        0x6b49_d201
    );
    assert_eq!(
        offer(&[b"ezl1-", token]),
        Offer {
            tokens: 2,
            ..offer(&[b"ezl1-"])
        }
    );
    assert_eq!(offer(&[token, b"ezl1-short", b"ezl1-x"]).tokens, 3);
}

#[test]
fn a_malformed_token_is_still_one() {
    let long = format!("{TOKEN}0");
    let upper = TOKEN.to_uppercase().replace("EZL1", "ezl1");
    let other = TOKEN.replace("1-16c9", "1-16g9");
    let names = [
        "ezl1-",
        "ezl1-a",
        &TOKEN[..60],
        &long,
        &upper,
        &other,
        &TOKEN.replace("faee", "fa\0e"),
    ];
    for name in names {
        let offer = offer(&[b"h2", name.as_bytes()]);
        let malformed = Offer {
            scanned: Scanned::Found,
            tokens: 1,
            token: None,
            acme: false,
        };
        assert_eq!(offer, malformed, "{name}");
    }
    let longest = [&b"ezl1-"[..], &[b'0'; 250]].concat();
    assert_eq!(offer(&[&longest]).token, None);
}

#[test]
fn look_alikes_are_no_tokens() {
    for name in [
        "e", "ezl1", "ezl1_", "ezl2-", "Ezl1-", "xezl1-", " ezl1-", "ezl-1", "ezk1-", "eyl1-",
    ] {
        let digits = format!("{name}{}", &TOKEN[5..]);
        assert_eq!(
            offer(&[name.as_bytes(), b"h2"]).scanned,
            Scanned::Absent,
            "{name}"
        );
        let is_token = digits.starts_with("ezl1-");
        assert_eq!(
            offer(&[digits.as_bytes()]).scanned == Scanned::Found,
            is_token,
            "{digits}"
        );
    }
    // The prefix across the border of two names, or in an extension that is not ALPN.
    assert_eq!(offer(&[b"ez", b"l1-"]).scanned, Scanned::Absent);
    let mut hello = Hello::offering(&[b"h2"]);
    hello.add(17, common::made::alpn(&[TOKEN.as_bytes()]));
    assert_eq!(scan(&hello.record()).0, Scanned::Absent);
}

#[test]
fn acme_challenges() {
    assert!(offer(&[b"acme-tls/1"]).acme);
    let both = offer(&[b"acme-tls/1", TOKEN.as_bytes()]);
    assert!(both.acme && both.scanned == Scanned::Found);
    for name in [
        &b"acme-tls/2"[..],
        b"acme-tls/",
        b"acme-tls/11",
        b"acme_tls/1",
        b"Acme-tls/1",
        b"a",
    ] {
        assert!(!offer(&[name]).acme);
    }
}

#[test]
fn extensions_of_every_kind_around_it() {
    // GREASE (RFC 8701), unknown and empty ones, before and after.
    let mut hello = Hello::bare();
    for kind in [0x0a0a, 0x1a1a, 0x3333, 0xfe0e, 0xffff] {
        hello.add(kind, vec![]);
    }
    hello.add(0x2a2a, vec![0]);
    hello.add(16, common::made::alpn(&[&[0x0a, 0x0a], TOKEN.as_bytes()]));
    hello.add(0xfafa, vec![9; 700]);
    hello.add(21, vec![0; 200]);
    let bytes = hello.record();
    assert!(matches!(oracle(&bytes), Oracle::Names(_)));
    let (scanned, scan) = scan(&bytes);
    assert_eq!(scanned, Scanned::Found);
    assert!(scan.token().is_some());
}

#[test]
fn no_alpn_and_no_extensions() {
    assert_eq!(scan(&Hello::bare().record()).0, Scanned::Absent);
    let mut hello = Hello::bare();
    hello.extensions = Some(vec![]);
    assert_eq!(scan(&hello.record()).0, Scanned::Absent);
    hello.extensions = None;
    assert_eq!(scan(&hello.record()).0, Scanned::Absent);
    hello.session_id.clear();
    hello.ciphers.truncate(1);
    assert_eq!(scan(&hello.record()).0, Scanned::Absent);
}

/// A hello with so many extensions, then ALPN with so many names, the last a token.
fn crowded(extensions: u32, names: u32) -> (Vec<u8>, u32) {
    let mut hello = Hello::bare();
    let kept = hello.extensions.as_ref().unwrap().len() as u32;
    for kind in kept..extensions {
        hello.add(0x4000 + kind as u16, vec![1; 3]);
    }
    let mut list: Vec<&[u8]> = vec![b"x"; names as usize - 1];
    list.push(TOKEN.as_bytes());
    hello.add(16, common::made::alpn(&list));
    (hello.record(), extensions.max(kept) + 1 + names)
}

#[test]
fn items_are_bounded_and_userspace_may_allow_more() {
    for (extensions, names) in [
        (4, 1),
        (20, 25),
        (4, 43),
        (46, 1),
        (4, 44),
        (47, 1),
        (4, MAX_ITEMS - 5),
        (4, MAX_ITEMS - 4),
        (MAX_ITEMS - 2, 1),
        (MAX_ITEMS - 1, 1),
        (MAX_ITEMS + 8, 1),
        (4, 300),
        (90, 90),
    ] {
        let (bytes, items) = crowded(extensions, names);
        let mut hello = ClientHello::at_record();
        let scanned = hello.advance(&bytes[..]);
        let expected = if items > MAX_ITEMS {
            Scanned::TooLong
        } else {
            Scanned::Found
        };
        assert_eq!(scanned, expected, "{extensions} extensions, {names} names");

        let (scanned, hello) = scan(&bytes);
        assert_eq!(
            scanned,
            Scanned::Found,
            "{extensions} extensions, {names} names"
        );
        assert_eq!((hello.token_count(), hello.token().is_some()), (1, true));
    }
}

#[test]
fn going_on_after_too_long_counts_no_token_twice() {
    // Tokens all over the list, so that each place is once the one where it stops.
    for names in MAX_ITEMS as usize - 10..MAX_ITEMS as usize + 10 {
        let list = vec![TOKEN.as_bytes(); names];
        let bytes = Hello::offering(&list).record();
        let (scanned, hello) = scan(&bytes);
        assert_eq!(
            (scanned, hello.token_count()),
            (Scanned::Found, names as u32)
        );
    }
}

/// The first bytes of a hello, of which several extensions are read in a turn.
struct InRuns<'a>(&'a [u8]);

impl Source for InRuns<'_> {
    const EXTENSIONS_A_TURN: u32 = 4;

    fn len(&self) -> u64 {
        Source::len(self.0)
    }
    fn u8(&self, at: u64) -> Option<u8> {
        self.0.u8(at)
    }
    fn be16(&self, at: u64) -> Option<u16> {
        self.0.be16(at)
    }
    fn be32(&self, at: u64) -> Option<u32> {
        self.0.be32(at)
    }
    fn le64(&self, at: u64) -> Option<u64> {
        self.0.le64(at)
    }
    fn text(&self, at: u64) -> Option<Text> {
        self.0.text(at)
    }
}

#[test]
fn several_extensions_in_a_turn_come_to_the_same() {
    for (extensions, names) in [(0, 1), (4, 1), (7, 3), (60, 100), (31, 31), (240, 1)] {
        let (bytes, _) = crowded(extensions, names);
        // To every length, as if the rest were still to come, and in both ways from there.
        for cut in 0..=bytes.len() {
            let part = &bytes[..cut];
            let mut one_by_one = ClientHello::at_record();
            let mut in_runs = ClientHello::at_record();
            let scanned = one_by_one.advance(part);
            assert_eq!(
                in_runs.advance(&InRuns(part)),
                scanned,
                "{extensions}, {cut}"
            );
            if scanned == Scanned::Incomplete {
                assert_eq!(in_runs, one_by_one, "{extensions}, {names}, {cut}");
                assert_eq!(
                    in_runs.advance(&InRuns(&bytes)),
                    one_by_one.advance(&bytes[..])
                );
            }
            assert_eq!(
                Offer::seen(scanned, &in_runs),
                Offer::seen(scanned, &one_by_one)
            );
        }
    }
}

#[test]
fn a_pause_loses_nothing() {
    // Crowded hellos, so that there are pauses among the extensions and among the names.
    for (extensions, names) in [
        (4, 1),
        (4, STEP_TURNS),
        (STEP_TURNS, 1),
        (60, 100),
        (31, 31),
    ] {
        let (bytes, items) = crowded(extensions, names);
        let mut hello = ClientHello::at_record();
        let mut pauses = 0;
        let scanned = loop {
            match hello.step(&bytes[..]) {
                Scanned::Paused => pauses += 1,
                scanned => break scanned,
            }
        };
        let (in_one, expected) = scan(&bytes);
        assert_eq!(Offer::seen(scanned, &hello), Offer::seen(in_one, &expected));
        // A turn for each item, one into the list of names, one out of it, one at the end.
        assert_eq!(pauses, (items + 3) / STEP_TURNS, "{extensions}, {names}");
    }
}
