//! What is learnt from: documents, their blocks, and the tokens of each.

use edge_userspace::tokens::estimate::{self, Features, Segment};
use edge_userspace::tokens::{Vocabulary, plain};
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};

/// As many as the scan counts.
pub(crate) const FEATURES: usize = 130;
/// Not in the mixture, and of little weight: they are there to be survived.
const ADVERSARIAL: &str = "adversarial";

/// What a document is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    Fit,
    HeldOut,
}

/// A kind of text, and its part of the declared mixture.
pub(crate) struct Category {
    pub(crate) name: String,
    pub(crate) per_mille: f64,
}

impl Category {
    pub(crate) fn is_adversarial(&self) -> bool {
        self.name == ADVERSARIAL
    }
}

pub(crate) struct Document {
    /// Index into [`Corpora::categories`].
    pub(crate) category: usize,
    pub(crate) split: Split,
    path: PathBuf,
}

/// All documents of a folder that `bench/corpora/fetch.py` has written.
pub(crate) struct Corpora {
    pub(crate) sha256: String,
    pub(crate) categories: Vec<Category>,
    pub(crate) documents: Vec<Document>,
}

impl Corpora {
    pub(crate) fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let read = |name: &str| {
            let path = folder.join(name);
            let hint = "bring it with `python3 bench/corpora/fetch.py`";
            std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}; {hint}", path.display()))
        };
        let manifest: Value = serde_json::from_str(&read("manifest.json")?)?;
        let sha256 = manifest["texts_sha256"]
            .as_str()
            .ok_or("the manifest has no texts_sha256")?;
        let named = manifest["categories"]
            .as_object()
            .ok_or("the manifest has no categories")?;
        let category = |(name, about): (&String, &Value)| Category {
            name: name.clone(),
            per_mille: about["mixture_per_mille"].as_f64().unwrap_or(0.0),
        };
        let categories: Vec<_> = named.iter().map(category).collect();
        let mut documents = Vec::new();
        for line in read("texts.tsv")?.lines() {
            let mut fields = line.split('\t');
            let mut field = || {
                fields
                    .next()
                    .ok_or_else(|| format!("texts.tsv: too short: {line}"))
            };
            let (category, split, file) = (field()?, field()?, field()?);
            let index = categories.iter().position(|it| it.name == category);
            documents.push(Document {
                category: index
                    .ok_or_else(|| format!("texts.tsv: no such category: {category}"))?,
                split: if split == "fit" {
                    Split::Fit
                } else {
                    Split::HeldOut
                },
                path: folder.join("texts").join(category).join(split).join(file),
            });
        }
        Ok(Self {
            sha256: sha256.to_owned(),
            categories,
            documents,
        })
    }
}

/// A block of a document.
pub(crate) struct Row {
    pub(crate) document: usize,
    pub(crate) segment: Segment,
    pub(crate) counts: [f32; FEATURES],
    pub(crate) bytes: f64,
    pub(crate) tokens: f64,
}

/// What is known of a document.
pub(crate) struct Known {
    pub(crate) features: Features,
    pub(crate) bytes: u64,
    pub(crate) tokens: u64,
    /// Of which segment most of it is.
    pub(crate) segment: Segment,
}

pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// Of each document.
    pub(crate) known: Vec<Known>,
    /// Of each document's beginning, between 100 and 1,600 bytes: what short texts are like.
    pub(crate) short: Vec<Known>,
}

/// The rows of all documents, counted exactly.
pub(crate) fn of(corpora: &Corpora, vocabulary: &Vocabulary) -> Rows {
    let mut memo = HashMap::new();
    let mut all = Rows {
        rows: Vec::new(),
        known: Vec::new(),
        short: Vec::new(),
    };
    for (index, document) in corpora.documents.iter().enumerate() {
        let text = std::fs::read(&document.path).unwrap_or_default();
        let blocks = estimate::blocks(&text);
        let tokens = by_block(vocabulary, &text, blocks.len(), &mut memo);
        all.known.push(Known::of(&text, tokens.iter().sum()));
        let beginning = &text[..text.len().min(100 << (index % 5))];
        let beginning = match std::str::from_utf8(beginning) {
            Ok(_) => beginning,
            Err(error) => &beginning[..error.valid_up_to()],
        };
        let tokens_of_beginning = by_block(vocabulary, beginning, 1, &mut memo);
        all.short.push(Known::of(beginning, tokens_of_beginning[0]));
        let lengths = text.chunks(estimate::BLOCK_BYTES).map(<[u8]>::len);
        for (((segment, counts), tokens), bytes) in blocks.into_iter().zip(tokens).zip(lengths) {
            let (counts, bytes) = (counts.map(|count| count as f32), bytes as f64);
            all.rows.push(Row {
                document: index,
                segment,
                counts,
                bytes,
                tokens,
            });
        }
    }
    all
}

impl Known {
    fn of(text: &[u8], tokens: f64) -> Self {
        let features = Features::of(text);
        let most = Segment::ALL
            .into_iter()
            .max_by_key(|segment| features.bytes_of(*segment));
        Self {
            features,
            bytes: text.len() as u64,
            tokens: tokens.round() as u64,
            segment: most.unwrap_or(Segment::Prose),
        }
    }
}

/// The tokens of a text by block: those of a piece belong to where it lies, in proportion.
fn by_block(
    vocabulary: &Vocabulary,
    text: &[u8],
    blocks: usize,
    memo: &mut HashMap<Box<[u8]>, u64>,
) -> Vec<f64> {
    let lossy = String::from_utf8_lossy(text);
    let normal = vocabulary.normal_form().whole(&lossy);
    // Of a block of the text, so many bytes of the normal form.
    let block = estimate::BLOCK_BYTES as f64 * normal.len() as f64 / text.len().max(1) as f64;
    let mut tokens = vec![0.0; blocks];
    let mut at = 0.0;
    for piece in plain::pieces(vocabulary, normal.as_bytes()) {
        let count = match memo.get(piece) {
            Some(count) => *count,
            None => {
                let count = plain::count_piece(vocabulary, piece);
                if piece.len() <= 64 && memo.len() < 2_000_000 {
                    memo.insert(piece.into(), count);
                }
                count
            }
        };
        let end = at + piece.len() as f64;
        let per_byte = count as f64 / piece.len() as f64;
        while at < end {
            let index = ((at / block) as usize).min(blocks - 1);
            let until = if index == blocks - 1 {
                end
            } else {
                end.min((index + 1) as f64 * block)
            };
            tokens[index] += (until - at) * per_byte;
            // Rounding must not keep it in the same place.
            at = if until > at { until } else { end };
        }
    }
    tokens
}
