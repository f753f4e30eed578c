//! Starts the clients and brings what each library said into one shape.

use super::network::Place;
use super::row::Client;
use super::talk::Running;
use anyhow::Context as _;
use edge_demo::{Answer, Milestone, Report};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every client is told.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Where to connect.
    pub(super) to: SocketAddr,
    /// Offers `h2` before `http/1.1`.
    pub(super) h2: bool,
    /// Tokens to offer after those.
    pub(super) tokens: Vec<String>,
    /// Offers X25519MLKEM768 first (rustls only).
    pub(super) post_quantum: bool,
    /// File with the API key for `x-api-key`.
    pub(super) key_file: Option<PathBuf>,
    /// `anthropic-version`.
    pub(super) version: Option<&'static str>,
    /// Further request headers.
    pub(super) headers: Vec<String>,
    /// JSON.
    pub(super) body: String,
    /// What rustls' client does; the others ask once.
    pub(super) act: &'static str,
}

impl Call {
    /// ALPN names, in order; the token comes last.
    fn alpn(&self) -> String {
        let mut names = if self.h2 { vec!["h2"] } else { vec![] };
        names.push("http/1.1");
        names.extend(self.tokens.iter().map(String::as_str));
        names.join(",")
    }

    fn request_headers(&self) -> anyhow::Result<String> {
        let mut lines = String::new();
        if let Some(path) = &self.key_file {
            let key = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            lines += &format!("x-api-key: {}\n", key.trim());
        }
        if let Some(version) = self.version {
            lines += &format!("anthropic-version: {version}\n");
        }
        for header in &self.headers {
            lines += &format!("{header}\n");
        }
        Ok(lines)
    }
}

/// Where the clients' programs and files are.
#[derive(Debug)]
pub(super) struct Clients {
    /// `edge-demo`.
    pub(super) edge_demo: PathBuf,
    /// Python's script.
    pub(super) script: PathBuf,
    /// For files that hold a key: command lines are public.
    pub(super) directory: PathBuf,
    /// The authority to trust.
    pub(super) ca: PathBuf,
    /// The name to ask for.
    pub(super) name: &'static str,
}

const PYTHON_SCRIPT: &str = include_str!("clients/python_ssl.py");

