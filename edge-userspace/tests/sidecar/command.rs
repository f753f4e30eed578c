//! The command line: what it prints, what it refuses, how it ends.

use crate::process::{PATIENCE, Place};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// A running `edge connect`; killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) url: String,
    errors: std::path::PathBuf,
}

impl Running {
    pub(crate) fn start(command: &mut Command, errors: &Path) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(errors).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let errors = errors.to_owned();
        let url = url.unwrap_or_else(|| panic!("{line:?} {:?}", std::fs::read_to_string(&errors)));
        Self { child, url, errors }
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> i32 {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(since.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments that lead to that edge.
pub(crate) fn to(place: &Place, port: u16) -> String {
    std::fs::copy(place.path().join("cert.pem"), place.path().join("ca.pem")).unwrap();
    format!(
        "connect --edge https://edge.test:{port} --resolve edge.test:{port}:127.0.0.1 \
         --ca-file ca.pem --audience demo --listen 127.0.0.1:0"
    )
}

fn ask(address: std::net::SocketAddr, request: &str) -> String {
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer
}

const MESSAGE: &str = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
    anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

fn edge(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_edge"))
        .args(arguments.split_whitespace())
        .env_remove("EDGE_API_KEY")
        .env_remove("EDGE_API_KEY_FILE")
        .output()
        .unwrap()
}

#[test]
fn with_a_key_from_a_file_or_the_environment_it_serves_until_it_is_stopped() {
    let place = Place::new();
    let key = place.new_key("alice");
    std::fs::write(place.path().join("alice.key"), format!("{}\n", key.text)).unwrap();
    let daemon = place.start();
    let arguments = to(&place, daemon.listen.port());
    let errors = place.path().join("connect.log");
    for from_file in [true, false] {
        let mut command = match from_file {
            true => place.command(&format!("{arguments} --api-key-file alice.key")),
            false => place.command(&arguments),
        };
        if !from_file {
            command.env("EDGE_API_KEY", &key.text);
        }
        let mut running = Running::start(&mut command, &errors);
        let answer = ask(running.address(), MESSAGE);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("x-claude-route: direct"), "{answer}");
        let shown = std::fs::read(format!("/proc/{}/cmdline", running.child.id())).unwrap();
        assert!(!String::from_utf8_lossy(&shown).contains(&key.text));
        running.signal(Signal::TERM);
        assert_eq!(running.wait(), 0, "{}", running.errors());
        assert!(!running.errors().contains(&key.text));
    }
}

#[test]
fn a_check_tells_of_each_edge_and_fails_when_none_serves() {
    let place = Place::new();
    let key = place.new_key("alice");
    std::fs::write(place.path().join("alice.key"), &key.text).unwrap();
    let daemon = place.start();
    let arguments = to(&place, daemon.listen.port());
    let check = format!("{arguments} --api-key-file alice.key --check");
    let output = place.edge(&check);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains(": zero lane, connected in "), "{text}");
    let output = place.edge(&format!("{check} --edge https://127.0.0.1:1 --json"));
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["lane"], "direct");
    assert_eq!(json[0]["error"], serde_json::Value::Null);
    let error = json[1]["error"].as_str().unwrap();
    assert!(error.contains("cannot connect"), "{error}");

    std::fs::write(place.path().join("alice.key"), "sk-edge-unknown").unwrap();
    let output = place.edge(&check);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("refused the token"), "{text}");
    assert!(text.contains("401 \"Invalid Key"), "{text}");
    assert!(!text.contains("sk-edge-unknown"), "{text}");
}

#[test]
fn an_edge_that_is_away_is_told_of_once_and_once_when_it_is_back() {
    let place = Place::new();
    let key = place.new_key("alice");
    std::fs::write(place.path().join("alice.key"), &key.text).unwrap();
    let daemon = place.start();
    let port = daemon.listen.port();
    daemon.stop();
    let arguments = to(&place, port);
    let mut command = place.command(&format!("{arguments} --api-key-file alice.key"));
    let running = Running::start(&mut command, &place.path().join("connect.log"));
    let rounds = || {
        let status =
            "GET /edge-connect/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let answer = ask(running.address(), status);
        let (_, json) = answer.split_once("\r\n\r\n").unwrap();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        json["rounds"].as_u64().unwrap()
    };
    let until = |what: &str, is: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !is() {
            assert!(since.elapsed() < PATIENCE, "{what}: {}", running.errors());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let told = |text: &str| running.errors().matches(text).count();
    until("three rounds", &|| rounds() >= 3);
    assert_eq!(told("health checks fail"), 1, "{}", running.errors());
    assert_eq!(told("WARN"), 1, "{}", running.errors());
    place.configure(|text| text.replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1));
    let _daemon = place.start();
    until("it is back", &|| told("health checks go well again") == 1);
    assert_eq!(told("health checks fail"), 1, "{}", running.errors());
}

#[test]
fn the_variables_for_sdks_are_printed_without_a_key() {
    let output = edge("connect --print-env");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "export ANTHROPIC_BASE_URL=http://127.0.0.1:8788\n\
         export ANTHROPIC_API_KEY=edge-connect\n\
         export OPENAI_BASE_URL=http://127.0.0.1:8788/v1\n\
         export OPENAI_API_KEY=edge-connect\n"
    );
    let output = edge("connect --print-env --json --listen [::1]:9");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["OPENAI_BASE_URL"], "http://[::1]:9/v1");
    assert_eq!(
        edge("connect --print-env --listen [::1]:0").status.code(),
        Some(2)
    );
}

#[test]
fn wrong_usage_is_told_with_what_to_do() {
    let place = Place::new();
    std::fs::write(place.path().join("k"), "sk-edge-x").unwrap();
    let usual = "connect --edge https://edge.test --audience demo --ca-file cert.pem";
    for (arguments, code, told) in [
        ("connect --audience demo".to_owned(), 2, "--edge"),
        (
            "connect --edge https://edge.test".to_owned(),
            2,
            "--audience",
        ),
        (
            "connect --edge http://edge.test --audience a".to_owned(),
            2,
            "https://",
        ),
        (
            "connect --edge https://a@b --audience a".to_owned(),
            2,
            "keys go in a file",
        ),
        (usual.to_owned(), 2, "EDGE_API_KEY"),
        (
            format!("{usual} --api-key-file none"),
            1,
            "none: cannot read the API key",
        ),
        (
            format!("{usual} --api-key-file k --listen 0.0.0.0:0"),
            2,
            "--allow-remote",
        ),
        (
            format!("{usual} --api-key-file k --ca-file k"),
            2,
            "cannot be used multiple times",
        ),
        (
            format!("{usual} --api-key-file k --listen 192.0.2.1:1 --allow-remote"),
            1,
            "cannot listen there",
        ),
        (
            format!("{usual} --api-key-file k --resolve edge"),
            2,
            "HOST:PORT:ADDRESS",
        ),
    ] {
        let mut command = place.command(&arguments);
        command
            .env_remove("EDGE_API_KEY")
            .env_remove("EDGE_API_KEY_FILE");
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {errors}");
        assert!(errors.contains(told), "{arguments}: {errors}");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    let output = place.edge(&format!("{usual} --api-key-file k --listen {taken}"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("cannot listen there"), "{errors}");
    drop(listener);
}
