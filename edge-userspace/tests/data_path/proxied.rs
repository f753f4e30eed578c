//! Listeners that expect the PROXY protocol: whose connection it is, and who may say so.

use crate::client::{Ask, Client, Http, alpn};
use crate::world::{ALICE, MALLORY, World, soon, token, until};
use edge_common::policy::Reason;
use edge_userspace::config::{Config, ProxyProtocol};
use edge_userspace::telemetry::{Lane, ProxyHeader, Verdict};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, Once};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// The one listener expects the header, from `trusted`.
fn behind(config: &mut Config, trusted: &str) {
    config.listen.proxy_protocol = ProxyProtocol {
        addresses: config.listen.addresses.clone(),
        trusted: vec![trusted.parse().unwrap()],
    };
}

fn world() -> World {
    log();
    World::configured(|config| behind(config, "127.0.0.0/8"))
}

fn v1(client: SocketAddr) -> Vec<u8> {
    let (family, server) = match client {
        SocketAddr::V4(_) => ("TCP4", "198.51.100.1"),
        SocketAddr::V6(_) => ("TCP6", "2001:db8::1"),
    };
    let (ip, port) = (client.ip(), client.port());
    format!("PROXY {family} {ip} {server} {port} 443\r\n").into_bytes()
}

/// Version 2 with a TLV of ALPN and one of padding behind the addresses.
fn v2(command: u8, client: SocketAddr) -> Vec<u8> {
    let (family, mut body) = match client.ip() {
        std::net::IpAddr::V4(ip) => (0x11, [ip.octets(), [198, 51, 100, 1]].concat()),
        std::net::IpAddr::V6(ip) => (0x21, [ip.octets(), [1; 16]].concat()),
    };
    body.extend(client.port().to_be_bytes());
    body.extend(443u16.to_be_bytes());
    body.extend([1, 0, 2, b'h', b'2', 4, 0, 4, 0, 0, 0, 0]);
    let length = u16::try_from(body.len()).unwrap();
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, family]);
    header.extend(length.to_be_bytes());
    header.extend(body);
    header
}

/// A balancer's connection: the header goes out right before the hello, in one write with it.
#[derive(Debug)]
struct Balancer {
    tcp: TcpStream,
    header: Vec<u8>,
}

impl AsyncRead for Balancer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Balancer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.header.is_empty() {
            return Pin::new(&mut self.tcp).poll_write(cx, bytes);
        }
        let both = [&self.header[..], bytes].concat();
        let written = std::task::ready!(Pin::new(&mut self.tcp).poll_write(cx, &both))?;
        assert_eq!(written, both.len(), "a fresh socket takes it whole");
        self.header.clear();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

async fn connect(world: &World) -> TcpStream {
    let tcp = TcpStream::connect(world.address).await.unwrap();
    tcp.set_nodelay(true).unwrap();
    tcp
}

/// One request over a connection that begins with `header`; gives our own address.
async fn ask(world: &World, header: Vec<u8>) -> SocketAddr {
    let tcp = connect(world).await;
    let local = tcp.local_addr().unwrap();
    let config = world.client_config(&alpn(&[b"h2", &token(ALICE)]));
    let tls = world.tls_over(Balancer { tcp, header }, config).await;
    let mut client = Client::over(tls.unwrap(), Http::H2).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    local
}

/// What the listener has logged so far, for all tests of this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl io::Write for ToLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let layer = tracing_subscriber::fmt::layer().with_ansi(false);
        let listener = "edge_userspace::listener";
        let targets = Targets::new().with_target(listener, LevelFilter::DEBUG);
        tracing_subscriber::registry()
            .with(layer.with_writer(|| ToLog).with_filter(targets))
            .init();
    });
}

/// Waits for a line with all of these.
async fn logged(words: &[&str]) {
    let there = || {
        let text = LOG.lock().unwrap();
        let text = String::from_utf8_lossy(&text);
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        text.lines().any(has_all)
    };
    until(&format!("a line with {words:?}"), there).await;
}

