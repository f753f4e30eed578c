//! `edge keys limit`.

use super::super::output::{Failure, Outcome};
use super::change::Many;
use super::list::limits;
use super::{MAX_PROMPT_TOKENS, Shown};
use crate::keys::store::line::{MAX_RATE, Record, parse_models};
use crate::keys::store::writer::Search;
use crate::keys::{Allowance, Quotas, Rates};

/// Change how many connections keys may open, how long their prompts may be, how much they may
/// use and of which models; or show it, when nothing is to be changed.
///
/// What is not said stays as it is; `default` takes a key's own limit away, so that the
/// configuration's holds. Within a second the daemon and the kernel go by it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys limit --store keys.journal alice
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second 50
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second-hard 0
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second default
  edge keys limit --store keys.journal 16c90ee8f37ea61f --max-prompt-tokens 200000
  edge keys limit --store keys.journal alice bob --requests-per-minute 50 --tokens-per-day 5000000
  edge keys limit --store keys.journal 16c90ee8f37ea61f --model 'claude-*' --model gpt-4o
  edge keys limit --store keys.journal 16c90ee8f37ea61f --model default")]
pub(super) struct Limit {
    #[command(flatten)]
    many: Many,
    /// Connections a second beyond which requests get a 429; 0 for no limit, default for the
    /// configuration's.
    #[arg(long, value_name = "N", value_parser = parse)]
    connections_per_second: Option<Wish>,
    /// Connections a second beyond which they are refused; 0 for no limit, default for the
    /// configuration's.
    #[arg(long, value_name = "N", value_parser = parse)]
    connections_per_second_hard: Option<Wish>,
    /// Most tokens of one prompt; 0 for no limit of its own, default for the configuration's.
    #[arg(long, value_name = "N", value_parser = parse_tokens)]
    max_prompt_tokens: Option<Wish<u64>>,
    /// Requests a minute; 0 for no limit, default for the configuration's.
    #[arg(long, value_name = "N", value_parser = parse_quota)]
    requests_per_minute: Option<Wish<u64>>,
    /// Tokens of prompts a minute.
    #[arg(long, value_name = "N", value_parser = parse_quota)]
    input_tokens_per_minute: Option<Wish<u64>>,
    /// Tokens of answers a minute.
    #[arg(long, value_name = "N", value_parser = parse_quota)]
    output_tokens_per_minute: Option<Wish<u64>>,
    /// Requests that run at a time.
    #[arg(long, value_name = "N", value_parser = parse_quota)]
    concurrent_requests: Option<Wish<u64>>,
    /// Tokens of prompts and answers a UTC day; a running stream that passes it is cut.
    #[arg(long, value_name = "N", value_parser = parse_quota)]
    tokens_per_day: Option<Wish<u64>>,
    /// A model that the keys may use, or its beginning and *; those that are given, in several
    /// times of this, replace those there were. default: all models.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
}

/// What a limit should be from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish<T = u32> {
    Own(T),
    Default,
}

impl Limit {
    pub(super) fn run(self) -> Outcome {
        let (soft, hard) = (
            self.connections_per_second,
            self.connections_per_second_hard,
        );
        let prompt = self.max_prompt_tokens;
        let quotas = [
            self.requests_per_minute,
            self.input_tokens_per_minute,
            self.output_tokens_per_minute,
            self.concurrent_requests,
            self.tokens_per_day,
        ];
        let others = prompt.is_none() && quotas.iter().all(Option::is_none);
        if soft.is_none() && hard.is_none() && others && self.models.is_empty() {
            return self.many.show(own);
        }
        let models = match &*self.models {
            [] => None,
            [all] if all == "default" => Some(Wish::Default),
            names => {
                Some(Wish::Own(parse_models(names).map_err(|what| {
                    Failure::because(format!("--model: {what}"))
                })?))
            }
        };
        let change = |search: &Search, id| {
            let mut key = search.keys.get(&id)?.clone();
            let rates = Rates {
                connections_per_second: wished(soft, key.rates.connections_per_second),
                connections_per_second_hard: wished(hard, key.rates.connections_per_second_hard),
            };
            let max_prompt_tokens = wished(prompt, key.max_prompt_tokens);
            let before = key.clone();
            key.rates = rates;
            key.max_prompt_tokens = max_prompt_tokens;
            let mut own = Allowance::of(&key.allowance);
            let present = own.quotas.values();
            own.quotas = Quotas::of(std::array::from_fn(|at| wished(quotas[at], present[at])));
            match &models {
                None => {}
                Some(Wish::Own(models)) => own.models.clone_from(models),
                Some(Wish::Default) => own.models = Box::default(),
            }
            key.allowance = own.boxed();
            (key != before).then_some(Record::Put(key))
        };
        self.many.change("limited", change, Some(own))
    }
}

/// What holds for a key, as far as the store knows.
fn own(key: &Shown) -> String {
    let own = limits(key);
    if own.is_empty() {
        return "by the edge's configuration alone".to_owned();
    }
    format!(
        "{}; for the rest the edge's configuration holds",
        own.join(", ")
    )
}

fn wished<T>(wish: Option<Wish<T>>, present: Option<T>) -> Option<T> {
    match wish {
        None => present,
        Some(Wish::Own(limit)) => Some(limit),
        Some(Wish::Default) => None,
    }
}

fn parse(text: &str) -> Result<Wish, String> {
    if text == "default" {
        return Ok(Wish::Default);
    }
    let rate = text.parse().ok().filter(|rate| *rate <= MAX_RATE);
    rate.map(Wish::Own)
        .ok_or_else(|| format!("a rate is a whole number up to {MAX_RATE}, or default"))
}

fn parse_quota(text: &str) -> Result<Wish<u64>, String> {
    if text == "default" {
        return Ok(Wish::Default);
    }
    let quota = text.parse().ok().filter(|quota| *quota <= Quotas::MOST);
    quota.map(Wish::Own).ok_or_else(|| {
        format!(
            "a limit is a whole number up to {}, or default",
            Quotas::MOST
        )
    })
}

fn parse_tokens(text: &str) -> Result<Wish<u64>, String> {
    if text == "default" {
        return Ok(Wish::Default);
    }
    let tokens = text
        .parse()
        .ok()
        .filter(|tokens| *tokens <= MAX_PROMPT_TOKENS);
    tokens
        .map(Wish::Own)
        .ok_or_else(|| format!("a limit is a whole number up to {MAX_PROMPT_TOKENS}, or default"))
}
