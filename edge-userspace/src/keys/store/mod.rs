//! The key store on disk: an append-only journal of JSON lines.
//!
//! ```text
//! {"edge-key-store":1,"file":"5b1f…"}
//! {"put":"16c90ee8f37ea61f","name":"alice","key_hash":"…","mac_keys":{"demo":"…"},…}
//! {"revoke":"16c90ee8f37ea61f","at_s":1800000000}
//! {"remove":"16c90ee8f37ea61f"}
//! ```
//!
//! One change costs one line, however many keys there are: [`writer`] appends it under a
//! lock, [`follow`] reads what was appended. A last line without its newline is a write that
//! a crash cut short: readers wait for its end, the next writer mends it. When the file was
//! replaced or rewritten, everything is read again. A later line wins over an earlier one,
//! except that a revocation stays until the key is removed.
//!
//! The store holds MAC keys, so only its owner may read it (mode 0600). It holds no API key.

pub mod follow;
mod header;
pub mod line;
mod lines;
pub mod writer;

pub use header::is_header;

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What is wrong with a key store. No text ever holds what stands in a line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there.
    #[error("{path}: there is no key store; make it with: edge keys new --store {path} --name NAME --audience AUDIENCE", path = .0.display())]
    Missing(PathBuf),
    /// We may not.
    #[error("{path}: cannot {what} the key store: permission denied; {whose}", path = .path.display())]
    Denied {
        /// The store.
        path: PathBuf,
        /// `read`, `lock`, ….
        what: &'static str,
        /// Whose file it is, and the cure.
        whose: String,
    },
    /// The system refused something.
    #[error("{path}: cannot {what} the key store: {source}", path = .path.display())]
    Io {
        /// The store.
        path: PathBuf,
        /// `read`, `lock`, ….
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others may read it.
    #[error("{path}: others can read or change the key store (mode {mode:04o}); mend it with: chmod 600 {path}", path = .path.display())]
    Mode {
        /// The store.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not a regular file.
    #[error("{path}: is no file; name the key store's file", path = .0.display())]
    NoFile(PathBuf),
    /// A line is not what it should be. Nothing of the batch it came in is applied.
    #[error("{path}:{line}: {reason}; mend or delete the line (write a new file and rename it over the old one)", path = .path.display())]
    Line {
        /// The store.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        reason: line::BadLine,
    },
}

impl Error {
    fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound => Self::Missing(path.to_owned()),
            std::io::ErrorKind::PermissionDenied => Self::Denied {
                path: path.to_owned(),
                what,
                whose: whose(path),
            },
            _ => Self::Io {
                path: path.to_owned(),
                what,
                source,
            },
        }
    }
}

/// Whose a file is that we may not open, and as whom to run. Of a file that is out of reach:
/// whose the directory is that shuts us out.
#[must_use]
pub fn whose(path: &Path) -> String {
    let us = rustix::process::geteuid().as_raw();
    let seen =
        (path.ancestors()).find_map(|place| Some((place, std::fs::metadata(place).ok()?.uid())));
    match seen {
        Some((place, owner)) if owner != us => format!(
            "{} belongs to user {owner} and this is user {us}: run as that user (sudo -u '#{owner}')",
            place.display(),
        ),
        _ => format!("this is user {us}: let that user read it (ls -l shows the mode)"),
    }
}

/// Refuses what others may read or change.
fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    if !metadata.is_file() {
        return Err(Error::NoFile(path.to_owned()));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(Error::Mode {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

/// Opens the store for reading.
fn open(path: &Path) -> Result<(File, Metadata), Error> {
    // Without blocking: the name may be that of a pipe that nobody writes to, which is told
    // only when it is open.
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(Error::io(path, "open"))?;
    let metadata = file.metadata().map_err(Error::io(path, "read"))?;
    check_mode(path, &metadata)?;
    Ok((file, metadata))
}

/// Reads the whole store, one record at a time.
///
/// # Errors
/// When it cannot be read, or at the first bad line.
pub fn read(path: &Path, mut each: impl FnMut(line::Record)) -> Result<(), Error> {
    let (file, _) = open(path)?;
    let mut lines = lines::Lines::new(&file, path, 0, 0);
    lines.header()?;
    while let Some((number, text)) = lines.next()? {
        each(line::Record::parse(text).map_err(|reason| Error::Line {
            path: path.to_owned(),
            line: number,
            reason,
        })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
