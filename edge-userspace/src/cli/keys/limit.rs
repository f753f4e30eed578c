//! `edge keys limit`.

use super::super::output::{Failure, Outcome};
use super::MAX_PROMPT_TOKENS;
use super::change::Many;
use crate::keys::Rates;
use crate::keys::store::line::{MAX_RATE, Record};

/// Change how many connections keys may open, and how long their prompts may be.
///
/// What is not said stays as it is; `default` takes a key's own limit away, so that the
/// configuration's holds. Within a second the daemon and the kernel go by it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second 50
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second-hard 0
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second default
  edge keys limit --store keys.journal 16c90ee8f37ea61f --max-prompt-tokens 200000")]
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
        if soft.is_none() && hard.is_none() && prompt.is_none() {
            return Err(Failure::because(
                "nothing to change: give --connections-per-second, --connections-per-second-hard or --max-prompt-tokens",
            ));
        }
        self.many.change("limited", |search, id| {
            let mut key = search.keys.get(&id)?.clone();
            let rates = Rates {
                connections_per_second: wished(soft, key.rates.connections_per_second),
                connections_per_second_hard: wished(hard, key.rates.connections_per_second_hard),
            };
            let max_prompt_tokens = wished(prompt, key.max_prompt_tokens);
            let differs = rates != key.rates || max_prompt_tokens != key.max_prompt_tokens;
            (key.rates, key.max_prompt_tokens) = (rates, max_prompt_tokens);
            differs.then_some(Record::Put(key))
        })
    }
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
