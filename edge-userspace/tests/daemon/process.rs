//! A daemon in a directory of its own, with an upstream and TLS clients.

use edge_userspace::keys::derive;
use edge_userspace::secret::ApiKey;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A hang guard, not a promise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that a daemon needs, and the daemon when it runs.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) upstream: SocketAddr,
}

/// A key as `edge keys new` made it.
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) text: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ours = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).unwrap();
        std::fs::write(directory.path().join("cert.pem"), ours.cert.pem()).unwrap();
        std::fs::write(
            directory.path().join("key.pem"),
            ours.signing_key.serialize_pem(),
        )
        .unwrap();
        let place = Self {
            directory,
            certificate: ours.cert.der().clone(),
            upstream: upstream(),
        };
        place.configure(|text| text);
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes `edge.toml`, with changes.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        let text = format!(
            "[listen]\naddresses = [\"127.0.0.1:0\"]\nthreads = 2\ndrain_timeout = \"20s\"\n\n\
             [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n\n\
             [keys]\nstore = \"keys.journal\"\naudience = \"demo\"\n\n\
             [kernel]\nattach = \"off\"\n\n\
             [upstream]\nurl = \"http://{}\"\n\n\
             [admin]\naddress = \"127.0.0.1:0\"\n\n\
             [log]\njson = true\nfilter = \"info\"\n",
            self.upstream,
        );
        std::fs::write(self.path().join("edge.toml"), change(text)).unwrap();
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edge"));
        command
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .env_remove("NOTIFY_SOCKET");
        command
    }

    pub(crate) fn edge(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn new_key(&self, name: &str) -> Key {
        let new = format!("keys new --store keys.journal --audience demo --json --name {name}");
        let output = self.edge(&new);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        Key {
            id: json["key_id"].as_str().unwrap().to_owned(),
            text: json["api_key"].as_str().unwrap().to_owned(),
        }
    }

    pub(crate) fn start(&self) -> Daemon {
        self.start_with(|_| {})
    }

    pub(crate) fn start_with(&self, change: impl FnOnce(&mut Command)) -> Daemon {
        let log = self.path().join("log");
        let mut command = self.command("run --config edge.toml");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap());
        change(&mut command);
        let mut daemon = Daemon {
            child: command.spawn().unwrap(),
            log,
            listen: ([0, 0, 0, 0], 0).into(),
            admin: ([0, 0, 0, 0], 0).into(),
        };
        let serving = daemon.wait_for_line(|line| line["fields"]["message"] == "serving");
        let address = |field: &str| {
            let text = serving["fields"][field].as_str().unwrap();
            let text = text.trim_matches(['[', ']']);
            text.split(", ").next().unwrap().parse().unwrap()
        };
        (daemon.listen, daemon.admin) = (address("listen"), address("admin"));
        daemon
    }

    /// A TLS connection that offers these protocols.
    pub(crate) fn connect(&self, daemon: &Daemon, protocols: &[Vec<u8>]) -> std::io::Result<Tls> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.to_vec();
        let name = ServerName::try_from("edge.test").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(daemon.listen)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(tls, tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// A connection of this key, by its token.
    pub(crate) fn connect_with(&self, daemon: &Daemon, key: &Key) -> std::io::Result<Tls> {
        self.connect(daemon, &[b"http/1.1".to_vec(), token(key)])
    }
}

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A fresh token, made here rather than by the command under test.
pub(crate) fn token(key: &Key) -> Vec<u8> {
    static NONCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let api_key = ApiKey::new(key.text.clone().into_bytes());
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let token = edge_common::token::Token::issue(
        derive::key_id(&api_key),
        derive::mac_key(&api_key, "demo").words(),
        u32::try_from(now_s).unwrap(),
        NONCE.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
    );
    token.to_name().to_vec()
}

/// A request over HTTP/1.1; gives the answer's head.
pub(crate) fn ask(tls: &mut Tls, api_key: &str) -> std::io::Result<String> {
    post(tls, api_key, "/v1/messages", "{}")
}

/// Asks for the count of a prompt; gives the answer's head.
pub(crate) fn count(tls: &mut Tls, api_key: &str, body: &str) -> std::io::Result<String> {
    post(tls, api_key, "/v1/messages/count_tokens", body)
}

fn post(tls: &mut Tls, api_key: &str, path: &str, body: &str) -> std::io::Result<String> {
    write!(
        tls,
        "POST {path} HTTP/1.1\r\nhost: edge.test\r\nx-api-key: {api_key}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    )?;
    tls.flush()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if tls.read(&mut byte)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = (head.lines()).find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    tls.read_exact(&mut body)?;
    Ok(head)
}

/// Answers every request with the same JSON.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            std::thread::spawn(move || answer(tcp.unwrap()));
        }
    });
    address
}

fn answer(mut tcp: TcpStream) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = tcp.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..read]);
        // Every request here has the body `{}`.
        while let Some(at) = seen.windows(6).position(|w| w == b"\r\n\r\n{}") {
            seen.drain(..at + 6);
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            if tcp.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// A running daemon; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    log: std::path::PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for a JSON line of the log.
    pub(crate) fn wait_for_line(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let log = self.log();
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            if let Some(line) = { lines }.find(|line| is(line)) {
                return line;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the daemon ended with {status}:\n{log}");
            }
            assert!(since.elapsed() < PATIENCE, "no such line in\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Status and body of an admin path.
    pub(crate) fn admin(&self, path: &str) -> (u16, String) {
        let mut tcp = TcpStream::connect(self.admin).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(tcp, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.admin("/status").1).unwrap()
    }

    /// Waits until `/status` is as wanted.
    pub(crate) fn wait_for_status(&self, mut is: impl FnMut(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status();
            if is(&status) {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "{status:#}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "it does not end:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "{status}:\n{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
