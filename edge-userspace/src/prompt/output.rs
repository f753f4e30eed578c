//! Counts the text of an answer while it is relayed, by the model's way.
//!
//! So it is known of an answer that breaks off how much of it there was. What a model writes
//! besides its text (the framing of blocks and calls) is not counted.

use super::tally::Method;
use crate::tokens::estimate::calibrate::Ratio;
use crate::tokens::estimate::{Estimator, Scan};
use crate::tokens::{Counter, Text};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The text of one answer, block by block.
pub struct Output {
    way: Way,
    /// Bytes since it was last told how many tokens there are.
    new_bytes: u64,
    /// What was last told: an estimate never goes back.
    told: u64,
}

enum Way {
    Exact {
        counter: Rc<RefCell<Counter>>,
        /// Tokens of blocks that are whole.
        whole: u64,
        open: Option<Box<Text>>,
    },
    Estimate {
        estimator: Estimator,
        ratio: Box<Ratio>,
        scan: Option<Box<Scan>>,
    },
    /// Nobody's model.
    Unknown,
}

impl Output {
    pub(super) fn new(method: Method) -> Self {
        let way = match method {
            Method::Exact(counter) => Way::Exact {
                counter,
                whole: 0,
                open: None,
            },
            Method::Estimate { estimator, ratio } => Way::Estimate {
                estimator,
                ratio,
                scan: None,
            },
            Method::Later | Method::Bound => Way::Unknown,
        };
        Self {
            way,
            new_bytes: 0,
            told: 0,
        }
    }

    /// Whether it is counted by the model's own vocabulary.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self.way, Way::Exact { .. })
    }

    /// More of the block's text, cut anywhere.
    pub fn push(&mut self, piece: &[u8]) {
        self.new_bytes += piece.len() as u64;
        match &mut self.way {
            Way::Exact { counter, open, .. } => {
                let counter = &mut counter.borrow_mut();
                let text = open.get_or_insert_with(|| Box::new(Text::new(counter)));
                text.push(counter, piece);
            }
            Way::Estimate { scan, .. } => scan.get_or_insert_default().push(piece),
            Way::Unknown => {}
        }
    }

    /// What comes next is another block's.
    pub fn end_block(&mut self) {
        match &mut self.way {
            Way::Exact {
                counter,
                whole,
                open,
            } => {
                if let Some(text) = open.take() {
                    *whole += text.finish(&mut counter.borrow_mut());
                }
            }
            Way::Estimate { scan, .. } => {
                if let Some(scan) = scan {
                    scan.end_text();
                }
            }
            Way::Unknown => {}
        }
    }

    /// Bytes of text that came since [`Output::tokens`] was asked.
    #[must_use]
    pub fn new_bytes(&self) -> u64 {
        self.new_bytes
    }

    /// The tokens of all that has come. Takes about a microsecond when there is more than
    /// before, so it is not for every piece of a fast stream.
    pub fn tokens(&mut self) -> u64 {
        if std::mem::take(&mut self.new_bytes) == 0 {
            return self.told;
        }
        let tokens = match &self.way {
            Way::Exact {
                counter,
                whole,
                open,
            } => {
                let open = open.as_ref();
                whole + open.map_or(0, |text| text.so_far(&mut counter.borrow_mut()))
            }
            Way::Estimate {
                estimator,
                ratio,
                scan,
            } => scan.as_ref().map_or(0, |scan| {
                let features = scan.as_ref().clone().finish();
                ratio.apply(estimator.estimate(&features)).tokens
            }),
            Way::Unknown => 0,
        };
        self.told = self.told.max(tokens);
        self.told
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("is_exact", &self.is_exact())
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

/// One that counts by a vocabulary.
#[cfg(test)]
pub(crate) fn output_for_tests() -> Output {
    let vocabulary = crate::tokens::Vocabulary::embedded("o200k_base").expect("it is built in");
    let counter = Rc::new(RefCell::new(Counter::new(&vocabulary)));
    Output::new(Method::Exact(counter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Vocabulary;

    const TEXT: &str = "So the model says: água über naïve 日本語 🦀, and 1234567 more tokens.\n\n";

    fn exact() -> (Output, Rc<RefCell<Counter>>) {
        let vocabulary = Vocabulary::embedded("o200k_base").expect("it is built in");
        let counter = Rc::new(RefCell::new(Counter::new(&vocabulary)));
        (Output::new(Method::Exact(Rc::clone(&counter))), counter)
    }

    fn estimate() -> Output {
        Output::new(Method::Estimate {
            estimator: Estimator::named("claude-2").expect("it is built in"),
            ratio: Box::default(),
        })
    }

    #[test]
    fn pieces_of_any_size_come_to_the_same() {
        let text = TEXT.repeat(40);
        for size in [1, 3, 7, 64, 1000] {
            let (mut output, counter) = exact();
            let mut before = 0;
            for (number, piece) in text.as_bytes().chunks(size).enumerate() {
                output.push(piece);
                if number % 5 == 0 {
                    let tokens = output.tokens();
                    assert!(tokens >= before, "it never goes back");
                    before = tokens;
                }
            }
            let whole = counter.borrow_mut().count(text.as_bytes());
            assert_eq!(output.tokens(), whole, "{size}");
            output.end_block();
            output.push(text.as_bytes());
            assert_eq!(output.tokens(), 2 * whole, "{size}");
            let mut output = estimate();
            text.as_bytes()
                .chunks(size)
                .for_each(|piece| output.push(piece));
            let mut at_once = estimate();
            at_once.push(text.as_bytes());
            assert_eq!(output.tokens(), at_once.tokens(), "{size}");
            assert!(output.tokens() > 100);
        }
    }

    #[test]
    fn nothing_is_nothing() {
        for mut output in [exact().0, estimate()] {
            output.end_block();
            assert_eq!(output.tokens(), 0);
        }
    }
}
