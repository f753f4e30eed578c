//! Counts the texts of one request, one after the other, as they arrive.
//!
//! Three ways: by the model's own vocabulary; by features of the text, where it has none that
//! is published; and, while the model is not known, a number below which no vocabulary can be.

use super::place::Part;
use crate::tokens::estimate::calibrate::Ratio;
use crate::tokens::estimate::{BLOCK_BYTES, Estimator, Features, Scan, lower_bound};
use crate::tokens::{Counter, Text};
use std::cell::RefCell;
use std::rc::Rc;

/// How texts are counted.
#[derive(Clone)]
pub(super) enum Method {
    /// The model is not known yet, and nothing depends on how long the prompt is at least.
    Later,
    /// The model is not known yet.
    Bound,
    /// By its vocabulary.
    Exact(Rc<RefCell<Counter>>),
    /// By features; the result calibrated.
    Estimate {
        estimator: Estimator,
        ratio: Box<Ratio>,
    },
}

/// The texts of one request.
pub(super) struct Tally {
    method: Method,
    open: Option<Open>,
    /// Whole texts: their tokens, by part.
    tokens: [u64; PARTS],
    /// Of these, tokens of JSON that the upstream will write its own way.
    written: u64,
    /// Texts that are scanned, by part; made when there are some.
    scans: [Option<Scan>; PARTS],
    /// How many texts the first of them has seen, where they make a bound.
    scanned: u64,
    /// Whole texts that were scanned by themselves.
    features: [Option<Features>; PARTS],
    /// A text of which it is not known yet whether it is one.
    doubtful: Option<Whole>,
    /// Whether there has been a text.
    touched: bool,
    /// Bytes of texts, by part.
    bytes: [u64; PARTS],
    /// Bytes of JSON whose tokens are known.
    known_json_bytes: u64,
}

const PARTS: usize = Part::ALL.len();

/// A text that is whole.
struct Whole {
    part: Part,
    tokens: u64,
    features: Option<Features>,
}

struct Open {
    part: Part,
    sort: Sort,
    text: Kind,
}

/// What sort of text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// As it is.
    Plain,
    /// JSON that the upstream will write its own way.
    Json,
    /// It may turn out to be none: see [`Tally::settle`].
    Doubtful,
}

enum Kind {
    /// Counted exactly.
    Text(Text),
    /// Scanned by itself.
    Scan(Box<Scan>),
    /// Scanned after others by the part's scan.
    Shared(usize),
    /// Not looked at.
    Nothing,
    /// Its tokens are known.
    Known,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    /// By part.
    pub(super) parts: [u64; PARTS],
    pub(super) tokens: u64,
    pub(super) low: u64,
    pub(super) high: u64,
    /// Without the calibrating factor.
    pub(super) uncalibrated: u64,
}

impl Tally {
    pub(super) fn new(method: Method) -> Self {
        Self {
            method,
            open: None,
            tokens: [0; PARTS],
            written: 0,
            scans: std::array::from_fn(|_| None),
            scanned: 0,
            features: std::array::from_fn(|_| None),
            doubtful: None,
            touched: false,
            bytes: [0; PARTS],
            known_json_bytes: 0,
        }
    }

    /// Goes to the beginning.
    pub(super) fn begin_again(&mut self, method: Method) {
        self.method = method;
        self.open = None;
        self.tokens = [0; PARTS];
        self.written = 0;
        self.scans.fill_with(|| None);
        self.scanned = 0;
        self.features.fill_with(|| None);
        self.doubtful = None;
        self.touched = false;
        self.bytes = [0; PARTS];
        self.known_json_bytes = 0;
    }

    /// Whether the texts are not counted by the model's way.
    pub(super) fn is_bound(&self) -> bool {
        matches!(self.method, Method::Bound | Method::Later)
    }

    /// Whether each text's tokens are its own, whatever is around it.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.method, Method::Exact(_))
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    /// A text begins.
    pub(super) fn begin(&mut self, part: Part, sort: Sort) {
        self.touched = true;
        let text = match &self.method {
            Method::Later => Kind::Nothing,
            Method::Exact(counter) => Kind::Text(Text::new(&counter.borrow())),
            _ if sort == Sort::Doubtful => Kind::Scan(Box::default()),
            // A bound is of all parts together.
            Method::Bound => Kind::Shared(0),
            Method::Estimate { .. } => Kind::Shared(part as usize),
        };
        if let Kind::Shared(at) = text {
            self.scans[at].get_or_insert_default();
        }
        self.open = Some(Open { part, sort, text });
    }

    /// One begins whose tokens are known.
    pub(super) fn begin_known(&mut self, part: Part, sort: Sort) {
        self.touched = true;
        self.open = Some(Open {
            part,
            sort,
            text: Kind::Known,
        });
    }

    /// One whose tokens are known is passed over; it has so many bytes of JSON.
    pub(super) fn pass_known(&mut self, json_bytes: u64) {
        self.touched = true;
        self.known_json_bytes += json_bytes;
    }

    /// Bytes of texts so far, of one part.
    pub(super) fn bytes(&self, part: Part) -> u64 {
        self.bytes[part as usize]
    }

    /// Bytes of all texts so far.
    pub(super) fn all_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Tokens of whole texts so far, of one part, where they are counted exactly.
    pub(super) fn tokens(&self, part: Part) -> u64 {
        self.tokens[part as usize]
    }

