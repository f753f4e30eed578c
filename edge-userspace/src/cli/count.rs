//! `edge count`.

mod progress;
mod report;

use super::output::{Failure, Outcome, print_line};
use crate::tokens::estimate::{self, Estimator};
use crate::tokens::{Counter, Pattern, Text, Vocabulary};
use progress::Progress;
use report::{Count, Counted, Report};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So much is read at a time, and no more of a text is ever in memory.
const CHUNK_BYTES: usize = 256 << 10;
/// What is counted with unless another is named.
const DEFAULT: &str = "o200k_base";

/// Count the tokens of texts: exactly, by a reference vocabulary, or as an estimate.
///
/// A text may be of any size: it is read piece by piece. Bytes that are no UTF-8 count as the
/// replacement character, and names of special tokens are text like any other.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge count prompt.txt
  cat prompt.txt | edge count --tokenizer cl100k_base
  edge count --json src/*.rs
  edge count --estimate book.txt            with the interval that nearly all ordinary texts are within
  edge count --tokenizer llama3/tokenizer.json prompt.txt
  edge count --tokenizer my.tiktoken --pattern cl100k prompt.txt
  edge count --list

Exit codes: 0 all counted, 1 a text or the vocabulary could not be read, 2 wrong usage.")]
pub(super) struct CountTokens {
    /// Texts to count; `-`, or none, is standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A built-in vocabulary by its name, or a .tiktoken or tokenizer.json file.
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
    /// List the built-in vocabularies and the patterns, and count nothing.
    #[arg(long, exclusive = true)]
    list: bool,
}

/// What `--tokenizer` names.
#[derive(Clone, Debug)]
enum Tokenizer {
    Embedded(&'static str),
    File(PathBuf),
}

fn tokenizer(said: &str) -> Result<Tokenizer, String> {
    if let Some(name) = Vocabulary::EMBEDDED.into_iter().find(|name| *name == said) {
        return Ok(Tokenizer::Embedded(name));
    }
    let path = Path::new(said);
    if path.extension().is_some() || path.components().count() > 1 || path.exists() {
        return Ok(Tokenizer::File(path.into()));
    }
    let names = Vocabulary::EMBEDDED.join(", ");
    let similar = |name: &&str| strsim::jaro_winkler(name, said) > 0.8;
    let meant = Vocabulary::EMBEDDED.into_iter().find(similar);
    let meant = meant.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
    Err(format!(
        "no such vocabulary{meant}; built in are {names}, others come from a file"
    ))
}

fn pattern(said: &str) -> Result<Pattern, String> {
    let names = || Pattern::ALL.map(Pattern::name).join(", ");
    Pattern::named(said).ok_or_else(|| format!("no such pattern; there are {}", names()))
}

impl CountTokens {
    pub(super) fn run(self) -> Outcome {
        if self.list {
            return list();
        }
        let vocabulary = self.vocabulary()?;
        let mut way = if self.estimate {
            Way::Estimate(Estimator::new(&vocabulary))
        } else {
            Way::Exact(Box::new(Counter::new(&vocabulary)))
        };
        let inputs = match self.files.is_empty() {
            true => vec![PathBuf::from("-")],
            false => self.files,
        };
        let mut report = Report::new(vocabulary.name(), self.estimate);
        let began = Instant::now();
        for path in &inputs {
            match Input::open(path).and_then(|input| way.count(input)) {
                Ok((count, bytes)) => report.counted.push(Counted {
                    file: name_of(path),
                    bytes,
                    count,
                }),
                Err(error) => {
                    report.failed += 1;
                    eprintln!("edge: {}: {}", name_of(path), told(&error));
                }
            }
        }
        report.took = began.elapsed();
        if self.json {
            report.print_json()?;
        } else {
            report.print()?;
        }
        match report.failed {
            0 => Ok(()),
            _ => Err(Failure::Told),
        }
    }

    fn vocabulary(&self) -> Result<Vocabulary, Failure> {
        match &self.tokenizer {
            Tokenizer::Embedded(name) if self.pattern.is_none() => {
                Vocabulary::embedded(name).ok_or_else(|| Failure::because("it is built in"))
            }
            Tokenizer::Embedded(name) => Err(Failure::because(format!(
                "--pattern: {name} has its own; the option is for .tiktoken files"
            ))),
            Tokenizer::File(path) => Vocabulary::load(path, self.pattern).map_err(|error| {
                let (error, path) = (error.to_string(), path.display().to_string());
                match error.contains(&path) {
                    true => Failure::Because(error),
                    false => Failure::Because(format!("{path}: {error}")),
                }
            }),
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
    print_line(format_args!("patterns: {patterns}"))
}

/// How texts are counted; used for one after the other.
enum Way {
    Exact(Box<Counter>),
    Estimate(Estimator),
}

impl Way {
    /// Reads a text to its end; its count and its bytes.
    fn count(&mut self, mut input: Input) -> io::Result<(Count, u64)> {
        Ok(match self {
            Self::Exact(counter) => {
                let mut text = Text::new(counter);
                let bytes = input.read(|chunk| text.push(counter, chunk))?;
                (Count::Exact(text.finish(counter)), bytes)
            }
            Self::Estimate(estimator) => {
                let mut scan = estimate::Scan::new();
                let bytes = input.read(|chunk| scan.push(chunk))?;
                (Count::Estimate(estimator.estimate(&scan.finish())), bytes)
            }
        })
    }
}

/// A text that is read piece by piece.
struct Input {
    from: Box<dyn Read>,
    /// Bytes, where that is known before.
    length: Option<u64>,
}

impl Input {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                from: Box::new(io::stdin().lock()),
                length: None,
            });
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self {
            length: metadata.is_file().then_some(metadata.len()),
            from: Box::new(file),
        })
    }

    /// Hands out the text in order; its bytes.
    fn read(&mut self, mut chunk: impl FnMut(&[u8])) -> io::Result<u64> {
        let mut progress = io::stderr()
            .is_terminal()
            .then(|| Progress::new(self.length));
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut bytes = 0;
        loop {
            match self.from.read(&mut buffer) {
                Ok(0) => return Ok(bytes),
                Ok(got) => {
                    chunk(&buffer[..got]);
                    bytes += got as u64;
                    if let Some(progress) = &mut progress {
                        progress.show(bytes);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
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
