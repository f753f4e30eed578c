//! What a configuration says of upstreams.

use super::{listed, many};
use crate::config::{self, Credential, SecretSource, Upstream};

/// Where requests go, and how one of several is chosen.
pub(super) fn upstreams(config: &config::Config) -> Vec<String> {
    let show = config::values::show_duration;
    let credential = |upstream: &Upstream| match &upstream.credential {
        Credential::Pass => "the client's credential is passed on".to_owned(),
        Credential::Replace { header, from } => match from {
            SecretSource::File(path) => format!("{header} is set from {}", path.display()),
            SecretSource::Environment(name) => format!("{header} is set from ${name}"),
        },
    };
    if let [one] = &config.upstreams[..]
        && one.models.is_empty()
    {
        return vec![format!("upstream {}; {}", one.url(), credential(one))];
    }
    let choice = &config.choice;
    let way = if config.context.enabled {
        format!(
            "to where its beginning is cached, and waits there up to {} % of what that saves, else to the less busy of two",
            choice.cache_patience_percent
        )
    } else {
        "to the less busy of two".to_owned()
    };
    let mut lines = vec![format!(
        "upstreams: a request goes {way}; one that {} connects in a row fail to gets none for {} to {}:",
        choice.eject_after,
        show(choice.eject_for),
        show(choice.eject_at_most),
    )];
    lines.extend(config.upstreams.iter().map(|upstream| {
        let models = match &upstream.models[..] {
            [] => "every model".to_owned(),
            models => listed(models),
        };
        format!(
            "  {} {}: {models}; {} a second; {}",
            upstream.name,
            upstream.url(),
            many(upstream.prefill_tokens_per_second, "token"),
            credential(upstream),
        )
    }));
    if (config.upstreams.iter()).all(|upstream| !upstream.models.is_empty()) {
        lines.push("  any other model is a 404".to_owned());
    }
    lines
}

/// One credential that hosts of different names get over TLS: vendors that are not one.
pub(super) fn sharing_a_credential(config: &config::Config) -> Option<String> {
    let own = |upstream: &Upstream| match &upstream.credential {
        Credential::Replace { from, .. } if upstream.tls => Some(format!("{from:?}")),
        _ => None,
    };
    let all = &config.upstreams;
    let (one, other) = all.iter().enumerate().find_map(|(at, one)| {
        let shares = |other: &&Upstream| other.host != one.host && own(other) == own(one);
        own(one)?;
        Some((one, all[at + 1..].iter().find(shares)?))
    })?;
    Some(format!(
        "upstreams: {} and {} are different hosts and both get the same credential; where they are not the same vendor's, write [upstreams.credential] under each",
        one.name, other.name,
    ))
}
