//! How the texts of a model's requests are counted, on one thread, and what is kept for the next
//! request that was made for one.

use super::calibration::Calibration;
use super::guard::Limits;
use super::reading::Reading;
use super::tally::Method;
use super::walk::Shape;
use crate::config::{Models, Tokenizer};
use crate::tokens::estimate::Estimator;
use crate::tokens::{Counter, Vocabulary};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// As many readings are kept for further bodies.
const MOST_SPARE: usize = 16;
/// One that has grown larger than this is not kept, bytes.
const MOST_SPARE_BYTES: usize = 32 * 1024;

/// What one thread counts with.
#[derive(Default)]
pub struct Counters {
    by_vocabulary: Rc<ByVocabulary>,
    /// Those of the last request, which are the next one's as a rule.
    rules: RefCell<Option<Rc<Rules>>>,
    #[expect(
        clippy::vec_box,
        reason = "each goes in and out as it is, and is large"
    )]
    spare: RefCell<Vec<Box<Reading>>>,
}

/// One counter for each vocabulary that this thread has met. As many as the configuration
/// names: a reload that takes a vocabulary out takes its counter out too.
#[derive(Default)]
struct ByVocabulary(RefCell<Vec<Rc<RefCell<Counter>>>>);

impl Counters {
    /// To read a body, of which nothing has come.
    #[must_use]
    pub fn reading(
        &self,
        shape: Shape,
        models: &Arc<Models>,
        calibration: &Arc<Calibration>,
        limits: Limits,
    ) -> Box<Reading> {
        let rules = self.rules(models, calibration);
        match self.spare.borrow_mut().pop() {
            None => Reading::of(rules, shape, limits),
            Some(mut spare) => {
                spare.begin(rules, shape, limits);
                spare
            }
        }
    }

    /// Takes back what is no longer needed, for another body. Nothing of a text stays in it.
    pub fn keep_for_next(&self, mut reading: Box<Reading>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < MOST_SPARE && reading.memory_bytes() <= MOST_SPARE_BYTES {
            reading.clear();
            spare.push(reading);
        }
    }

    pub(super) fn rules(&self, models: &Arc<Models>, calibration: &Arc<Calibration>) -> Rc<Rules> {
        let mut last = self.rules.borrow_mut();
        let rules = last.take().filter(|rules| {
            Arc::ptr_eq(&rules.models, models) && Arc::ptr_eq(&rules.calibration, calibration)
        });
        let rules = rules.unwrap_or_else(|| {
            Rc::new(Rules {
                models: Arc::clone(models),
                counters: Rc::clone(&self.by_vocabulary),
                calibration: Arc::clone(calibration),
            })
        });
        Rc::clone(last.insert(rules))
    }

    /// Forgets counters of vocabularies that no rule names any more.
    pub fn keep(&self, models: &Models) {
        self.spare.borrow_mut().clear();
        *self.rules.borrow_mut() = None;
        self.by_vocabulary.0.borrow_mut().retain(|counter| {
            models.iter().any(|model| match &model.tokenizer {
                Tokenizer::Vocabulary(vocabulary) => counter.borrow().vocabulary().is(vocabulary),
                Tokenizer::Estimate(_) => false,
            })
        });
    }
}

impl ByVocabulary {
    fn of(&self, vocabulary: &Vocabulary) -> Rc<RefCell<Counter>> {
        let mut counters = self.0.borrow_mut();
        let known = |counter: &&Rc<RefCell<Counter>>| {
            (counter.try_borrow()).is_ok_and(|counter| counter.vocabulary().is(vocabulary))
        };
        if let Some(counter) = counters.iter().find(known) {
            return Rc::clone(counter);
        }
        let counter = Rc::new(RefCell::new(Counter::new(vocabulary)));
        counters.push(Rc::clone(&counter));
        counter
    }
}

/// By which rules a request is counted.
pub(super) struct Rules {
    pub(super) models: Arc<Models>,
    counters: Rc<ByVocabulary>,
    pub(super) calibration: Arc<Calibration>,
}

impl Rules {
    /// A number for a rule of [`Models`], and for what it says.
    pub(super) fn number(&self, rule: usize) -> u64 {
        self.models.generation() << 16 | rule as u64
    }

    /// Whether a rule's models are counted by a vocabulary: each text's tokens are its own,
    /// whatever is around it.
    pub(super) fn is_exact(&self, rule: usize) -> bool {
        let tokenizer = &self.models.rule(rule).tokenizer;
        matches!(tokenizer, Tokenizer::Vocabulary(_))
    }

    /// The way of a model and its rule.
    pub(super) fn method(&self, rule: usize, model: &[u8]) -> Method {
        match &self.models.rule(rule).tokenizer {
            Tokenizer::Vocabulary(vocabulary) => Method::Exact(self.counters.of(vocabulary)),
            Tokenizer::Estimate(like) => Method::Estimate {
                // The configuration takes no other names.
                estimator: Estimator::named(like).expect("there are weights for it"),
                ratio: Box::new(self.calibration.ratio(model)),
            },
        }
    }
}
