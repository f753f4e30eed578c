//! Everything that counts, behind one face: the product with each set of instructions, and
//! the tokenizers of others.

use crate::clock::passes_ns;
use crate::gigatoken::{Gigatoken, Way, rank_file};
use crate::ours;
use crate::reference::{BpeOpenai, TiktokenRs};
use edge_userspace::tokens::{Counter, Isa};
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

/// Counts the texts that it was given, and takes the time.
pub(crate) trait Contender {
    /// In figures.
    fn name(&self) -> String;

    /// A further text; they are numbered from 0.
    fn give(&mut self, text: &str) -> Result<(), String>;

    /// The tokens of a text.
    fn count(&mut self, text: usize) -> Result<u64, String>;

    /// Nanoseconds of one of so many counts of it.
    fn time(&mut self, text: usize, passes: u32) -> Result<f64, String>;

    /// Whether a round takes one pass alone.
    fn is_slow(&self) -> bool {
        false
    }
}

/// What counts by a function of the same process.
struct InProcess<F> {
    name: String,
    is_slow: bool,
    texts: Vec<String>,
    count: F,
}

impl<F: FnMut(&str) -> u64> Contender for InProcess<F> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn give(&mut self, text: &str) -> Result<(), String> {
        self.texts.push(text.to_owned());
        Ok(())
    }

    fn count(&mut self, text: usize) -> Result<u64, String> {
        Ok((self.count)(&self.texts[text]))
    }

    fn time(&mut self, text: usize, passes: u32) -> Result<f64, String> {
        let text = &*self.texts[text];
        Ok(passes_ns(passes, || {
            black_box((self.count)(black_box(text)));
        }))
    }

    fn is_slow(&self) -> bool {
        self.is_slow
    }
}

/// gigatoken, asked one way; the ways share a process and its texts.
struct Elsewhere {
    name: &'static str,
    way: Way,
    process: Rc<RefCell<Gigatoken>>,
    gives: bool,
}

impl Contender for Elsewhere {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn give(&mut self, text: &str) -> Result<(), String> {
        if self.gives {
            self.process.borrow_mut().load(text.as_bytes())?;
        }
        Ok(())
    }

    fn count(&mut self, text: usize) -> Result<u64, String> {
        self.process.borrow_mut().count(text as u32)
    }

    fn time(&mut self, text: usize, passes: u32) -> Result<f64, String> {
        self.process
            .borrow_mut()
            .time(text as u32, self.way, passes)
    }

    fn is_slow(&self) -> bool {
        self.way == Way::List
    }
}

/// The name of the product with a set of instructions.
pub(crate) fn ours_name(isa: Isa) -> String {
    format!("edge_{isa}")
}

/// All for a vocabulary, ours first; and why others are not among them.
pub(crate) fn contenders(vocabulary: &str) -> (Vec<Box<dyn Contender>>, Vec<String>) {
    let mut all: Vec<Box<dyn Contender>> = Vec::new();
    let mut missing = Vec::new();
    let mut fastest_first: Vec<Isa> = Isa::available().collect();
    fastest_first.reverse();
    for isa in fastest_first {
        let mut counter: Counter = ours::counter(vocabulary, isa);
        all.push(in_process(ours_name(isa), false, move |text| {
            counter.count(text.as_bytes())
        }));
    }
    if let Some(peer) = BpeOpenai::new(vocabulary) {
        let name = "bpe_openai".to_owned();
        all.push(in_process(name, true, move |text| peer.count(text)));
    }
    if let Some(peer) = TiktokenRs::new(vocabulary) {
        let name = "tiktoken_rs".to_owned();
        all.push(in_process(name, true, move |text| peer.count(text)));
    }
    let started =
        rank_file(vocabulary).and_then(|(file, pattern)| Gigatoken::start(&file, pattern));
    match started {
        Ok(process) => {
            let process = Rc::new(RefCell::new(process));
            let ways = [
                ("gigatoken", Way::Encode),
                ("gigatoken_without_ids", Way::NoIds),
                ("gigatoken_list", Way::List),
            ];
            for (index, (name, way)) in ways.into_iter().enumerate() {
                let process = Rc::clone(&process);
                let gives = index == 0;
                all.push(Box::new(Elsewhere {
                    name,
                    way,
                    process,
                    gives,
                }));
            }
        }
        Err(why) => missing.push(format!("gigatoken: {why}")),
    }
    (all, missing)
}

fn in_process(
    name: String,
    is_slow: bool,
    count: impl FnMut(&str) -> u64 + 'static,
) -> Box<dyn Contender> {
    Box::new(InProcess {
        name,
        is_slow,
        texts: Vec::new(),
        count,
    })
}
