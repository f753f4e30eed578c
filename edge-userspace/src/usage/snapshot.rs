//! The file that keeps the ledger over a restart: a line of what it is, one a key, and one
//! that says how many those are.
//!
//! Replaced whole, so whoever reads it has the old or the new one.

use super::KeyUsage;
use edge_common::token::KeyId;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The form that this program writes.
const VERSION: u32 = 1;
/// Longest line that is read.
const MAX_LINE_BYTES: u64 = 1024;
/// Files that are kept aside at most: FILE.damaged, FILE.damaged-2 and so on.
const MOST_ASIDE: u32 = 9;

/// What is kept of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// What it has used.
    pub usage: KeyUsage,
    /// The number of the UTC day of `tokens_today`.
    pub day: u64,
    /// In how long its buckets of requests, input and output are full, nanoseconds.
    pub debts_ns: [u64; 3],
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what the daemon writes.
    #[error("{path}:{line}: holds no usage of keys: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Another daemon keeps its usage there.
    #[error(
        "{path}: another edge keeps its usage there (it holds {lock}); give each a file of its own"
    )]
    Taken {
        /// The file.
        path: PathBuf,
        /// The lock beside it.
        lock: PathBuf,
    },
    /// It cannot be kept aside, so it is not replaced.
    #[error(
        "{path}: holds no usage of keys, and up to {last} there is no name to keep it under; take some of those away"
    )]
    Aside {
        /// The file.
        path: PathBuf,
        /// The last name that was tried.
        last: PathBuf,
    },
}

/// The first line.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    edge_usage: u32,
    /// Unix time, milliseconds.
    written_at_ms: u64,
}

/// The last line.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct End {
    keys: u64,
}

/// A key's line: id; requests, input, cache_read, cache_written, output; day, its tokens;
/// debts in nanoseconds.
type Line<'a> = (&'a str, [u64; 5], [u64; 2], [u64; 3]);

/// What a file holds, and how old it is; nothing when there is none.
///
/// # Errors
/// When it cannot be read or is no such file, or when its directory is not there.
pub fn read(path: &Path) -> Result<(Vec<Saved>, Duration), Error> {
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory(path).is_dir() => {
            return Ok((Vec::new(), Duration::ZERO));
        }
        Err(source) => return Err(io(source)),
    };
    let mut lines = Lines {
        file: BufReader::new(file),
        text: Vec::new(),
        number: 0,
    };
    let wrong = |line, what: &str| Error::Content {
        path: path.to_owned(),
        line,
        what: what.to_owned(),
    };
    let header = lines.next().map_err(io)?.unwrap_or_default();
    let header: Header =
        serde_json::from_slice(header).map_err(|error| wrong(1, &error.to_string()))?;
    if header.edge_usage != VERSION {
        return Err(wrong(1, "it is of another version"));
    }
    let mut saved = Vec::new();
    let mut end = None;
    loop {
        let number = lines.number + 1;
        let Some(text) = lines.next().map_err(io)? else {
            break;
        };
        if end.is_some() {
            return Err(wrong(number, "something stands behind its end"));
        }
        if let Ok(End { keys }) = serde_json::from_slice(text) {
            end = Some(keys);
            continue;
        }
        let line: Line<'_> =
            serde_json::from_slice(text).map_err(|error| wrong(number, &error.to_string()))?;
        saved.push(Saved::of(line).ok_or_else(|| wrong(number, "no key id stands there"))?);
    }
    if end != Some(saved.len() as u64) {
        return Err(wrong(
            lines.number,
            "it has not as many keys as its end says",
        ));
    }
    let age_ms = unix_ms().saturating_sub(header.written_at_ms);
    Ok((saved, Duration::from_millis(age_ms)))
}

/// A file that is this daemon's alone, as long as this exists: the lock is a file beside it,
/// since the file itself is replaced (flock(2)). It ends with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: std::fs::File,
}

/// Takes the file for this daemon.
///
/// # Errors
/// When another has it, or the system refuses.
pub fn lock(path: &Path) -> Result<Lock, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    let file = (std::fs::File::options().write(true).create(true))
        .truncate(false)
        .open(&lock)
        .map_err(|source| Error::Io {
            path: lock.clone(),
            source,
        })?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { _file: file }),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Taken {
            path: path.to_owned(),
            lock,
        }),
        Err(std::fs::TryLockError::Error(source)) => Err(Error::Io { path: lock, source }),
    }
}

/// Replaces the file.
///
/// # Errors
/// When the system refuses.
pub fn write(path: &Path, saved: impl Iterator<Item = Saved>) -> Result<(), Error> {
    let header = Header {
        edge_usage: VERSION,
        written_at_ms: unix_ms(),
    };
    let replace = move || {
        let file = tempfile::NamedTempFile::new_in(directory(path))?;
        let mut out = BufWriter::new(file);
        serde_json::to_writer(&mut out, &header)?;
        let mut keys = 0;
        for entry in saved {
            keys += 1;
            out.write_all(b"\n")?;
            let id = entry.usage.key_id.to_string();
            serde_json::to_writer(&mut out, &entry.line(&id))?;
        }
        out.write_all(b"\n")?;
        serde_json::to_writer(&mut out, &End { keys })?;
        out.write_all(b"\n")?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    replace().map_err(|source: io::Error| Error::Io {
        path: path.to_owned(),
        source,
    })
}

/// Gives a file that is of no use another name, which nothing has.
///
/// # Errors
/// When there is no such name, or the system refuses.
pub fn keep_aside(path: &Path) -> Result<PathBuf, Error> {
    let mut aside = PathBuf::new();
    for number in 1..=MOST_ASIDE {
        let mut name = path.as_os_str().to_owned();
        name.push(".damaged");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        aside = PathBuf::from(name);
        if aside.symlink_metadata().is_err() {
            return match std::fs::rename(path, &aside) {
                Ok(()) => Ok(aside),
                Err(source) => Err(Error::Io {
                    path: path.to_owned(),
                    source,
                }),
            };
        }
    }
    Err(Error::Aside {
        path: path.to_owned(),
        last: aside,
    })
}

impl Saved {
    fn line<'a>(&self, id: &'a str) -> Line<'a> {
        let usage = &self.usage;
        (
            id,
            [
                usage.requests,
                usage.input,
                usage.cache_read,
                usage.cache_written,
                usage.output,
            ],
            [self.day, usage.tokens_today],
            self.debts_ns,
        )
    }

    fn of((id, total, [day, tokens_today], debts_ns): Line<'_>) -> Option<Self> {
        let [requests, input, cache_read, cache_written, output] = total;
        Some(Self {
            usage: KeyUsage {
                key_id: KeyId::from_hex(id)?,
                requests,
                input,
                cache_read,
                cache_written,
                output,
                tokens_today,
                running: 0,
                reserved_input: 0,
                reserved_output: 0,
                reserved_today: 0,
            },
            day,
            debts_ns,
        })
    }
}

struct Lines {
    file: BufReader<std::fs::File>,
    text: Vec<u8>,
    number: u64,
}

impl Lines {
    /// The next line, none at the end. One that is too long is cut, and then no JSON.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        use io::Read as _;
        self.text.clear();
        let mut line = (&mut self.file).take(MAX_LINE_BYTES);
        if line.read_until(b'\n', &mut self.text)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(&self.text))
    }
}

fn directory(path: &Path) -> &Path {
    (path.parent())
        .filter(|directory| *directory != Path::new(""))
        .unwrap_or(Path::new("."))
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