    /// It goes on.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if let Some(open) = &self.open {
            self.bytes[open.part as usize] += piece.len() as u64;
            if matches!(open.text, Kind::Known) && open.sort == Sort::Json {
                self.known_json_bytes += piece.len() as u64;
            }
        }
        match (self.open.as_mut().map(|open| &mut open.text), &self.method) {
            (Some(Kind::Text(text)), Method::Exact(counter)) => {
                text.push(&mut counter.borrow_mut(), piece);
            }
            (Some(Kind::Scan(scan)), _) => scan.push(piece),
            (Some(Kind::Shared(at)), _) => {
                if let Some(scan) = &mut self.scans[*at] {
                    scan.push(piece);
                }
            }
            (Some(Kind::Text(_) | Kind::Nothing | Kind::Known) | None, _) => {}
        }
    }

    /// Its end.
    pub(super) fn end(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        let mut whole = Whole {
            part: open.part,
            tokens: 0,
            features: None,
        };
        match (open.text, &self.method) {
            (Kind::Text(text), Method::Exact(counter)) => {
                whole.tokens = text.finish(&mut counter.borrow_mut());
            }
            (Kind::Scan(scan), Method::Bound) => {
                whole.tokens = lower_bound(&scan.finish()).saturating_sub(1);
            }
            (Kind::Scan(scan), _) => whole.features = Some(scan.finish()),
            (Kind::Shared(at), _) => {
                if let Some(scan) = &mut self.scans[at] {
                    scan.end_text();
                }
                self.scanned += 1;
                return;
            }
            (Kind::Text(_) | Kind::Nothing | Kind::Known, _) => return,
        }
        match open.sort {
            Sort::Plain => self.add(whole),
            Sort::Json => {
                self.written += whole.tokens;
                self.add(whole);
            }
            Sort::Doubtful => self.doubtful = Some(whole),
        }
    }

    /// The open text is none.
    pub(super) fn forget(&mut self) {
        self.open = None;
    }

    /// Now it is known of the doubtful text, if there is one, whether it is one.
    pub(super) fn settle(&mut self, is_text: bool) {
        if let Some(whole) = self.doubtful.take().filter(|_| is_text) {
            self.add(whole);
        }
    }

    fn add(&mut self, whole: Whole) {
        let part = whole.part as usize;
        self.tokens[part] += whole.tokens;
        match (&mut self.features[part], whole.features) {
            (Some(sum), Some(more)) => *sum += &more,
            (sum @ None, more) => *sum = more,
            (Some(_), None) => {}
        }
    }

    /// As many tokens as there are so far, the open text included; of an estimate what it will
    /// not fall below when more comes.
    pub(super) fn at_least(&self) -> u64 {
        let whole: u64 = self.tokens.iter().sum();
        match (&self.method, &self.open) {
            (Method::Estimate { estimator, ratio }, _) => {
                let so_far = ratio.apply(estimator.estimate(&self.all_features())).tokens;
                // What follows may show a stretch to be of another kind, with fewer tokens.
                (so_far - so_far / 8).saturating_sub(BLOCK_BYTES as u64)
            }
            (Method::Bound, _) => {
                let scanned = self.scans[0].as_ref().map_or(0, Scan::at_least);
                // A text that follows another may share its first token with it.
                whole + scanned.saturating_sub(self.scanned + 1)
            }
            (Method::Exact(_), Some(open)) if open.sort != Sort::Doubtful => match &open.text {
                Kind::Text(text) => whole + text.at_least(),
                _ => whole,
            },
            (Method::Exact(_) | Method::Later, _) => whole,
        }
    }

    /// All texts, when none is open; those whose tokens are known come to `known`.
    pub(super) fn texts_with(&self, known: u64) -> Texts {
        let mut texts = self.texts();
        // Of these it is not remembered how much is JSON: no byte is more than a token.
        let written = self.known_json_bytes.min(known).div_ceil(2);
        texts.parts[Part::Messages as usize] += known;
        texts.tokens += known;
        texts.low += known - written;
        texts.high += known + written;
        texts
    }

    /// All texts, when none is open.
    pub(super) fn texts(&self) -> Texts {
        let Method::Estimate { estimator, ratio } = &self.method else {
            let tokens = self.tokens.iter().sum();
            // How an upstream writes JSON is its own affair: half as much or half more.
            return Texts {
                parts: self.tokens,
                tokens,
                low: tokens - self.written.div_ceil(2),
                high: tokens + self.written.div_ceil(2),
                uncalibrated: tokens,
            };
        };
        let part = |part: usize| {
            let estimate = |features| ratio.apply(estimator.estimate(&features)).tokens;
            self.features_of(part).map_or(0, estimate)
        };
        let uncalibrated = estimator.estimate(&self.all_features());
        let all = ratio.apply(uncalibrated);
        Texts {
            parts: std::array::from_fn(part),
            tokens: all.tokens,
            low: all.low,
            high: all.high,
            uncalibrated: uncalibrated.tokens,
        }
    }

    fn features_of(&self, part: usize) -> Option<Features> {
        let scanned = self.scans[part].as_ref().map(Scan::so_far);
        match (scanned, &self.features[part]) {
            (Some(mut sum), Some(more)) => {
                sum += more;
                Some(sum)
            }
            (scanned, alone) => scanned.or_else(|| alone.clone()),
        }
    }

    fn all_features(&self) -> Features {
        let mut parts = (0..PARTS).filter_map(|part| self.features_of(part));
        let mut all = parts.next().unwrap_or_default();
        for features in parts {
            all += &features;
        }
        all
    }
}