impl Clients {
    /// Writes the script.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn new(
        edge_demo: PathBuf,
        directory: &Path,
        ca: PathBuf,
        name: &'static str,
    ) -> anyhow::Result<Self> {
        let script = directory.join("python_ssl.py");
        std::fs::write(&script, PYTHON_SCRIPT).with_context(|| script.display().to_string())?;
        Ok(Self {
            edge_demo,
            script,
            directory: directory.to_owned(),
            ca,
            name,
        })
    }

    /// Starts a client.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        &self,
        client: Client,
        place: &Place,
        call: &Call,
    ) -> anyhow::Result<Running> {
        let (mut command, input) = match client {
            Client::Rustls => (self.rustls(place, call), None),
            Client::OpenSsl => self.openssl(place, call)?,
            Client::Python => (self.python(place, call)?, None),
            Client::Curl => (self.curl(place, call)?, None),
            Client::Connect => (plain_curl(place, call), None),
        };
        Running::start(client.name(), &mut command, input)
    }

    fn rustls(&self, place: &Place, call: &Call) -> Command {
        let mut command = place.command(&self.edge_demo);
        command
            .args(["client", "--to", &call.to.to_string(), "--name", self.name])
            .arg("--ca")
            .arg(&self.ca)
            .args([
                "--alpn",
                &call.alpn(),
                "--body",
                &call.body,
                "--act",
                call.act,
            ]);
        if call.post_quantum {
            command.arg("--post-quantum");
        }
        if let Some(path) = &call.key_file {
            command.arg("--api-key-file").arg(path);
        }
        if let Some(version) = call.version {
            command.args(["--anthropic-version", version]);
        }
        for header in &call.headers {
            command.args(["--header", header]);
        }
        command
    }

    fn openssl(&self, place: &Place, call: &Call) -> anyhow::Result<(Command, Option<String>)> {
        let mut command = place.command(Path::new("openssl"));
        command
            .args(["s_client", "-quiet", "-verify_return_error"])
            .args(["-verify_hostname", self.name, "-servername", self.name])
            // One group, so that the hello is one segment whatever OpenSSL this is.
            .args(["-groups", "X25519", "-alpn", &call.alpn()])
            .args(["-connect", &call.to.to_string(), "-CAfile"])
            .arg(&self.ca);
        let request = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n{}\r\n{}",
            self.name,
            call.body.len(),
            call.request_headers()?.replace('\n', "\r\n"),
            call.body,
        );
        Ok((command, Some(request)))
    }

    fn python(&self, place: &Place, call: &Call) -> anyhow::Result<Command> {
        let headers = self.write_headers(call)?;
        let mut command = place.command(Path::new("python3"));
        command
            .arg(&self.script)
            .arg(call.to.ip().to_string())
            .arg(call.to.port().to_string())
            .arg(self.name)
            .arg(&self.ca)
            .arg(call.alpn())
            .arg(headers)
            .arg(&call.body);
        Ok(command)
    }

    fn curl(&self, place: &Place, call: &Call) -> anyhow::Result<Command> {
        let (ip, port) = (call.to.ip(), call.to.port());
        let ip = if ip.is_ipv6() {
            format!("[{ip}]")
        } else {
            ip.to_string()
        };
        let mut command = place.command(Path::new("curl"));
        command
            .args([
                "--silent",
                "--show-error",
                "--no-buffer",
                "--include",
                "--noproxy",
                "*",
            ])
            .arg(if call.h2 { "--http2" } else { "--http1.1" })
            .args(["--curves", "X25519", "--data", &call.body, "--cacert"])
            .arg(&self.ca)
            .args(["--resolve", &format!("{}:{port}:{ip}", self.name)])
            .args(["--header", "content-type: application/json"])
            .arg("--header")
            .arg(format!("@{}", self.write_headers(call)?.display()))
            .arg(format!("https://{}:{port}/v1/messages", self.name));
        Ok(command)
    }

    fn write_headers(&self, call: &Call) -> anyhow::Result<PathBuf> {
        let path = self.directory.join("request-headers");
        std::fs::write(&path, call.request_headers()?)
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// Of a program that knows nothing of keys and tokens, as SDKs with a base URL are.
fn plain_curl(place: &Place, call: &Call) -> Command {
    let mut command = place.command(Path::new("curl"));
    command
        .args(["--silent", "--show-error", "--no-buffer", "--include"])
        .args(["--noproxy", "*"])
        .arg(match call.h2 {
            true => "--http2-prior-knowledge",
            false => "--http1.1",
        })
        .args(["--header", "content-type: application/json"]);
    if let Some(version) = call.version {
        command.args(["--header", &format!("anthropic-version: {version}")]);
    }
    for header in &call.headers {
        command.args(["--header", header]);
    }
    command
        .args(["--data", &call.body])
        .arg(format!("http://{}/v1/messages", call.to));
    command
}

/// Brings a client's whole output into one shape.
///
/// # Errors
/// When our own clients print something else than their JSON.
pub(super) fn report(client: Client, out: &str, err: &str) -> anyhow::Result<Report> {
    match client {
        Client::Rustls => rustls_report(out, err),
        Client::OpenSsl => Ok(openssl_report(out, err)),
        Client::Python => python_report(out, err),
        Client::Curl | Client::Connect => Ok(curl_report(out, err)),
    }
}

fn rustls_report(out: &str, err: &str) -> anyhow::Result<Report> {
    for line in out.lines() {
        if let Ok(Milestone::Done(report)) = serde_json::from_str(line) {
            return Ok(report);
        }
    }
    anyhow::bail!("edge-demo client gave no report: {}", err.trim())
}

fn openssl_report(out: &str, err: &str) -> Report {
    // 40C7…:error:0A000419:SSL routines:ssl3_read_bytes:tlsv1 alert access denied:FILE:LINE:NOTE
    let alert = err.lines().find_map(|line| {
        let mut parts = line.split(":error:").nth(1)?.split(':');
        let what = parts.nth(3)?;
        Some(match parts.nth(2) {
            Some(note) if !note.is_empty() => format!("{what} ({note})"),
            _ => what.to_owned(),
        })
    });
    if out.is_empty() {
        let last = || {
            err.lines()
                .last()
                .unwrap_or("closed without a word")
                .to_owned()
        };
        return Report {
            error: Some(alert.unwrap_or_else(last)),
            ..Report::default()
        };
    }
    Report {
        answers: vec![http1_answer(out)],
        ..Report::default()
    }
}

fn python_report(out: &str, err: &str) -> anyhow::Result<Report> {
    #[derive(serde::Deserialize)]
    struct Said {
        error: Option<String>,
        protocol: Option<String>,
        answer: String,
    }
    let said: Said = serde_json::from_str(out)
        .with_context(|| format!("the Python client gave no report: {}", err.trim()))?;
    let answers = match said.answer.is_empty() {
        true => Vec::new(),
        false => vec![http1_answer(&said.answer)],
    };
    Ok(Report {
        error: said.error,
        protocol: said.protocol,
        answers,
        ..Report::default()
    })
}

fn curl_report(out: &str, err: &str) -> Report {
    let error = err.lines().find(|line| line.starts_with("curl: "));
    if out.is_empty() {
        return Report {
            error: Some(error.unwrap_or("no output").to_owned()),
            ..Report::default()
        };
    }
    let mut answer = http1_answer(out);
    answer.failure = error.map(str::to_owned);
    Report {
        answers: vec![answer],
        ..Report::default()
    }
}

/// A response as it stood on the wire, or as curl prints it (then also of HTTP/2, and with
/// the chunks already joined).
fn http1_answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok());
    let chunked = head.lines().any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("transfer-encoding") && value.trim() == "chunked"
        })
    });
    let joined = if chunked { join_chunks(body) } else { None };
    let failure = (status.is_none()).then(|| "no HTTP answer".to_owned());
    Answer {
        failure,
        ..Answer::from_parts(status, joined.as_deref().unwrap_or(body))
    }
}

