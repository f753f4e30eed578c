//! What a start needs, and what is said when it cannot be.

use crate::process::{Place, ask};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

/// The one line of a start that fails.
fn fails(place: &Place) -> String {
    let output = place.edge("run --config edge.toml");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "one line: {said}");
    said
}

#[test]
fn a_started_daemon_serves_and_tells_of_itself() {
    let place = Place::new();
    let key = place.new_key("alice");
    let daemon = place.start();
    let log = daemon.log();
    let first: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let message = first["fields"]["message"].as_str().unwrap();
    assert!(message.starts_with("kernel half: none"), "{message}");
    assert!(message.contains("kernel.attach"), "and why: {message}");

    assert_eq!(daemon.admin("/livez").0, 200);
    assert_eq!(daemon.admin("/readyz"), (200, "ready\n".to_owned()));
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    let head = ask(&mut tls, &key.text).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let status = daemon.status();
    assert_eq!(status["ready"], "ready");
    assert_eq!(status["keys"]["keys"], 1);
    assert_eq!(status["kernel"]["mode"], "none");
    assert_eq!(
        status["traffic"]["verdicts"][0][0], "accepted",
        "{status:#}"
    );
    let metrics = daemon.admin("/metrics").1;
    for line in [
        "edge_keys 1",
        "edge_ready 1",
        "edge_verdicts_total{decided_by=\"userspace\",verdict=\"accept\",reason=\"accepted\"} 1",
    ] {
        assert!(
            metrics.lines().any(|l| l == line),
            "no {line} in\n{metrics}"
        );
    }

    let output = place.edge(&format!("status --admin {}", daemon.admin));
    let text = String::from_utf8(output.stdout).unwrap();
    let by_config = (place.command("status"))
        .env("EDGE_CONFIG", "edge.toml")
        .output()
        .unwrap();
    // Port 0 is what the file says; that nobody can ask there is said.
    assert!(String::from_utf8_lossy(&by_config.stderr).contains("admin.address has port 0"));
    for part in [
        "ready",
        "kernel half  none",
        "keys         1 of",
        "in userspace accepted 1",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    drop(tls);
    daemon.stop();
}

#[test]
fn a_port_in_use_is_named_with_how_to_find_its_user() {
    let place = Place::new();
    place.new_key("alice");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.configure(|text| text.replacen("127.0.0.1:0", &address, 1));
    let said = fails(&place);
    assert!(
        said.starts_with(&format!("edge: listen.addresses: {address}: ")),
        "{said}"
    );
    assert!(
        said.contains("in use") && said.contains("ss -ltnp"),
        "{said}"
    );
    place.configure(|text| {
        text.replace(
            "[admin]\naddress = \"127.0.0.1:0\"",
            &format!("[admin]\naddress = \"{address}\""),
        )
    });
    let said = fails(&place);
    assert!(
        said.starts_with(&format!("edge: admin.address: {address}: ")),
        "{said}"
    );
}

#[test]
fn an_address_of_another_machine_is_refused_with_the_cure() {
    let place = Place::new();
    place.new_key("alice");
    place.configure(|text| text.replacen("127.0.0.1:0", "192.0.2.1:0", 1));
    let said = fails(&place);
    assert!(said.contains("192.0.2.1:0: cannot listen"), "{said}");
    assert!(said.contains("no address of this machine"), "{said}");
}

#[test]
fn a_second_daemon_on_the_same_port_is_refused_and_the_first_serves_on() {
    let place = Place::new();
    let key = place.new_key("alice");
    let daemon = place.start();
    place.configure(|text| text.replacen("127.0.0.1:0", &daemon.listen.to_string(), 1));
    assert!(fails(&place).contains("in use"));
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    assert!(
        ask(&mut tls, &key.text)
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
}

#[test]
fn what_is_missing_or_broken_is_one_clear_line() {
    let place = Place::new();
    let said = fails(&place);
    assert!(
        said.contains("keys.store: cannot read the key store keys.journal"),
        "{said}"
    );
    place.new_key("alice");
    let store = place.path().join("keys.journal");
    let good = std::fs::read(&store).unwrap();
    std::fs::write(&store, [&good[..], b"nonsense\n"].concat()).unwrap();
    let said = fails(&place);
    assert!(
        said.starts_with("edge: keys.store: keys.journal:3: the line is no JSON"),
        "{said}"
    );
    std::fs::write(&store, &good).unwrap();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(fails(&place).contains("chmod 600 keys.journal"));
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o600)).unwrap();

    let certificate = place.path().join("cert.pem");
    let away = place.path().join("away.pem");
    std::fs::rename(&certificate, &away).unwrap();
    let said = fails(&place);
    assert!(
        said.starts_with("edge: edge.toml:7:15: tls.certificate: cert.pem: cannot read"),
        "{said}"
    );
    std::fs::rename(&away, &certificate).unwrap();

    place.configure(|text| {
        text.replace(
            "attach = \"off\"",
            "attach = \"generic\"\ninterfaces = [\"no-such-nic\"]",
        )
    });
    let said = fails(&place);
    assert!(
        said.contains("kernel.interfaces: there is no network interface"),
        "{said}"
    );
    let said = {
        std::fs::remove_file(place.path().join("edge.toml")).unwrap();
        fails(&place)
    };
    assert!(
        said.starts_with("edge: edge.toml: cannot read the configuration"),
        "{said}"
    );
}

#[test]
fn a_store_with_more_keys_than_room_is_said() {
    let place = Place::new();
    place.new_key("a");
    place.new_key("b");
    place
        .configure(|text| text.replace("audience = \"demo\"", "audience = \"demo\"\ncapacity = 1"));
    let mut daemon = place.start();
    daemon.wait_for_line(|line| {
        line["level"] == "WARN" && line.to_string().contains("keys.capacity")
    });
    let keys = &daemon.status()["keys"];
    assert_eq!(
        (&keys["keys"], &keys["refused_for_capacity"]),
        (&1.into(), &1.into())
    );
    assert_eq!(keys["complete"], false);
}

#[test]
fn a_check_warns_of_room_that_no_large_body_fits_into() {
    let place = Place::new();
    place.new_key("alice");
    place.configure(|text| text + "[prompt]\nmax_held_bytes = 1_048_576\n");
    let checked = place.edge("check --config edge.toml");
    let told = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{told}");
    for part in [
        "warning: edge.toml: prompt.max_held_bytes: 1048576 bytes",
        "33554432",
        "lower api.max_body_bytes",
    ] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    place.configure(|text| text + "[api]\nmax_body_bytes = 1_048_576\n");
    let checked = place.edge("check --config edge.toml");
    let told = String::from_utf8(checked.stderr).unwrap();
    assert!(!told.contains("prompt.max_held_bytes"), "{told}");
}
