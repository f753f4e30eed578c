//! Counts the texts of one request, one after the other, as they arrive.
//!
//! Three ways: by the model's own vocabulary; by features of the text, where it has none that
//! is published; and, while the model is not known, a number below which no vocabulary can be.

use super::place::Part;
use crate::tokens::estimate::calibrate::Ratio;
use crate::tokens::estimate::{Estimator, Features, Scan};
use crate::tokens::{Counter, Text};
use std::cell::RefCell;
use std::rc::Rc;

/// How texts are counted.
#[derive(Clone)]
pub(super) enum Method {
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
    tokens: [u64; Part::ALL.len()],
    /// Of these, tokens of JSON that the upstream will write its own way.
    written: u64,
    /// Whole texts: their features, by part; made when there are some.
    features: [Option<Features>; Part::ALL.len()],
    /// A text of which it is not known yet whether it is one.
    doubtful: Option<Whole>,
    /// Whether there has been a text.
    touched: bool,
}

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
    Text(Text),
    Scan(Scan),
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    /// By part.
    pub(super) parts: [u64; Part::ALL.len()],
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
            tokens: [0; Part::ALL.len()],
            written: 0,
            features: std::array::from_fn(|_| None),
            doubtful: None,
            touched: false,
        }
    }

    pub(super) fn is_bound(&self) -> bool {
        matches!(self.method, Method::Bound)
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    /// A text begins.
    pub(super) fn begin(&mut self, part: Part, sort: Sort) {
        self.touched = true;
        let text = match &self.method {
            Method::Exact(counter) => Kind::Text(Text::new(&counter.borrow())),
            Method::Bound | Method::Estimate { .. } => Kind::Scan(Scan::new()),
        };
        self.open = Some(Open { part, sort, text });
    }

    /// It goes on.
    pub(super) fn push(&mut self, piece: &[u8]) {
        match (&mut self.open, &self.method) {
            (Some(open), Method::Exact(counter)) => {
                if let Kind::Text(text) = &mut open.text {
                    text.push(&mut counter.borrow_mut(), piece);
                }
            }
            (Some(open), _) => {
                if let Kind::Scan(scan) = &mut open.text {
                    scan.push(piece);
                }
            }
            (None, _) => {}
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
            (Kind::Scan(scan), Method::Bound) => whole.tokens = bound_of_one(&scan),
            (Kind::Scan(scan), _) => whole.features = Some(scan.finish()),
            (Kind::Text(_), _) => {}
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

    /// As many tokens as there are so far, the open text included.
    pub(super) fn at_least(&self) -> u64 {
        let whole: u64 = self.tokens.iter().sum();
        let open = (self.open.as_ref()).filter(|open| open.sort != Sort::Doubtful);
        match (&self.method, open.map(|open| &open.text)) {
            (Method::Estimate { estimator, ratio }, open) => {
                let mut features = self.all_features();
                if let Some(Kind::Scan(scan)) = open {
                    features += &scan.so_far();
                }
                ratio.apply(estimator.estimate(&features)).tokens
            }
            (Method::Bound, Some(Kind::Scan(scan))) => whole + bound_of_one(scan),
            (Method::Exact(_), Some(Kind::Text(text))) => whole + text.at_least(),
            _ => whole,
        }
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
        let part = |features: &Option<Features>| {
            let estimate = |features| ratio.apply(estimator.estimate(features)).tokens;
            features.as_ref().map_or(0, estimate)
        };
        let uncalibrated = estimator.estimate(&self.all_features());
        let all = ratio.apply(uncalibrated);
        Texts {
            parts: self.features.each_ref().map(part),
            tokens: all.tokens,
            low: all.low,
            high: all.high,
            uncalibrated: uncalibrated.tokens,
        }
    }

    fn all_features(&self) -> Features {
        let mut all = Features::default();
        for features in self.features.iter().flatten() {
            all += features;
        }
        all
    }
}

/// A text that follows another may share its first token with it, so one is left out.
fn bound_of_one(scan: &Scan) -> u64 {
    scan.at_least().saturating_sub(1)
}
