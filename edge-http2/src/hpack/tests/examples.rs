//! The examples of RFC 7541, appendix C.

use super::*;
use crate::hpack::Encoder;
use http::{HeaderName, HeaderValue, StatusCode};

type Fields<'a> = &'a [(&'a str, &'a str)];

/// Decodes each block with one decoder and compares; then what the table counts for.
#[track_caller]
fn check(table_bytes: usize, blocks: &[(&str, Fields<'_>, usize)]) {
    let mut decoder = Decoder::new(table_bytes);
    for (block, expected, bytes) in blocks {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        assert_eq!(decode(&mut decoder, &hex(block)), Ok(expected), "{block}");
        assert_eq!(decoder.table_bytes(), *bytes, "{block}");
    }
}

#[test]
fn c_2_single_fields() {
    let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check(4096, &[(custom, &[("custom-key", "custom-header")], 55)]);
    check(
        4096,
        &[(
            "040c 2f73 616d 706c 652f 7061 7468",
            &[(":path", "/sample/path")],
            0,
        )],
    );
    check(
        4096,
        &[(
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            &[("password", "secret")],
            0,
        )],
    );
    check(4096, &[("82", &[(":method", "GET")], 0)]);
}

#[test]
fn c_2_3_is_never_indexed() {
    let block = hex("1008 7061 7373 776f 7264 0673 6563 7265 74");
    let fields = fields(&mut Decoder::new(4096), &block).unwrap();
    assert!(fields[0].is_never_indexed);
    assert!(matches!(&fields[0].value, Value::Plain(value) if value.is_sensitive()));
}

const FIRST: Fields<'_> = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
];
const SECOND: Fields<'_> = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
    ("cache-control", "no-cache"),
];
const THIRD: Fields<'_> = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
];

#[test]
fn c_3_requests_without_huffman() {
    check(
        4096,
        &[
            (
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                FIRST,
                57,
            ),
            ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                THIRD,
                164,
            ),
        ],
    );
}

#[test]
fn c_4_requests_with_huffman() {
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
            ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                THIRD,
                164,
            ),
        ],
    );
}

const DATE: &str = "Mon, 21 Oct 2013 20:13:21 GMT";
const LATER: &str = "Mon, 21 Oct 2013 20:13:22 GMT";
const LOCATION: &str = "https://www.example.com";
const COOKIE: &str = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const FOUND: Fields<'_> = &[
    (":status", "302"),
    ("cache-control", "private"),
    ("date", DATE),
    ("location", LOCATION),
];
const TEMPORARY: Fields<'_> = &[
    (":status", "307"),
    ("cache-control", "private"),
    ("date", DATE),
    ("location", LOCATION),
];
const OK: Fields<'_> = &[
    (":status", "200"),
    ("cache-control", "private"),
    ("date", LATER),
    ("location", LOCATION),
    ("content-encoding", "gzip"),
    ("set-cookie", COOKIE),
];

#[test]
fn c_5_responses_without_huffman_that_evict() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
                 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
                 6c65 2e63 6f6d",
                FOUND,
                222,
            ),
            ("4803 3330 37c1 c0bf", TEMPORARY, 222),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
                 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
                 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
                 3d31",
                OK,
                215,
            ),
        ],
    );
}

#[test]
fn c_6_responses_with_huffman_that_evict() {
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
                 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                FOUND,
                222,
            ),
            ("4883 640e ffc1 c0bf", TEMPORARY, 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
                 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
                 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                OK,
                215,
            ),
        ],
    );
}

/// The bytes that a response costs: a name of the static table, then all of it by the dynamic one.
#[test]
fn what_is_sent_again_is_a_byte() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let event_stream = HeaderValue::from_static("text/event-stream");
    let mut lengths = Vec::new();
    for length in 0..4 {
        let mut block = Vec::new();
        encoder.status(StatusCode::OK, &mut block);
        encoder.field(&http::header::CONTENT_TYPE, &event_stream, true, &mut block);
        encoder.number(&http::header::CONTENT_LENGTH, 9 + length, &mut block);
        lengths.push(block.len());
        let expected = [
            (":status".to_owned(), b"200".to_vec()),
            ("content-type".to_owned(), b"text/event-stream".to_vec()),
            (
                "content-length".to_owned(),
                (9 + length).to_string().into_bytes(),
            ),
        ];
        assert_eq!(decode(&mut decoder, &block), Ok(expected.to_vec()));
    }
    // At first and when it goes into the table: 1 + 20 (19 with a shorter prefix) + 4 or 5.
    assert_eq!(lengths, [25, 25, 7, 7]);
}

#[test]
fn a_sensitive_value_is_never_indexed() {
    let mut encoder = Encoder::new();
    let mut value = HeaderValue::from_static("secret");
    value.set_sensitive(true);
    for _ in 0..3 {
        let mut block = Vec::new();
        encoder.field(
            &HeaderName::from_static("password"),
            &value,
            true,
            &mut block,
        );
        assert_eq!(block, hex("1008 7061 7373 776f 7264 0673 6563 7265 74"));
    }
}
