//! Upstreams that are late, broken, gone, or back again.

use crate::client::{Ask, Http};
use crate::world::{ALICE, Wishes, World, soon, token, until};
use edge_userspace::demo_model::{DemoModel, Options};
use edge_userspace::telemetry::{StreamEnd, UpstreamConnection};
use http::Method;
use http_body_util::BodyExt as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

#[tokio::test]
async fn connections_are_used_again() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        for _ in 0..10 {
            assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
            assert_eq!(client.ask(Ask::stream(ALICE, 3)).await.unwrap().status, 200);
        }
    }
    assert_eq!(world.model.stats().figures().connections, 1);
    let connections = &world.metrics.upstream_connections;
    assert_eq!(connections.get(UpstreamConnection::Opened), 1);
    assert_eq!(connections.get(UpstreamConnection::Reused), 39);
    assert_eq!(world.metrics.idle_upstream_connections.get(), 1);
}

#[tokio::test]
async fn all_sockets_of_a_thread_use_the_same_connections() {
    let mut world = World::configured(|config| {
        config.listen.addresses.push(([127, 0, 0, 1], 0).into());
    });
    assert_eq!(world.addresses.len(), 2);
    for address in world.addresses.clone() {
        world.address = address;
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    }
    assert_eq!(world.model.stats().figures().connections, 1);
}

#[tokio::test]
async fn a_request_without_a_place_for_its_connection_is_told_to_come_again() {
    let world = World::configured(|config| config.upstreams[0].max_connections = 2);
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let hangs = || Ask::message(ALICE).with("x-demo-error", "hang");
    let hanging: Vec<_> = (0..2)
        .map(|_| tokio::spawn(client.begin(hangs())))
        .collect();
    let figures = || world.model.stats().figures();
    until("both requests upstream", || figures().active == 2).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(529, "overloaded_error", "This node has no connection");
    let connections = &world.metrics.upstream_connections;
    assert_eq!(connections.get(UpstreamConnection::Full), 1);
    hanging[0].abort();
    until("a place", || figures().active == 1).await;
    for _ in 0..3 {
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    }
    assert_eq!(connections.get(UpstreamConnection::Opened), 3);
}

