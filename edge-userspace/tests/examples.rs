//! The clients in docs/examples do what their page says, against a real daemon: the
//! vectors, a request in the zero lane, and refusals in words that help. Those whose runtime
//! is missing are skipped by name.

#[path = "daemon/process.rs"]
#[expect(dead_code, reason = "shared with the tests of the daemon as a process")]
mod process;
mod skip;

use process::{Daemon, Place};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A client, ready to be started.
struct Client {
    /// The program and what comes before the client's own arguments.
    command: Vec<PathBuf>,
    /// How its options begin.
    dashes: &'static str,
    /// The protocol that it and the edge select, as it prints it.
    protocol: &'static str,
}

impl Client {
    fn start(&self, change: impl FnOnce(&mut Command)) -> Output {
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .env_remove("EDGE_API_KEY")
            .env_remove("EDGE_API_KEY_FILE");
        change(&mut command);
        command.output().unwrap()
    }

    fn option(&self, name: &str) -> String {
        format!("{}{name}", self.dashes)
    }
}

/// A file of docs/examples.
fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/examples")
        .join(file)
}

/// What a program prints when it is asked something; why not, if it does not.
fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|_| format!("needs {program}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{program} does not say its version"))
    }
}

#[test]
fn python_mints_and_connects() {
    fn here() {}
    let check = "import ssl, sys; sys.exit(sys.version_info < (3, 9) or not ssl.HAS_TLSv1_3)";
    if ask("python3", &["-c", check]).is_err() {
        return skip::skipped(
            skip::caller(&here),
            "needs python3, 3.9 or later, with TLS 1.3",
        );
    }
    serve(&Client {
        command: vec!["python3".into(), example("python/edge_client.py")],
        dashes: "--",
        protocol: "HTTP/1.1",
    });
}

#[test]
fn node_mints_and_connects() {
    fn here() {}
    let check = "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)";
    if ask("node", &["-e", check]).is_err() {
        return skip::skipped(skip::caller(&here), "needs node, 18 or later");
    }
    serve(&Client {
        command: vec!["node".into(), example("node/edge-client.mjs")],
        dashes: "--",
        protocol: "h2",
    });
}

#[test]
fn go_mints_and_connects() {
    fn here() {}
    let version = ask("go", &["version"]);
    let minor = version.ok().and_then(|said| {
        let version = said.split("go1.").nth(1)?;
        version.split(['.', ' ']).next()?.parse::<u32>().ok()
    });
    if minor.is_none_or(|minor| minor < 19) {
        return skip::skipped(skip::caller(&here), "needs go, 1.19 or later");
    }
    // Built once, in this build's own folder: `go run` would look for changes each time.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let binary = folder.join("edge_client");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&binary, &example("go/edge_client.go")])
        .env("GOCACHE", folder.join("cache"))
        .env("GOFLAGS", "")
        .env("GOTOOLCHAIN", "local")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    serve(&Client {
        command: vec![binary],
        dashes: "-",
        protocol: "HTTP/2.0",
    });
}

#[test]
fn java_mints_and_connects() {
    fn here() {}
    let modules = ask("java", &["--list-modules"]);
    let major = modules.ok().and_then(|said| {
        let compiler = said
            .lines()
            .find_map(|line| line.strip_prefix("jdk.compiler@"))?;
        compiler.split(['.', '-', '+']).next()?.parse::<u32>().ok()
    });
    if major.is_none_or(|major| major < 17) {
        return skip::skipped_optional(skip::caller(&here), "needs a JDK, 17 or later");
    }
    // Compiled once; `java EdgeClient.java` would do it at each start.
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java");
    let compiled = Command::new("javac")
        .arg("-d")
        .args([&classes, &example("java/EdgeClient.java")])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    serve(&Client {
        command: vec!["java".into(), "-cp".into(), classes, "EdgeClient".into()],
        dashes: "--",
        protocol: "HTTP/1.1",
    });
}

