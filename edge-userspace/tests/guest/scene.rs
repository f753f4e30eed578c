//! One edge in one namespace, its clients in another, and the account of both sides.

use crate::clients::{End, Kind, Known, Offer, connect_all};
use crate::network::{Link, own_namespace, segments_sent_again};
use crate::process::{Daemon, Place};
use aya::Ebpf;
use aya::programs::{Xdp, XdpMode};
use edge_common::policy::{Counter, Reason, Verdict};
use edge_userspace::kernel::{Program, object};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::collections::BTreeMap;
use std::sync::mpsc;

/// What a scene differs in.
pub(crate) struct Scene {
    /// `kernel.attach`.
    pub(crate) mode: &'static str,
    pub(crate) link: Link,
    /// Clients of each kind.
    pub(crate) rounds: usize,
    /// Done to each end of the link, by its name, when it stands.
    pub(crate) spoil: fn(&str),
}

/// What happened.
pub(crate) struct Account {
    pub(crate) ends: Vec<(Kind, End)>,
    counters: BTreeMap<String, u64>,
    /// What the kernel half's status says of itself.
    pub(crate) notes: String,
    /// Segments that the clients' side sent again.
    pub(crate) sent_again: u64,
}

impl Scene {
    /// Plays it on threads of its own.
    pub(crate) fn play(&self) -> Account {
        let (tell_client, client_is) = mpsc::sync_channel(1);
        let (tell_known, known_is) = mpsc::sync_channel(1);
        let (tell_done, done_is) = mpsc::sync_channel::<()>(1);
        std::thread::scope(|scope| {
            let clients = scope.spawn(move || {
                own_namespace();
                tell_client.send(rustix::thread::gettid()).unwrap();
                // The other side's panic shows as a closed channel; ours as one there.
                let known = known_is.recv().expect("the edge stands");
                self.link.take_up();
                (self.spoil)("client0");
                let _stub = stub();
                let ends = connect_all(&known, self.rounds);
                tell_done.send(()).unwrap();
                (ends, segments_sent_again())
            });
            let edge = scope.spawn(move || {
                own_namespace();
                let client = client_is.recv().expect("the clients' side stands");
                self.link.lay(client.as_raw_nonzero().get());
                (self.spoil)("edge0");
                let place = place(self.mode);
                let key = place.new_key("alice");
                let daemon = place.start();
                let file = place.path().join("cert.pem");
                let certificate = CertificateDer::from_pem_file(file).unwrap();
                let kernel = daemon.status()["kernel"].take();
                assert_eq!(kernel["mode"], self.mode);
                tell_known.send(Known { certificate, key }).unwrap();
                let _ = done_is.recv();
                let counters = counters(&daemon);
                daemon.stop();
                (counters, kernel["notes"].to_string())
            });
            let (clients, edge) = (clients.join(), edge.join());
            let (ends, sent_again) = clients.unwrap_or_else(|p| std::panic::resume_unwind(p));
            let (counters, notes) = edge.unwrap_or_else(|p| std::panic::resume_unwind(p));
            Account {
                notes,
                ends,
                counters,
                sent_again,
            }
        })
    }
}

/// A program that passes everything on the clients' end: what a driver-mode program sends
/// back over a veth is thrown away without one. The edge's own stay unloaded here, for a
/// verifier under emulation takes its time.
fn stub() -> Ebpf {
    let mut object = Ebpf::load(object::OBJECT).unwrap();
    let program = object.program_mut(Program::PASS).unwrap();
    let program: &mut Xdp = program.try_into().unwrap();
    program.load().unwrap();
    program.attach("client0", XdpMode::Driver).unwrap();
    object
}

fn place(mode: &str) -> Place {
    let place = Place::new();
    place.configure(|text| {
        text.replace("\"off\"", &format!("\"{mode}\"\ninterfaces = [\"edge0\"]"))
            .replacen(
                "\"127.0.0.1:0\"",
                "\"10.9.0.1:443\", \"[2001:db8::1]:443\"",
                1,
            )
            .replacen("[tls]", "handshake_timeout = \"60s\"\n[tls]", 1)
    });
    place
}

/// The kernel half's counters, once nothing came between two looks.
fn counters(daemon: &Daemon) -> BTreeMap<String, u64> {
    let mut before = daemon.status();
    let status = daemon.wait_for_status(|status| {
        let same = status["kernel"]["counters"] == before["kernel"]["counters"];
        before = status.clone();
        same
    });
    let counters = status["kernel"]["counters"].as_array().unwrap().iter();
    let counters: BTreeMap<_, _> = counters
        .map(|counter| {
            let name = counter[0].as_str().unwrap().to_owned();
            (name, counter[1].as_u64().unwrap())
        })
        .collect();
    crate::counters::add_up(|name| counters[name]);
    counters
}

