//! Real TCP and TLS clients against the attached program, over a veth pair between two
//! network namespaces of the test's own. There is no daemon here: a bare listening socket
//! stands for it, so that what is seen is the kernel's doing alone.

#[path = "net/namespace.rs"]
mod namespace;
#[macro_use]
mod skip;

use aya::programs::XdpMode;
use edge_common::policy::{Answer, Clock, Counter, KeyPolicy, Reason, Settings, Verdict};
use edge_common::token::{KeyId, Token};
use edge_userspace::kernel::{Program, Sizes, clock_now, object};
use namespace::{Namespace, ip};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const PORT: u16 = 443;
const MAC_KEY: [u64; 2] = [3, 4];
const KEY: KeyId = KeyId(0x0102_0304_0506_0708);
const HANG: Duration = Duration::from_secs(20);
const ADDRESSES: [&str; 2] = ["10.9.0.1:443", "[2001:db8::1]:443"];
const CLASSIC: &[&dyn SupportedKxGroup] = &[aws_lc_rs::kx_group::X25519];
const POST_QUANTUM: &[&dyn SupportedKxGroup] = &[aws_lc_rs::kx_group::X25519MLKEM768];

/// What the server's side saw.
struct Seen {
    counters: Vec<u64>,
    /// Whole hellos that reached the listening socket's side.
    reached: u64,
}

impl Seen {
    fn of(&self, reason: Reason) -> u64 {
        self.counters[reason as usize]
    }

