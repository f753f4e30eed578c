//! What usage is said to be: right, or in one of the shapes that upstreams have been seen to
//! send.

use serde_json::{Value, json};

/// What `x-demo-usage` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::demo_model) enum Said {
    /// As the API says it.
    #[default]
    Right,
    /// `null`: there is the field, and nothing in it.
    Null,
    /// `absent`: there is no such field.
    Absent,
    /// `strings`: numbers as strings.
    Strings,
    /// `huge`: numbers that no integer holds.
    Huge,
    /// `twice`: half of the output first, then all of it.
    Twice,
    /// `cumulative`: it grows, said after every eight pieces.
    Cumulative,
    /// `cache-null`: the fields of a cache are there, and null.
    CacheNull,
}

impl Said {
    /// From the header's value. `None` when there is no such shape.
    pub(in crate::demo_model) fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "null" => Self::Null,
            "absent" => Self::Absent,
            "strings" => Self::Strings,
            "huge" => Self::Huge,
            "twice" => Self::Twice,
            "cumulative" => Self::Cumulative,
            "cache-null" => Self::CacheNull,
            _ => return None,
        })
    }
}

pub(super) struct Usage {
    pub(super) said: Said,
    pub(super) input_tokens: u64,
    pub(super) cached: Option<(u64, u64)>,
}

impl Usage {
    /// The Messages API's, with the input or without; none where there is to be no field.
    pub(super) fn of_messages(&self, input: bool, output_tokens: u64) -> Option<Value> {
        let mut usage = json!({ "output_tokens": self.number(output_tokens) });
        if input {
            // What a cache had to do with is not among `input_tokens`.
            let (read, created) = self.cached.unwrap_or((0, 0));
            let uncached = self.input_tokens.saturating_sub(read + created);
            usage["input_tokens"] = self.number(uncached);
            if self.cached.is_some() {
                usage["cache_read_input_tokens"] = self.number(read);
                usage["cache_creation_input_tokens"] = self.number(created);
            } else if self.said == Said::CacheNull {
                usage["cache_read_input_tokens"] = Value::Null;
                usage["cache_creation_input_tokens"] = Value::Null;
            }
        }
        self.as_said(usage)
    }

    /// Chat Completions'.
    pub(super) fn of_chat(&self, output_tokens: u64) -> Option<Value> {
        self.as_said(json!({
            "prompt_tokens": self.number(self.input_tokens),
            "completion_tokens": self.number(output_tokens),
            "total_tokens": self.number(self.input_tokens + output_tokens),
            "prompt_tokens_details": {
                "cached_tokens": self.number(self.cached.map_or(0, |(read, _)| read)),
            },
        }))
    }

    fn as_said(&self, usage: Value) -> Option<Value> {
        match self.said {
            Said::Absent => None,
            Said::Null => Some(Value::Null),
            _ => Some(usage),
        }
    }

    fn number(&self, number: u64) -> Value {
        match self.said {
            Said::Strings => number.to_string().into(),
            Said::Huge => json!(1e300),
            _ => number.into(),
        }
    }
}
