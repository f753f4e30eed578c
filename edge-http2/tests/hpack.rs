//! HPACK beside another implementation of it: h2's client writes the requests' header blocks that
//! are decoded here, and reads the responses' that are encoded here.

use bytes::Bytes;
use edge_http2::hpack::{Decoder, Encoder, Field, Name, Value};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// Types of frames (RFC 9113, section 6).
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const CONTINUATION: u8 = 0x9;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// A frame's payload, at most: the initial SETTINGS_MAX_FRAME_SIZE.
const FRAME_BYTES: usize = 16_384;

/// What is sent and answered on one connection.
#[derive(Debug, Clone)]
struct Talk {
    /// SETTINGS_HEADER_TABLE_SIZE of either side.
    ours: u32,
    theirs: u32,
    exchanges: Vec<Exchange>,
}

#[derive(Debug, Clone)]
struct Exchange {
    path: String,
    request: Vec<(HeaderName, HeaderValue)>,
    status: u16,
    response: Vec<(HeaderName, HeaderValue)>,
    is_kept: bool,
}

fn talk() -> impl Strategy<Value = Talk> {
    let sizes = || proptest::sample::select(&[0_u32, 64, 200, 1_000, 4_096][..]);
    let exchange = (
        "/[a-z]{0,30}",
        fields(),
        200..600_u16,
        fields(),
        any::<bool>(),
    );
    let exchange = exchange.prop_map(|(path, request, status, response, is_kept)| Exchange {
        path,
        request,
        status,
        response,
        is_kept,
    });
    (sizes(), sizes(), proptest::collection::vec(exchange, 1..12)).prop_map(
        |(ours, theirs, exchanges)| Talk {
            ours,
            theirs,
            exchanges,
        },
    )
}

fn fields() -> impl Strategy<Value = Vec<(HeaderName, HeaderValue)>> {
    const NAMES: [&str; 6] = [
        "content-type",
        "etag",
        "x-api-key",
        "authorization",
        "x-b",
        "accept",
    ];
    let name = prop_oneof![
        3 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => "x-[a-z0-9-]{1,70}",
    ];
    let value = prop_oneof![
        3 => proptest::sample::select(&["1", "text/event-stream", "2023-06-01", ""][..])
            .prop_map(|it| it.as_bytes().to_vec()),
        2 => "[!-~]([ -~]{0,90}[!-~])?".prop_map(String::into_bytes),
        1 => proptest::collection::vec(0x80..=0xff_u8, 0..40),
        1 => (b'a'..=b'z', 0..20_000_usize).prop_map(|(byte, times)| vec![byte; times]),
    ];
    let field =
        (name, value, proptest::bool::weighted(0.2)).prop_map(|(name, value, is_sensitive)| {
            // (A secret that is also sent in the open is none: h2 finds it in its table.)
            let value = if is_sensitive {
                [b"secret ", &value[..]].concat()
            } else {
                value
            };
            let mut value = HeaderValue::from_bytes(value.trim_ascii()).unwrap();
            value.set_sensitive(is_sensitive);
            (HeaderName::try_from(name).unwrap(), value)
        });
    proptest::collection::vec(field, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn h2_writes_what_is_read_and_reads_what_is_written(talk in talk()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (client, server) = tokio::io::duplex(1 << 16);
            tokio::join!(ask(client, &talk), answer(server, &talk));
        });
    }
}

/// h2's side: sends the requests one after the other and compares the responses.
async fn ask(wire: DuplexStream, talk: &Talk) {
    let mut builder = h2::client::Builder::new();
    builder
        .header_table_size(talk.theirs)
        .max_header_list_size(1 << 24)
        .enable_push(false);
    let (mut sender, connection) = builder.handshake::<_, Bytes>(wire).await.unwrap();
    let exchanges = async {
        for exchange in &talk.exchanges {
            let mut request = Request::post(format!("https://edge.example{}", exchange.path));
            let headers = request.headers_mut().unwrap();
            exchange.request.iter().for_each(|(name, value)| {
                headers.append(name, value.clone());
            });
            sender = sender.ready().await.unwrap();
            let (response, _) = sender
                .send_request(request.body(()).unwrap(), true)
                .unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status().as_u16(), exchange.status);
            assert_eq!(response.headers(), &map(&exchange.response));
        }
        drop(sender);
    };
    let (_, outcome) = tokio::join!(exchanges, connection);
    outcome.unwrap();
}