#[tokio::test]
async fn the_header_says_whose_connection_it_is() {
    let world = world();
    let (four, six) = ("192.0.2.7:51001", "[2001:db8::7]:51002");
    for (header, client) in [
        (v1(four.parse().unwrap()), Some(four)),
        (v1(six.parse().unwrap()), Some(six)),
        (v2(0x21, four.parse().unwrap()), Some(four)),
        (v2(0x21, six.parse().unwrap()), Some(six)),
        (v2(0x20, four.parse().unwrap()), None),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
    ] {
        let local = ask(&world, header).await.to_string();
        let peer = format!("peer={} ", client.unwrap_or(&local));
        let socket_peer = format!("socket_peer={local} ");
        logged(&["a connection is served", &peer, &socket_peer, "ja4=\"t13d"]).await;
    }
    let headers = &world.metrics.proxy_headers;
    assert_eq!(headers.get(ProxyHeader::Proxied), 4);
    assert_eq!(headers.get(ProxyHeader::Own), 2);
    assert_eq!(headers.sum(), 6);
    assert_eq!(world.metrics.connections.get(Lane::Zero), 6);
}

#[tokio::test]
async fn header_and_hello_may_be_cut_anywhere_between_segments() {
    let world = world();
    let client = "192.0.2.9:51003".parse().unwrap();
    for header in [v1(client), v2(0x21, client)] {
        for at in 1..=header.len() {
            let mut tcp = connect(&world).await;
            let (first, rest) = header.split_at(at);
            tcp.write_all(first).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let config = world.client_config(&alpn(&[b"h2", &token(ALICE)]));
            let header = rest.to_vec();
            let tls = world.tls_over(Balancer { tcp, header }, config).await;
            assert!(tls.is_ok(), "cut at {at}");
        }
    }
    let headers = &world.metrics.proxy_headers;
    assert_eq!(headers.get(ProxyHeader::Proxied), headers.sum());
}

/// Sends bytes; gives what comes back to the connection's end, which may be a reset.
async fn raw(world: &World, bytes: &[u8]) -> Vec<u8> {
    let mut tcp = connect(world).await;
    // The other end may be closed before all is written.
    let _ = tcp.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = soon("the end", tcp.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test]
async fn without_a_good_header_a_connection_is_closed_and_counted() {
    let world = world();
    let headers = &world.metrics.proxy_headers;
    let endless = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 500]].concat();
    let mut long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x20\x00".to_vec();
    long.extend([0; 100]);
    for (bytes, why) in [
        (
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
            ProxyHeader::Missing,
        ),
        (b"GET / HTTP/1.1\r\n\r\n", ProxyHeader::Missing),
        (b"PROXY TCP4 here there 1 2\r\n", ProxyHeader::Malformed),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0", ProxyHeader::Malformed),
        (&endless, ProxyHeader::TooLong),
        (&long, ProxyHeader::TooLong),
    ] {
        let before = headers.get(why);
        let answer = raw(&world, bytes).await;
        assert_eq!(answer, b"", "{}", bytes.escape_ascii());
        assert_eq!(headers.get(why), before + 1, "{}", bytes.escape_ascii());
    }
    // A whole hello without a header gets no further either.
    let error = world.tls(&alpn(&[b"h2", &token(ALICE)])).await;
    assert!(error.is_err());
    assert_eq!(headers.get(ProxyHeader::Missing), 3);
    assert_eq!(world.metrics.verdicts.sum(), 0, "no hello was judged");
}

#[tokio::test]
async fn half_a_header_is_dropped_in_time() {
    let world = World::configured(|config| {
        behind(config, "127.0.0.0/8");
        config.listen.handshake_timeout = Duration::from_millis(300);
    });
    let header = v2(0x21, "192.0.2.7:1".parse().unwrap());
    assert_eq!(raw(&world, &header[..20]).await, b"");
    let headers = &world.metrics.proxy_headers;
    assert_eq!(headers.get(ProxyHeader::Incomplete), 1);
}

#[tokio::test]
async fn a_stranger_is_closed_whatever_its_header_says() {
    let world = World::configured(|config| behind(config, "192.0.2.0/24"));
    let config = || world.client_config(&alpn(&[b"h2", &token(ALICE)]));
    let header = v1("192.0.2.7:51004".parse().unwrap());
    let tcp = connect(&world).await;
    assert!(
        world
            .tls_over(Balancer { tcp, header }, config())
            .await
            .is_err()
    );
    assert!(
        world
            .tls_over(connect(&world).await, config())
            .await
            .is_err()
    );
    let headers = &world.metrics.proxy_headers;
    until("both", || headers.get(ProxyHeader::Untrusted) == 2).await;
    assert_eq!(world.metrics.verdicts.sum(), 0);
}

