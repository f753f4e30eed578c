//! Connections that are served: lanes, versions, ALPN, tickets, certificates.

use crate::client::{Ask, Client, Hello, Http, alpn};
use crate::world::{ALICE, CAROL, Wishes, World, token, until};
use edge_userspace::telemetry::{Handshake, Lane};
use http::Method;
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, SupportedProtocolVersion};
use std::sync::Arc;
use std::time::Duration;

static TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
static TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

#[tokio::test]
async fn a_token_opens_the_zero_lane_over_both_https() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200, "{http:?}");
        assert_eq!(answer.json()["usage"]["output_tokens"], 8);
        assert_eq!(answer.header("x-claude-route"), "direct");
        let stream = client.ask(Ask::stream(ALICE, 3)).await.unwrap();
        assert_eq!(
            stream.header("content-type"),
            "text/event-stream; charset=utf-8"
        );
        assert!(
            stream
                .body
                .ends_with(b"data: {\"type\":\"message_stop\"}\n\n")
        );
    }
    assert_eq!(world.metrics.connections.get(Lane::Zero), 2);
    assert_eq!(world.metrics.connections.get(Lane::Legacy), 0);
}

#[tokio::test]
async fn without_a_token_the_header_key_serves_over_both_tls_versions() {
    let world = World::new();
    for versions in [TLS12, TLS13] {
        let hello = Hello {
            versions,
            ..alpn(&[b"h2"])
        };
        let tls = world.tls(&hello).await.unwrap();
        let mut client = Client::over(tls, Http::H2).await;
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-claude-route"), "fallback");
        assert_eq!(answer.header("x-anthropic-layer"), "legacy-gateway");
    }
    let mut client = world.connect(Http::H1, None).await;
    let refused = client.ask(Ask::message(ALICE).without("x-api-key")).await;
    refused
        .unwrap()
        .is_error(401, "authentication_error", "No API key");
    let bearer = Ask::message(ALICE)
        .without("x-api-key")
        .with("authorization", &format!("Bearer {ALICE}"));
    assert_eq!(client.ask(bearer).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_token_speaks_tls_13_only() {
    let world = World::new();
    let good = token(ALICE);
    let hello = Hello {
        versions: TLS12,
        ..alpn(&[b"h2", &good])
    };
    let error = world.tls(&hello).await.unwrap_err().to_string();
    assert!(error.contains("ProtocolVersion"), "{error}");
    let failed = || world.metrics.handshakes.get(Handshake::Failed);
    until("the count", || failed() == 1).await;
}

#[tokio::test]
async fn classic_and_post_quantum_hellos_are_both_served() {
    let world = World::new();
    for post_quantum in [false, true] {
        let good = token(ALICE);
        let hello = Hello {
            post_quantum,
            ..alpn(&[b"h2", b"http/1.1", &good])
        };
        let tls = world.tls(&hello).await.unwrap();
        let group = tls.get_ref().1.negotiated_key_exchange_group().unwrap();
        let expected = if post_quantum {
            rustls::NamedGroup::X25519MLKEM768
        } else {
            rustls::NamedGroup::X25519
        };
        assert_eq!(group.name(), expected);
        let version = tls.get_ref().1.protocol_version();
        assert_eq!(version, Some(ProtocolVersion::TLSv1_3));
    }
}

#[tokio::test]
async fn a_client_gets_the_light_cipher_unless_it_likes_chacha_better() {
    let world = World::new();
    for (versions, likes_chacha, expected) in [
        (TLS13, false, CipherSuite::TLS13_AES_128_GCM_SHA256),
        (TLS13, true, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
        (
            TLS12,
            false,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            TLS12,
            true,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
    ] {
        let hello = Hello {
            versions,
            likes_chacha,
            ..alpn(&[b"h2"])
        };
        let tls = world.tls(&hello).await.unwrap();
        let suite = tls.get_ref().1.negotiated_cipher_suite().unwrap();
        assert_eq!(suite.suite(), expected);
    }
}

#[tokio::test]
async fn what_is_offered_beside_the_token_decides_the_protocol() {
    let world = World::new();
    let good = || token(ALICE);
    for (names, chosen, http) in [
        (vec![good()], None, Http::H1),
        (vec![good(), b"h2".to_vec()], Some(&b"h2"[..]), Http::H2),
        (
            vec![b"http/1.1".to_vec(), good()],
            Some(b"http/1.1"),
            Http::H1,
        ),
        (vec![], None, Http::H1),
    ] {
        let has_token = !names.is_empty();
        let hello = Hello {
            alpn: names,
            ..alpn(&[])
        };
        let tls = world.tls(&hello).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), chosen);
        let mut client = Client::over(tls, http).await;
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200);
        let route = if has_token { "direct" } else { "fallback" };
        assert_eq!(answer.header("x-claude-route"), route);
    }
    let good = token(ALICE);
    for names in [&[&b"spdy/3"[..], &good][..], &[b"acme-tls/1"]] {
        let error = world.tls(&alpn(names)).await.unwrap_err().to_string();
        assert!(error.contains("NoApplicationProtocol"), "{error}");
    }
}

#[tokio::test]
async fn a_resumed_session_is_whose_its_new_token_says() {
    let world = World::new();
    // One store of sessions for both connections.
    let mut config = world.client_config(&alpn(&[b"http/1.1"]));
    let mut kinds = Vec::new();
    for token in [None, Some(token(ALICE)), None] {
        let with_token = token.is_some();
        config.alpn_protocols = [b"http/1.1".to_vec()].into_iter().chain(token).collect();
        let tcp = tokio::net::TcpStream::connect(world.address).await.unwrap();
        let tls = world.tls_over(tcp, config.clone()).await.unwrap();
        kinds.push(tls.get_ref().1.handshake_kind().unwrap());
        let mut client = Client::over(tls, Http::H1).await;
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        let route = if with_token { "direct" } else { "fallback" };
        assert_eq!(answer.header("x-claude-route"), route);
    }
    assert_eq!(kinds[0], HandshakeKind::Full);
    assert_eq!(kinds[1..], [HandshakeKind::Resumed; 2]);
}

#[tokio::test]
async fn a_ticket_is_good_for_two_rotations_at_most() {
    let world = World::configured(|config| {
        config.tls.ticket_rotation = Duration::from_secs(1);
    });
    let kind = async |config: &rustls::ClientConfig| {
        let tcp = tokio::net::TcpStream::connect(world.address).await.unwrap();
        let tls = world.tls_over(tcp, config.clone()).await.unwrap();
        let kind = tls.get_ref().1.handshake_kind().unwrap();
        // The ticket comes with the first answer.
        let mut client = Client::over(tls, Http::H1).await;
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        kind
    };
    let fresh = || world.client_config(&alpn(&[b"http/1.1"]));
    let old = fresh();
    assert_eq!(kind(&old).await, HandshakeKind::Full);
    for _ in 0..2 {
        // Keys are changed by the first handshake after their time.
        tokio::time::sleep(Duration::from_millis(2100)).await;
        kind(&fresh()).await;
    }
    assert_eq!(kind(&old).await, HandshakeKind::Full);
    assert_eq!(kind(&old).await, HandshakeKind::Resumed);
}

#[tokio::test]
async fn early_data_is_not_offered() {
    let world = World::new();
    let mut config = world.client_config(&alpn(&[b"http/1.1"]));
    config.enable_early_data = true;
    for round in 0..2 {
        let tcp = tokio::net::TcpStream::connect(world.address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config.clone()));
        let name = crate::world::NAME.try_into().unwrap();
        let mut offered = false;
        let tls = connector.connect_with(name, tcp, |connection| {
            offered = connection.early_data().is_some();
        });
        let tls = tls.await.unwrap();
        let mut client = Client::over(tls, Http::H1).await;
        assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
        assert!(!offered, "round {round}");
    }
}

