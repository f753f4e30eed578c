//! docs/examples/vectors.json, which OpenSSL computed, holds for this implementation, and
//! docs/protocol.md says what is in it.

mod skip;

use edge_common::client_hello::ClientHello;
use edge_common::policy::{self, KeyPolicy, Keys, Reason, Window};
use edge_common::siphash;
use edge_common::token::{KeyId, Token};
use edge_userspace::keys::derive::{key_hash, key_id, mac_key};
use edge_userspace::secret::ApiKey;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(file)
}

fn vectors() -> Value {
    let text = std::fs::read_to_string(docs("examples/vectors.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value[name].as_array().unwrap();
    assert!(!list.is_empty(), "{name} is empty");
    list
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn bytes<const N: usize>(value: &Value, name: &str) -> [u8; N] {
    hex::decode(text(value, name)).unwrap().try_into().unwrap()
}

fn api_key(value: &Value) -> ApiKey {
    ApiKey::new(text(value, "api_key").as_bytes().to_vec())
}

#[test]
fn the_documented_vectors_hold() {
    for vector in list(&vectors(), "tokens") {
        let key = api_key(vector);
        let mac = mac_key(&key, text(vector, "audience"));
        assert_eq!(key_id(&key).to_string(), text(vector, "key_id"));
        assert_eq!(
            hex::encode(key_hash(&key).expose()),
            text(vector, "key_hash")
        );
        assert_eq!(hex::encode(mac.expose()), text(vector, "mac_key"));

        let nonce = u64::from_le_bytes(bytes(vector, "nonce"));
        let issued_at_s = u32::try_from(vector["issued_at"].as_u64().unwrap()).unwrap();
        let token = Token::issue(key_id(&key), mac.words(), issued_at_s, nonce);
        let name = String::from_utf8(token.to_name().to_vec()).unwrap();
        assert_eq!(name, text(vector, "token"));
        assert_eq!(name[5..45], *text(vector, "mac_input"));
        assert_eq!(name[45..], *text(vector, "tag"));
    }
}

#[test]
fn the_documented_hash_is_siphash_2_4() {
    let vectors = vectors();
    let of_a_token = list(&vectors, "siphash")
        .iter()
        .find(|vector| text(vector, "message").len() == 40)
        .expect("a message as long as a token's");
    let key = u128::from_le_bytes(bytes(of_a_token, "key"));
    let message: [u8; 20] = bytes(of_a_token, "message");
    let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().unwrap());
    let tail = u32::from_le_bytes(message[16..].try_into().unwrap());
    let tag = siphash::siphash24_20([key as u64, (key >> 64) as u64], [word(0), word(8)], tail);
    assert_eq!(tag, u64::from_le_bytes(bytes(of_a_token, "tag")));
}

/// The keys of the documented offers.
struct Known(BTreeMap<KeyId, KeyPolicy>);

impl Keys for Known {
    fn policy(&self, id: KeyId) -> Option<&KeyPolicy> {
        self.0.get(&id)
    }

    fn complete(&self) -> bool {
        true
    }
}

impl Known {
    fn of(offers: &Value) -> Self {
        let policies = list(offers, "keys").iter().map(|entry| {
            let key = api_key(entry);
            let policy = KeyPolicy {
                mac_key: mac_key(&key, text(offers, "audience")).words(),
                not_before_s: entry["not_before"].as_u64().unwrap_or(0),
                not_after_s: entry["not_after"].as_u64().unwrap_or(u64::MAX),
                flags: match entry["revoked"].as_bool() {
                    Some(true) => KeyPolicy::REVOKED,
                    _ => 0,
                },
                ..KeyPolicy::UNLIMITED
            };
            (key_id(&key), policy)
        });
        Self(policies.collect())
    }
}

/// What the edge makes of a hello when it is `now_s`.
fn reason_of(hello: &[u8], offers: &Value, now_s: u64) -> &'static str {
    let seconds = |name: &str| u32::try_from(offers[name].as_u64().unwrap()).unwrap();
    let window = Window {
        back_s: seconds("window_back"),
        ahead_s: seconds("window_ahead"),
    };
    let mut scan = ClientHello::at_record();
    let scanned = scan.advance(hello);
    policy::judge(&scan, scanned, &Known::of(offers), now_s, window).name()
}

/// A hello with these ALPN names and nothing else in it.
fn hello(names: &[&str]) -> Vec<u8> {
    let behind_u16 = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap();
        [&length.to_be_bytes()[..], bytes].concat()
    };
    let names = names.iter().flat_map(|name| {
        let length = u8::try_from(name.len()).unwrap();
        [&[length], name.as_bytes()].concat()
    });
    let alpn = behind_u16(&names.collect::<Vec<_>>());
    let extension = [&[0, 16][..], &behind_u16(&alpn)].concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.extend([0, 0, 2, 0x13, 1, 1, 0]); // session id, ciphers, compression
    body.extend(behind_u16(&extension));
    let message = [&[1, 0][..], &behind_u16(&body)].concat();
    [&[22, 3, 1][..], &behind_u16(&message)].concat()
}

