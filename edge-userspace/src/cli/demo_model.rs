//! `edge demo-model`.

use super::moment;
use super::output::{Failure, Outcome};
use crate::demo_model;
use crate::tokens::Vocabulary;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Run an upstream that is shaped like the Messages API, with no model behind it.
///
/// Its text is the same every time, its pace is set. Request headers change what it does
/// (x-demo-tokens, x-demo-first-token-ms, x-demo-inter-token-ms, x-demo-error, …); what it
/// has counted is at /demo/stats. SIGTERM and SIGINT stop it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge demo-model --listen 127.0.0.1:8080
  edge demo-model --listen 127.0.0.1:8443 --certificate model.pem --private-key model.key
  edge demo-model --listen 127.0.0.1:8080 --vocabulary claude-2
  edge demo-model --listen 127.0.0.1:8080 --kv-cache-tokens 1000000 --prefill-tokens-per-ms 10")]
pub(super) struct DemoModel {
    /// Where it listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// PEM certificate chain: HTTPS instead of HTTP.
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// PEM private key of the certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// From a request's end to the answer's first byte.
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = moment::parse_duration)]
    first_token: Duration,
    /// Between two tokens.
    #[arg(long, value_name = "DURATION", default_value = "5ms", value_parser = moment::parse_duration)]
    inter_token: Duration,
    /// Tokens of an answer to a request that says nothing about it.
    #[arg(long, default_value_t = 64)]
    tokens: u64,
    /// Simulate a KV cache of that many tokens: the usage of answers says what was cached.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    kv_cache_tokens: u64,
    /// How many tokens of prompts it reads in a millisecond, one prompt after the other; what
    /// is cached takes no time. 0: reading takes none.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    prefill_tokens_per_ms: u64,
    /// Count prompts by this vocabulary; without one, a token for every four bytes.
    #[arg(long, value_name = "NAME", value_parser = Vocabulary::EMBEDDED)]
    vocabulary: Option<String>,
}

impl DemoModel {
    pub(super) fn run(self) -> Outcome {
        let options = demo_model::Options {
            listen: self.listen,
            tls: self.certificate.zip(self.private_key),
            first_token: self.first_token,
            inter_token: self.inter_token,
            tokens: self.tokens,
            kv_cache_tokens: self.kv_cache_tokens,
            prefill_tokens_per_ms: self.prefill_tokens_per_ms,
            vocabulary: self.vocabulary.as_deref().and_then(Vocabulary::embedded),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let stop = CancellationToken::new();
            let mut terminated = signal(SignalKind::terminate())?;
            let mut interrupted = signal(SignalKind::interrupt())?;
            let stopper = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    _ = terminated.recv() => {}
                    _ = interrupted.recv() => {}
                }
                stopper.cancel();
            });
            let listening = |address| eprintln!("the demo model listens on {address}");
            Ok::<_, Failure>(demo_model::run(options, stop, listening).await?)
        })
    }
}
