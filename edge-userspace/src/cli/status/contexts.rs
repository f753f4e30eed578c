//! What `edge status` says of contexts.

use crate::cli::output::many;
use serde_json::Value;

/// Lines by name; one without a name goes on with the one before.
pub(super) fn lines(status: &Value) -> Vec<(&'static str, String)> {
    let contexts = &status["contexts"];
    if !contexts.is_object() {
        return vec![("contexts", "not remembered".to_owned())];
    }
    let number = |name: &str| contexts[name].as_u64().unwrap_or(0);
    let of = |list: &str, name: &str| {
        let pairs = contexts[list].as_array().into_iter().flatten();
        { pairs }
            .find(|pair| pair[0] == name)
            .and_then(|pair| pair[1].as_u64())
            .unwrap_or(0)
    };
    let request = |outcome| of("requests", outcome);
    let mut lines = vec![
        (
            "contexts",
            format!(
                "{} went on, {} began like others, {} were new, {} have no name; {} of exact models not counted again",
                many(request("hit"), "turn"),
                request("beginning"),
                request("miss"),
                request("unnamed"),
                many(number("known_tokens"), "token"),
            ),
        ),
        (
            "",
            format!(
                "{} of {} slots; {} had to go while they were good",
                number("slots"),
                number("slots_capacity"),
                number("evicted"),
            ),
        ),
    ];
    let hint = |what| of("hints", what);
    let asked = hint("told") + hint("unsure") + hint("withheld");
    if asked > 0 {
        let right = contexts["hints_right_percent"].as_f64();
        let right = right.map_or_else(String::new, |right| format!(", {right:.1} % right"));
        lines.push((
            "hints",
            format!(
                "{} told{right}; {} asked for and unsure, {} withheld",
                hint("told"),
                hint("unsure"),
                hint("withheld"),
            ),
        ));
    }
    let preheat = |outcome| of("preheats", outcome);
    let preheats = preheat("warmed") + preheat("unknown") + preheat("used_up");
    if preheats > 0 {
        lines.push((
            "warm-ups",
            format!(
                "{} of something, {} of nothing known, {} beyond the key's",
                preheat("warmed"),
                preheat("unknown"),
                preheat("used_up"),
            ),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn turns_slots_hints_and_warm_ups_are_told() {
        let contexts = json!({
            "requests": [["hit", 5], ["beginning", 4], ["miss", 3], ["unnamed", 2]],
            "known_tokens": 1234, "slots": 9, "slots_capacity": 1024, "evicted": 1,
            "preheats": [["warmed", 2], ["unknown", 1], ["used_up", 7]],
            "hints": [["told", 8], ["unsure", 1], ["withheld", 6]],
            "hints_right_percent": 97.5,
        });
        let told: Vec<_> = lines(&json!({ "contexts": contexts }))
            .into_iter()
            .map(|(name, text)| format!("{name}|{text}"))
            .collect();
        assert_eq!(
            told,
            [
                "contexts|5 turns went on, 4 began like others, 3 were new, 2 have no name; 1234 tokens of exact models not counted again",
                "|9 of 1024 slots; 1 had to go while they were good",
                "hints|8 told, 97.5 % right; 1 asked for and unsure, 6 withheld",
                "warm-ups|2 of something, 1 of nothing known, 7 beyond the key's",
            ]
        );
        assert_eq!(lines(&json!({}))[0].1, "not remembered");
    }
}
