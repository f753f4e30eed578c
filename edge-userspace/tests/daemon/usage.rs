//! What keys have used, over a restart, and quotas that follow the configuration.

use crate::process::{Daemon, Place, ask};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

fn usage(daemon: &Daemon) -> Value {
    let (status, text) = daemon.admin("/usage");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_keys_used_outlives_a_restart_and_a_damaged_file_is_said() {
    let place = Place::new();
    let key = place.new_key("alice");
    place.configure(|text| text + "[quotas]\nusage_file = \"usage\"\n");
    let ask_once = |daemon: &Daemon| {
        let mut tls = place.connect_with(daemon, &key).unwrap();
        ask(&mut tls, &key.text).unwrap()
    };
    let daemon = place.start();
    assert_eq!(usage(&daemon), serde_json::json!([]));
    assert!(ask_once(&daemon).starts_with("HTTP/1.1 200"));
    daemon.stop();

    // After a stop all of it is there.
    let mut daemon = place.start();
    let told = usage(&daemon);
    assert_eq!(told[0]["key_id"], key.id.as_str());
    assert_eq!(told[0]["requests"], 1);
    assert!(ask_once(&daemon).starts_with("HTTP/1.1 200"));
    let (status, one) = daemon.admin(&format!("/usage/{}", key.id));
    assert_eq!(status, 200);
    assert!(one.contains("\"requests\":"), "{one}");
    assert_eq!(daemon.admin("/usage/nobody").0, 404);
    // After a kill what was written last.
    daemon.wait_for_status(|status| {
        let usage = &status["usage"];
        usage["running"] == 0 && usage["kept"]["written_at_s"].as_u64() > Some(0)
    });
    let written = std::fs::read_to_string(place.path().join("usage")).unwrap();
    daemon.signal(Signal::KILL);
    daemon.wait();
    let daemon = place.start();
    let requests = usage(&daemon)[0]["requests"].as_u64().unwrap();
    assert!(
        written.contains(&format!("[{requests},")) && (1..=2).contains(&requests),
        "{written}"
    );
    daemon.stop();

    let file = place.path().join("usage");
    std::fs::write(&file, &written[..written.len() / 2]).unwrap();
    let mut daemon = place.start();
    let line = daemon.wait_for_line(|line| line.to_string().contains("usage of keys is lost"));
    assert_eq!(line["level"], "ERROR");
    assert_eq!(usage(&daemon), serde_json::json!([]));
    let metrics = daemon.admin("/metrics").1;
    assert!(
        metrics
            .lines()
            .any(|line| line == "edge_usage_file_damaged 1")
    );
    let told = place.edge(&format!("status --admin {}", daemon.admin));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("IT WAS DAMAGED at the start"), "{told}");
    let aside = std::fs::read_to_string(place.path().join("usage.damaged")).unwrap();
    assert_eq!(aside, written[..written.len() / 2]);
    daemon.stop();
}

#[test]
fn who_is_at_which_limit_is_seen() {
    let place = Place::new();
    let key = place.new_key("alice");
    let limited = place.edge("keys limit --store keys.journal alice --requests-per-minute 1");
    assert!(limited.status.success(), "{limited:?}");
    let daemon = place.start();
    let statuses = [(); 2].map(|()| {
        let mut tls = place.connect_with(&daemon, &key).unwrap();
        ask(&mut tls, &key.text).unwrap()
    });
    assert!(statuses[0].starts_with("HTTP/1.1 200"), "{statuses:?}");
    assert!(statuses[1].starts_with("HTTP/1.1 429"), "{statuses:?}");
    daemon.wait_for_status(|status| status["usage"]["running"] == 0);
    let one = daemon.admin(&format!("/usage/{}", key.id)).1;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(
        (&one["name"], &one["revoked"]),
        (&"alice".into(), &false.into())
    );
    assert_eq!(one["limits"]["requests_per_minute"], 1);
    assert!(
        one["left"]["requests_per_minute"].as_u64() <= Some(1),
        "{one}"
    );
    assert_eq!(
        one["left"]["tokens_per_day"],
        Value::Null,
        "it has no limit"
    );
    assert_eq!(one["refused"], serde_json::json!({ "requests": 1 }));
    assert_eq!(usage(&daemon)[0]["key_id"], one["key_id"]);
    let told = place.edge(&format!("status --admin {}", daemon.admin));
    let told = String::from_utf8(told.stdout).unwrap();
    let line = told.lines().find(|line| line.contains(&key.id));
    let line = line.unwrap_or_else(|| panic!("no line of the key: {told}"));
    assert!(
        line.contains("alice")
            && line.ends_with(" of 1 requests a minute left; refused: 1 for requests"),
        "{line}"
    );
    daemon.stop();
}