#[test]
fn each_documented_offer_gets_its_reason() {
    let vectors = vectors();
    let offers = &vectors["offers"];
    let mut seen = Vec::new();
    for row in list(offers, "rows") {
        let names: Vec<_> = list(row, "names")
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let now_s = offers["now"].as_u64().unwrap();
        let now_s = now_s.strict_add_signed(row["seconds_later"].as_i64().unwrap());
        let (reason, why) = (text(row, "reason"), text(row, "why"));
        assert_eq!(reason_of(&hello(&names), offers, now_s), reason, "{why}");
        seen.push(reason);
    }
    // Every reason that one hello alone can give.
    for reason in [
        "accepted",
        "no_token",
        "acme_challenge",
        "token_malformed",
        "token_duplicate",
        "key_unknown",
        "tag_wrong",
        "key_revoked",
        "key_not_yet_valid",
        "key_expired",
        "token_expired",
        "token_from_future",
    ] {
        assert!(seen.contains(&reason), "no row shows {reason}");
    }
}

#[test]
fn the_documented_hello_is_read_alike_by_rustls_and_accepted() {
    let vectors = vectors();
    let documented = &vectors["client_hello"];
    let hello: String = list(documented, "parts")
        .iter()
        .map(|part| text(part, "hex"))
        .collect();
    let hello = hex::decode(hello).unwrap();
    assert_eq!(
        Some(hello.len() as u64),
        documented["bytes"].as_u64(),
        "its length"
    );
    let names: Vec<_> = list(documented, "names")
        .iter()
        .map(|name| name.as_str().unwrap().as_bytes())
        .collect();
    let token = *names.last().unwrap();
    let at = usize::try_from(documented["token_at"].as_u64().unwrap()).unwrap();
    assert_eq!(&hello[at..at + token.len()], token);

    let mut acceptor = rustls::server::Acceptor::default();
    acceptor.read_tls(&mut Cursor::new(&hello)).unwrap();
    let accepted = acceptor.accept().unwrap().expect("a whole hello");
    let read = accepted.client_hello();
    assert!(read.alpn().expect("names").eq(names.iter().copied()));
    assert_eq!(read.server_name(), Some("edge.example"));

    let offers = &vectors["offers"];
    let now_s = offers["now"].as_u64().unwrap();
    assert_eq!(reason_of(&hello, offers, now_s), "accepted");
}

/// Whoever writes a client from the page must be able to check each step by it.
#[test]
fn the_page_shows_the_vectors() {
    let page = std::fs::read_to_string(docs("protocol.md")).unwrap();
    let vectors = vectors();
    let shows = |what: &str| assert!(page.contains(what), "docs/protocol.md does not show {what}");
    for vector in list(&vectors, "tokens") {
        for name in ["api_key", "audience", "key_id", "key_hash", "hkdf_prk"] {
            shows(&format!("`{}`", text(vector, name)));
        }
        for name in ["mac_key", "nonce", "mac_input", "tag", "token"] {
            shows(&format!("`{}`", text(vector, name)));
        }
        shows(&format!("`{}`", vector["issued_at"]));
    }
    for vector in list(&vectors, "siphash") {
        shows(&format!("`{}`", text(vector, "tag")));
    }
    for row in list(&vectors["offers"], "rows") {
        let shown = page.lines().any(|line| {
            line.contains(&format!("| `{}` |", text(row, "reason")))
                && line.contains(text(row, "why"))
        });
        assert!(shown, "docs/protocol.md does not show the offer {row}");
    }

    let begin = page.find("```hello\n").expect("the block of the hello") + "```hello\n".len();
    let block = &page[begin..];
    let block = &block[..block.find("```").unwrap()];
    let shown: String = block
        .lines()
        .flat_map(|line| line.split("  ").next())
        .collect();
    let parts = list(&vectors["client_hello"], "parts").iter();
    let wanted: String = parts.map(|part| text(part, "hex")).collect();
    assert_eq!(shown, wanted);
}

#[test]
fn the_page_has_every_reason_under_its_verdict() {
    let page = std::fs::read_to_string(docs("protocol.md")).unwrap();
    for reason in Reason::ALL {
        let heading = format!("\n**{:?}**, ", reason.verdict());
        let begin = page.find(&heading).expect(&heading) + heading.len();
        let part = &page[begin..];
        let ends = ["\n**", "\n## "].map(|mark| part.find(mark));
        let end = ends.into_iter().flatten().min().unwrap();
        let name = format!("`{}`", reason.name());
        assert!(part[..end].contains(&name), "{name} is not at {heading}");
    }
}

#[test]
fn openssl_computes_the_same_again() {
    fn here() {}
    let named = skip::caller(&here);
    let version = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let openssl = version("openssl", "version").unwrap_or_default();
    let major = openssl
        .strip_prefix("OpenSSL ")
        .and_then(|version| version.split('.').next());
    // `openssl mac` with SipHash and `openssl kdf` came with 3.0.
    let recent = major.is_some_and(|major| major.parse::<u32>().is_ok_and(|major| major >= 3));
    if !recent {
        return skip::skipped(named, "needs openssl 3.0 or later");
    }
    if version("python3", "--version").is_none() {
        return skip::skipped(named, "needs python3");
    }
    let output = Command::new("python3")
        .arg(docs("examples/make_vectors.py"))
        .arg("--check")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
