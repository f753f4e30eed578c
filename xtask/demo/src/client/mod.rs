//! `edge-demo client`: one TLS connection by rustls, one or two requests by hyper, and one
//! line of JSON that says what the client's own libraries reported. A process of its own, so
//! that it can be run inside a network namespace and can leave as abruptly as a real client.
//!
//! Not a load generator, and no judge: what was expected is known elsewhere.

mod connect;
mod reader;

use anyhow::Context as _;
use bytes::Bytes;
use connect::Connection;
use edge_demo::{Answer, Milestone, Report, unix_ns};
use http_body_util::Full;
use reader::{Reader, with_sources};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// A hang guard, not a measurement: nothing in the demo takes nearly this long.
const HANG_GUARD: Duration = Duration::from_secs(30);

/// A TLS client of the demo.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Where to connect.
    #[arg(long)]
    to: SocketAddr,
    /// Name to ask for (SNI) and to check the certificate against.
    #[arg(long)]
    name: String,
    /// PEM file of the one authority to trust.
    #[arg(long)]
    ca: PathBuf,
    /// ALPN protocol names, in order.
    #[arg(long, value_delimiter = ',')]
    alpn: Vec<String>,
    /// Offer X25519MLKEM768 first: a hello of two TCP segments. Otherwise X25519 only.
    #[arg(long)]
    post_quantum: bool,
    /// File that holds the API key to send as x-api-key.
    #[arg(long)]
    api_key_file: Option<PathBuf>,
    /// Value of anthropic-version.
    #[arg(long)]
    anthropic_version: Option<String>,
    /// Request body, JSON.
    #[arg(long, default_value = "{}")]
    body: String,
    /// Extra request headers, `name: value`.
    #[arg(long)]
    header: Vec<String>,
    /// What to do.
    #[arg(long, value_enum, default_value_t = Act::Ask)]
    act: Act,
}

/// What the client does on its connection.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// One request, its answer read to the end.
    Ask,
    /// Two requests, one after the other, on the same connection.
    AskTwice,
    /// Leaves, when told on stdin, before the answer's first byte.
    LeaveBeforeFirstByte,
    /// Leaves, when told on stdin, after the answer's first events.
    LeaveMidStream,
    /// Cancels the request, when told on stdin, and keeps the connection open (HTTP/2).
    CancelStream,
    /// Speaks HTTP without TLS.
    NotTls,
}

/// Runs the client.
///
/// # Errors
/// For wrong options and unreadable files only: what the network does is reported, not failed on.
pub(crate) fn main(options: &Options) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(async {
        match tokio::time::timeout(HANG_GUARD, converse(options)).await {
            Ok(report) => report,
            Err(_) => Ok(Report {
                error: Some(format!("nothing within {HANG_GUARD:?}")),
                ..Report::default()
            }),
        }
    })?;
    print(&Milestone::Done(report));
    // Not dropped: that would wait for the thread that reads stdin. The kernel closes the socket
    // as we exit, which is how a client leaves that is killed.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn converse(options: &Options) -> anyhow::Result<Report> {
    let mut report = Report::default();
    if options.act == Act::NotTls {
        match connect::speak_plainly(options.to).await {
            Ok(answer) => report.answers.push(answer),
            Err(error) => report.error = Some(error.to_string()),
        }
        return Ok(report);
    }
    let request = request(options)?;
    let mut connection = match Connection::open(options).await? {
        Ok(connection) => connection,
        Err(error) => {
            report.error = Some(error);
            return Ok(report);
        }
    };
    report.protocol = Some(connection.protocol.clone());
    report.group = connection.group.clone();
    match options.act {
        Act::Ask => report
            .answers
            .push(ask(&mut connection, request, true).await),
        Act::AskTwice => {
            report
                .answers
                .push(ask(&mut connection, request.clone(), false).await);
            report
                .answers
                .push(ask(&mut connection, request, false).await);
        }
        Act::LeaveBeforeFirstByte => {
            let waiting = connection.send(request);
            tokio::pin!(waiting);
            print(&Milestone::Ready);
            tokio::select! {
                head = &mut waiting => report.answers.push(Answer::failed(match head {
                    Ok(head) => format!("answered too early: {}", head.status()),
                    Err(error) => error.to_string(),
                })),
                () = told() => {}
            }
            print(&left());
        }
        Act::LeaveMidStream | Act::CancelStream => {
            match connection.send(request).await {
                Err(error) => report.answers.push(Answer::failed(error.to_string())),
                Ok(response) => {
                    let mut reader = Reader::new(response);
                    reader.read_events(3).await;
                    print(&Milestone::Ready);
                    // Goes on reading, as a client would: only then is the leaving seen.
                    tokio::select! {
                        () = reader.read_to_end() => {}
                        () = told() => {}
                    }
                    report.answers.push(reader.answer());
                    if options.act == Act::CancelStream {
                        drop(reader);
                        print(&left());
                        // Gives hyper the time to send the RST_STREAM, and the server the time
                        // to act on it while the connection is still there.
                        told().await;
                    }
                }
            }
            if options.act == Act::LeaveMidStream {
                print(&left());
            }
        }
        Act::NotTls => unreachable!("handled above"),
    }
    Ok(report)
}

fn request(options: &Options) -> anyhow::Result<http::Request<Full<Bytes>>> {
    let mut request = http::Request::post(format!("https://{}/v1/messages", options.name))
        .header("content-type", "application/json");
    if let Some(path) = &options.api_key_file {
        let key = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut value = http::HeaderValue::from_str(key.trim())?;
        value.set_sensitive(true);
        request = request.header("x-api-key", value);
    }
    if let Some(version) = &options.anthropic_version {
        request = request.header("anthropic-version", version);
    }
    for header in &options.header {
        let (name, value) = header
            .split_once(':')
            .with_context(|| format!("--header {header}: not `name: value`"))?;
        request = request.header(name.trim(), value.trim());
    }
    Ok(request.body(Full::new(Bytes::from(options.body.clone())))?)
}

async fn ask(
    connection: &mut Connection,
    request: http::Request<Full<Bytes>>,
    announce: bool,
) -> Answer {
    match connection.send(request).await {
        Err(error) => Answer::failed(with_sources(&error)),
        Ok(response) => {
            let mut reader = Reader::new(response);
            if announce {
                reader.read_events(3).await;
                print(&Milestone::Ready);
            }
            reader.read_to_end().await;
            reader.answer()
        }
    }
}

fn left() -> Milestone {
    Milestone::Left { unix_ns: unix_ns() }
}

/// Waits for a line on stdin, or its end.
async fn told() {
    let mut line = String::new();
    let _ = BufReader::new(tokio::io::stdin())
        .read_line(&mut line)
        .await;
}

fn print(milestone: &Milestone) {
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(milestone).expect("plain data");
    // Whoever listened may be gone; then nobody misses it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
