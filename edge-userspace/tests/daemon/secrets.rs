//! No key and no MAC key shows up anywhere, in any form.

use crate::process::{Place, ask};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use edge_userspace::keys::derive;
use edge_userspace::secret::ApiKey;

/// Every way in which bytes could be written.
fn forms(bytes: &[u8]) -> Vec<String> {
    let mut forms = vec![
        hex::encode(bytes),
        hex::encode_upper(bytes),
        STANDARD.encode(bytes),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
        format!("{bytes:?}").trim_matches(['[', ']']).to_owned(),
        format!("{bytes:x?}").trim_matches(['[', ']']).to_owned(),
        bytes.escape_ascii().to_string(),
    ];
    if bytes.len() == 16 {
        for half in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(half.try_into().unwrap());
            forms.extend([
                word.to_string(),
                format!("{word:x}"),
                format!("{word:016x}"),
            ]);
        }
    }
    forms
}

fn secrets_of(key: &str) -> Vec<String> {
    let api_key = ApiKey::new(key.as_bytes().to_vec());
    let mut secrets = forms(key.as_bytes());
    // Without its prefix it is a key all the same.
    secrets.push(key.trim_start_matches("sk-edge-").to_owned());
    secrets.extend(forms(derive::mac_key(&api_key, "demo").expose()));
    secrets.extend(forms(derive::key_hash(&api_key).expose()));
    secrets
}

#[test]
fn no_secret_is_in_logs_at_any_level_nor_in_metrics_status_and_errors() {
    let place = Place::new();
    let (alice, bob) = (place.new_key("alice"), place.new_key("bob"));
    std::fs::write(
        place.path().join("upstream.key"),
        "sk-upstream-secret-0123456789",
    )
    .unwrap();
    place.configure(|text| {
        text.replace("filter = \"info\"", "filter = \"trace\"")
            + "\n[upstream.credential]\nheader = \"x-api-key\"\nfile = \"upstream.key\"\n"
    });
    let mut daemon = place.start();

    // A good one, another's key on a connection, a key without a token, no key that is known.
    let mut tls = place.connect_with(&daemon, &alice).unwrap();
    assert!(
        ask(&mut tls, &alice.text)
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        ask(&mut tls, &bob.text)
            .unwrap()
            .starts_with("HTTP/1.1 401 ")
    );
    let mut legacy = place.connect(&daemon, &[b"http/1.1".to_vec()]).unwrap();
    assert!(
        ask(&mut legacy, &bob.text)
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    let mut stranger = place.connect(&daemon, &[b"http/1.1".to_vec()]).unwrap();
    let unknown = "sk-edge-nobodynobodynobodynobodynobodynobodynobody";
    assert!(
        ask(&mut stranger, unknown)
            .unwrap()
            .starts_with("HTTP/1.1 401 ")
    );
    // A change, a refused one with a MAC key in the wrong field, a revocation.
    let store = place.path().join("keys.journal");
    let good = std::fs::read_to_string(&store).unwrap();
    let misplaced = good
        .lines()
        .nth(1)
        .unwrap()
        .replace("\"created_at_s\":", "\"created_at_s\":\"x\",\"at_s\":");
    std::fs::write(&store, format!("{good}{misplaced}\n")).unwrap();
    daemon.wait_for_status(|status| !status["keys"]["store"]["error"].is_null());
    let seen = [daemon.admin("/metrics").1, daemon.admin("/status").1];
    let listed = place.edge("keys list --store keys.journal");
    std::fs::write(&store, &good).unwrap();
    let shown = place.edge(&format!("keys revoke --store keys.journal {}", alice.id));
    daemon.wait_for_status(|status| status["keys"]["store"]["error"].is_null());
    let status = place.edge(&format!("status --admin {}", daemon.admin));
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.wait().success());

    let mut seen = Vec::from(seen);
    seen.push(daemon.log());
    for output in [listed, shown, status] {
        seen.push(String::from_utf8(output.stdout).unwrap());
        seen.push(String::from_utf8(output.stderr).unwrap());
    }
    let log = daemon.log();
    assert!(log.contains("\"TRACE\""), "the log is at its loudest");
    let mut secrets = secrets_of(&alice.text);
    secrets.extend(secrets_of(&bob.text));
    secrets.extend(secrets_of(unknown));
    secrets.extend(forms(b"sk-upstream-secret-0123456789"));
    secrets.push("sk-upstream-secret-0123456789".to_owned());
    for text in &seen {
        for secret in &secrets {
            if let Some(at) = text.find(secret.as_str()) {
                let line = text[..at].rfind('\n').map_or(0, |at| at + 1);
                let line = text[line..].lines().next().unwrap();
                panic!("a secret is shown:\n{}", &line[..line.len().min(600)]);
            }
        }
    }
}

#[test]
fn debug_of_everything_that_holds_a_secret_shows_none() {
    use edge_userspace::keys::store::line::{Record, StoredKey};
    use edge_userspace::keys::{Change, Edit};
    use std::sync::Arc;
    let text = "sk-edge-test";
    let key = ApiKey::new(text.as_bytes().to_vec());
    let stored = StoredKey {
        id: derive::key_id(&key),
        name: "alice".into(),
        key_hash: derive::key_hash(&key),
        mac_keys: vec![("demo".into(), derive::mac_key(&key, "demo"))],
        not_before_s: 0,
        not_after_s: u64::MAX,
        alpn_only: false,
        rates: Default::default(),
        max_prompt_tokens: None,
        allowance: None,
        created_at_s: 0,
        revoked_at_s: None,
    };
    let record = stored.at("demo");
    let shown = [
        format!("{key:?} {key:#?}"),
        format!("{stored:?} {stored:#?}"),
        format!("{record:?} {record:#?}"),
        format!("{:?}", record.policy),
        format!("{:?}", Change::Put(Arc::new(record.clone()))),
        format!("{:?}", Edit::Put(record)),
        format!("{:?}", Record::Put(stored)),
        format!(
            "{:?} {:?}",
            derive::mac_key(&key, "demo"),
            derive::key_hash(&key)
        ),
    ]
    .concat();
    assert!(shown.contains("[redacted]") && shown.contains("alice"));
    for secret in secrets_of(text) {
        assert!(!shown.contains(&secret), "{secret} in {shown}");
    }
}
