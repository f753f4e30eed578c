//! `edge count`.

mod input;
mod progress;
mod report;
mod tokenizer;

use super::output::{Failure, Outcome, print_json, print_line};
use crate::config::{self, Models};
use crate::tokens::estimate::{self, Estimator};
use crate::tokens::{Counter, Pattern, Text, Vocabulary};
use input::{Input, Read};
use report::{Count, Counted, Report, Unread};
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokenizer::{DEFAULT, Tokenizer, pattern, tokenizer};

/// Count the tokens of texts: exactly, by a reference vocabulary, or as an estimate.
///
/// A text may be of any size: it is read piece by piece. Bytes that are no UTF-8 count as the
/// replacement character, and names of special tokens are text like any other.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge count prompt.txt
  cat prompt.txt | edge count --tokenizer cl100k_base
  edge count --json src/*.rs
  edge count --tokenizer gpt-4.1 prompt.txt                  by the vocabulary of that model
  edge count --estimate book.txt            with the interval that nearly all ordinary texts are within
  edge count --tokenizer llama3/tokenizer.json prompt.txt
  edge count --tokenizer my.tiktoken --pattern cl100k prompt.txt
  edge count --list

Exit codes: 0 all counted, 1 a text or the vocabulary could not be read, 2 wrong usage.
What is no UTF-8 is counted, and said on standard error.")]
pub(super) struct CountTokens {
    /// Texts to count; `-`, or none, is standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A built-in vocabulary by its name, a model that has one, or a .tiktoken or tokenizer.json
    /// file.
    #[arg(long, short, value_name = "NAME|FILE", default_value = DEFAULT, value_parser = tokenizer)]
    tokenizer: Tokenizer,
    /// How a .tiktoken file's vocabulary cuts text into pieces; a tokenizer.json says it.
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pattern: Option<Pattern>,
    /// An estimate, from one look at the bytes, with the interval that nearly all ordinary texts
    /// are within; made to deceive, a text is outside.
    #[arg(long)]
    estimate: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
    /// List the built-in vocabularies, the models that are known and the patterns, and count
    /// nothing.
    #[arg(long, conflicts_with_all = ["files", "tokenizer", "pattern", "estimate"])]
    list: bool,
}

impl CountTokens {
    pub(super) fn run(self) -> Outcome {
        if self.list {
            return if self.json { list_json() } else { list() };
        }
        let vocabulary = (self.tokenizer).vocabulary(self.pattern, self.estimate)?;
        let mut report = Report::new(vocabulary.name());
        let mut way = if self.estimate {
            let estimator = Estimator::new(&vocabulary);
            report.weights = Some(estimator.vocabulary());
            Way::Estimate(estimator)
        } else {
            Way::Exact(Box::new(Counter::new(&vocabulary)))
        };
        let inputs = match self.files.is_empty() {
            true => vec![PathBuf::from("-")],
            false => self.files,
        };
        let began = Instant::now();
        for path in &inputs {
            let file = name_of(path);
            match Input::open(path).and_then(|input| way.count(input)) {
                Ok((count, read)) => {
                    if let Some(at) = read.not_utf8_at {
                        eprintln!(
                            "edge: {file}: is no UTF-8 from byte {at} on; each part that is none counts as the replacement character"
                        );
                    }
                    report.counted.push(Counted { file, read, count });
                }
                Err(error) => {
                    let error = told(&error);
                    eprintln!("edge: {file}: {error}");
                    report.unread.push(Unread { file, error });
                }
            }
        }
        report.took = began.elapsed();
        if self.json {
            report.print_json()?;
        } else {
            report.print()?;
        }
        match report.unread.is_empty() {
            true => Ok(()),
            false => Err(Failure::Told),
        }
    }
}

fn list() -> Outcome {
    for name in Vocabulary::EMBEDDED {
        let is_default = if name == DEFAULT { ", the default" } else { "" };
        print_line(format_args!("{name} (built in{is_default})"))?;
    }
    let patterns = Pattern::ALL.map(Pattern::name).join(", ");
    print_line("FILE.tiktoken, with --pattern or a name that says it")?;
    print_line("tokenizer.json of byte-level byte-pair encoding")?;
    print_line(format_args!("patterns: {patterns}"))?;
    print_line("models:")?;
    for (model, vocabulary, is_published) in models() {
        let way = match is_published {
            true => vocabulary,
            false => format!("not published; --estimate has the weights of {vocabulary}"),
        };
        print_line(format_args!("  {model}: {way}"))?;
    }
    Ok(())
}

fn list_json() -> Outcome {
    let models = models().map(|(model, vocabulary, is_published)| {
        json!({ "model": model, "vocabulary": vocabulary, "published": is_published })
    });
    print_json(&json!({
        "vocabularies": Vocabulary::EMBEDDED,
        "default": DEFAULT,
        "patterns": Pattern::ALL.map(Pattern::name),
        "models": models.collect::<Vec<_>>(),
    }))
}

/// Models that are known by name: their vocabulary, or the one that an estimate of them is
/// weighted for, and whether it is published.
fn models() -> impl Iterator<Item = (String, String, bool)> {
    let models: Vec<_> = (Models::default().iter())
        .map(|rule| {
            let (vocabulary, is_published) = match &rule.tokenizer {
                config::Tokenizer::Vocabulary(vocabulary) => (vocabulary.name(), true),
                config::Tokenizer::Estimate(like) => (*like, false),
            };
            (rule.name.to_string(), vocabulary.to_owned(), is_published)
        })
        .filter(|(model, ..)| model != "*")
        .collect();
    models.into_iter()
}

/// How texts are counted; used for one after the other.
enum Way {
    Exact(Box<Counter>),
    Estimate(Estimator),
}

impl Way {
    /// Reads a text to its end.
    fn count(&mut self, mut input: Input) -> io::Result<(Count, Read)> {
        Ok(match self {
            Self::Exact(counter) => {
                let mut text = Text::new(counter);
                let read = input.read(|chunk| text.push(counter, chunk))?;
                (Count::Exact(text.finish(counter)), read)
            }
            Self::Estimate(estimator) => {
                let mut scan = estimate::Scan::new();
                let read = input.read(|chunk| scan.push(chunk))?;
                (Count::Estimate(estimator.estimate(&scan.finish())), read)
            }
        })
    }
}

fn name_of(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory; name its files".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        _ => error.to_string(),
    }
}

/// `1.2 GB/s`, and the like.
fn per_second(bytes: u64, took: Duration) -> String {
    format!(
        "{}/s",
        size(bytes as f64 / took.as_secs_f64().max(f64::EPSILON))
    )
}

/// `1.2 GB`, and the like.
fn size(bytes: f64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes / unit),
        None => format!("{bytes:.0} B"),
    }
}
