//! What changes while the daemon runs: limits by its configuration, a key's rates by the store.

use crate::process::{Daemon, Place, Tls, ask, count};
use rustix::process::Signal;
use serde_json::Value;

fn metric(daemon: &Daemon, line: &str) -> bool {
    daemon.admin("/metrics").1.lines().any(|l| l == line)
}

fn limits(status: &Value) -> &Value {
    &status["charges"]["limits"]
}

#[test]
fn limits_follow_the_file_and_other_changes_are_said_to_need_a_restart() {
    let place = Place::new();
    place.new_key("alice");
    let daemon = place.start();
    let before = daemon.status();
    assert_eq!(limits(&before)["legacy_per_second"], 500);
    assert_eq!(limits(&before)["key_per_second_hard"], 1000);
    assert!(place.connect(&daemon, &[b"http/1.1".to_vec()]).is_ok());

    place.configure(|text| {
        text.replace(
            "audience = \"demo\"\n",
            "audience = \"demo\"\nconnections_per_second_hard = 77\nwindow_back = \"10s\"\n",
        ) + "[legacy]\ndeny = true\nconnections_per_second = 5\n"
    });
    let status = daemon.wait_for_status(|status| limits(status)["legacy_deny"] == true);
    assert_eq!(limits(&status)["key_per_second_hard"], 77);
    assert_eq!(limits(&status)["window_back_s"], 10);
    assert_eq!(limits(&status)["legacy_per_second"], 5);
    assert!(
        status["configuration"]["needs_restart"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    // In effect, not only shown.
    assert!(place.connect(&daemon, &[b"http/1.1".to_vec()]).is_err());

    place.configure(|text| text.replace("threads = 2", "threads = 3"));
    let status = daemon.wait_for_status(|status| limits(status)["legacy_deny"] == false);
    let waiting = &status["configuration"]["needs_restart"];
    assert_eq!(*waiting, serde_json::json!(["listen.threads"]));
    assert!(metric(&daemon, "edge_configuration_needs_restart 1"));
    let told = place.edge(&format!("status --admin {}", daemon.admin));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("NEEDS A RESTART: listen.threads"), "{told}");
    assert!(place.connect(&daemon, &[b"http/1.1".to_vec()]).is_ok());
    // Wider than it was: not before the tokens that were used meanwhile are remembered.
    assert_eq!(limits(&status)["window_back_s"], 10);
    assert_eq!(limits(&status)["remember_s"], 30);
    assert!(status["configuration"]["window_widens_at_s"].is_u64());

    place.configure(|text| text);
    daemon.wait_for_status(|status| {
        status["configuration"]["needs_restart"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    daemon.stop();
}

#[test]
fn a_bad_configuration_is_refused_whole_and_said_until_it_is_mended() {
    let place = Place::new();
    place.new_key("alice");
    let mut daemon = place.start();
    let bad = "[legacy]\nconnections_per_second = 5\nburst = \"many\"\n";
    place.configure(|text| text + bad);
    let status = daemon.wait_for_status(|status| status["configuration"]["refused"] == 1);
    let error = status["configuration"]["error"].as_str().unwrap();
    assert!(error.contains("legacy.burst"), "{error}");
    assert_eq!(
        limits(&status)["legacy_per_second"],
        500,
        "nothing of it is taken"
    );
    assert!(metric(&daemon, "edge_configuration_failing 1"));
    assert!(metric(
        &daemon,
        "edge_configuration_reloads_total{outcome=\"refused\"} 1"
    ));
    daemon.wait_for_line(|line| line.to_string().contains("the configuration is no good"));
    let told = place.edge(&format!("status --admin {}", daemon.admin));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("REFUSED, older settings are in effect"),
        "{told}"
    );

    place.configure(|text| text + "[legacy]\nconnections_per_second = 6\n");
    let status = daemon.wait_for_status(|status| limits(status)["legacy_per_second"] == 6);
    assert_eq!(status["configuration"]["error"], Value::Null);
    assert!(metric(&daemon, "edge_configuration_failing 0"));
    daemon.stop();
}

#[test]
fn a_hang_up_reads_the_configuration_at_once() {
    let place = Place::new();
    place.new_key("alice");
    let mut daemon = place.start();
    daemon.signal(Signal::HUP);
    daemon.wait_for_status(|status| status["configuration"]["taken"] == 1);
    daemon.wait_for_line(|line| {
        line.to_string()
            .contains("the configuration was read again")
    });
    place.configure(|text| text + "[legacy]\nburst = 7\n");
    daemon.signal(Signal::HUP);
    daemon.wait_for_status(|status| limits(status)["legacy_burst"] == 7);
    daemon.stop();
}

#[test]
fn a_keys_own_rates_follow_the_store() {
    let place = Place::new();
    let key = place.new_key("alice");
    let daemon = place.start();
    let served = |daemon: &Daemon| {
        let mut tls = place.connect_with(daemon, &key).ok()?;
        let head = ask(&mut tls, &key.text).ok()?;
        Some(head.split(' ').nth(1)?.to_owned())
    };
    // More than one connection a second: the second or a later one is over the rate.
    let comes = |wanted: Option<&str>| {
        let since = std::time::Instant::now();
        while served(&daemon).as_deref() != wanted {
            assert!(
                since.elapsed() < crate::process::PATIENCE,
                "never {wanted:?}"
            );
        }
    };
    comes(Some("200"));
    let limit = |rates: &str| {
        let output = place.edge(&format!(
            "keys limit --store keys.journal {} {rates}",
            key.id
        ));
        assert!(output.status.success(), "{output:?}");
    };
    limit("--connections-per-second 1");
    comes(Some("429"));
    limit("--connections-per-second default --connections-per-second-hard 1");
    comes(None);
    let refused = daemon.wait_for_status(|status| {
        let verdicts = status["traffic"]["verdicts"].as_array().unwrap();
        verdicts.iter().any(|pair| pair[0] == "key_rate_exceeded")
    });
    assert_eq!(refused["keys"]["keys"], 1);
    limit("--connections-per-second-hard default");
    for _ in 0..3 {
        comes(Some("200"));
    }
    daemon.stop();
}

#[test]
fn prompts_limit_and_models_follow_the_file_and_a_keys_limit_the_store() {
    let place = Place::new();
    let key = place.new_key("alice");
    let daemon = place.start();
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    // A request without messages has no tokens; with one, what the model's rule adds.
    let told = |tls: &mut Tls| {
        let body = r#"{"model":"m","messages":[{"role":"user","content":""}]}"#;
        let head = count(tls, &key.text, body).unwrap();
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("x-edge-input-tokens: "));
        (head[9..12].to_owned(), line.unwrap_or_default().to_owned())
    };
    assert_eq!(told(&mut tls), ("200".to_owned(), "6;estimate".to_owned()));
    let rule = "[[prompt.models]]\nname = \"m\"\ntokenizer = \"cl100k_base\"\nper_request = 10\nper_message = 20\n";
    place.configure(|text| format!("{text}[prompt]\nmax_tokens = 7\n{rule}"));
    daemon.wait_for_status(|status| status["configuration"]["taken"] == 1);
    assert_eq!(told(&mut tls), ("200".to_owned(), "30;exact".to_owned()));
    assert!(metric(&daemon, "edge_limit_prompt_tokens 7"));
    // A vocabulary that is not there is refused whole: the limit stays too.
    place.configure(|text| {
        text + "[prompt]\nmax_tokens = 8\nmodels = [{ name = \"m\", tokenizer = \"no.json\" }]\n"
    });
    let status = daemon.wait_for_status(|status| status["configuration"]["refused"] == 1);
    let error = status["configuration"]["error"].as_str().unwrap();
    assert!(error.contains("prompt.models.tokenizer"), "{error}");
    assert!(metric(&daemon, "edge_limit_prompt_tokens 7"));
    assert_eq!(told(&mut tls).1, "30;exact");
    daemon.stop();
}

#[test]
fn what_is_learnt_is_in_its_file_after_a_stop() {
    let place = Place::new();
    place.configure(|text| text + "[prompt]\ncalibration_file = \"calibration.json\"\n");
    let file = r#"{"version":1,"written_at_s":9999999999,"models":{}}"#;
    std::fs::write(place.path().join("calibration.json"), file).unwrap();
    let key = place.new_key("alice");
    let daemon = place.start();
    let mut tls = place.connect_with(&daemon, &key).unwrap();
    assert!(ask(&mut tls, &key.text).is_ok());
    assert_eq!(daemon.status()["calibration"], serde_json::json!([]));
    daemon.stop();
    // Nothing was learnt, so nothing was written.
    let after = std::fs::read_to_string(place.path().join("calibration.json")).unwrap();
    assert_eq!(after, file);
    // One that is broken is told by `edge check`, and the daemon learns anew.
    for broken in ["{", ""] {
        std::fs::write(place.path().join("calibration.json"), broken).unwrap();
        let checked = place.edge("check --config edge.toml");
        let told = String::from_utf8(checked.stderr).unwrap();
        assert!(
            checked.status.success()
                && told.contains("prompt.calibration_file: calibration.json: holds no calibration")
                && told.contains("learns anew"),
            "{told}"
        );
        let daemon = place.start();
        assert_eq!(daemon.status()["calibration"], serde_json::json!([]));
        daemon.stop();
    }
}
