//! How a daemon stops, and how keys stop being good while it runs.

use crate::process::{PATIENCE, Place, ask};
use rustix::process::Signal;
use std::io::Read as _;
use std::os::unix::net::UnixDatagram;

#[test]
fn a_signal_stops_it_with_0_and_the_next_one_starts_where_it_was() {
    let place = Place::new();
    place.new_key("alice");
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = place.start();
        let listen = daemon.listen.to_string();
        daemon.signal(signal);
        assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
        place.configure(|text| text.replacen("127.0.0.1:0", &listen, 1));
    }
    place.start().stop();
}

#[test]
fn a_stop_waits_for_what_runs_and_a_second_signal_does_not() {
    let place = Place::new();
    let key = place.new_key("alice");
    // Takes the request and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let usual = format!("http://{}", place.upstream);
    place.configure(|text| text.replace(&usual, &silent).replace("20s", "1h"));
    let mut daemon = place.start();
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    let asking = std::thread::spawn(move || ask(&mut tls, &key.text));
    let asked = "edge_upstream_connections_total{what=\"opened\"} 1";
    let since = std::time::Instant::now();
    while !daemon.admin("/metrics").1.lines().any(|line| line == asked) {
        assert!(since.elapsed() < PATIENCE, "the request does not arrive");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    daemon.signal(Signal::TERM);
    daemon.wait_for_line(|line| line.to_string().contains("stopping: no new connections"));
    let (status, why) = daemon.admin("/readyz");
    assert_eq!(status, 503);
    assert!(why.starts_with("stopping"), "{why}");
    assert!(!asking.is_finished(), "what runs is waited for");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
    assert!(daemon.log().contains("a second signal"));
    let told = asking.join().unwrap().unwrap();
    assert!(told.starts_with("HTTP/1.1 529 "), "{told}");
}

#[test]
fn a_hang_up_does_not_stop_it() {
    let place = Place::new();
    place.new_key("alice");
    let mut daemon = place.start();
    daemon.signal(Signal::HUP);
    daemon.wait_for_line(|line| line.to_string().contains("SIGHUP"));
    daemon.stop();
}

#[test]
fn killed_and_started_again_it_works() {
    let place = Place::new();
    let key = place.new_key("alice");
    let mut daemon = place.start();
    let listen = daemon.listen.to_string();
    let tls = place.connect_with(&daemon, &key).unwrap();
    daemon.signal(Signal::KILL);
    daemon.wait();
    drop(tls);
    place.configure(|text| text.replacen("127.0.0.1:0", &listen, 1));
    let daemon = place.start();
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    assert!(
        ask(&mut tls, &key.text)
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
}

#[test]
fn systemd_is_told() {
    let place = Place::new();
    place.new_key("alice");
    let path = place.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let daemon = place.start_with(|command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    let told = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(told().trim(), "READY=1");
    daemon.stop();
    assert_eq!(told().trim(), "STOPPING=1");
}

#[test]
fn a_revoked_key_ends_its_connections_and_opens_none() {
    let place = Place::new();
    let (alice, bob) = (place.new_key("alice"), place.new_key("bob"));
    let daemon = place.start();
    let mut of_alice = place.connect_with(&daemon, &alice).unwrap();
    let mut of_bob = place.connect_with(&daemon, &bob).unwrap();
    assert!(
        ask(&mut of_alice, &alice.text)
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    let output = place.edge(&format!("keys revoke --store keys.journal {}", alice.id));
    assert!(output.status.success());
    // Nothing is asked: the edge ends it by itself.
    let mut rest = Vec::new();
    let _ = of_alice.read_to_end(&mut rest);
    assert!(place.connect_with(&daemon, &alice).is_err());
    assert!(
        ask(&mut of_bob, &bob.text)
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    let status = daemon.status();
    let verdicts = status["traffic"]["verdicts"].to_string();
    assert!(verdicts.contains("key_revoked"), "{verdicts}");
}

#[test]
fn a_broken_store_is_said_everywhere_and_the_old_keys_stay_until_it_is_mended() {
    let place = Place::new();
    let key = place.new_key("alice");
    let mut daemon = place.start();
    let store = place.path().join("keys.journal");
    let good = std::fs::read(&store).unwrap();
    std::fs::write(&store, [&good[..], b"nonsense\n"].concat()).unwrap();
    let status = daemon.wait_for_status(|status| !status["keys"]["store"]["error"].is_null());
    let error = status["keys"]["store"]["error"].as_str().unwrap();
    assert!(error.starts_with("keys.journal:3: "), "{error}");
    assert!(
        daemon
            .admin("/metrics")
            .1
            .contains("\nedge_key_store_failing 1\n")
    );
    daemon.wait_for_line(|line| {
        line["level"] == "ERROR" && line.to_string().contains("keys.journal:3: ")
    });
    assert!(
        place.connect_with(&daemon, &key).is_ok(),
        "the last good keys stay"
    );
    std::fs::write(&store, &good).unwrap();
    let bob = place.new_key("bob");
    daemon.wait_for_status(|status| {
        status["keys"]["store"]["error"].is_null() && status["keys"]["keys"] == 2
    });
    assert!(place.connect_with(&daemon, &bob).is_ok());
    daemon.stop();
}
