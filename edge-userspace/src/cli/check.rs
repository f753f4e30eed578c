//! `edge check`.

mod upstreams;

use super::output::{Failure, Outcome, many, print, print_json};
use crate::charges;
use crate::config::{self, Attach};
use crate::keys::Keyring;
use crate::keys::store::{self, follow::Follower};
use crate::prompt::calibration;
use edge_common::policy::Answer;
use serde_json::json;
use std::path::PathBuf;

/// Check a configuration and say what it means.
///
/// Every fault is told with file, line, column, field and cure. Files that the configuration
/// names are opened: certificate and key are matched, the key store is read as `edge run` reads
/// it. Warnings go to standard error and fail nothing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge check --config /etc/edge/edge.toml
  edge check --config edge.toml --json | jq .faults")]
pub(super) struct Check {
    /// The configuration.
    #[arg(long, env = "EDGE_CONFIG", value_name = "FILE")]
    config: PathBuf,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> Outcome {
        match config::load(&self.config) {
            Ok(config) => match Keys::read(&config) {
                Ok(keys) => self.good(&config, &keys),
                Err(error) if self.json => {
                    let fault = json!({
                        "file": self.config,
                        "field": "keys.store",
                        "what": error.to_string(),
                    });
                    print_json(&json!({ "good": false, "faults": [fault] }))?;
                    Err(Failure::Told)
                }
                Err(error) => {
                    eprintln!("{}: keys.store: {error}", self.config.display());
                    Err(Failure::Told)
                }
            },
            Err(error) if self.json => {
                let faults: Vec<_> = match &error {
                    config::Error::Unreadable { .. } => vec![json!({ "what": error.to_string() })],
                    config::Error::Wrong { problems, .. } => (problems.iter())
                        .map(|problem| {
                            json!({
                                "file": self.config,
                                "line": problem.line,
                                "column": problem.column,
                                "field": problem.field,
                                "what": problem.what,
                                "cure": problem.cure,
                            })
                        })
                        .collect(),
                };
                print_json(&json!({ "good": false, "faults": faults }))?;
                Err(Failure::Told)
            }
            Err(error) => {
                // As compilers do: each line begins with its place.
                eprintln!("{error}");
                Err(Failure::Told)
            }
        }
    }
}

impl Check {
    fn good(&self, config: &config::Config, keys: &Keys) -> Outcome {
        let mut warnings = keys.warnings(config);
        warnings.extend(trusting_anyone(config));
        warnings.extend(learning_anew(config));
        warnings.extend(little_room(config));
        warnings.extend(upstreams::sharing_a_credential(config));
        let means = explain(config, keys);
        if self.json {
            return print_json(&json!({
                "good": true,
                "means": means,
                "keys": { "keys": keys.all, "for_audience": keys.for_audience },
                "warnings": warnings,
                "faults": [],
            }));
        }
        let lines = means.join("\n  ");
        print(format_args!(
            "{} is good:\n  {lines}\n",
            self.config.display()
        ))?;
        for warning in warnings {
            eprintln!("warning: {}: {warning}", self.config.display());
        }
        Ok(())
    }
}

/// The largest keys.capacity.
const MOST_KEYS: u32 = 16_777_216;

/// What the key store holds.
struct Keys {
    all: usize,
    for_audience: usize,
    /// The highest hard rate of a key, connections a second; none when one has no limit.
    fastest: Option<u32>,
}

impl Keys {
    /// Reads the store as the daemon does, with room for all that a capacity may be.
    fn read(config: &config::Config) -> Result<Self, store::Error> {
        let keyring = Keyring::new(MOST_KEYS);
        Follower::new(&config.keys.store, &config.keys.audience).follow(&keyring)?;
        let table = keyring.snapshot();
        let every = config.keys.connections_per_second_hard;
        let rates =
            table.iter().map(
                |key| match key.rates.connections_per_second_hard.unwrap_or(every) {
                    0 => u32::MAX,
                    rate => rate,
                },
            );
        Ok(Self {
            fastest: rates.max().filter(|rate| *rate < u32::MAX),
            all: table.len(),
            for_audience: table.for_audience(),
        })
    }

    /// One key should not be able to fill much of the table of used tokens.
    fn replay_warning(&self, config: &config::Config) -> Option<String> {
        if self.all == 0 {
            return None;
        }
        let capacity = config.keys.replay_capacity;
        let window = &config.keys.window;
        let window_s = u64::from(window.back_s) + u64::from(window.ahead_s);
        let Some(fastest) = self.fastest else {
            return Some(format!(
                "keys.connections_per_second_hard: a key has no limit, so its tokens alone can fill the {capacity} places of keys.replay_capacity; others' tokens then go to the legacy lane"
            ));
        };
        let tokens = u64::from(fastest) * window_s;
        (tokens > u64::from(capacity) / 4).then(|| format!(
            "keys.replay_capacity: one key at its hard rate of {fastest} a second has {tokens} live tokens within {window_s} s, more than a quarter of {capacity}; raise it to {}",
            tokens * 4,
        ))
    }

