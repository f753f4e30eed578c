//! What `edge status` says of what keys have used.

use crate::cli::moment;
use crate::cli::output::many;
use serde_json::Value;

/// Lines by name; one without a name goes on with the one before.
pub(super) fn lines(status: &Value) -> Vec<(&'static str, String)> {
    let usage = &status["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap_or(0);
    let pairs = |list: &str| -> Vec<(String, u64)> {
        let pairs = usage[list].as_array().into_iter().flatten();
        let pairs =
            pairs.filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_u64()?)));
        pairs.collect()
    };
    let used = pairs("used_tokens");
    let used: Vec<_> = used
        .iter()
        .map(|(kind, tokens)| format!("{tokens} {kind}"))
        .collect();
    let mut lines = vec![(
        "usage",
        format!(
            "{}; tokens used: {}; {} running, which hold back {} input, {} output",
            many(number("accounts"), "key"),
            used.join(", "),
            many(number("running"), "request"),
            number("reserved_input"),
            number("reserved_output"),
        ),
    )];
    let limits = usage["limits"].as_object().into_iter().flatten();
    let limits: Vec<_> = limits
        .filter_map(|(name, limit)| Some((name, limit.as_u64().filter(|limit| *limit > 0)?)))
        .map(|(name, limit)| format!("{limit} {}", name.replace('_', " ")))
        .collect();
    if !limits.is_empty() {
        lines.push(("quotas", limits.join(", ")));
    }
    let refused: Vec<_> = (pairs("refused").into_iter())
        .filter(|(_, count)| *count > 0)
        .map(|(limit, count)| format!("{count} for {}", limit.replace('_', " ")))
        .collect();
    if !refused.is_empty() {
        lines.push(("over quota", refused.join(", ")));
    }
    let mut named = Vec::new();
    for (list, title) in [
        ("most_today", "most today"),
        ("most_refused", "most refused"),
    ] {
        let keys = usage[list].as_array().into_iter().flatten();
        let keys = keys.filter(|key| {
            let is_new = !named.contains(&key["key_id"]);
            named.push(key["key_id"].clone());
            is_new
        });
        for (at, key) in keys.enumerate() {
            lines.push((if at == 0 { title } else { "" }, key_line(key)));
        }
    }
    if number("bursts") > 0 {
        let text = format!(
            "{} of keys over {} tokens in five minutes; the log names them",
            many(number("bursts"), "burst"),
            number("burst_tokens")
        );
        lines.push(("bursts", text));
    }
    let kept = &usage["kept"];
    if let Some(file) = kept["file"].as_str() {
        let written = match kept["written_at_s"].as_u64() {
            Some(at_s) if at_s > 0 => format!("written {}", moment::show(at_s)),
            _ => "not written since the start".to_owned(),
        };
        lines.push(("usage file", format!("{file}: {written}")));
        if let Some(aside) = kept["damaged"].as_str() {
            lines.push((
                "",
                format!("IT WAS DAMAGED at the start and is {aside} now; usage began at zero"),
            ));
        }
        if let Some(error) = kept["error"].as_str() {
            lines.push(("", format!("CANNOT BE WRITTEN: {error}")));
        }
    }
    lines
}

/// One key: whose it is, what it uses of its limits, and what was refused.
fn key_line(key: &Value) -> String {
    let number = |name: &str| key[name].as_u64().unwrap_or(0);
    let of = |value: &Value| value.as_u64().filter(|limit| *limit > 0);
    let mut text = format!(
        "{} ({}){}: {} today",
        key["name"].as_str().unwrap_or("?"),
        key["key_id"].as_str().unwrap_or("?"),
        if key["revoked"] == true {
            ", revoked"
        } else {
            ""
        },
        many(number("tokens_today"), "token"),
    );
    if let Some(limit) = of(&key["limits"]["tokens_per_day"]) {
        text += &format!(" of {limit}");
    }
    if number("running") > 0 {
        text += &format!(", {} running", many(number("running"), "request"));
    }
    for (name, what) in [
        ("requests_per_minute", "requests"),
        ("input_tokens_per_minute", "input tokens"),
        ("output_tokens_per_minute", "output tokens"),
    ] {
        if let (Some(limit), Some(left)) = (of(&key["limits"][name]), key["left"][name].as_u64()) {
            text += &format!(", {left} of {limit} {what} a minute left");
        }
    }
    let refused = key["refused"].as_object().into_iter().flatten();
    let refused: Vec<_> = refused
        .filter_map(|(limit, count)| Some((limit.replace('_', " "), count.as_u64()?)))
        .map(|(limit, count)| format!("{count} for {limit}"))
        .collect();
    if !refused.is_empty() {
        text += &format!("; refused: {}", refused.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_is_used_refused_and_kept() {
        let status = json!({"usage": {
            "accounts": 3, "running": 2, "reserved_input": 10, "reserved_output": 20,
            "used_tokens": [["input", 5], ["output", 7]],
            "limits": {"requests_per_minute": 60, "tokens_per_day": 0},
            "refused": [["requests", 4], ["tokens_per_day", 0]],
            "most_today": [
                {"key_id": "16c90ee8f37ea61f", "name": "alice", "revoked": false, "tokens_today": 90, "running": 1,
                 "limits": {"tokens_per_day": 100, "requests_per_minute": 60, "input_tokens_per_minute": 0},
                 "left": {"requests_per_minute": 3, "input_tokens_per_minute": null},
                 "refused": {"tokens_per_day": 2, "requests": 1}},
                {"key_id": "00000000000000bb", "name": "bob", "revoked": true, "tokens_today": 9, "running": 0,
                 "limits": {"tokens_per_day": 0}, "left": {}, "refused": {}},
            ],
            "most_refused": [{"key_id": "16c90ee8f37ea61f"}, {"key_id": "00000000000000cc", "name": "carol", "refused": {"requests": 7}}],
            "bursts": 1, "burst_tokens": 1000,
            "kept": {"file": "/x/usage", "written_at_s": 1_800_000_000, "damaged": "/x/usage.damaged", "error": null},
        }});
        let text = lines(&status);
        let all: Vec<_> = text
            .iter()
            .map(|(name, text)| format!("{name}|{text}"))
            .collect();
        assert_eq!(
            all,
            [
                "usage|3 keys; tokens used: 5 input, 7 output; 2 requests running, which hold back 10 input, 20 output",
                "quotas|60 requests per minute",
                "over quota|4 for requests",
                "most today|alice (16c90ee8f37ea61f): 90 tokens today of 100, 1 request running, 3 of 60 requests a minute left; refused: 1 for requests, 2 for tokens per day",
                "|bob (00000000000000bb), revoked: 9 tokens today",
                "most refused|carol (00000000000000cc): 0 tokens today; refused: 7 for requests",
                "bursts|1 burst of keys over 1000 tokens in five minutes; the log names them",
                "usage file|/x/usage: written 2027-01-15T08:00:00Z",
                "|IT WAS DAMAGED at the start and is /x/usage.damaged now; usage began at zero",
            ]
        );
    }
}
