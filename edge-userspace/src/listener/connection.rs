//! One connection from accept to the end of its handshake, after which it is [served](super::serving).

use super::charge::{Addresses, Charged, charge};
use super::client::Client;
use super::hello::{self, Decision, Hello};
use super::proxy_protocol::{self, Preface};
use super::serving::{self, Serving};
use super::turns::Crowded;
use super::{Identity, Thread, compare, refuse, rules};
use crate::charges::Now;
use crate::ja4::Ja4;
use crate::telemetry::{ConnectionEnd, Handshake, Lane, ProxyHeader, Verdict};
use bytes::BytesMut;
use edge_common::policy::Reason;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Judges the hello, then refuses the connection or serves it to its end. `expects_header`:
/// a PROXY header comes before the hello.
pub(super) async fn run(
    thread: &Rc<Thread>,
    tcp: TcpStream,
    socket_peer: SocketAddr,
    expects_header: bool,
) {
    // What the handshake takes is not kept for as long as the connection lasts, which does
    // nothing most of the time.
    let handshake = Box::pin(handshake(thread, tcp, socket_peer, expects_header));
    if let Some(serving) = handshake.await {
        serving.await;
    }
}

/// From accept to the end of the handshake. `None`: the connection is over.
async fn handshake(
    thread: &Rc<Thread>,
    mut tcp: TcpStream,
    socket_peer: SocketAddr,
    expects_header: bool,
) -> Option<Serving> {
    let listen = &thread.shared.config.listen;
    let deadline = Instant::now() + listen.handshake_timeout;
    let handshakes = &thread.shared.metrics.handshakes;
    let verdicts = &thread.shared.metrics.verdicts;

    let mut peer = socket_peer;
    let mut ahead = BytesMut::new();
    if expects_header {
        let preface = preface(thread, &mut tcp, socket_peer, deadline).await?;
        peer = preface.client.unwrap_or(socket_peer);
        ahead = preface.ahead;
    }
    let read = hello::read(&mut tcp, ahead, listen.max_hello_bytes);
    let read = timeout_at(deadline, read);
    let hello = match thread.unread_hellos.enter().or_pushed_out(read).await {
        Some(Ok(Ok(hello))) => hello,
        // Gone, or too slow: nothing to answer to, or too late to.
        outcome => {
            verdicts.one(Verdict::of(Reason::Incomplete));
            if outcome.is_none() {
                let ends = &thread.shared.metrics.connection_ends;
                ends.one(ConnectionEnd::HelloPushedOut);
            }
            return None;
        }
    };
    let Ok(local) = tcp.local_addr() else {
        // The connection is gone.
        verdicts.one(Verdict::of(Reason::Incomplete));
        return None;
    };
    let addresses = Addresses {
        peer: socket_peer,
        local,
        source: peer.ip(),
    };
    compare::with_kernel(thread, &hello, addresses);
    let Charged {
        reason,
        decision,
        over_rate,
    } = judge(thread, &hello, addresses);
    verdicts.one(match (reason, &decision) {
        (Reason::Accepted, Decision::Legacy) => Verdict::LEGACY_BY_RULE,
        _ => Verdict::of(reason),
    });
    let (lane, key) = match decision {
        Decision::Zero(key) => (Lane::Zero, Some(key)),
        Decision::Legacy => (Lane::Legacy, None),
        Decision::Refuse | Decision::Malformed | Decision::NotTls => {
            log_refused(thread, reason, &hello, peer, socket_peer);
            refuse::answer(tcp, &decision, &hello.bytes).await;
            return None;
        }
    };
    if lane == Lane::Legacy {
        match timeout_at(deadline, thread.turns.wait()).await {
            Ok(Ok(())) => {}
            Ok(Err(Crowded)) => {
                handshakes.one(Handshake::Crowded);
                refuse::answer(tcp, &Decision::Refuse, &hello.bytes).await;
                return None;
            }
            Err(_) => {
                handshakes.one(Handshake::Crowded);
                return None;
            }
        }
    }
    let identity = Identity {
        lane,
        key,
        reason,
        peer,
        socket_peer,
        // Two hashes that nothing but the log asks for here.
        ja4: serving::is_told().then(|| hello.ja4()).flatten(),
        over_rate,
    };
    let client = Client::new(tcp, hello.bytes);
    let accept = thread.shared.tls.accept(client, lane);
    match timeout_at(deadline, accept).await {
        Ok(Ok(tls)) => {
            handshakes.one(Handshake::Completed);
            return Some(serving::begin(thread, tls, identity));
        }
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "the TLS handshake failed");
            handshakes.one(Handshake::Failed);
        }
        Err(_) => handshakes.one(Handshake::TimedOut),
    }
    None
}

/// The PROXY header, from whom it may come. `None`: the connection is to be closed, and that
/// has been counted and said.
async fn preface(
    thread: &Thread,
    tcp: &mut TcpStream,
    from: SocketAddr,
    deadline: Instant,
) -> Option<Preface> {
    let headers = &thread.shared.metrics.proxy_headers;
    let trusted = (thread.shared.config.listen.proxy_protocol).trusts(from.ip());
    let read = if trusted {
        let read = proxy_protocol::read(tcp);
        let read = timeout_at(deadline, read).await;
        read.unwrap_or(Err(ProxyHeader::Incomplete))
    } else {
        Err(ProxyHeader::Untrusted)
    };
    match read {
        Ok(preface) => {
            headers.one(match preface.client {
                Some(_) => ProxyHeader::Proxied,
                None => ProxyHeader::Own,
            });
            Some(preface)
        }
        Err(why) => {
            headers.one(why);
            if let Some(permit) = thread.log.permit() {
                tracing::info!(
                    socket_peer = %from,
                    reason = why.name(),
                    left_out = permit.left_out,
                    "a connection without a good PROXY header was closed"
                );
            }
            None
        }
    }
}

fn judge(thread: &Thread, hello: &Hello, addresses: Addresses) -> Charged {
    let shared = &thread.shared;
    let limits = shared.charges.limits();
    let keys = shared.keyring.snapshot();
    let verdict = hello.judge(&keys, limits.window(), limits.legacy_deny);
    let rules = &shared.config.clients;
    let (verdict, action) = rules::apply(rules, || hello.ja4(), verdict, limits.legacy_deny);
    if let Some(action) = action {
        shared.metrics.client_rules.one(action);
    }
    charge(&shared.charges, hello, verdict, addresses, Now::read())
}

fn log_refused(
    thread: &Thread,
    reason: Reason,
    hello: &Hello,
    peer: SocketAddr,
    socket_peer: SocketAddr,
) {
    if let Some(permit) = thread.log.permit() {
        let key_id = hello.key_id().map(|id| id.to_string());
        let ja4 = hello.ja4();
        tracing::info!(
            %peer,
            %socket_peer,
            reason = reason.name(),
            key_id = key_id.unwrap_or_default(),
            ja4 = ja4.as_ref().map_or("", Ja4::as_str),
            left_out = permit.left_out,
            "a hello was refused"
        );
    }
}
