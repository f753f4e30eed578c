//! What `edge status` says of prompts.

use crate::cli::output::many;
use serde_json::Value;

/// Lines by name; one without a name goes on with the one before.
pub(super) fn lines(status: &Value) -> Vec<(&'static str, String)> {
    let prompts = &status["prompts"];
    let mut lines = Vec::new();
    if prompts.is_object() {
        lines.push(("prompts", counted(prompts)));
        if let Some(refused) = refused(prompts) {
            lines.push(("", refused));
        }
        lines.push(("", limits(prompts)));
        for (by, models) in ways(prompts) {
            lines.push(("", format!("by {by}: {}", models.join(", "))));
        }
    }
    for learnt in list(&status["calibration"]) {
        let text = format!(
            "{}: estimates times {:.3}, from {}",
            // A client chose the name: it must not command the terminal, nor forge a line.
            text(&learnt["model"]).escape_debug(),
            learnt["factor"].as_f64().unwrap_or(1.0),
            many(number(&learnt["observations"]), "answer"),
        );
        lines.push(("learnt", text));
    }
    match number(&prompts["calibration_evicted"]) {
        0 => {}
        evicted => lines.push((
            "",
            format!(
                "{} FORGOTTEN for others: there is room for {}",
                many(evicted, "model").to_uppercase(),
                number(&prompts["calibrated_models"]),
            ),
        )),
    }
    lines
}

fn counted(prompts: &Value) -> String {
    let of = |kind: &str| {
        let kind = &prompts[kind];
        (number(&kind["prompts"]), number(&kind["tokens"]))
    };
    let (exact, exact_tokens) = of("exact");
    let (estimated, estimated_tokens) = of("estimate");
    format!(
        "{exact} counted exactly, {}; {estimated} estimated, {}",
        many(exact_tokens, "token"),
        many(estimated_tokens, "token"),
    )
}

/// Whose limits were passed, and what else was wrong.
fn refused(prompts: &Value) -> Option<String> {
    let refused: Vec<_> = (list(&prompts["refused"]))
        .map(|pair| {
            let why = match text(&pair[0]) {
                "key_limit" => "over the key's limit",
                "node_limit" => "over the node's limit",
                "context" => "over the model's context window",
                "json" => "no JSON, or wrongly encoded",
                "no_room" => "without room",
                other => other,
            };
            format!("{} {why}", number(&pair[1]))
        })
        .collect();
    (!refused.is_empty()).then(|| format!("refused: {}", refused.join(", ")))
}

fn limits(prompts: &Value) -> String {
    let longest = match prompts["max_tokens"].as_u64() {
        Some(tokens) => format!("at most {}", many(tokens, "token")),
        None => "of any length".to_owned(),
    };
    let mib = |value: &Value| number(value) as f64 / f64::from(1 << 20);
    format!(
        "{longest}; {:.1} of {:.1} MiB of bodies held",
        mib(&prompts["held_bytes"]),
        mib(&prompts["held_bytes_capacity"]),
    )
}

/// The models by the way they are counted, both in the order of the rules.
fn ways(prompts: &Value) -> Vec<(String, Vec<String>)> {
    let mut ways: Vec<(String, Vec<String>)> = Vec::new();
    for rule in list(&prompts["models"]) {
        let vocabulary = text(&rule["vocabulary"]);
        let way = if rule["estimate"] == true {
            format!("an estimate like {vocabulary}")
        } else if rule["published_framing"] == true {
            format!("the vocabulary {vocabulary}, exact")
        } else {
            format!("the vocabulary {vocabulary}, what is around texts assumed")
        };
        let mut model = text(&rule["model"]).to_owned();
        if let Some(tokens) = rule["context_tokens"].as_u64() {
            model += &format!(" (at most {tokens})");
        }
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, models)) => models.push(model),
            None => ways.push((way, vec![model])),
        }
    }
    ways
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_refusals_room_and_ways_are_told() {
        let rule = |model: &str, vocabulary: &str, estimate: bool, published: bool| {
            json!({
                "model": model, "vocabulary": vocabulary, "estimate": estimate,
                "published_framing": published, "context_tokens": null,
            })
        };
        let mut own = rule("own", "own", false, true);
        own["context_tokens"] = json!(8192);
        let prompts = json!({
            "exact": { "prompts": 3, "tokens": 321 },
            "estimate": { "prompts": 1, "tokens": 10 },
            "refused": [["key_limit", 2], ["no_room", 1]],
            "max_tokens": 200_000,
            "held_bytes": 1_572_864,
            "held_bytes_capacity": 536_870_912,
            "models": [
                own,
                rule("gpt-4o*", "o200k_base", false, true),
                rule("claude-*", "claude-2", true, false),
                rule("o1*", "o200k_base", false, false),
                rule("chatgpt-4o-*", "o200k_base", false, true),
            ],
            "calibrated_models": 64,
            "calibration_evicted": 2,
        });
        let lines = lines(&json!({ "prompts": prompts }));
        let expected = [
            (
                "prompts",
                "3 counted exactly, 321 tokens; 1 estimated, 10 tokens",
            ),
            ("", "refused: 2 over the key's limit, 1 without room"),
            ("", "at most 200000 tokens; 1.5 of 512.0 MiB of bodies held"),
            ("", "by the vocabulary own, exact: own (at most 8192)"),
            (
                "",
                "by the vocabulary o200k_base, exact: gpt-4o*, chatgpt-4o-*",
            ),
            ("", "by an estimate like claude-2: claude-*"),
            (
                "",
                "by the vocabulary o200k_base, what is around texts assumed: o1*",
            ),
            ("", "2 MODELS FORGOTTEN for others: there is room for 64"),
        ];
        let lines: Vec<_> = lines.iter().map(|(name, text)| (*name, &**text)).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_models_name_neither_commands_the_terminal_nor_forges_a_line() {
        let of = |model: &str| {
            let learnt = json!({ "model": model, "factor": 1.5, "observations": 3 });
            let status = json!({ "calibration": [learnt] });
            super::super::for_people(&status)
        };
        let good = of("claude-x");
        assert!(
            good.contains("\nlearnt       claude-x: estimates times 1.500, from 3 answers\n"),
            "{good}"
        );
        let evil = of("evil\u{1b}[31mRED\nkeys 999 fake\u{9b}m\u{202e}");
        assert_eq!(evil.lines().count(), good.lines().count(), "{evil}");
        assert!(
            !evil.contains(['\u{1b}', '\u{9b}', '\u{202e}'])
                && evil.contains(r"evil\u{1b}[31mRED\nkeys 999 fake\u{9b}m\u{202e}: estimates"),
            "{evil}"
        );
    }
}
