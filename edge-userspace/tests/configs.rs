//! Broken configurations and what is said of each, as data: `configs/broken/NAME.toml` and
//! the whole message in `NAME.expected`. `EDGE_BLESS=1 cargo test --test configs` writes
//! the messages anew, to be read before they are committed.

use edge_userspace::config;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A directory with everything that a good configuration names.
fn surroundings() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let ours = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).unwrap();
    let (certificate, key) = (ours.cert.pem(), ours.signing_key.serialize_pem());
    let other = rcgen::KeyPair::generate().unwrap();
    write("cert.pem", &certificate, 0o644);
    write("key.pem", &key, 0o600);
    write("other-key.pem", &other.serialize_pem(), 0o600);
    write("tls/fullchain.pem", &certificate, 0o644);
    write("tls/privkey.pem", &key, 0o600);
    write("keys.journal", "", 0o600);
    write("open.journal", "", 0o640);
    write("upstream.key", "sk-upstream\n", 0o600);
    write("upstream-ca.pem", &certificate, 0o644);
    write("layer.key", "secret\n", 0o600);
    write("empty", "\n", 0o600);
    // Vocabularies that are no good in one way or another.
    write("own.tiktoken", "YQ== 0\n", 0o644);
    write("broken.tiktoken", "YQ== 0\nno base64 1\n", 0o644);
    write("empty.json", "{}", 0o644);
    let word = r#"{"model":{"type":"WordPiece","vocab":{"a":0},"merges":[]}}"#;
    write("word.json", word, 0o644);
    dir
}

fn load(dir: &Path, text: &str) -> Result<config::Config, String> {
    let file = dir.join("edge.toml");
    fs::write(&file, text).unwrap();
    config::load(&file).map_err(|error| {
        let text = error.to_string();
        let text = text.replace(&format!("{}/", dir.display()), "");
        // The names of this machine's interfaces.
        let lines = text
            .lines()
            .map(|line| match line.split_once("there are: ") {
                Some((before, _)) => format!("{before}there are: …"),
                None => line.to_owned(),
            });
        lines.map(|line| line + "\n").collect()
    })
}

#[test]
fn each_broken_configuration_is_told_where_what_and_the_cure() {
    let dir = surroundings();
    let bless = std::env::var_os("EDGE_BLESS").is_some();
    let broken = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs/broken");
    let mut seen = 0;
    let mut differ = Vec::new();
    for entry in fs::read_dir(broken).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let said = match load(dir.path(), &fs::read_to_string(&path).unwrap()) {
            Ok(_) => panic!("{} is not broken", path.display()),
            Err(said) => said,
        };
        for line in said.lines() {
            let (place, _) = line.split_once(": ").expect("a place");
            let place: Vec<_> = place.split(':').collect();
            assert_eq!((place.len(), place[0]), (3, "edge.toml"), "{line}");
            assert!(line.contains("; "), "no cure: {line}");
        }
        let expected = path.with_extension("expected");
        if bless {
            fs::write(&expected, &said).unwrap();
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if said != wanted {
            differ.push(format!("{}:\n{said}instead of\n{wanted}", path.display()));
        }
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} broken configurations found");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("none.toml");
    let error = config::load(&file).unwrap_err().to_string();
    assert!(error.starts_with(&file.display().to_string()), "{error}");
    assert!(error.contains("--config"), "{error}");
}

#[test]
fn a_good_configuration_has_the_documented_defaults() {
    use std::time::Duration;
    let dir = surroundings();
    let good = include_str!("configs/good.toml");
    let config = load(dir.path(), good).unwrap();
    assert_eq!(config.listen.addresses, ["127.0.0.1:8443".parse().unwrap()]);
    assert_eq!(config.listen.handshake_timeout, Duration::from_secs(5));
    assert_eq!(config.listen.max_connections, 65_536);
    assert_eq!(config.keys.capacity, 100_000);
    assert_eq!(
        (config.keys.window.back_s, config.keys.window.ahead_s),
        (30, 5)
    );
    assert_eq!(config.tls.certificate, dir.path().join("cert.pem"));
    assert_eq!(config.api.max_body_bytes, 32 << 20);
    assert_eq!(config.admin.address, "127.0.0.1:9901".parse().unwrap());
    assert_eq!(
        (
            config.upstreams[0].tls,
            &*config.upstreams[0].host,
            config.upstreams[0].port
        ),
        (false, "127.0.0.1", 9000),
    );
    assert!(matches!(
        config.upstreams[0].credential,
        config::Credential::Pass
    ));
}

