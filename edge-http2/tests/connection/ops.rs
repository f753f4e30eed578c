//! What a client may do, right and wrong, and how often.

use proptest::bool::weighted;
use proptest::prelude::*;
use proptest::sample::select;

/// What a client does.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A request on a new stream.
    Request(Request),
    Data {
        on: On,
        bytes: usize,
        padding: Option<u8>,
        is_end: bool,
    },
    Trailers {
        on: On,
        kind: Trailers,
        is_end: bool,
    },
    Reset {
        on: On,
        code: u32,
    },
    Window {
        on: On,
        more: u32,
    },
    Settings(Vec<(u16, u32)>),
    Priority(On),
    /// Any frame, its payload all of one byte.
    Frame {
        kind: u8,
        flags: u8,
        on: On,
        bytes: usize,
        byte: u8,
    },
}

/// Which stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum On {
    /// The nth last that was opened.
    Opened(usize),
    /// One that is not open yet.
    Idle,
    Even,
    Connection,
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// How many bytes the answer has.
    pub(crate) answer: u32,
    pub(crate) is_end: bool,
    pub(crate) length: Option<u32>,
    pub(crate) padding: Option<u8>,
    pub(crate) is_prioritised: bool,
    /// In how many frames.
    pub(crate) frames: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Good,
    /// Without that pseudo-header, by its place.
    Without(usize),
    /// With it twice.
    Twice(usize),
    /// A field more, that makes it malformed or not.
    With(&'static str, &'static str),
    /// A pseudo-header behind the fields.
    Late,
    /// A block that is none.
    Broken,
    Large,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trailers {
    Good,
    Pseudo,
}

/// Nothing is of use before the first request.
pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let rest = proptest::collection::vec(op(), 0..30);
    (request(), rest).prop_map(|(first, rest)| [vec![first], rest].concat())
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![1 => Just(0), 4 => Just(100), 2 => 0..16_384_usize, 1 => Just(16_384)];
    let data =
        (on(), bytes, padding(), any::<bool>()).prop_map(|(on, bytes, padding, is_end)| Op::Data {
            on,
            bytes,
            padding,
            is_end,
        });
    let kind = prop_oneof![9 => Just(Trailers::Good), 1 => Just(Trailers::Pseudo)];
    let trailers = (on(), kind, weighted(0.95)).prop_map(|(on, kind, is_end)| Op::Trailers {
        on,
        kind,
        is_end,
    });
    let reset = (on(), 0..14_u32).prop_map(|(on, code)| Op::Reset { on, code });
    let more = prop_oneof![
        20 => 1..70_000_u32,
        10 => select(&[1, 100, 16_384, 1 << 20][..]),
        1 => select(&[0, 0x7fff_ffff - 65_535, 0x7fff_ffff, 0xffff_ffff][..]),
    ];
    let window = (on(), more).prop_map(|(on, more)| Op::Window { on, more });
    let lengths = prop_oneof![8 => 0..20_usize, 1 => Just(16_384), 1 => Just(16_385)];
    let frame = (0..12_u8, any::<u8>(), on(), lengths, any::<u8>()).prop_map(
        |(kind, flags, on, bytes, byte)| Op::Frame {
            kind,
            flags,
            on,
            bytes,
            byte,
        },
    );
    prop_oneof![
        20 => request(),
        16 => data,
        3 => trailers,
        4 => reset,
        12 => window,
        4 => proptest::collection::vec(setting(), 0..4).prop_map(Op::Settings),
        1 => on().prop_map(Op::Priority),
        1 => frame,
    ]
}

fn on() -> impl Strategy<Value = On> {
    prop_oneof![
        60 => (0..5_usize).prop_map(On::Opened),
        1 => Just(On::Idle),
        1 => Just(On::Even),
        2 => Just(On::Connection),
    ]
}

fn padding() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![4 => Just(None), 1 => any::<u8>().prop_map(Some)]
}

fn setting() -> impl Strategy<Value = (u16, u32)> {
    prop_oneof![
        16 => select(&[0, 1, 100, 20_000, 65_535, 100_000, 200_000][..]).prop_map(|it| (4, it)),
        1 => select(&[0x7fff_ffff, 0x8000_0000][..]).prop_map(|it| (4, it)),
        4 => (0..5_000_u32).prop_map(|it| (1, it)),
        1 => (0..3_u32).prop_map(|it| (2, it)),
        1 => select(&[0, 16_383, 16_384, 100_000, 1 << 24][..]).prop_map(|it| (5, it)),
        1 => any::<(u16, u32)>(),
    ]
}

fn request() -> impl Strategy<Value = Op> {
    let with = [
        ("te", "trailers"),
        ("te", "gzip"),
        ("connection", "close"),
        ("keep-alive", "1"),
        ("proxy-connection", "1"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("Upper", "1"),
        ("white space", "1"),
        (":unknown", "1"),
        (":status", "200"),
        ("cookie", "a=b"),
        ("content-length", "x"),
        ("x", ""),
    ];
    let head = prop_oneof![
        60 => Just(Head::Good),
        1 => (0..4_usize).prop_map(Head::Without),
        1 => (0..4_usize).prop_map(Head::Twice),
        2 => select(with.to_vec()).prop_map(|(name, value)| Head::With(name, value)),
        1 => Just(Head::Late),
        1 => Just(Head::Large),
        1 => Just(Head::Broken),
    ];
    let answer = prop_oneof![2 => 0..10_u32, 1 => 0..200_000_u32];
    let length = prop_oneof![7 => Just(None), 1 => (0..3_u32).prop_map(|it| Some(it * 100))];
    let frames = prop_oneof![8 => Just(1), 1 => 2..5_usize];
    (
        head,
        answer,
        any::<bool>(),
        length,
        padding(),
        weighted(0.1),
        frames,
    )
        .prop_map(
            |(head, answer, is_end, length, padding, is_prioritised, frames)| {
                let request = Request {
                    head,
                    answer,
                    is_end,
                    length,
                    padding,
                    is_prioritised,
                    frames,
                };
                Op::Request(request)
            },
        )
}