#[tokio::test]
async fn an_https_upstream_is_checked_against_its_own_ca() {
    let world = World::with(Wishes {
        model_tls: true,
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    for _ in 0..3 {
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        assert_eq!(
            client.ask(Ask::stream(ALICE, 50)).await.unwrap().status,
            200
        );
    }
    assert_eq!(world.model.stats().figures().connections, 1);

    let world = World::with(Wishes {
        model_tls: true,
        config: |config| {
            let other = crate::world::Files::new();
            let ca = config.tls.certificate.with_file_name("other-ca.pem");
            std::fs::copy(other.path("ca.pem"), &ca).unwrap();
            config.upstreams[0].ca_file = Some(ca);
        },
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(500, "api_error", "The upstream could not be reached");
}

#[tokio::test]
async fn a_restarted_upstream_fails_no_request() {
    for model_tls in [false, true] {
        let mut world = World::with(Wishes {
            model_tls,
            ..Wishes::default()
        });
        let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
        for round in 0..5 {
            // Several connections in the pool.
            let asks = (0..4)
                .map(|_| client.begin(Ask::message(ALICE).with("x-demo-first-token-ms", "20")));
            let asks: Vec<_> = asks.map(tokio::spawn).collect();
            for ask in asks {
                let response = ask.await.unwrap().unwrap();
                assert_eq!(response.status(), 200);
                response.into_body().collect().await.unwrap();
            }
            let options = Options {
                listen: world.model.address(),
                tls: model_tls.then(|| (world.files.path("cert.pem"), world.files.path("key.pem"))),
                first_token: Duration::ZERO,
                inter_token: Duration::ZERO,
                ..Options::default()
            };
            // The old one ends first: both want the port.
            let elsewhere = DemoModel::start(Options::default()).unwrap();
            drop(std::mem::replace(&mut world.model, elsewhere));
            world.model = DemoModel::start(options).unwrap();
            let answer = client.ask(Ask::message(ALICE)).await.unwrap();
            assert_eq!(answer.status, 200, "TLS {model_tls}, round {round}");
        }
        let stale = world
            .metrics
            .upstream_connections
            .get(UpstreamConnection::Stale);
        let retried = world
            .metrics
            .upstream_connections
            .get(UpstreamConnection::Retried);
        assert!(stale + retried >= 5, "{stale} stale, {retried} retried");
    }
}

/// An upstream by script: what it does with its `n`th connection.
pub(crate) async fn scripted<F, S>(script: S) -> SocketAddr
where
    S: Fn(u64, TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for n in 0.. {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(script(n, tcp));
        }
    });
    address
}

/// Reads one request, its head and, by content-length, its body.
pub(crate) async fn read_request(tcp: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
        if tcp.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

const OK: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_reused_connection_that_dies_on_a_request_is_retried_only_for_get() {
    let requests = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&requests);
    // Answers one request a connection, closes on the next without a word.
    let upstream = scripted(move |_, mut tcp| {
        let requests = Arc::clone(&counter);
        async move {
            for answered in 0.. {
                if read_request(&mut tcp).await.is_none() {
                    return;
                }
                requests.fetch_add(1, Ordering::Relaxed);
                if answered == 1 {
                    return;
                }
                tcp.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let models = || Ask::new(Method::GET, "/v1/models").with("x-api-key", ALICE);
    assert_eq!(client.ask(models()).await.unwrap().status, 200);
    assert_eq!(
        client.ask(models()).await.unwrap().status,
        200,
        "asked again"
    );
    assert_eq!(requests.load(Ordering::Relaxed), 3);
    // A message may have been begun, and billed.
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(
        500,
        "api_error",
        "The upstream broke off before it answered",
    );
    assert_eq!(answer.header("x-should-retry"), "true");
    assert_eq!(requests.load(Ordering::Relaxed), 4);
    let retried = world
        .metrics
        .upstream_connections
        .get(UpstreamConnection::Retried);
    assert_eq!(retried, 1);
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_an_error_in_the_apis_shape() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let world = World::with(Wishes {
        upstream: Some(address),
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(500, "api_error", "The upstream could not be reached");
    assert_eq!(answer.header("x-should-retry"), "true");
    assert!(!answer.json().to_string().contains(&address.to_string()));

    let world =
        World::configured(|config| config.upstreams[0].host = "no-such-host.invalid".to_owned());
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(500, "api_error", "The upstream could not be reached");
}

#[tokio::test]
async fn late_upstreams_are_timed_out() {
    let world = World::configured(|config| {
        config.upstreams[0].first_byte_timeout = Duration::from_millis(300);
        config.upstreams[0].idle_timeout = Duration::from_millis(300);
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let hang = Ask::message(ALICE).with("x-demo-error", "hang");
        let answer = client.ask(hang).await.unwrap();
        answer.is_error(504, "timeout_error", "The upstream did not begin to answer");

        let hang = Ask::stream(ALICE, 50).with("x-demo-error", "hang-between-events");
        let body = client.ask(hang).await.unwrap().body;
        let body = String::from_utf8(body.to_vec()).unwrap();
        let (before, error) = body.rsplit_once("event: error\ndata: ").unwrap();
        assert!(
            before.ends_with("\n\n") && error.contains("timeout_error"),
            "{error}"
        );

        let hang = Ask::stream(ALICE, 50).with("x-demo-error", "hang-mid-event");
        assert!(client.ask(hang).await.is_err(), "cut, not ended");
    }
    let silent = world.metrics.streams.get(StreamEnd::UpstreamSilent);
    assert_eq!(silent, 4);
    let figures = || world.model.stats().figures();
    until("the model's rest", || figures().active == 0).await;
}

#[tokio::test]
async fn a_connect_that_takes_too_long_is_a_timeout() {
    // Takes connections and never speaks TLS.
    let upstream = scripted(|_, tcp| async move {
        let _keep = tcp;
        std::future::pending::<()>().await;
    })
    .await;
    let world = World::with(Wishes {
        model_tls: true,
        upstream: Some(upstream),
        config: |config| config.upstreams[0].connect_timeout = Duration::from_millis(300),
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(
        504,
        "timeout_error",
        "The upstream could not be reached in time",
    );
}

#[tokio::test]
async fn an_upstream_that_breaks_off_ends_a_stream_properly_and_never_a_whole_answer() {
    let world = World::new();
    for http in Http::BOTH {
        let broken = |ask: Ask, how: &str| ask.with("x-demo-error", how);
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(broken(Ask::message(ALICE), "close-before-head"));
        let answer = answer.await.unwrap();
        answer.is_error(
            500,
            "api_error",
            "The upstream broke off before it answered",
        );

        let answer = client.ask(broken(Ask::stream(ALICE, 50), "close-between-events"));
        let body = answer.await.unwrap().body;
        let body = String::from_utf8(body.to_vec()).unwrap();
        let (before, error) = body.rsplit_once("event: error\ndata: ").unwrap();
        assert!(
            before.ends_with("\n\n") && error.contains("\"api_error\""),
            "{error}"
        );

        let answer = client.ask(broken(Ask::stream(ALICE, 50), "close-mid-event"));
        let answer = answer.await;
        assert!(
            answer.is_err(),
            "{http:?}: an end that looks good: {answer:?}"
        );

        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(broken(Ask::message(ALICE), "close-mid-stream"));
        assert!(answer.await.is_err(), "{http:?}: half an answer");
    }
    let truncated = world.metrics.streams.get(StreamEnd::UpstreamTruncated);
    assert_eq!(truncated, 6);
}

#[tokio::test]
async fn an_upstream_that_answers_before_it_has_read_is_heard() {
    // Reads a little, answers, reads no more, and stays.
    let upstream = scripted(|_, mut tcp| async move {
        let mut some = [0; 1000];
        let _ = tcp.read(&mut some).await;
        let answer = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}";
        let _ = tcp.write_all(answer).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        ..Wishes::default()
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let ask = Ask::message(ALICE).body([&vec![b' '; 16 << 20][..], b"{}"].concat());
        let answer = client.ask(ask).await.unwrap();
        assert_eq!(answer.status, 429, "{http:?}");
        assert_eq!(answer.body, "{}");
    }
}

#[tokio::test]
async fn answers_that_are_no_http_or_close_delimited() {
    let upstream = scripted(|n, mut tcp| async move {
        read_request(&mut tcp).await.unwrap();
        let answer: &[u8] = match n {
            0 => b"SSH-2.0-x\r\n\r\n",
            1 => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nuntil the end",
            2 => b"HTTP/1.1 200 OK\r\nconnection: close, x-hop\r\nx-hop: 1\r\ncontent-length: 1\r\n\r\nx",
            3 => b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
            _ => b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        };
        let _ = tcp.write_all(answer).await;
        // Stays open where the answer's length is told.
        if n == 2 || n > 3 {
            let _ = read_request(&mut tcp).await;
        }
    })
    .await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(500, "api_error", "The upstream broke off");
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.body, "until the end");
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.body, "x");
    assert_eq!(answer.header("x-hop"), "");
    assert_eq!(answer.header("connection"), "", "the upstream's, not ours");
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    answer.is_error(500, "api_error", "The upstream broke off");
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.status, 204);
    let opened = world
        .metrics
        .upstream_connections
        .get(UpstreamConnection::Opened);
    assert_eq!(opened, 5, "none of them was to be used again");
}

#[tokio::test]
async fn old_idle_connections_are_not_kept() {
    let world = World::configured(|config| {
        config.upstreams[0].keep_idle = Duration::from_millis(200);
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    assert_eq!(world.metrics.idle_upstream_connections.get(), 1);
    let idle = || world.metrics.idle_upstream_connections.get();
    until("the reaping", || idle() == 0).await;
    let answer = soon("the answer", client.ask(Ask::message(ALICE))).await;
    assert_eq!(answer.unwrap().status, 200);
}

/// What comes behind a response is never the next request's, also where TLS has it already.
#[tokio::test]
async fn a_second_response_within_the_record_of_the_first_is_nobodys() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let world = World::with(Wishes {
        model_tls: true,
        upstream: Some(address),
        ..Wishes::default()
    });
    let acceptor = TlsAcceptor::from(Arc::new(world.files.server_config()));
    tokio::spawn(async move {
        loop {
            let (tcp, _) = socket.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut tls = acceptor.accept(tcp).await.unwrap();
                let mut some = [0; 16 * 1024];
                while tls.read(&mut some).await.is_ok_and(|count| count > 0) {
                    // Two reads of the edge's to the byte, then what nobody asked for.
                    let head = "HTTP/1.1 200 OK\r\ncontent-length: ";
                    let body = 16 * 1024 - head.len() - 5 - 4;
                    let first = format!("{head}{body}\r\n\r\n{}", "a".repeat(body));
                    let (begin, rest) = first.split_at(8 * 1024);
                    let rest = format!("{rest}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
                    tls.write_all(begin.as_bytes()).await.unwrap();
                    tls.flush().await.unwrap();
                    tls.write_all(rest.as_bytes()).await.unwrap();
                    tls.flush().await.unwrap();
                }
            });
        }
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    for _ in 0..3 {
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert!(answer.body.iter().all(|byte| *byte == b'a'));
    }
    let connections = &world.metrics.upstream_connections;
    assert_eq!(connections.get(UpstreamConnection::Reused), 0);
}
