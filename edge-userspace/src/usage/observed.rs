//! What a response has said and shown of its use.

/// What a response has said and shown so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Tokens of the prompt that no cache had, as the upstream said; of Chat Completions
    /// `prompt_tokens` less `cached_tokens`.
    pub input: Option<u64>,
    /// Tokens of the prompt that the upstream read from its cache.
    pub cache_read: Option<u64>,
    /// Tokens of the prompt that the upstream wrote to its cache.
    pub cache_written: Option<u64>,
    /// Tokens of the answer, as the upstream said last: cumulative, never summed.
    pub output: Option<u64>,
    /// Tokens of the text, thinking and tool inputs that were relayed, counted here; of a whole
    /// answer only where the upstream's own figures do not say all.
    pub relayed_output: u64,
    /// Whether that count is by the model's vocabulary; else it is an estimate.
    pub relayed_exact: bool,
    /// Some of the answer could not be read since `output` was said, which may not be the last
    /// word. What that counts for by its bytes is among `relayed_output`.
    pub is_unread: bool,
    /// Events so far.
    pub events: u64,
    /// The answer came to its end: `message_stop`, `[DONE]`, or a whole JSON text.
    pub is_finished: bool,
    /// An error was told, in an event or instead of an answer.
    pub is_error: bool,
}

impl Observed {
    /// The whole prompt, as the upstream said; none when it said nothing of it.
    #[must_use]
    pub fn prompt(&self) -> Option<u64> {
        let parts = [self.input, self.cache_read, self.cache_written];
        (parts.iter().any(Option::is_some))
            .then(|| (parts.iter().flatten()).fold(0, |sum: u64, part| sum.saturating_add(*part)))
    }
}
