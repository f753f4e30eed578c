//! `edge keys`.

mod change;
mod derive;
mod limit;
mod list;
mod new;

use super::moment;
use super::output::{Failure, Outcome};
use crate::keys::derive as derivation;
use crate::keys::store::line::{MAX_RATE, StoredKey, check_name, check_new_audience, parse_models};
use crate::keys::{Allowance, Quotas, Rates};
use crate::secret::{self, ApiKey};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Manage the key store: who may connect.
///
/// The store holds no API key, only what checks one. A running daemon follows its changes
/// within a second.
#[derive(Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    New(new::New),
    Derive(derive::Derive),
    Import(derive::Import),
    List(list::List),
    Limit(limit::Limit),
    Revoke(change::Revoke),
    Remove(change::Remove),
    Compact(change::Compact),
}

impl Keys {
    pub(super) fn run(self) -> Outcome {
        match self.command {
            Command::New(new) => new.run(),
            Command::Derive(derive) => derive.run(),
            Command::Import(import) => import.run(),
            Command::List(list) => list.run(),
            Command::Limit(limit) => limit.run(),
            Command::Revoke(revoke) => revoke.run(),
            Command::Remove(remove) => remove.run(),
            Command::Compact(compact) => compact.run(),
        }
    }
}

/// Which store.
#[derive(Args)]
struct Store {
    /// The key store.
    #[arg(long, env = "EDGE_STORE", value_name = "FILE")]
    store: PathBuf,
}

/// Reads a file that should hold an API key; warns of one that looks like something else.
///
/// # Errors
/// When the file cannot be read or holds nothing.
pub(super) fn read_api_key(path: &Path) -> Result<ApiKey, Failure> {
    let key = ApiKey::read(path).map_err(|error| match error {
        secret::Error::Read { path, source } => {
            Failure::because(format!("{path}: cannot read the API key: {source}"))
        }
        secret::Error::Empty { path } => {
            Failure::because(format!("{path}: holds no API key, only white space"))
        }
        error => error.into(),
    })?;
    if !key.expose().starts_with(ApiKey::PREFIX.as_bytes()) {
        eprintln!(
            "warning: {}: what is in it does not begin with {}, as keys of `edge keys new` do; it is taken as a key all the same",
            path.display(),
            ApiKey::PREFIX,
        );
    }
    Ok(key)
}

/// What a new entry says besides the key.
#[derive(Args)]
struct Terms {
    /// An audience (an edge's keys.audience) at which tokens of the key are good. May be
    /// given several times; an edge cannot derive another audience's key later.
    #[arg(long = "audience", required = true, value_name = "AUDIENCE")]
    audiences: Vec<String>,
    /// First good moment: Unix seconds, now, 2026-12-31 or RFC 3339.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    not_before: Option<u64>,
    /// Last good moment.
    #[arg(long, value_name = "TIME", value_parser = moment::parse, conflicts_with = "valid_for")]
    not_after: Option<u64>,
    /// How long it is good, from --not-before or now: 30d, 12h.
    #[arg(long, value_name = "DURATION", value_parser = moment::parse_duration)]
    valid_for: Option<Duration>,
    /// The token alone is enough, no header key is asked for. A token can be seen on the wire:
    /// for closed networks only.
    #[arg(long)]
    alpn_only: bool,
    #[command(flatten)]
    rates: RateTerms,
    /// Most tokens of one prompt; a longer one gets a 400. 0 for no limit of its own. Default:
    /// prompt.max_tokens of the edge, which holds in any case.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_PROMPT_TOKENS))]
    max_prompt_tokens: Option<u64>,
    #[command(flatten)]
    quotas: QuotaTerms,
    /// A model that the key may use, or its beginning and *. May be given several times;
    /// default: all models.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
}

/// How much a key may use, of which the configuration has those of all other keys.
#[derive(Args)]
struct QuotaTerms {
    /// Requests a minute; 0 for no limit. Default: quotas.requests_per_minute of the edge, and
    /// so on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=Quotas::MOST))]
    requests_per_minute: Option<u64>,
    /// Tokens of prompts a minute.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=Quotas::MOST))]
    input_tokens_per_minute: Option<u64>,
    /// Tokens of answers a minute.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=Quotas::MOST))]
    output_tokens_per_minute: Option<u64>,
    /// Requests that run at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=Quotas::MOST))]
    concurrent_requests: Option<u64>,
    /// Tokens of prompts and answers a UTC day; a running stream that passes it is cut.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=Quotas::MOST))]
    tokens_per_day: Option<u64>,
}

impl From<&QuotaTerms> for Quotas {
    fn from(terms: &QuotaTerms) -> Self {
        Self {
            requests_per_minute: terms.requests_per_minute,
            input_tokens_per_minute: terms.input_tokens_per_minute,
            output_tokens_per_minute: terms.output_tokens_per_minute,
            concurrent_requests: terms.concurrent_requests,
            tokens_per_day: terms.tokens_per_day,
        }
    }
}

