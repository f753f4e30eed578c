//! What is wrong with a configuration: where, what, and the cure.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The field's full name, such as `listen.backlog`; empty for a fault of syntax.
    pub field: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub cure: String,
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read at all.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file was read and is wrong, in these ways.
    Wrong {
        /// The file.
        file: PathBuf,
        /// In order of line; never empty.
        problems: Vec<Problem>,
    },
}

impl std::error::Error for Error {}

/// One line a problem: `FILE:LINE:COLUMN: FIELD: what is wrong; the cure`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, source } => write!(
                f,
                "{}: cannot read the configuration: {source}; name the file with --config or EDGE_CONFIG",
                file.display(),
            ),
            Self::Wrong { file, problems } => {
                for (i, problem) in problems.iter().enumerate() {
                    if i > 0 {
                        f.write_str("\n")?;
                    }
                    write!(f, "{}:{problem}", file.display())?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.what, self.cure)
    }
}

/// Collects problems in one file.
pub(super) struct Problems<'a> {
    pub(super) file: &'a Path,
    text: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
        }
    }

    /// `span`: bytes of the text; none: the end of the file, where something is missing.
    pub(super) fn add(
        &mut self,
        span: Option<Range<usize>>,
        field: &str,
        what: impl Into<String>,
        cure: impl Into<String>,
    ) {
        let end = self.text.trim_end().len();
        let offset = span.map_or(end, |span| span.start).min(self.text.len());
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        self.found.push(Problem {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            field: field.to_owned(),
            what: what.into(),
            cure: cure.into(),
        });
    }

    pub(super) fn finish(mut self) -> Result<(), Error> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found
            .sort_by_key(|problem| (problem.line, problem.column));
        Err(Error::Wrong {
            file: self.file.to_owned(),
            problems: self.found,
        })
    }
}
