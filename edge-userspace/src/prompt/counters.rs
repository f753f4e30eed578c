//! How the texts of a model's requests are counted, on one thread.

use super::calibration::Calibration;
use super::tally::Method;
use crate::config::{Models, Tokenizer};
use crate::tokens::estimate::Estimator;
use crate::tokens::{Counter, Vocabulary};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// One counter for each vocabulary that this thread has met. As many as the configuration
/// names: a reload that takes a vocabulary out takes its counter out too.
#[derive(Default)]
pub struct Counters(RefCell<Vec<Rc<RefCell<Counter>>>>);

impl Counters {
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

    /// Forgets counters of vocabularies that no rule names any more.
    pub fn keep(&self, models: &Models) {
        self.0.borrow_mut().retain(|counter| {
            models.iter().any(|model| match &model.tokenizer {
                Tokenizer::Vocabulary(vocabulary) => counter.borrow().vocabulary().is(vocabulary),
                Tokenizer::Estimate(_) => false,
            })
        });
    }
}

/// By which rules a request is counted.
pub(super) struct Rules {
    pub(super) models: Arc<Models>,
    pub(super) counters: Rc<Counters>,
    pub(super) calibration: Arc<Calibration>,
}

impl Rules {
    /// A number for the rule by which a model's requests are counted, and for what it says.
    pub(super) fn number(&self, model: &[u8]) -> u64 {
        let rule = self.models.number_of(model) as u64;
        self.models.generation() << 16 | rule
    }

    pub(super) fn method(&self, model: &[u8]) -> Method {
        match &self.models.rule(self.models.number_of(model)).tokenizer {
            Tokenizer::Vocabulary(vocabulary) => Method::Exact(self.counters.of(vocabulary)),
            Tokenizer::Estimate(like) => Method::Estimate {
                // The configuration takes no other names.
                estimator: Estimator::named(like).expect("there are weights for it"),
                ratio: Box::new(self.calibration.ratio(model)),
            },
        }
    }
}
