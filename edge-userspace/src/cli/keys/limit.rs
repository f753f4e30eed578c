//! `edge keys limit`.

use super::super::output::{Failure, Outcome};
use super::change::Many;
use crate::keys::Rates;
use crate::keys::store::line::{MAX_RATE, Record};

/// Change how many connections keys may open.
///
/// What is not said stays as it is; `default` takes a key's own rate away, so that the
/// configuration's holds. Within a second the daemon and the kernel go by it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second 50
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second-hard 0
  edge keys limit --store keys.journal 16c90ee8f37ea61f --connections-per-second default")]
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
}

/// What a rate should be from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Own(u32),
    Default,
}

impl Limit {
    pub(super) fn run(self) -> Outcome {
        let (soft, hard) = (
            self.connections_per_second,
            self.connections_per_second_hard,
        );
        if soft.is_none() && hard.is_none() {
            return Err(Failure::because(
                "nothing to change: give --connections-per-second or --connections-per-second-hard",
            ));
        }
        self.many.change("limited", |search, id| {
            let mut key = search.keys.get(&id)?.clone();
            let rates = Rates {
                connections_per_second: wished(soft, key.rates.connections_per_second),
                connections_per_second_hard: wished(hard, key.rates.connections_per_second_hard),
            };
            let differs = rates != key.rates;
            key.rates = rates;
            differs.then_some(Record::Put(key))
        })
    }
}

fn wished(wish: Option<Wish>, present: Option<u32>) -> Option<u32> {
    match wish {
        None => present,
        Some(Wish::Own(rate)) => Some(rate),
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