fn serve(client: &Client) {
    keeps_to_the_vectors(client);
    let model = Model::start();
    let place = Place::new();
    certificate_for_loopback(place.path());
    place.configure(|text| text.replace(&place.upstream.to_string(), &model.address));
    let key = place.new_key("example");
    std::fs::write(place.path().join("me.key"), format!("{}\n", key.text)).unwrap();
    let daemon = place.start();
    let edge = format!("127.0.0.1:{}", daemon.listen.port());
    let ask = |audience: &str, change: &dyn Fn(&mut Command)| {
        let output = client.start(|command| {
            command
                .current_dir(place.path())
                .args([client.option("audience"), audience.into()])
                .args([client.option("ca"), "cert.pem".into(), edge.clone()]);
            change(command);
        });
        let shown = [&output.stdout[..], &output.stderr].concat();
        let shown = String::from_utf8(shown).unwrap();
        assert!(!shown.contains(&key.text), "the key is shown:\n{shown}");
        (output.status.code(), shown)
    };

    // A token of its own each time, the key from a file and from the environment.
    for from_file in [true, false] {
        let (code, shown) = ask("demo", &|command| {
            match from_file {
                true => command.env("EDGE_API_KEY_FILE", "me.key"),
                false => command.env("EDGE_API_KEY", &key.text),
            };
        });
        assert_eq!(code, Some(0), "{shown}\n{}", daemon.log());
        let (head, body) = shown.split_once('\n').unwrap();
        let wanted = format!("{} 200, x-claude-route: direct", client.protocol);
        assert_eq!(head.trim_end(), wanted);
        let body: Value = serde_json::from_str(body).expect(&shown);
        assert_eq!(body["type"], "message");
    }
    assert_eq!(verdicts(&daemon, "accepted"), 2);

    // A stranger's key, and a key at another audience: the same word, and what to check.
    let stranger = "sk-edge-of-a-stranger";
    let (code, shown) = ask("demo", &|command| {
        command.env("EDGE_API_KEY", stranger);
    });
    assert_refused(code, &shown, "'demo'");
    assert!(!shown.contains(stranger), "the key is shown:\n{shown}");
    let (code, shown) = ask("elsewhere", &|command| {
        command.env("EDGE_API_KEY_FILE", "me.key");
    });
    assert_refused(code, &shown, "'elsewhere'");
    assert!(shown.contains(&key.id), "its key id:\n{shown}");
    assert_eq!(verdicts(&daemon, "key_unknown"), 1);
    assert_eq!(verdicts(&daemon, "tag_wrong"), 1);

    // No key at all.
    let (code, shown) = ask("demo", &|_| {});
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("EDGE_API_KEY_FILE"), "{shown}");
    // A certificate that is not trusted.
    let output = client.start(|command| {
        command.env("EDGE_API_KEY", &key.text).arg(&edge);
    });
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("certificate is not trusted"), "{shown}");
    daemon.stop();
}

fn keeps_to_the_vectors(client: &Client) {
    let vectors = example("vectors.json");
    let check = |file: &Path| {
        let output = client.start(|command| {
            command.arg(client.option("vectors")).arg(file);
        });
        let shown = [&output.stdout[..], &output.stderr].concat();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        (output.status.code(), shown)
    };
    let (code, shown) = check(&vectors);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("6 tokens and 6 tags are as in"), "{shown}");

    // A check that cannot fail is none: a digit of one tag and of one token changed.
    let text = std::fs::read_to_string(&vectors).unwrap();
    for right in ["e545be4961ca29a1", "faee5d056928a260\"\n"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.json");
        let wrong = right.replacen('e', "f", 1);
        std::fs::write(&file, text.replace(right, &wrong)).unwrap();
        let (code, shown) = check(&file);
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("not"), "{shown}");
    }
}

fn assert_refused(code: Option<i32>, shown: &str, audience: &str) {
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("the edge refused the token (TLS alert access_denied)"),
        "{shown}"
    );
    for check in [audience, "the API key", "the clock", "a new one for each"] {
        assert!(shown.contains(check), "nothing of {check}:\n{shown}");
    }
}

/// How many hellos the daemon gave this verdict.
fn verdicts(daemon: &Daemon, reason: &str) -> u64 {
    let status = daemon.status();
    let rows = status["traffic"]["verdicts"].as_array().unwrap();
    let row = rows.iter().find(|row| row[0] == reason);
    row.map_or(0, |row| row[1].as_u64().unwrap())
}

/// A certificate that every library takes for its own issuer, strict ones too.
fn certificate_for_loopback(folder: &Path) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut parameters = rcgen::CertificateParams::new(names).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        rcgen::KeyUsagePurpose::DigitalSignature,
        rcgen::KeyUsagePurpose::KeyCertSign,
    ];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(folder.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
}

/// `edge demo-model`; ended when dropped.
struct Model {
    child: Child,
    address: String,
}

impl Model {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_edge"))
            .args(["demo-model", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stderr = child.stderr.take().unwrap();
        BufReader::new(stderr).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{line}");
        Self { child, address }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