/// RFC 9112 section 7.1; `None` when it is not in that form (curl has joined it already).
fn join_chunks(mut rest: &str) -> Option<String> {
    let mut joined = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(joined);
        }
        joined += after.get(..size)?;
        rest = after.get(size..)?.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_says_which_alert() {
        let err = "40C7:error:0A000419:SSL routines:ssl3_read_bytes:tlsv1 alert access denied:\
                   ../ssl/record/rec_layer_s3.c:1600:SSL alert number 49\n";
        let report = openssl_report("", err);
        assert_eq!(
            report.error.as_deref(),
            Some("tlsv1 alert access denied (SSL alert number 49)")
        );
    }

    #[test]
    fn a_chunked_stream_is_joined_before_it_is_read() {
        let wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    1c\r\nevent: message_start\ndata: \r\n4\r\n{}\n\n\r\n\
                    1e\r\nevent: message_stop\ndata: {}\n\n\n\r\n0\r\n\r\n";
        let answer = http1_answer(wire);
        assert_eq!(answer.events, ["message_start", "message_stop"]);
        assert!(answer.is_whole_stream());
    }

    #[test]
    fn curl_output_needs_no_joining() {
        let report = curl_report(
            "HTTP/2 401 \r\ncontent-type: application/json\r\n\r\n{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"no\"}}",
            "",
        );
        assert_eq!(report.answers[0].status, Some(401));
        assert_eq!(
            report.answers[0].error_type.as_deref(),
            Some("authentication_error")
        );
    }
}