    fn count(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Every counter adds up, whatever happened.
    fn adds_up(&self) {
        let sum = |verdict| -> u64 {
            Reason::ALL
                .iter()
                .filter(|r| r.verdict() == verdict)
                .map(|r| self.of(*r))
                .sum()
        };
        let [accepted, rejected, legacy, undecided, passed] = [
            Verdict::Accept,
            Verdict::Reject,
            Verdict::Legacy,
            Verdict::Undecided,
            Verdict::Pass,
        ]
        .map(sum);
        let hellos = self.count(Counter::Hellos);
        assert_eq!(hellos, accepted + rejected + legacy + undecided);
        assert_eq!(
            self.count(Counter::Packets),
            hellos + passed + sum(Verdict::Unconnected)
        );
        let answered = [
            Counter::AnsweredAlert,
            Counter::AnsweredRst,
            Counter::AnsweredDrop,
            Counter::AnsweredUp,
        ]
        .map(|counter| self.count(counter));
        assert_eq!(
            rejected + self.of(Reason::RejectedAgain),
            answered.iter().sum::<u64>() + self.count(Counter::AnswerFailed)
        );
    }
}

/// Runs `client` in one namespace against a server in another.
fn against(mode: XdpMode, answer: Answer, client: fn()) -> Seen {
    let (server_side, client_side) = (Namespace::new(), Namespace::new());
    server_side.run(|| {
        let peer = client_side.path();
        ip(&format!(
            "link add edge0 type veth peer name client0 netns {peer}"
        ));
        ip("addr add 10.9.0.1/24 dev edge0");
        ip("addr add 2001:db8::1/64 dev edge0 nodad");
        ip("link set edge0 up");
    });
    let (tell_ready, ready) = mpsc::sync_channel(1);
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients = scope.spawn(move || {
            client_side.enter();
            // The other side's panic shows as a closed channel.
            ready.recv().expect("the server's side stands");
            let result = std::panic::catch_unwind(|| {
                ip("addr add 10.9.0.2/24 dev client0");
                ip("addr add 2001:db8::2/64 dev client0 nodad");
                ip("link set client0 up");
                // What a driver-mode program sends back is thrown away otherwise.
                let mut stub = Program::load(object::OBJECT, &Sizes::SMALL).unwrap();
                stub.pass()
                    .unwrap()
                    .attach("client0", XdpMode::Driver)
                    .unwrap();
                client();
            });
            done.store(true, Ordering::Release);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        let server = scope.spawn(move || {
            server_side.enter();
            serve(mode, answer, &tell_ready, done)
        });
        let client = clients.join();
        let server = server.join();
        client.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        server.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn serve(mode: XdpMode, answer: Answer, ready: &mpsc::SyncSender<()>, done: &AtomicBool) -> Seen {
    let mut program = Program::load(object::OBJECT, &Sizes::SMALL).unwrap();
    let settings = Settings {
        heartbeat_max_age_ns: 3_000_000_000,
        window_back_s: 30,
        window_ahead_s: 5,
        answer: answer as u32,
        policy_complete: 1,
        answers_per_second: u32::MAX,
        check_connection: 1,
        ..Settings::default()
    };
    let policy = KeyPolicy {
        mac_key: MAC_KEY,
        not_before_s: 0,
        not_after_s: u64::MAX,
        flags: 0,
        ..KeyPolicy::UNLIMITED
    };
    program.set_settings(&settings).unwrap();
    program.set_ports(&[PORT]).unwrap();
    let addresses = ADDRESSES.map(|address| address.parse().unwrap());
    assert_eq!(program.set_addresses(&addresses).unwrap(), 0);
    program.put_key(KEY, &policy).unwrap();
    let mut clock = program.take_clock().unwrap();
    clock.set(&clock_now()).unwrap();
    program.edge().unwrap().attach("edge0", mode).unwrap();

    let listener = TcpListener::bind(("::", PORT)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut open: Vec<(TcpStream, Vec<u8>)> = Vec::new();
    let mut reached = 0;
    ready.send(()).unwrap();
    while !done.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(20));
        clock.set(&clock_now()).unwrap();
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            open.push((stream, Vec::new()));
        }
        for (stream, seen) in &mut open {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).unwrap_or(0);
            seen.extend(&part[..count]);
            let whole = match seen[..] {
                [_, _, _, high, low, ..] => 5 + usize::from(u16::from_be_bytes([high, low])),
                _ => 5,
            };
            if count > 0 && seen.len() >= whole {
                reached += 1;
                // The client waits for a word; a socket's buffer has room for it.
                let _ = stream.write_all(b"passed");
            }
        }
    }
    Seen {
        counters: program.counters().unwrap(),
        reached,
    }
}

fn now_s() -> u32 {
    let Clock {
        unix_offset_ns,
        heartbeat_ns,
    } = clock_now();
    (unix_offset_ns.wrapping_add(heartbeat_ns) / 1_000_000_000) as u32
}

fn good_token() -> Token {
    Token::issue(KEY, MAC_KEY, now_s(), 1)
}

fn bad_token() -> Token {
    let good = good_token();
    Token {
        tag: good.tag ^ 1,
        ..good
    }
}

/// A rustls client that offers `token` last, by the named key-exchange groups.
fn client(groups: &[&'static dyn SupportedKxGroup], token: Token) -> ClientConnection {
    let provider = CryptoProvider {
        kx_groups: groups.to_vec(),
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![
        b"h2".to_vec(),
        b"http/1.1".to_vec(),
        token.to_name().to_vec(),
    ];
    let name = ServerName::try_from("edge.test").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

fn connect(address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    // The peer may need a moment until neighbours resolve.
    let stream = TcpStream::connect_timeout(&address, HANG).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

/// Sends the hello and tells what the library makes of the answer.
fn shake(address: &str, mut tls: ClientConnection) -> Result<(), String> {
    let mut tcp = connect(address);
    loop {
        while tls.wants_write() {
            tls.write_tls(&mut tcp)
                .map_err(|error| format!("write: {error}"))?;
        }
        match tls.read_tls(&mut tcp) {
            Ok(0) => return Err("closed without a word".into()),
            Ok(_) => {}
            Err(error) => return Err(format!("read: {:?}", error.kind())),
        }
        match tls.process_new_packets() {
            Ok(_) => {}
            Err(rustls::Error::AlertReceived(alert)) => return Err(format!("alert {alert:?}")),
            // The bare socket's word, which is no TLS: the hello reached it.
            Err(rustls::Error::InvalidMessage(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn refused_by_alert() {
    for address in ADDRESSES {
        for _ in 0..50 {
            let seen = shake(address, client(CLASSIC, bad_token()));
            assert_eq!(
                seen,
                Err(format!("alert {:?}", AlertDescription::AccessDenied))
            );
        }
    }
}

fn check_refused_by_alert(mode: XdpMode) {
    let seen = against(mode, Answer::Alert, refused_by_alert);
    seen.adds_up();
    assert!(seen.of(Reason::TagWrong) >= 100);
    assert_eq!(
        seen.count(Counter::AnsweredAlert),
        seen.of(Reason::TagWrong)
    );
    assert_eq!(
        seen.reached, 0,
        "a refused hello reached the listening socket"
    );
}

#[test]
fn a_bad_token_is_answered_by_an_alert_in_driver_mode() {
    needs_kernel!();
    check_refused_by_alert(XdpMode::Driver);
}

#[test]
fn a_bad_token_is_answered_by_an_alert_in_generic_mode() {
    needs_kernel!();
    check_refused_by_alert(XdpMode::Skb);
}

#[test]
fn a_bad_token_is_answered_by_a_reset() {
    needs_kernel!();
    for mode in [XdpMode::Driver, XdpMode::Skb] {
        let seen = against(mode, Answer::Rst, || {
            for address in ADDRESSES {
                let seen = shake(address, client(CLASSIC, bad_token()));
                assert_eq!(seen, Err("read: ConnectionReset".to_owned()));
            }
        });
        seen.adds_up();
        assert_eq!(seen.count(Counter::AnsweredRst), seen.of(Reason::TagWrong));
        assert_eq!((seen.of(Reason::TagWrong), seen.reached), (2, 0));
    }
}

#[test]
fn a_bad_token_is_dropped_and_so_are_its_retransmissions() {
    needs_kernel!();
    let seen = against(XdpMode::Driver, Answer::Drop, || {
        let mut tcp = connect(ADDRESSES[0]);
        let mut tls = client(CLASSIC, bad_token());
        tls.write_tls(&mut tcp).unwrap();
        // Long enough for a retransmission or two (200 ms, 400 ms).
        tcp.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let silent: io::Error = tcp.read(&mut [0]).unwrap_err();
        assert!(
            matches!(silent.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            "{silent}"
        );
    });
    seen.adds_up();
    assert_eq!(seen.of(Reason::TagWrong), 1, "one hello is one verdict");
    assert!(
        seen.of(Reason::RejectedAgain) >= 1,
        "no retransmission was seen"
    );
    assert_eq!(seen.reached, 0);
}

#[test]
fn good_tokens_reach_the_listening_socket() {
    needs_kernel!();
    for mode in [XdpMode::Driver, XdpMode::Skb] {
        let seen = against(mode, Answer::Alert, || {
            for address in ADDRESSES {
                assert_eq!(shake(address, client(CLASSIC, good_token())), Ok(()));
            }
        });
        seen.adds_up();
        assert_eq!((seen.of(Reason::Accepted), seen.reached), (2, 2));
    }
}

/// Its hello is 1.5 KB and more: two segments.
#[test]
fn a_post_quantum_hello_is_followed_to_its_verdict() {
    needs_kernel!();
    for mode in [XdpMode::Driver, XdpMode::Skb] {
        let seen = against(mode, Answer::Alert, || {
            for address in ADDRESSES {
                for (token, answer) in [
                    (bad_token(), &[21, 3, 3, 0, 2, 2][..]),
                    (good_token(), b"passed"),
                ] {
                    let mut tls = client(POST_QUANTUM, token);
                    let mut hello = Vec::new();
                    tls.write_tls(&mut hello).unwrap();
                    assert!(hello.len() > 1400, "{} bytes", hello.len());
                    let mut tcp = connect(address);
                    // In segments as on a wire, not one large packet that veth would carry whole.
                    for part in hello.chunks(1000) {
                        tcp.write_all(part).unwrap();
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    let mut word = [0; 6];
                    tcp.read_exact(&mut word).unwrap();
                    assert_eq!(word, answer);
                }
            }
        });
        seen.adds_up();
        assert_eq!(seen.of(Reason::HelloBegun), 4);
        assert_eq!(seen.count(Counter::HellosResumed), 4);
        assert_eq!(
            (seen.of(Reason::TagWrong), seen.of(Reason::Accepted)),
            (2, 2)
        );
        assert_eq!(seen.of(Reason::RejectClosed), 2);
    }
}
