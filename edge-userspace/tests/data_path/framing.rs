//! Requests that two readers could read differently: `tests/framing/http1`, one a file.

use crate::client::{Hello, alpn};
use crate::world::{ALICE, World, soon, token};
use edge_userspace::telemetry::ConnectionEnd;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// One file.
struct Case {
    name: String,
    head: Vec<(String, String)>,
    bytes: Vec<u8>,
}

/// The files of a folder of `tests/framing`.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/framing")
        .join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Of a folder's files, with many that break the protocol, none went otherwise than it says.
pub(crate) fn assert_none_wrong(world: &World, wrong: &[String]) {
    let broken = world.metrics.connection_ends.get(ConnectionEnd::Protocol);
    assert!(broken > 20, "{broken} were counted");
    let (count, wrong) = (wrong.len(), wrong.join("\n"));
    assert_eq!(count, 0, "{count} of them:\n{wrong}");
}

/// The head's `name: value` lines, and what is behind the line of `---`.
pub(crate) fn split(text: &str) -> (Vec<(String, String)>, &str) {
    let (head, rest) = text.split_once("---\n").unwrap();
    let lines = head.lines().map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim().to_owned())
    });
    (lines.collect(), rest)
}

/// Takes the escapes off.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match chars.next().unwrap() {
            'r' => b'\r',
            'n' => b'\n',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            'x' => {
                let digits: String = [chars.next().unwrap(), chars.next().unwrap()]
                    .iter()
                    .collect();
                u8::from_str_radix(&digits, 16).unwrap()
            }
            other => panic!("no escape: \\{other}"),
        });
    }
    bytes
}

impl Case {
    fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let (head, rest) = split(&text);
        let rest = rest.strip_suffix('\n').unwrap().replace("{key}", ALICE);
        let mut bytes = Vec::new();
        for line in rest.split('\n') {
            // A backslash at the end, which is not itself escaped.
            match line.strip_suffix('\\').filter(|line| !line.ends_with('\\')) {
                Some(line) => bytes.extend(unescape(line)),
                None => {
                    bytes.extend(unescape(line));
                    bytes.extend_from_slice(b"\r\n");
                }
            }
        }
        Self {
            name: file.file_stem().unwrap().to_str().unwrap().to_owned(),
            head,
            bytes,
        }
    }

    fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.head.iter().filter(|(other, _)| other == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    fn one(&self, name: &str) -> &str {
        let [value] = self.all(name)[..] else {
            panic!("{}: {name} must stand there once", self.name)
        };
        value
    }
}

/// One answer of several on a connection.
struct Answered {
    status: u16,
    body: Vec<u8>,
}

/// Reads answers as RFC 9112 has them; nothing may be left.
fn answers(mut bytes: &[u8]) -> Result<Vec<Answered>, String> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let shown = || bytes.escape_ascii().to_string();
        let end = memchr::memmem::find(bytes, b"\r\n\r\n").ok_or_else(shown)?;
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| shown())?;
        let status = head.get(9..12).and_then(|digits| digits.parse().ok());
        let status = status.ok_or_else(shown)?;
        let header = |name: &str| {
            let line = head.split("\r\n").find(|line| line.starts_with(name))?;
            Some(line[name.len()..].trim())
        };
        let rest = &bytes[end + 4..];
        let (body, after) = match header("content-length:") {
            Some(length) => {
                let length: usize = length.parse().map_err(|_| shown())?;
                let (body, after) = rest.split_at_checked(length).ok_or_else(shown)?;
                (body.to_vec(), after)
            }
            // An HTTP/1.0 answer, or an interim one.
            None if status < 200 => (Vec::new(), rest),
            None => (rest.to_vec(), &rest[rest.len()..]),
        };
        bytes = after;
        answers.push(Answered { status, body });
    }
    Ok(answers)
}