/// The other side: as much of HTTP/2 as it takes to move header blocks.
async fn answer(mut wire: DuplexStream, talk: &Talk) {
    // The client begins with 4,096 and says in a block when it goes by our setting.
    let mut decoder = Decoder::new(4096);
    let mut encoder = Encoder::new();
    wire.read_exact(&mut [0; 24]).await.unwrap();
    let table_size = [&[0, 1][..], &talk.ours.to_be_bytes()].concat();
    send(&mut wire, SETTINGS, 0, 0, &table_size).await;
    let mut exchanges = talk.exchanges.iter();
    let mut block = Vec::new();
    while let Some((kind, flags, stream, payload)) = receive(&mut wire).await {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks(6).filter(|it| it[..2] == [0, 1]) {
                    encoder
                        .set_max_table_bytes(u32::from_be_bytes(setting[2..].try_into().unwrap()));
                }
                send(&mut wire, SETTINGS, ACK, 0, &[]).await;
            }
            HEADERS | CONTINUATION => {
                block.extend(payload);
                if flags & END_HEADERS > 0 {
                    let exchange = exchanges.next().unwrap();
                    compare(&read(&mut decoder, &block), exchange);
                    respond(&mut wire, stream, &mut encoder, exchange).await;
                    block.clear();
                }
            }
            _ => {}
        }
    }
    assert!(exchanges.next().is_none(), "all were asked");
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    decoder
        .decode(block, &mut |field| fields.push(field))
        .unwrap();
    fields
}

fn compare(read: &[Field], exchange: &Exchange) {
    let pseudo: Vec<_> = read
        .iter()
        .filter_map(|field| match &field.value {
            Value::Pseudo(value) => Some((&field.name, &value[..])),
            _ => None,
        })
        .collect();
    let expected = [
        (&Name::Method, &b"POST"[..]),
        (&Name::Scheme, b"https"),
        (&Name::Authority, b"edge.example"),
        (&Name::Path, exchange.path.as_bytes()),
    ];
    assert_eq!(pseudo, expected);
    let mut headers = HeaderMap::new();
    for field in &read[expected.len()..] {
        let (Name::Plain(name), Value::Plain(value)) = (&field.name, &field.value) else {
            panic!("{field:?}");
        };
        assert_eq!(value.is_sensitive(), field.is_never_indexed);
        headers.append(name, value.clone());
    }
    let sent = map(&exchange.request);
    assert_eq!(headers, sent);
    // What the client holds to be a secret is known for one here.
    for name in sent.keys() {
        for (read, sent) in headers.get_all(name).iter().zip(sent.get_all(name)) {
            assert!(read.is_sensitive() || !sent.is_sensitive(), "{name}");
        }
    }
}

fn map(fields: &[(HeaderName, HeaderValue)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name, value.clone());
    }
    map
}

async fn respond(wire: &mut DuplexStream, stream: u32, encoder: &mut Encoder, exchange: &Exchange) {
    let mut block = Vec::new();
    encoder.status(StatusCode::from_u16(exchange.status).unwrap(), &mut block);
    for (name, value) in &exchange.response {
        encoder.field(name, value, exchange.is_kept, &mut block);
    }
    let last = block.chunks(FRAME_BYTES).count() - 1;
    for (nth, fragment) in block.chunks(FRAME_BYTES).enumerate() {
        let kind = if nth == 0 { HEADERS } else { CONTINUATION };
        let begins = if nth == 0 { END_STREAM } else { 0 };
        let ends = if nth == last { END_HEADERS } else { 0 };
        send(wire, kind, begins | ends, stream, fragment).await;
    }
}

async fn send(wire: &mut DuplexStream, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = &(payload.len() as u32).to_be_bytes()[1..];
    let frame = [length, &[kind, flags], &stream.to_be_bytes(), payload].concat();
    // The client may be gone when it has all its answers.
    let _ = wire.write_all(&frame).await;
}

/// A frame's type, flags, stream and payload; nothing when the client has gone.
async fn receive(wire: &mut DuplexStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    wire.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    wire.read_exact(&mut payload).await.ok()?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], stream, payload))
}