impl Account {
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counters[name]
    }

    /// Connections of clients that offered one of these.
    pub(crate) fn connections(&self, offers: &[Offer]) -> u64 {
        let those = self
            .ends
            .iter()
            .filter(|(kind, _)| offers.contains(&kind.offer));
        those.count() as u64
    }

    /// Honest clients that were not served, and bad ones that were not told so.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.those(|kind, end| match kind.offer {
            Offer::Bad => *end != End::Denied,
            Offer::Good | Offer::Nothing => *end != End::Served,
        })
    }

    /// Honest clients that were not served.
    pub(crate) fn unserved(&self) -> Vec<String> {
        let honest = |kind: &Kind| kind.offer != Offer::Bad;
        self.those(|kind, end| honest(kind) && *end != End::Served)
    }

    /// Bad clients that did not hear the alert.
    pub(crate) fn not_denied(&self) -> Vec<String> {
        self.those(|kind, end| kind.offer == Offer::Bad && *end != End::Denied)
    }

    /// Bad clients that heard neither the alert nor a reset.
    pub(crate) fn untold(&self) -> Vec<String> {
        let heard = |end: &End| *end == End::Denied || *end == End::Reset;
        self.those(|kind, end| kind.offer == Offer::Bad && !heard(end))
    }

    fn those(&self, which: impl Fn(&Kind, &End) -> bool) -> Vec<String> {
        let those = self.ends.iter().filter(|(kind, end)| which(kind, end));
        those
            .map(|(kind, end)| format!("{kind:?}: {end:?}"))
            .collect()
    }

    /// No more verdicts of a kind than there are clients who earned it, and each hello has one
    /// verdict at most: what was sent again or doubled counts nothing. Of some the kernel may
    /// have seen the second segment before the first, and leaves them to userspace.
    pub(crate) fn assert_each_hello_counts_once(&self) {
        let reasons = Reason::ALL
            .iter()
            .map(|reason| (*reason, self.count(reason.name())));
        for (reason, count) in reasons {
            let earned = match (reason, reason.verdict()) {
                (Reason::Accepted, _) => self.connections(&[Offer::Good]),
                (Reason::NoToken, _) => self.connections(&[Offer::Nothing]),
                (Reason::TagWrong | Reason::TagStripped, _) => self.connections(&[Offer::Bad]),
                (Reason::OutOfOrder, _) => self.ends.len() as u64,
                (_, Verdict::Pass) => continue,
                _ => 0,
            };
            assert!(count <= earned, "{} {count} > {earned}", reason.name());
        }
        let counted = self.count(Counter::Hellos.name()) + self.unfinished();
        let ends = self.ends.len() as u64;
        // One that the socket does not expect just then is left to the stack under its own name.
        let strays = self.count(Reason::Stray.name());
        assert!(
            counted <= ends && ends <= counted + strays,
            "{counted} counted and {strays} stray of {ends}"
        );
    }

    /// Hellos whose first segment came and whose last did not, or before it.
    pub(crate) fn unfinished(&self) -> u64 {
        self.count(Reason::HelloBegun.name()) - self.count(Counter::HellosResumed.name())
    }

    /// The counters that are not 0, to be read.
    pub(crate) fn show(&self) {
        let told = self.counters.iter().filter(|(_, value)| **value != 0);
        let told: Vec<_> = told
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        println!("counters {}", told.join(", "));
    }

    /// The figures of a scene that has some.
    pub(crate) fn print_figures(&self, scene: &str, mode: &str) {
        let honest = self.connections(&[Offer::Good, Offer::Nothing]);
        for (name, value) in [
            ("connections", self.ends.len() as u64),
            ("honest", honest),
            ("sent_again", self.sent_again),
            ("hellos", self.count(Counter::Hellos.name())),
            ("hellos_resumed", self.count(Counter::HellosResumed.name())),
            ("out_of_order", self.count(Reason::OutOfOrder.name())),
            ("unfinished", self.unfinished()),
            ("retransmitted", self.count(Reason::Retransmitted.name())),
        ] {
            println!("figure guest.{scene}.{mode}.{name} {value} 1");
        }
    }
}