    fn warnings(&self, config: &config::Config) -> Vec<String> {
        let (store, audience) = (config.keys.store.display(), &config.keys.audience);
        let capacity = config.keys.capacity as usize;
        let mut warnings = vec![];
        if self.all == 0 {
            warnings.push(format!(
                "keys.store: {store} has no keys, so nobody can connect; make one: edge keys new --store {store} --name NAME --audience {audience}"
            ));
        } else if self.for_audience == 0 {
            warnings.push(format!(
                "keys.audience: no key of {store} is for the audience {audience:?}, so nobody can connect; edge keys list --store {store} shows their audiences, and a holder adds one by edge keys derive"
            ));
        }
        warnings.extend(self.replay_warning(config));
        if self.all > capacity {
            warnings.push(format!(
                "keys.capacity: the store has {} and the capacity is {capacity}, so {} are refused; raise it, or remove keys that are no longer needed with edge keys remove",
                many(self.all, "key"),
                self.all - capacity,
            ));
        }
        warnings
    }
}

/// A file of what was learnt that is damaged.
fn learning_anew(config: &config::Config) -> Option<String> {
    let path = config.prompt.calibration_file.as_ref()?;
    let error = calibration::file::read(path).err()?;
    Some(format!(
        "prompt.calibration_file: {error}; the daemon learns anew and keeps what the file holds as {}.damaged; if it is not the daemon's file, name another",
        path.display()
    ))
}

/// Room in which a body that is allowed does not fit.
fn little_room(config: &config::Config) -> Option<String> {
    let (room, body) = (config.prompt.max_held_bytes, config.api.max_body_bytes);
    (room < body).then(|| format!(
        "prompt.max_held_bytes: {room} bytes of room take no body as large as api.max_body_bytes allows, {body}; such a one is a 413: raise it to {body} or more, or lower api.max_body_bytes"
    ))
}

fn trusting_anyone(config: &config::Config) -> Option<String> {
    let mut trusted = config.listen.proxy_protocol.trusted.iter();
    let all = trusted.find(|network| network.prefix_len() == 0)?;
    Some(format!(
        "listen.proxy_protocol.trusted: {all} lets anyone say whose connection it is; name the balancers' networks"
    ))
}

/// Whose PROXY headers are believed, and where.
fn proxy_protocol(config: &config::Config) -> Option<String> {
    let proxy_protocol = &config.listen.proxy_protocol;
    if proxy_protocol.addresses.is_empty() {
        return None;
    }
    Some(format!(
        "on {} a connection must begin with a PROXY header, and come from {}",
        listed(&proxy_protocol.addresses),
        listed(&proxy_protocol.trusted),
    ))
}

/// Each rule in order, and what holds for the rest.
fn client_rules(config: &config::Config) -> Vec<String> {
    let rules = &config.clients.rules;
    if rules.is_empty() {
        return Vec::new();
    }
    let mut lines =
        vec!["clients by their JA4 fingerprint, the first rule that matches:".to_owned()];
    lines.extend(rules.iter().map(|rule| format!("  {rule}")));
    lines.push("  any other is allowed as its token says".to_owned());
    lines
}

/// What is remembered of conversations.
fn contexts(context: &config::Context) -> String {
    if !context.enabled {
        return "contexts are not remembered: every turn may go to any upstream".to_owned();
    }
    let hints = match context.hints {
        true => format!("{} beginnings of answers", context.hint_entries),
        false => "no beginnings of answers".to_owned(),
    };
    format!(
        "contexts: {} are remembered at a time, {} per mille of them of one key; {hints}; a key warms up {} a minute",
        context.table_bytes / 64,
        context.tenant_share_per_mille,
        context.preheats_per_minute,
    )
}

/// How prompts are counted, the first rule that matches, and how long they may be.
fn prompts(config: &config::Config) -> Vec<String> {
    let prompt = &config.prompt;
    let longest = match prompt.max_tokens {
        0 => "of any length".to_owned(),
        tokens => format!("up to {}", many(tokens, "token")),
    };
    let kept = match &prompt.calibration_file {
        Some(path) => format!("kept in {}", path.display()),
        None => "forgotten at a stop".to_owned(),
    };
    let mut lines = vec![format!(
        "prompts {longest}; {} MiB of bodies are held at a time; what is learnt of up to {} is {kept}; tokens by model, the first that matches:",
        prompt.max_held_bytes >> 20,
        many(prompt.calibrated_models, "model"),
    )];
    lines.extend(prompt.models.iter().map(|model| format!("  {model}")));
    lines
}

