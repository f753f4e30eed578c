//! What `edge status` says of upstreams.

use crate::cli::output::many;
use crate::config::values::show_duration;
use serde_json::Value;
use std::time::Duration;

/// Lines by name; one without a name goes on with the one before.
pub(super) fn lines(status: &Value) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for upstream in status["upstreams"].as_array().into_iter().flatten() {
        lines.push(("upstream", line(upstream)));
        if let Some(error) = upstream["last_error"].as_str() {
            lines.push(("", format!("CANNOT CONNECT: {error}")));
        }
    }
    lines
}

fn line(upstream: &Value) -> String {
    let number = |name: &str| upstream[name].as_u64().unwrap_or(0);
    let state = match number("ejected_for_ms") {
        ms if ms > 0 => format!(
            "EJECTED for {}",
            show_duration(Duration::from_secs(ms.div_ceil(1000)))
        ),
        _ if upstream["state"] == "ejected" => "EJECTED, the next request tries it".to_owned(),
        _ => upstream["state"].as_str().unwrap_or("?").to_owned(),
    };
    let given: u64 = picks(upstream).map(|(_, count)| count).sum();
    let for_cache: u64 = picks(upstream)
        .filter(|(why, _)| *why == "affinity")
        .map(|(_, count)| count)
        .sum();
    format!(
        "{} {}: {state}; given {}, {for_cache} of them for a cache there, {} not sent for want of a connection; {} running with {}, {} of which wait; {} were failed; {} made, {} not",
        upstream["name"].as_str().unwrap_or("?"),
        upstream["url"].as_str().unwrap_or("?"),
        many(given, "request"),
        number("unsent"),
        number("requests"),
        many(number("tokens"), "token"),
        number("waiting_tokens"),
        number("failed"),
        many(number("connects"), "connection"),
        number("connect_failures"),
    )
}

/// How many requests an upstream was given, by why.
fn picks(upstream: &Value) -> impl Iterator<Item = (&str, u64)> {
    let pairs = upstream["picks"].as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_u64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_given_is_told_apart_from_what_was_sent() {
        let status = json!({ "upstreams": [{
            "name": "main", "url": "http://127.0.0.1:8081", "state": "ejected",
            "ejected_for_ms": 1500, "requests": 0, "tokens": 1, "waiting_tokens": 0,
            "connects": 1, "connect_failures": 4, "last_error": "refused", "failed": 2,
            "unsent": 4, "picks": [["affinity", 2], ["balanced", 3]],
        }]});
        let expected = [
            (
                "upstream",
                "main http://127.0.0.1:8081: EJECTED for 2s; given 5 requests, 2 of them for a cache there, 4 not sent for want of a connection; 0 running with 1 token, 0 of which wait; 2 were failed; 1 connection made, 4 not".to_owned(),
            ),
            ("", "CANNOT CONNECT: refused".to_owned()),
        ];
        assert_eq!(lines(&status), expected);
    }
}
