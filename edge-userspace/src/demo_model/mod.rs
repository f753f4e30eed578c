//! An upstream shaped like the Messages API, with set delays and deterministic text: for
//! the demonstration, for tests and for benches. No model is behind it.
//!
//! What it answers is decided by the request alone:
//!
//! | request | what it does |
//! |---|---|
//! | `max_tokens` in the body | that many tokens, at most [`MAX_TOKENS`] |
//! | `x-demo-tokens: N` | exactly that many instead |
//! | `x-demo-begin: TEXT` | begins its text with that |
//! | `x-demo-first-token-ms: N` | waits that long before the first byte |
//! | `x-demo-inter-token-ms: N` | waits that long before each further token |
//! | `x-demo-chunk-bytes: N` | writes an event stream in chunks of that size, whatever they split |
//! | `x-demo-blocks: …` | answers with these blocks, out of `thinking,text,tool`; else a thought where thinking is enabled, a text, and a call where `tool_choice` demands one that no `tool_result` has answered |
//! | `x-demo-usage: …` | says its usage so: `null`, `absent`, `strings`, `huge`, `twice`, `cumulative`, `cache`, `cache-null` |
//! | `x-demo-headers: JSON` | puts the headers of that object on the answer |
//! | `x-demo-hash: 1` | says the SHA-256 of the body that it received in `x-demo-body-sha256` |
//! | `x-demo-echo: 1` | answers with what it received: see [`echo`] |
//! | `x-demo-error: …` | fails in that way: see [`Fault`] |
//! | `x-demo-fault-at: N` | at that event, the first being 0, instead of the middle one |
//! | `x-demo-error-times: N` | only for the first N requests of the account |
//! | `x-demo-account: NAME` | books what came of it in that account |
//!
//! `GET /health` says that it is well, and `POST /v1/chat/completions/render` which tokens a
//! prompt has, as inference engines do for routers before them; these tokens are numbers that
//! stand for four bytes each. `GET /demo/stats` tells how many requests it has, and when it
//! last noticed that a client had left; `GET /demo/ledger` what was made for each account
//! ([`Ledger`]). It counts prompts and answers by a vocabulary when it is given one
//! ([`Options::vocabulary`]), else one token for every four bytes of the request's body, begun
//! ones included, and one for every piece of an answer. With a simulated KV cache
//! ([`Options::kv_cache_tokens`]) and a rate of reading ([`Options::prefill_tokens_per_ms`]) a
//! prompt whose beginning it has answers sooner.

mod answer;
mod ask;
mod echo;
mod fault;
mod kv_cache;
mod ledger;
mod play;
mod script;
mod server;
mod socket;
mod stats;
mod tokens;

pub use fault::Fault;
pub use ledger::{Account, Ledger, Taken};
pub use server::{DemoModel, Error, run};
pub use stats::Stats;

use crate::tokens::Vocabulary;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Most tokens of one answer.
pub const MAX_TOKENS: u64 = 1_000_000;

/// How the demo model listens, and its pace where a request sets none.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// PEM certificate chain and private key: HTTPS instead of HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// From the request's end to the first byte.
    pub first_token: Duration,
    /// Between two tokens.
    pub inter_token: Duration,
    /// Tokens of an answer to a request that sets none.
    pub tokens: u64,
    /// Tokens of prompts that its simulated KV cache holds; 0: it has none.
    pub kv_cache_tokens: u64,
    /// Tokens of prompts that it reads in a millisecond, one prompt after the other, besides
    /// `first_token`; what is cached takes no time. 0: nothing does.
    pub prefill_tokens_per_ms: u64,
    /// By which it counts prompts and answers; none: by the bytes of the ones and the pieces of
    /// the others. Of an answer each block counts for itself.
    pub vocabulary: Option<Vocabulary>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            first_token: Duration::from_millis(20),
            inter_token: Duration::from_millis(5),
            tokens: 64,
            kv_cache_tokens: 0,
            prefill_tokens_per_ms: 0,
            vocabulary: None,
        }
    }
}
