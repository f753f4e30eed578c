//! What is asked when, out of [`Trace::fleet`]: bodies of Chat Completions, longer with every
//! turn. Every text is decided by its prefix's number.

use bench::trace::Trace;
use bench::trace::random::{Random, mix};
use edge_userspace::tokens::{Counter, Vocabulary};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// By which upstreams count.
pub(crate) const VOCABULARY: &str = "cl100k_base";
/// Tokens of every answer.
pub(crate) const ANSWER_TOKENS: u64 = 16;
/// The trace's ten minutes take thirty seconds.
const TIMES_FASTER: u64 = 20;
/// A system prompt has so many words at least, and at most.
const HEAD_WORDS: (u64, u64) = (1000, 5000);
/// A message's median, and the most.
const MESSAGE_WORDS: (f64, f64) = (200.0, 2000.0);
/// What upstreams count around a message, and around a request.
const FRAMING: (u64, u64) = (4, 3);

/// All that is asked in a run.
pub(crate) struct Conversations {
    /// In the order of the time.
    pub(crate) requests: Vec<Request>,
    /// Per cent of all tokens that one endless cache of all upstreams would have.
    pub(crate) possible_pct: f64,
}

/// One turn.
pub(crate) struct Request {
    /// Not before that.
    pub(crate) due: Duration,
    /// Nor before this one, of an earlier place in the list, has been answered.
    pub(crate) after: Option<usize>,
    /// The place of its conversation's first.
    pub(crate) conversation: usize,
    pub(crate) body: String,
}

impl Conversations {
    /// The first `seconds` of the trace; `answer` is what every answer says.
    pub(crate) fn new(trace: &Trace, seconds: u64, answer: &str) -> Self {
        let mut texts = Texts::new(trace, answer);
        let until_s = seconds * TIMES_FASTER;
        let mut requests: Vec<Request> = Vec::new();
        let mut asked: HashMap<u32, usize> = HashMap::new();
        let mut read: HashSet<u32> = HashSet::new();
        let (mut tokens, mut possible) = (0, 0);
        for (place, asking) in trace.requests.iter().enumerate() {
            if u64::from(asking.at_s) >= until_s {
                break;
            }
            let after = trace.probes(*asking).find_map(|at| asked.get(&at).copied());
            asked.insert(asking.prefix, place);
            // The trace tells seconds only.
            let jitter_us = mix(place as u64) % (1_000_000 / TIMES_FASTER);
            let us = u64::from(asking.at_s) * 1_000_000 / TIMES_FASTER + jitter_us;
            let mut path: Vec<u32> = trace.probes(*asking).collect();
            path.reverse();
            let known = path.iter().take_while(|at| read.contains(at)).count();
            let counts: Vec<u64> = path.iter().map(|at| texts.part(*at).tokens).collect();
            tokens += FRAMING.1 + counts.iter().sum::<u64>();
            if known > 0 {
                possible += FRAMING.1 + counts[..known].iter().sum::<u64>();
            }
            read.extend(&path);
            let messages: Vec<&str> = path.iter().map(|at| texts.made(*at)).collect();
            requests.push(Request {
                due: Duration::from_micros(us),
                after,
                conversation: after.map_or(place, |after| requests[after].conversation),
                body: format!(
                    r#"{{"model":"claude-demo","max_tokens":{ANSWER_TOKENS},"stream":true,"messages":[{}]}}"#,
                    messages.join(",")
                ),
            });
        }
        Self {
            requests,
            possible_pct: possible as f64 * 100.0 / tokens as f64,
        }
    }
}

/// The messages that each prefix has more than its parent.
struct Texts<'a> {
    trace: &'a Trace,
    answer: &'a str,
    vocabulary: Vocabulary,
    parts: HashMap<u32, Part>,
}

struct Part {
    /// Messages as JSON.
    json: String,
    tokens: u64,
}

impl<'a> Texts<'a> {
    fn new(trace: &'a Trace, answer: &'a str) -> Self {
        Self {
            trace,
            answer,
            vocabulary: Vocabulary::embedded(VOCABULARY).expect("it is built in"),
            parts: HashMap::new(),
        }
    }

    fn made(&self, prefix: u32) -> &str {
        &self.parts[&prefix].json
    }

    fn part(&mut self, prefix: u32) -> &Part {
        let Self {
            trace,
            answer,
            vocabulary,
            parts,
        } = self;
        parts.entry(prefix).or_insert_with(|| {
            let mut random = Random::new(u64::from(prefix));
            let mut counter = Counter::new(vocabulary);
            let mut tokens = |text: &str| FRAMING.0 + counter.count(text.as_bytes());
            let Some(parent) = trace.parent(prefix) else {
                let (least, most) = HEAD_WORDS;
                let words = least + random.below(most - least);
                let text = words_of(&mut random, words);
                return Part {
                    tokens: tokens(&text),
                    json: format!(r#"{{"role":"system","content":"{text}"}}"#),
                };
            };
            let (median, most) = MESSAGE_WORDS;
            let words = random.log_normal(median, 0.8).clamp(5.0, most) as u64;
            let text = words_of(&mut random, words);
            let mut part = Part {
                tokens: tokens(&text),
                json: format!(r#"{{"role":"user","content":"{text}"}}"#),
            };
            if trace.parent(parent).is_some() {
                part.tokens += tokens(answer);
                part.json = format!(
                    r#"{{"role":"assistant","content":"{answer}"}},{}"#,
                    part.json
                );
            }
            part
        })
    }
}

/// Of a token each, nearly.
const WORDS: [&str; 32] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by",
    "on", "not", "this", "but", "from", "or", "have", "an", "they", "which", "one", "you", "were",
    "all", "her", "she", "there", "would",
];

fn words_of(random: &mut Random, count: u64) -> String {
    let mut text = String::new();
    for _ in 0..count {
        text += WORDS[random.below(WORDS.len() as u64) as usize];
        text.push(' ');
    }
    text
}