#[test]
fn quotas_follow_the_configuration_and_a_keys_own_the_store() {
    let place = Place::new();
    let key = place.new_key("alice");
    let daemon = place.start();
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    let head = ask(&mut tls, &key.text).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && !head.contains("anthropic-ratelimit"),
        "{head}"
    );
    place.configure(|text| text + "[quotas]\nrequests_per_minute = 1000\n");
    daemon.wait_for_status(|status| status["usage"]["limits"]["requests_per_minute"] == 1000);
    let head = ask(&mut tls, &key.text).unwrap();
    assert!(
        head.contains("anthropic-ratelimit-requests-limit: 1000\r\n"),
        "{head}"
    );
    let limit = format!(
        "keys limit --store keys.journal {} --requests-per-minute",
        key.id
    );
    assert!(place.edge(&format!("{limit} 500")).status.success());
    let generation = |status: &Value| status["keys"]["generation"].as_u64().unwrap();
    daemon.wait_for_status(|status| generation(status) >= 2);
    let head = ask(&mut tls, &key.text).unwrap();
    assert!(
        head.contains("anthropic-ratelimit-requests-limit: 500\r\n"),
        "{head}"
    );
    assert!(place.edge(&format!("{limit} 0")).status.success());
    daemon.wait_for_status(|status| generation(status) >= 3);
    let head = ask(&mut tls, &key.text).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && !head.contains("anthropic-ratelimit"),
        "{head}"
    );
    daemon.stop();
}

/// An upstream whose streams say what they used and never end.
fn endless() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.ends_with(b"}") {
            let read = tcp.read(&mut buffer).unwrap();
            seen.extend_from_slice(&buffer[..read]);
        }
        let events = [
            r#"{"type":"message_start","message":{"usage":{"input_tokens":28,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#,
            r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":40}}"#,
        ];
        let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
        for event in events {
            let name = event.split('"').nth(3).unwrap();
            text += &format!("event: {name}\ndata: {event}\n\n");
        }
        tcp.write_all(text.as_bytes()).unwrap();
        // Until the edge leaves.
        let _ = tcp.read(&mut buffer);
    });
    address
}

/// By a signal that does not let streams end too, the client is told and the key charged.
#[test]
fn a_second_signal_settles_what_it_cuts() {
    let place = Place::new();
    let key = place.new_key("alice");
    let usual = format!("http://{}", place.upstream);
    let endless = format!("http://{}", endless());
    place.configure(|text| {
        text.replace(&usual, &endless).replace("20s", "1h") + "[quotas]\nusage_file = \"usage\"\n"
    });
    let mut daemon = place.start();
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    let body = r#"{"model":"claude-demo","messages":[],"max_tokens":100,"stream":true}"#;
    write!(
        tls,
        "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
        key.text,
        body.len()
    )
    .unwrap();
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !heard.windows(13).any(|word| word == b"message_delta") {
        let read = tls.read(&mut buffer).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&buffer[..read]);
    }
    daemon.signal(Signal::TERM);
    daemon.wait_for_line(|line| line.to_string().contains("stopping: no new connections"));
    daemon.signal(Signal::TERM);
    let _ = tls.read_to_end(&mut heard);
    let heard = String::from_utf8(heard).unwrap();
    assert!(
        heard.contains("event: error") && heard.contains("This node stops"),
        "{heard}"
    );
    assert_eq!(daemon.wait().code(), Some(0), "{}", daemon.log());
    assert!(daemon.log().contains("all connections have ended"));

    let daemon = place.start();
    let told = usage(&daemon);
    let used = ["requests", "input", "output", "reserved_output"].map(|name| &told[0][name]);
    assert_eq!(used, [1, 28, 40, 0], "{told}");
    daemon.stop();
}