/// What is wrong with what came of a case, if anything is.
async fn run(world: &World, case: &Case) -> Result<(), String> {
    let before = world.model.stats().figures().requests;
    let hello = Hello {
        post_quantum: false,
        ..alpn(&[b"http/1.1", &token(ALICE)])
    };
    let mut tls = world.tls(&hello).await.unwrap();
    // The edge may have refused and gone meanwhile.
    let _ = tls.write_all(&case.bytes).await;
    let mut answer = Vec::new();
    let expected: Vec<u16> = match case.one("answers") {
        "none" => Vec::new(),
        statuses => (statuses.split(' ')).map(|s| s.parse().unwrap()).collect(),
    };
    // A half of a request is over when the client says so; the others are answered first.
    if case.name.contains("cut-short") {
        let _ = tls.shutdown().await;
    } else {
        while answers(&answer).is_ok_and(|found| found.len() < expected.len())
            || answers(&answer).is_err()
        {
            let read = soon(&case.name, tls.read_buf(&mut answer)).await;
            if read.map_or(true, |count| count == 0) {
                break;
            }
        }
        let _ = tls.shutdown().await;
    }
    let _ = soon(&case.name, tls.read_to_end(&mut answer)).await;
    let answers = answers(&answer)?;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    if statuses != expected {
        return Err(format!(
            "answered {statuses:?}, not {expected:?}: {}",
            answer.escape_ascii()
        ));
    }
    for answer in answers.iter().filter(|answer| answer.status >= 400) {
        let body: Value = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
        if body["type"] != "error" || !body["error"]["message"].is_string() {
            return Err(format!("{body} has not the API's shape"));
        }
    }
    let seen = world.model.stats().figures().requests - before;
    if seen.to_string() != case.one("upstream") {
        return Err(format!("the upstream saw {seen} requests"));
    }
    let last = answers.iter().rev().find(|answer| answer.status == 200);
    for sees in case.all("sees") {
        let echo: Value = serde_json::from_slice(&last.unwrap().body).map_err(|e| e.to_string())?;
        if !is_seen(&echo, sees) {
            return Err(format!("the upstream does not see {sees:?}: {echo}"));
        }
    }
    Ok(())
}

fn is_seen(echo: &Value, sees: &str) -> bool {
    let headers = echo["headers"].as_array().unwrap();
    let has = |name: &str| headers.iter().filter(|pair| pair[0] == name).count();
    let (what, rest) = sees.split_once(' ').unwrap();
    match (what, rest.split_once(' ')) {
        ("path", _) => echo["path"] == rest,
        ("body", _) => echo["body_bytes"].as_u64() == rest.parse().ok(),
        ("no", Some(("header", name))) => has(name) == 0,
        ("header", Some((name, value))) => {
            let found = headers
                .iter()
                .any(|pair| pair[0] == name && pair[1] == value);
            found && has(name) == 1
        }
        _ => panic!("what is that: {sees}"),
    }
}

#[tokio::test]
async fn each_request_reaches_the_upstream_as_its_file_says_or_not_at_all() {
    let world = World::new();
    let mut wrong = Vec::new();
    let files = files("http1");
    assert!(files.len() > 90, "the corpus is there");
    for file in files {
        let case = Case::read(&file);
        assert!(!case.one("what").is_empty() && !case.one("rfc").is_empty());
        if let Err(what) = run(&world, &case).await {
            wrong.push(format!("{}: {what}", case.name));
        }
    }
    assert_none_wrong(&world, &wrong);
}

/// A client that mixes both framings loses its connection; one that does not, keeps it.
#[tokio::test]
async fn a_connection_ends_after_chunks_when_a_length_was_ever_said_on_it() {
    let world = World::new();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {ALICE}\r\n\
         anthropic-version: 2023-06-01\r\nx-demo-echo: 1\r\n"
    );
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    let sized = format!("{head}content-length: 2\r\n\r\n{{}}");
    for (requests, answered) in [
        (vec![&chunked, &chunked, &chunked], 3),
        (vec![&chunked, &sized, &sized], 3),
        (vec![&sized, &chunked, &chunked], 2),
    ] {
        let hello = alpn(&[b"http/1.1", &token(ALICE)]);
        let mut tls = world.tls(&hello).await.unwrap();
        let mut answer = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            if tls.write_all(request.as_bytes()).await.is_err() {
                break;
            }
            while !answers(&answer).is_ok_and(|found| found.len() > number) {
                let read = soon("an answer", tls.read_buf(&mut answer)).await;
                if read.map_or(true, |count| count == 0) {
                    break;
                }
            }
        }
        let found = answers(&answer).unwrap();
        assert_eq!(found.len(), answered, "{}", answer.escape_ascii());
        assert!(found.iter().all(|answer| answer.status == 200));
    }
}