/// The longest prompt that a key can be allowed.
const MAX_PROMPT_TOKENS: u64 = 1_000_000_000;

/// A key's own rates, of which the configuration has those of all other keys.
#[derive(Args)]
struct RateTerms {
    /// Connections a second beyond which requests get a 429; 0 for no limit. Default:
    /// keys.connections_per_second of the edge.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_RATE)))]
    connections_per_second: Option<u32>,
    /// Connections a second beyond which they are refused; 0 for no limit. Default:
    /// keys.connections_per_second_hard of the edge.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_RATE)))]
    connections_per_second_hard: Option<u32>,
}

impl From<&RateTerms> for Rates {
    fn from(terms: &RateTerms) -> Self {
        Self {
            connections_per_second: terms.connections_per_second,
            connections_per_second_hard: terms.connections_per_second_hard,
        }
    }
}

impl Terms {
    fn entry(&self, key: &ApiKey, name: &str) -> Result<StoredKey, Failure> {
        let wrong = |what: &str| Failure::because(what);
        check_name(name).map_err(|what| Failure::because(format!("--name {what}")))?;
        for (i, audience) in self.audiences.iter().enumerate() {
            check_new_audience(audience)
                .map_err(|what| Failure::because(format!("--audience: {what}")))?;
            if self.audiences[..i].contains(audience) {
                return Err(wrong("--audience: the same one is given twice"));
            }
        }
        let now_s = moment::now_s();
        let not_before_s = self.not_before.unwrap_or(0);
        let not_after_s = match (self.not_after, self.valid_for) {
            (Some(at_s), _) => at_s,
            (None, Some(duration)) => {
                (self.not_before.unwrap_or(now_s)).saturating_add(duration.as_secs())
            }
            (None, None) => u64::MAX,
        };
        if not_after_s < now_s {
            return Err(Failure::because(format!(
                "--not-after: {} is over already, so the key would never be good; give a later moment, or --valid-for 30d",
                moment::show(not_after_s),
            )));
        }
        if not_after_s < not_before_s.max(1) {
            return Err(wrong("the key would end before it begins"));
        }
        Ok(StoredKey {
            id: derivation::key_id(key),
            name: name.into(),
            key_hash: derivation::key_hash(key),
            mac_keys: (self.audiences.iter())
                .map(|audience| (audience.as_str().into(), derivation::mac_key(key, audience)))
                .collect(),
            not_before_s,
            not_after_s,
            alpn_only: self.alpn_only,
            rates: Rates::from(&self.rates),
            max_prompt_tokens: self.max_prompt_tokens,
            allowance: Allowance {
                quotas: Quotas::from(&self.quotas),
                models: parse_models(&self.models)
                    .map_err(|what| Failure::because(format!("--model: {what}")))?,
            }
            .boxed(),
            created_at_s: now_s,
            revoked_at_s: None,
        })
    }
}

/// An entry for people and programs, without anything secret.
#[derive(serde::Serialize)]
struct Shown {
    key_id: String,
    name: String,
    state: &'static str,
    audiences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after_s: Option<u64>,
    alpn_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections_per_second: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections_per_second_hard: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_prompt_tokens: Option<u64>,
    #[serde(flatten)]
    quotas: ShownQuotas,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
    created_at_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at_s: Option<u64>,
}

/// A key's own quotas by name, those that it has.
struct ShownQuotas(Quotas);

impl serde::Serialize for ShownQuotas {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let quotas = Quotas::NAMES.into_iter().zip(self.0.values());
        serializer.collect_map(quotas.filter(|(_, quota)| quota.is_some()))
    }
}

impl Shown {
    fn new(key: &StoredKey, now_s: u64) -> Self {
        let state = if key.revoked_at_s.is_some() {
            "revoked"
        } else if now_s < key.not_before_s {
            "not yet valid"
        } else if now_s > key.not_after_s {
            "expired"
        } else {
            "good"
        };
        let allowance = Allowance::of(&key.allowance);
        let audiences = key
            .mac_keys
            .iter()
            .map(|(audience, _)| audience.to_string());
        Self {
            key_id: key.id.to_string(),
            name: key.name.to_string(),
            state,
            audiences: audiences.collect(),
            not_before_s: (key.not_before_s != 0).then_some(key.not_before_s),
            not_after_s: (key.not_after_s != u64::MAX).then_some(key.not_after_s),
            alpn_only: key.alpn_only,
            connections_per_second: key.rates.connections_per_second,
            connections_per_second_hard: key.rates.connections_per_second_hard,
            max_prompt_tokens: key.max_prompt_tokens,
            quotas: ShownQuotas(allowance.quotas),
            models: allowance.models.iter().map(ToString::to_string).collect(),
            created_at_s: key.created_at_s,
            revoked_at_s: key.revoked_at_s,
        }
    }
}
