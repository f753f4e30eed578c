//! Fresh hellos of rustls, which shuffles its extensions: what the scanner reads is what
//! was offered and what rustls's own server side reads.

mod common;

use common::rustls_client::{self, Kind};
use common::{Offer, Oracle, TOKEN, oracle, scan, scan_segments};
use proptest::prelude::*;

/// Names of every sort: plain, tokens, near misses.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let near = |text: &str| Just(text.as_bytes().to_vec());
    prop_oneof![
        3 => near("h2"),
        2 => near("http/1.1"),
        3 => near(TOKEN),
        1 => near("acme-tls/1"),
        1 => near("acme-tls/2"),
        1 => near("ezl1-"),
        1 => near("ezl1"),
        1 => near("ezl2-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260"),
        1 => near("EZL1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260"),
        1 => near("ezl1-16C90EE8F37EA61F6B49D2000001020304050607FAEE5D056928A260"),
        1 => "ezl1-[0-9a-f]{56}".prop_map(String::into_bytes),
        1 => "ezl1-[0-9a-f]{0,80}".prop_map(String::into_bytes),
        2 => proptest::collection::vec(any::<u8>(), 1..=255),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    // Those with a handshake before them are dear, and differ little.
    prop_oneof![
        8 => Just(Kind::Classic),
        4 => Just(Kind::PostQuantum),
        4 => Just(Kind::Tls12),
        4 => Just(Kind::EchGrease),
        1 => Just(Kind::Resumption),
        1 => Just(Kind::EarlyData),
        1 => Just(Kind::Retry),
    ]
}

proptest! {
    // The default number of cases; PROPTEST_CASES sets another.
    #[test]
    fn reads_what_was_offered(
        kind in kind(),
        names in proptest::collection::vec(name(), 0..12),
        splits in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let list: Vec<_> = names.iter().map(Vec::as_slice).collect();
        // A server that knows `h2` alone ends a handshake with one that does not offer it.
        let needs_h2 = matches!(kind, Kind::Resumption | Kind::EarlyData);
        prop_assume!(!needs_h2 || names.is_empty() || list.contains(&b"h2".as_slice()));
        let bytes = rustls_client::hello(kind, &list);

        match oracle(&bytes) {
            Oracle::Names(seen) => prop_assert_eq!(&seen, &names),
            other => prop_assert!(false, "rustls cannot read itself: {:?}", other),
        }
        let offer = Offer::of(&names);
        let (scanned, hello) = scan(&bytes);
        prop_assert_eq!(&Offer::seen(scanned, &hello), &offer);

        let mut at: Vec<_> = splits.iter().map(|split| split.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        at.push(bytes.len());
        let mut begin = 0;
        let segments = at.iter().map(|end| &bytes[std::mem::replace(&mut begin, *end)..*end]);
        let (scanned, hello) = scan_segments(segments);
        prop_assert_eq!(Offer::seen(scanned, &hello), offer);
    }
}
