//! What keys have used, over a restart, and quotas that follow the configuration.

use crate::process::{Daemon, Place, ask};
use rustix::process::Signal;
use serde_json::Value;

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
