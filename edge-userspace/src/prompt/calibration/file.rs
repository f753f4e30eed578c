//! The file that keeps what has been learnt: JSON, replaced whole.

use super::is_name;
use crate::tokens::estimate::calibrate::Ratio;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Largest file that is read.
const MAX_BYTES: u64 = 4 << 20;
/// The form that this program writes.
const VERSION: u32 = 1;
/// Files that are kept aside at most: FILE.damaged, FILE.damaged-2 and so on.
const MOST_ASIDE: u32 = 9;
/// What was learnt longer ago is of no use: models are changed under their names.
const MAX_AGE: Duration = Duration::from_secs(90 * 86_400);

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
    #[error("{path}: holds no calibration of models: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What it holds cannot be kept aside, so it is not replaced.
    #[error(
        "{path}: holds no calibration of models, and up to {last} there is no name to keep it under; take some of those away"
    )]
    Aside {
        /// The file.
        path: PathBuf,
        /// The last name that was tried.
        last: PathBuf,
    },
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    /// Unix time.
    written_at_s: u64,
    models: InOrder,
}

/// An object whose keys keep their order: by when a model was learnt, the latest last.
struct InOrder(Vec<(Box<str>, Vec<f64>)>);

impl Serialize for InOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, state)| (name, state)))
    }
}

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = InOrder;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("models and their numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(InOrder(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// What a file holds, the latest last; nothing when there is none, or when it is older than
/// ninety days.
///
/// # Errors
/// When it cannot be read or is no such file, or when its directory is not there.
pub fn read(path: &Path) -> Result<Vec<(Box<str>, Ratio)>, Error> {
    let wrong = |what: String| Error::Content {
        path: path.to_owned(),
        what,
    };
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory(path).is_dir() => {
            return Ok(Vec::new());
        }
        Err(source) => {
            return Err(Error::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    if text.is_empty() {
        return Err(wrong("it is empty".to_owned()));
    }
    if text.len() as u64 > MAX_BYTES {
        return Err(wrong(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let content: Content =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if content.version != VERSION {
        return Err(wrong(format!(
            "it is of version {}, and this program knows {VERSION}",
            content.version
        )));
    }
    if content.written_at_s.saturating_add(MAX_AGE.as_secs()) < unix_s() {
        return Ok(Vec::new());
    }
    (content.models.0.into_iter())
        .filter(|(name, _)| is_name(name))
        .map(|(name, state)| {
            let ratio = Ratio::from_state(&state)
                .ok_or_else(|| wrong(format!("what it says of {name:?} is out of bounds")))?;
            Ok((name, ratio))
        })
        .collect()
}

/// Replaces the file: whoever reads it, also after a crash, has the old or the new one.
pub(super) fn write(path: &Path, models: &[(Box<str>, Ratio)]) -> Result<(), Error> {
    let content = Content {
        version: VERSION,
        written_at_s: unix_s(),
        models: InOrder(
            (models.iter())
                .map(|(name, ratio)| (name.clone(), ratio.state().to_vec()))
                .collect(),
        ),
    };
    let replace = || {
        let mut file = tempfile::NamedTempFile::new_in(directory(path))?;
        serde_json::to_writer(&mut file, &content)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    replace().map_err(|source: io::Error| Error::Io {
        path: path.to_owned(),
        source,
    })
}

/// Gives a file that is no calibration another name, which nothing has, and says which; a file
/// that is empty or not there is left.
pub(super) fn keep_aside(path: &Path) -> Result<Option<PathBuf>, Error> {
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    match std::fs::metadata(path) {
        Ok(about) if about.len() == 0 => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    }
    let mut aside = PathBuf::new();
    for number in 1..=MOST_ASIDE {
        let mut name = path.as_os_str().to_owned();
        name.push(".damaged");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        aside = PathBuf::from(name);
        if aside.symlink_metadata().is_err() {
            std::fs::rename(path, &aside).map_err(io)?;
            return Ok(Some(aside));
        }
    }
    Err(Error::Aside {
        path: path.to_owned(),
        last: aside,
    })
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn directory(path: &Path) -> &Path {
    (path.parent())
        .filter(|directory| *directory != Path::new(""))
        .unwrap_or(Path::new("."))
}

fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
