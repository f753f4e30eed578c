//! Honest clients: at a fixed rate, whatever became of those before, each opens a connection
//! of its own with a fresh token, makes one request over HTTP/2 and reads the answer. One more
//! has its connection since before, and asks as often over that. A request's time begins when
//! it was due, not when the machine came to it. Bounded by its deadline.

use super::hellos;
use super::net::{Net, SERVER};
use super::place::Place;
use super::upstream::ANSWER;
use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

/// A second.
pub(crate) const RATE: u32 = 100;
/// Who has no answer by then counts as turned away.
const PATIENCE: Duration = Duration::from_secs(5);
const BODY: &str =
    r#"{"model":"bench","max_tokens":1,"messages":[{"role":"user","content":"Hi."}]}"#;

/// What became of some.
#[derive(Clone, Debug, Default)]
pub(crate) struct Honest {
    /// Times of those that were answered.
    pub(crate) times: Vec<Duration>,
    /// What the others met with.
    pub(crate) errors: Vec<String>,
    /// Times of the requests over a connection that was there before.
    pub(crate) kept: Vec<Duration>,
}

impl Honest {
    /// Those that were due.
    pub(crate) fn asked(&self) -> usize {
        self.times.len() + self.kept.len() + self.errors.len()
    }

    /// Of 100 that were answered so many were as quick as that, in milliseconds.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        percentile_ms(&self.times, percent)
    }

    /// The same of requests over a connection that was there before.
    pub(crate) fn kept_percentile_ms(&self, percent: usize) -> f64 {
        percentile_ms(&self.kept, percent)
    }
}

fn percentile_ms(times: &[Duration], percent: usize) -> f64 {
    let ms = times.iter().map(|time| time.as_secs_f64() * 1000.0);
    bench::percentile(&ms.collect::<Vec<_>>(), percent)
}

/// Runs them for so long, and until the last has its answer or none.
pub(crate) fn run(net: &Net, place: &Place, time: Duration) -> Honest {
    net.clients.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(run_here(place, time))
    })
}

async fn run_here(place: &Place, time: Duration) -> Honest {
    let config = hellos::config(place);
    let count = (time.as_secs_f64() * f64::from(RATE)) as u32;
    let with_token = || {
        let mut config = config.clone();
        config.alpn_protocols = hellos::protocols(Some(place.token()));
        config
    };
    let key = &place.site.key;
    let mut honest = Honest::default();
    let kept = match in_time(connect(with_token())).await {
        Ok(kept) => kept,
        Err(error) => {
            honest.errors.push(error);
            return honest;
        }
    };
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..count {
        let due = began + Duration::from_secs(1) * number / RATE;
        sleep_until(due).await;
        let (config, key, sender) = (with_token(), key.clone(), kept.0.clone());
        let asked_key = key.clone();
        running.spawn(async move { (true, in_time(ask(sender, asked_key)).await, due.elapsed()) });
        running.spawn(async move {
            let asked = in_time(async {
                let (sender, driver) = connect(config).await?;
                let outcome = ask(sender, key).await;
                driver.abort();
                outcome
            });
            (false, asked.await, due.elapsed())
        });
    }
    while let Some(joined) = running.join_next().await {
        match joined.expect("a client") {
            (true, Ok(()), time) => honest.kept.push(time),
            (false, Ok(()), time) => honest.times.push(time),
            (_, Err(error), _) => honest.errors.push(error),
        }
    }
    kept.1.abort();
    honest
}

async fn in_time<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match timeout(PATIENCE, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err("no answer in time".to_owned()),
    }
}

fn over(step: &'static str) -> impl Fn(h2::Error) -> String {
    move |error| format!("{step}: {error}")
}

/// A connection, from its SYN to where it can be asked, and what drives it.
async fn connect(config: ClientConfig) -> Result<(SendRequest<Bytes>, JoinHandle<()>), String> {
    let at = |step: &'static str| move |error: std::io::Error| format!("{step}: {error}");
    let tcp = TcpStream::connect(SERVER).await.map_err(at("connect"))?;
    tcp.set_nodelay(true).map_err(at("connect"))?;
    let name = ServerName::try_from("edge.test").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let tls = connector
        .connect(name, tcp)
        .await
        .map_err(at("handshake"))?;
    let shaken = h2::client::handshake(tls).await;
    let (sender, connection) = shaken.map_err(over("preface"))?;
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, driver))
}

/// One request, to the last byte of its answer.
async fn ask(sender: SendRequest<Bytes>, key: String) -> Result<(), String> {
    let request = Request::post("https://edge.test/v1/messages")
        .header("x-api-key", key)
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(())
        .expect("a request");
    let mut sender = sender.ready().await.map_err(over("ready"))?;
    let (response, mut body) = sender
        .send_request(request, false)
        .map_err(over("request"))?;
    body.send_data(Bytes::from_static(BODY.as_bytes()), true)
        .map_err(over("body"))?;
    let response = response.await.map_err(over("answer"))?;
    let status = response.status();
    let mut stream = response.into_body();
    let mut bytes = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part.map_err(over("answer's body"))?;
        let _ = stream.flow_control().release_capacity(part.len());
        bytes.extend_from_slice(&part);
    }
    if status != 200 || bytes != ANSWER.as_bytes() {
        let text = String::from_utf8_lossy(&bytes);
        return Err(format!("{status}: {text}"));
    }
    Ok(())
}