#[tokio::test]
async fn a_listener_that_expects_no_header_believes_none() {
    let world = World::configured(|config| {
        // The other one does.
        config.listen.addresses = vec![([127, 0, 0, 1], 0).into(), ([127, 0, 0, 2], 0).into()];
        config.listen.proxy_protocol = ProxyProtocol {
            addresses: vec![([127, 0, 0, 2], 0).into()],
            trusted: vec!["127.0.0.0/8".parse().unwrap()],
        };
    });
    let header = v1("192.0.2.7:51005".parse().unwrap());
    // Version 1 looks like a request in plain HTTP.
    assert!(raw(&world, &header).await.starts_with(b"HTTP/1.1 400 "));
    let second = v2(0x21, "192.0.2.7:51005".parse().unwrap());
    assert_eq!(raw(&world, &second).await, [21, 3, 3, 0, 2, 2, 10]);
    let not_hello = Verdict::of(Reason::NotHello);
    assert_eq!(world.metrics.verdicts.get(not_hello), 2);
    world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
    assert_eq!(world.metrics.proxy_headers.sum(), 0);
    let tcp = TcpStream::connect(world.addresses[1]).await.unwrap();
    let config = world.client_config(&alpn(&[b"h2", &token(ALICE)]));
    world
        .tls_over(Balancer { tcp, header }, config)
        .await
        .unwrap();
    assert_eq!(world.metrics.proxy_headers.get(ProxyHeader::Proxied), 1);
}

#[tokio::test]
async fn rates_go_by_the_address_inside() {
    let world = World::configured(|config| {
        behind(config, "127.0.0.0/8");
        config.legacy.connections_per_second = 1;
        config.legacy.burst = 2;
    });
    let connect = async |header: Vec<u8>| {
        let tcp = connect(&world).await;
        let config = world.client_config(&alpn(&[b"h2"]));
        let tls = world.tls_over(Balancer { tcp, header }, config).await;
        tls.map(drop).map_err(|error| error.to_string())
    };
    // The nth client of one prefix of each kind; the balancer's own is one too.
    let v2_of = |text: String| v2(0x21, text.parse().unwrap());
    let prefixes: [&dyn Fn(u16) -> Vec<u8>; 4] = [
        &|n| v1(format!("192.0.2.{n}:1").parse().unwrap()),
        &|n| v2_of(format!("[::ffff:198.51.100.{n}]:1")),
        &|n| v2_of(format!("[2001:db8:0:7:{n}::1]:1")),
        &|_| b"PROXY UNKNOWN\r\n".to_vec(),
    ];
    let mut refused = 0;
    for header in prefixes {
        assert_eq!(
            connect(header(1)).await,
            Ok(()),
            "others' connections count"
        );
        // No address comes twice: that any is refused is its neighbours' doing.
        for n in 2..=30 {
            if let Err(error) = connect(header(n)).await {
                assert!(error.contains("AccessDenied"), "{error}");
                refused += 1;
                break;
            }
        }
    }
    let exceeded = Verdict::of(Reason::LegacyRateExceeded);
    assert_eq!(world.metrics.verdicts.get(exceeded), refused);
    assert_eq!(refused, 4, "each prefix has its rate");
}

#[tokio::test]
async fn a_refusal_behind_a_balancer_names_the_client() {
    let world = world();
    let client = "192.0.2.77:51006";
    let tcp = connect(&world).await;
    let header = v2(0x21, client.parse().unwrap());
    let config = world.client_config(&alpn(&[b"h2", &token(MALLORY)]));
    let error = world.tls_over(Balancer { tcp, header }, config).await;
    assert!(error.unwrap_err().to_string().contains("AccessDenied"));
    let peer = format!("peer={client} ");
    logged(&["a hello was refused", &peer, "key_unknown", "ja4=\"t13d"]).await;
}