#[test]
fn models_are_counted_by_the_first_rule_that_means_them() {
    let dir = surroundings();
    let good = include_str!("configs/good.toml");
    let prompt = r#"
[prompt]
max_tokens = 200_000

[[prompt.models]]
name = "in-house-1"
tokenizer = "cl100k_base"
per_request = 3
per_message = 4
context_tokens = 128_000

[[prompt.models]]
name = "in-house-*"
tokenizer = "estimate"
"#;
    let config = load(dir.path(), &format!("{good}{prompt}")).unwrap();
    assert_eq!(config.prompt.max_tokens, 200_000);
    let models = &config.prompt.models;
    for (model, means) in [
        (
            "in-house-1",
            "in-house-1: by the vocabulary cl100k_base; and 3 a request, 4 a message (exact); at most 128000",
        ),
        (
            "in-house-2",
            "in-house-*: estimated, with the weights of o200k_base and calibrated by the upstream's usage; and 0 a request, 0 a message",
        ),
        (
            "gpt-4o",
            "gpt-4o*: by the vocabulary o200k_base; and 3 a request, 3 a message (exact)",
        ),
    ] {
        let rule = models.rule(models.number_of(model.as_bytes()));
        assert_eq!(rule.to_string(), means);
    }
}

#[test]
fn the_example_loads_also_with_its_defaults_uncommented() {
    let dir = surroundings();
    let example = include_str!("../../deploy/edge.example.toml");
    let config = load(dir.path(), example).unwrap();
    assert!(config.upstreams[0].tls && config.upstreams[0].port == 443);
    let uncommented: Vec<_> = (example.lines())
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest,
            _ => line,
        })
        .collect();
    assert_ne!(uncommented, example.lines().collect::<Vec<_>>());
    load(dir.path(), &uncommented.join("\n")).unwrap();
}

#[test]
fn several_upstreams_have_what_the_section_says_and_what_they_say_themselves() {
    use std::time::Duration;
    let dir = surroundings();
    let good = include_str!("configs/good.toml").replace("url = \"http://127.0.0.1:9000\"", "");
    let list = r#"
connect_timeout = "700ms"
prefill_tokens_per_second = 5000
eject_after = 2
[upstream.credential]
header = "x-api-key"
file = "upstream.key"

[[upstreams]]
name = "one"
url = "http://127.0.0.1:9001"

[[upstreams]]
name = "two"
url = "https://[::1]"
models = ["claude-*", "in-house"]
ca_file = "upstream-ca.pem"
prefill_tokens_per_second = 20_000
[upstreams.credential]
header = "authorization"
file = "layer.key"
"#;
    let config = load(dir.path(), &format!("{good}{list}")).unwrap();
    let [one, two] = &config.upstreams[..] else {
        panic!("{:?}", config.upstreams)
    };
    assert_eq!((&*one.name, &*two.name), ("one", "two"));
    assert_eq!(one.url(), "http://127.0.0.1:9001");
    assert_eq!(two.url(), "https://[::1]:443");
    for upstream in [one, two] {
        assert_eq!(upstream.connect_timeout, Duration::from_millis(700));
    }
    assert_eq!(one.prefill_tokens_per_second, 5000);
    assert_eq!(two.prefill_tokens_per_second, 20_000);
    assert_eq!(config.choice.eject_after, 2);
    assert_eq!(config.choice.cache_saving_percent, 90);
    let secret = |upstream: &config::Upstream| match &upstream.credential {
        config::Credential::Replace { header, from } => {
            let secret = from.read().unwrap();
            let text = String::from_utf8(secret.expose().to_vec()).unwrap();
            format!("{header}: {text}")
        }
        config::Credential::Pass => "passed".to_owned(),
    };
    assert_eq!(secret(one), "x-api-key: sk-upstream");
    assert_eq!(secret(two), "authorization: secret");
    assert_eq!(two.ca_file, Some(dir.path().join("upstream-ca.pem")));
    assert_eq!(one.ca_file, None);
    for (model, one_takes, two_takes) in [
        (Some(&b"claude-x"[..]), true, true),
        (Some(b"in-house"), true, true),
        (Some(b"in-house-2"), true, false),
        (None, true, true),
    ] {
        assert_eq!(one.serves(model), one_takes);
        assert_eq!(two.serves(model), two_takes);
    }
}