fn listed<T: ToString>(items: &[T]) -> String {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

/// What a configuration means, in a few lines.
fn explain(config: &config::Config, keys: &Keys) -> Vec<String> {
    let show = config::values::show_duration;
    let interfaces = match &config.kernel.interfaces[..] {
        [] => "the interfaces of those addresses".to_owned(),
        names => names.join(", "),
    };
    let answer = match config.kernel.answer {
        Answer::Alert => "a TLS alert",
        Answer::Rst => "a TCP reset",
        Answer::Drop => "silence",
    };
    let kernel = match config.kernel.attach {
        Attach::Auto => format!(
            "XDP on {interfaces}: driver mode, else generic mode, else userspace alone; refused hellos get {answer}"
        ),
        Attach::Driver => {
            format!("XDP on {interfaces} in driver mode or not at all; refused hellos get {answer}")
        }
        Attach::Generic => {
            format!(
                "XDP on {interfaces} in generic mode or not at all; refused hellos get {answer}"
            )
        }
        Attach::Off => "no XDP: userspace decides everything".to_owned(),
    };
    let mut lines = vec![
        format!(
            "listens on {} with {}, at most {}",
            listed(&config.listen.addresses),
            many(config.listen.threads.get(), "thread"),
            many(config.listen.max_connections, "connection"),
        ),
        format!(
            "{}, {} of them for audience {:?}, capacity {}, from {}; tokens from {} s ago to {} s ahead",
            many(keys.all, "key"),
            keys.for_audience,
            config.keys.audience,
            config.keys.capacity,
            config.keys.store.display(),
            config.keys.window.back_s,
            config.keys.window.ahead_s,
        ),
        format!(
            "connections a second: {} of a key, refused from {}; at least {} and {} are remembered, {} MiB",
            rate(config.keys.connections_per_second),
            rate(config.keys.connections_per_second_hard),
            many(config.keys.replay_capacity, "used token"),
            many(config.legacy.prefix_capacity, "prefix"),
            charges::Sizes::of(config).bytes().div_ceil(1 << 20),
        ),
        format!("kernel: {kernel}"),
        format!(
            "clients without a token {}",
            if config.legacy.deny {
                "are refused in their hello".to_owned()
            } else {
                format!(
                    "are asked for a key in a header; connections a second of a source prefix: {}, {} at once",
                    rate(config.legacy.connections_per_second),
                    config.legacy.burst,
                )
            },
        ),
        format!(
            "metrics and status on http://{}; a stop waits up to {} for running streams",
            config.admin.address,
            show(config.listen.drain_timeout),
        ),
    ];
    lines.extend(upstreams::upstreams(config));
    lines.extend(proxy_protocol(config));
    lines.extend(client_rules(config));
    lines.extend(prompts(config));
    lines.push(contexts(&config.context));
    lines.push(quotas(&config.quotas));
    lines.extend(certificate(config));
    lines
}

fn rate(per_second: u32) -> String {
    match per_second {
        0 => "any number".to_owned(),
        some => some.to_string(),
    }
}

/// What keys may use, and whether that is known after a restart.
fn quotas(config: &config::Quotas) -> String {
    let limits = &config.limits;
    let said: Vec<_> = [
        ("requests a minute", limits.requests_per_minute),
        ("input tokens a minute", limits.input_tokens_per_minute),
        ("output tokens a minute", limits.output_tokens_per_minute),
        ("requests at a time", limits.concurrent_requests),
        ("tokens a day", limits.tokens_per_day),
    ]
    .into_iter()
    .filter_map(|(what, limit)| {
        let limit = limit.filter(|limit| *limit > 0)?;
        Some(format!("{limit} {what}"))
    })
    .collect();
    let said = match &said[..] {
        [] => "no limits".to_owned(),
        said => said.join(", "),
    };
    let kept = match &config.usage_file {
        Some(file) => format!("what is used is kept in {}", file.display()),
        None => {
            "what is used is forgotten with a stop: name quotas.usage_file to keep it".to_owned()
        }
    };
    format!("quotas of keys without their own: {said}; {kept}")
}

/// When the certificate ends, and whether it has.
fn certificate(config: &config::Config) -> Option<String> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let tls = &config.tls;
    let identity = config::Identity::read(&tls.certificate, &tls.private_key, &provider).ok()?;
    let at_s = u64::try_from(identity.not_after_s).unwrap_or(0);
    let has = if at_s < super::moment::now_s() {
        "HAS ENDED"
    } else {
        "ends"
    };
    Some(format!(
        "certificate {} {has} {}",
        tls.certificate.display(),
        super::moment::show(at_s),
    ))
}
