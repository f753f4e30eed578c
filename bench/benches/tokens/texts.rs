//! The texts that are counted: corpora out of `bench/corpora`, and endless runs.

use crate::reference::corpora;
use crate::reference::texts::{Random, start};
use edge_userspace::tokens::Vocabulary;

/// A kind of text.
pub(crate) struct Corpus {
    /// Its name in figures.
    pub(crate) name: &'static str,
    /// Documents one after the other.
    pub(crate) text: String,
}

/// Names in figures, and the categories of `bench/corpora` that each is made of.
const CORPORA: [(&str, &[&str]); 12] = [
    ("english", &["english"]),
    ("code", &["code-python", "code-js", "code-rust", "code-c"]),
    ("json", &["json-pretty", "json-minified"]),
    ("cjk", &["chinese", "japanese", "korean"]),
    ("languages", &["languages"]),
    ("base64", &["base64"]),
    ("arabic", &["arabic"]),
    ("hindi", &["hindi"]),
    ("thai", &["thai"]),
    ("russian", &["russian"]),
    ("emoji", &["emoji"]),
    ("minified", &["minified"]),
];

/// All that are here, each of at most so many bytes; and the names of those that are not.
pub(crate) fn corpora(most_bytes: usize) -> (Vec<Corpus>, Vec<String>) {
    let documents = match corpora::documents() {
        Ok(documents) => documents,
        Err(why) => {
            let missing = CORPORA.iter().map(|(name, _)| format!("{name}: {why}"));
            return (Vec::new(), missing.collect());
        }
    };
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for (name, categories) in CORPORA {
        let mut kinds: Vec<_> = (categories.iter())
            .map(|category| documents.iter().filter(move |it| it.category == *category))
            .collect();
        let mut text = String::new();
        // In turn, so that each category has its part however short the text is.
        loop {
            let before = text.len();
            for kind in &mut kinds {
                let document = kind.next().map(corpora::Document::read);
                match document {
                    Some(Ok(document)) if text.len() < most_bytes => {
                        text.push_str(&String::from_utf8_lossy(&document));
                        text.push('\n');
                    }
                    Some(Err(why)) => missing.push(format!("{name}: {why}")),
                    _ => {}
                }
            }
            if text.len() == before {
                break;
            }
        }
        text.truncate(start(&text, most_bytes).len());
        match text.is_empty() {
            true => missing.push(format!("{name}: no document of {}", categories.join(", "))),
            false => here.push(Corpus { name, text }),
        }
    }
    (here, missing)
}

/// Texts that are hard on purpose, each of about so many bytes.
pub(crate) fn adversarial(bytes: usize) -> Vec<Corpus> {
    let mut random = Random::new(11);
    let letters = (0..bytes).map(|_| char::from(b'a' + random.below(26) as u8));
    let letters: String = letters.collect();
    let cases = (0..bytes).map(|_| {
        let letter = b'a' + random.below(26) as u8;
        char::from(letter ^ (random.next() as u8 & 0x20))
    });
    let cases: String = cases.collect();
    let punctuation = (0..bytes).map(|_| char::from(b"!#$%&*+-=?@^~<>|"[random.below(16)]));
    let punctuation: String = punctuation.collect();
    let symbols: Vec<char> = "\u{301}\u{200d}\u{1f600}\u{a0}\u{3000}\u{661}\u{212a}\u{17f}'"
        .chars()
        .collect();
    let mixed: String = (0..bytes / 3).map(|_| symbols[random.below(9)]).collect();
    let mut all = vec![
        ("letters", letters),
        ("letters_of_both_cases", cases),
        ("punctuation", punctuation),
        ("rare_characters", mixed),
    ];
    let runs = crate::reference::texts::RUNS;
    all.extend(runs.map(|(name, run)| (name, run.repeat(bytes / run.len()))));
    let corpus = |(name, text)| Corpus { name, text };
    all.into_iter().map(corpus).collect()
}

impl Corpus {
    /// The same in the normal form that a vocabulary's texts are brought into, so that those
    /// count the same who leave that to others.
    pub(crate) fn normal(&self, vocabulary: &Vocabulary) -> Self {
        let text = vocabulary.normal_form().whole(&self.text).into_owned();
        Self { text, ..*self }
    }

    /// Its first so many bytes, cut between characters.
    pub(crate) fn start(&self, bytes: usize) -> &str {
        start(&self.text, bytes)
    }

    /// Distinct parts of about `bytes`, cut between characters; the whole again and again
    /// where it is shorter than one.
    pub(crate) fn parts(&self, bytes: usize) -> Vec<String> {
        if self.text.len() < bytes {
            let mut text = self.text.repeat(bytes / self.text.len() + 1);
            text.truncate(start(&text, bytes).len());
            return vec![text];
        }
        // So many that a branch predictor does not learn them by heart.
        let most = (4_usize << 20).div_ceil(bytes).min(512);
        let mut parts = Vec::new();
        let mut rest = &*self.text;
        while parts.len() < most && rest.len() >= bytes {
            let (part, later) = rest.split_at(start(rest, bytes).len());
            parts.push(part.to_owned());
            rest = later;
        }
        parts
    }
}
