//! A `usage` as an upstream writes it, in either API's words.

use crate::usage::Observed;

/// More than any model reads or writes at once: a figure beyond it is not said, so that no sum
/// of figures ever overflows.
const MOST: u64 = 1 << 40;

/// What one usage says. What is no whole number that fits is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_written: Option<u64>,
    output: Option<u64>,
    /// In the words of Chat Completions; some gateways say the same in both.
    prompt: Option<u64>,
    cached: Option<u64>,
    completion: Option<u64>,
}

impl Usage {
    /// The field that a number of a usage, or of its details, is.
    pub(super) fn field(&mut self, key: &[u8], is_details: bool) -> Option<&mut Option<u64>> {
        Some(match (key, is_details) {
            (b"input_tokens", false) => &mut self.input,
            (b"cache_read_input_tokens", false) => &mut self.cache_read,
            (b"cache_creation_input_tokens", false) => &mut self.cache_written,
            (b"output_tokens", false) => &mut self.output,
            (b"prompt_tokens", false) => &mut self.prompt,
            (b"completion_tokens", false) => &mut self.completion,
            (b"cached_tokens", true) => &mut self.cached,
            _ => return None,
        })
    }

    /// Takes over what is said; what is not said stays as it was. Figures are cumulative, so
    /// the last one stands.
    pub(super) fn tell(&self, observed: &mut Observed) {
        let sane = |said: Option<u64>| said.filter(|tokens| *tokens <= MOST);
        let mut input = sane(self.input);
        let mut cache_read = sane(self.cache_read);
        if input.is_none()
            && let Some(prompt) = sane(self.prompt)
        {
            // Those that were cached are among them here, also when they were said before.
            let cached = sane(self.cached).or(observed.cache_read);
            let cached = cached.map(|cached| cached.min(prompt));
            input = Some(prompt - cached.unwrap_or(0));
            cache_read = cache_read.or(cached);
        }
        for (said, place) in [
            (input, &mut observed.input),
            (cache_read, &mut observed.cache_read),
            (sane(self.cache_written), &mut observed.cache_written),
            (sane(self.output.or(self.completion)), &mut observed.output),
        ] {
            if said.is_some() {
                *place = said;
            }
        }
    }

    /// Whether it says anything.
    pub(super) fn is_said(&self) -> bool {
        *self != Self::default()
    }
}