#[tokio::test]
async fn an_alpn_only_key_needs_no_header() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(CAROL))).await;
    let ask = Ask::message(CAROL).without("x-api-key");
    assert_eq!(client.ask(ask).await.unwrap().status, 200);
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let ask = Ask::message(ALICE).without("x-api-key");
    let answer = client.ask(ask).await.unwrap();
    answer.is_error(401, "authentication_error", "No API key");
}

#[tokio::test]
async fn a_changed_certificate_is_used_for_new_connections() {
    let world = World::new();
    let leaf = |tls: &tokio_rustls::client::TlsStream<tokio::net::TcpStream>| {
        tls.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let before = world.tls(&alpn(&[b"h2"])).await.unwrap();
    let other = crate::world::Files::new();
    for name in ["ca.pem", "cert.pem", "key.pem"] {
        std::fs::write(
            world.files.path(name),
            crate::world::read(&other.path(name)),
        )
        .unwrap();
    }
    let reloads = &world.metrics.certificate_reloads;
    until("the new certificate", || reloads.sum() == 1).await;
    let after = world.tls(&alpn(&[b"h2"])).await.unwrap();
    assert_ne!(leaf(&before), leaf(&after));
    let mut client = Client::over(before, Http::H2).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.status, 200, "what is open goes on");
}

#[tokio::test]
async fn health_needs_no_key_and_binds_nothing() {
    let world = World::with(Wishes {
        threads: 2,
        ..Wishes::default()
    });
    for http in Http::BOTH {
        let mut client = world.connect(http, None).await;
        let get = client.ask(Ask::new(Method::GET, "/v1/health")).await;
        let get = get.unwrap();
        assert_eq!(get.status, 200);
        assert_eq!(get.json()["status"], "ok");
        let head = client.ask(Ask::new(Method::HEAD, "/v1/health")).await;
        let head = head.unwrap();
        assert_eq!(head.status, 200);
        assert!(head.body.is_empty());
        assert!(world.sessions.is_empty());
    }
    assert_eq!(world.model.stats().figures().requests, 0);
}
