//! Changes the journal. One writer at a time, by a lock on the file itself.
//!
//! To append a line costs nothing that grows with the store; to find a key is one pass that
//! looks at the beginnings of lines and parses only those that name it.

use super::header::{self, Header};
use super::line::{BadLine, Record, StoredKey};
use super::lines::Lines;
use super::{Error, check_mode};
use crate::secret;
use edge_common::token::KeyId;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A journal that is shorter is not worth compacting by itself.
const COMPACT_FROM_RECORDS: u64 = 1000;

/// A locked key store. The lock goes with it.
pub struct Writer {
    file: File,
    path: PathBuf,
}

/// What [`Writer::find`] saw on its way.
#[derive(Debug, Default)]
pub struct Search {
    /// Those of the keys that the store has.
    pub keys: HashMap<KeyId, StoredKey>,
    /// Records in the journal.
    pub records: u64,
    /// Records that a compaction would drop, at least.
    pub dead: u64,
    /// The first line that stands out as bad: the daemon takes nothing from there on.
    pub bad: Option<(u64, BadLine)>,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Records before.
    pub records: u64,
    /// Records after: one a key.
    pub keys: u64,
}

impl Writer {
    /// Locks the store, waiting for other writers, and mends a last line that a crash cut
    /// short.
    ///
    /// # Errors
    /// When there is no store, it is not ours alone, or it is of another version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        loop {
            let file = (File::options().read(true).append(true).open(path))
                .map_err(Error::io(path, "open"))?;
            file.lock().map_err(Error::io(path, "lock"))?;
            let metadata = file.metadata().map_err(Error::io(path, "read"))?;
            check_mode(path, &metadata)?;
            // While we waited, a compaction may have put another file there.
            let there = std::fs::metadata(path).map_err(Error::io(path, "read"))?;
            if (there.dev(), there.ino()) != (metadata.dev(), metadata.ino()) {
                continue;
            }
            let writer = Self {
                file,
                path: path.to_owned(),
            };
            Lines::new(&writer.file, path, 0, 0).header()?;
            writer.mend_tail(metadata.len())?;
            return Ok(writer);
        }
    }

    /// Like [`Writer::open`]; makes an empty store first when there is none.
    ///
    /// # Errors
    /// As for [`Writer::open`].
    pub fn open_or_create(path: &Path) -> Result<Self, Error> {
        if !path.exists() {
            create(path)?;
        }
        Self::open(path)
    }

    /// Appends records and waits until the disk has them.
    ///
    /// # Errors
    /// When the system cannot write. Nothing half-written is left behind.
    pub fn append(&mut self, records: &[Record]) -> Result<(), Error> {
        let before = self.bytes()?;
        let mut text = Zeroizing::default();
        for record in records {
            record.write(&mut text);
        }
        let written = (self.file.write_all(&text)).and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            // A full disk: take back what fitted. Should that fail too, readers skip an
            // unfinished line and the next writer mends it.
            drop(self.file.set_len(before));
            Error::io(&self.path, "write")(error)
        })
    }

    /// Looks for keys as the journal's lines leave them.
    ///
    /// # Errors
    /// When the file cannot be read or a line about one of these keys is bad.
    pub fn find(&self, ids: &[KeyId]) -> Result<Search, Error> {
        let mut found: HashMap<KeyId, Option<StoredKey>> =
            ids.iter().map(|id| (*id, None)).collect();
        let mut search = Search::default();
        let mut lines = Lines::new(&self.file, &self.path, 0, 0);
        lines.header()?;
        while let Some((number, text)) = lines.next()? {
            search.records += 1;
            let glance = glance(text);
            match glance {
                // A revocation folds into its key; a removal takes itself and its key along.
                Some(("revoke", _)) => search.dead += 1,
                Some(("remove", _)) => search.dead += 2,
                _ => {}
            }
            if glance.is_some_and(|(_, id)| !found.contains_key(&id)) {
                continue;
            }
            match Record::parse(text) {
                Ok(record) => {
                    if let Some(key) = found.get_mut(&record.id()) {
                        fold(key, record);
                    }
                }
                Err(reason) if glance.is_some() => {
                    return Err(Error::Line {
                        path: self.path.clone(),
                        line: number,
                        reason,
                    });
                }
                Err(reason) => drop(search.bad.get_or_insert((number, reason))),
            }
        }
        let present = found.into_iter().filter_map(|(id, key)| Some((id, key?)));
        search.keys = present.collect();
        Ok(search)
    }

    /// Writes the journal anew with one line a key and renames it into place. Readers see
    /// either the old file or the new one.
    ///
    /// # Errors
    /// At the first bad line, or when the system cannot write; the old file then stays.
    pub fn compact(self) -> Result<Compacted, Error> {
        let (records, keys) = self.survey()?;
        let directory = directory(&self.path);
        let new = new_file(&self.path, directory)?;
        self.rewrite(new.as_file(), &keys)?;
        (new.persist(&self.path)).map_err(|error| Error::io(&self.path, "replace")(error.error))?;
        sync_directory(directory).map_err(Error::io(&self.path, "sync"))?;
        Ok(Compacted {
            records,
            keys: keys.len() as u64,
        })
    }

    /// Writes the keys, which are in the order of their lines, into a new file.
    fn rewrite(&self, new: &File, keys: &[Live]) -> Result<(), Error> {
        let fail = |error| Error::io(&self.path, "rewrite")(error);
        let old = self.file.metadata().map_err(fail)?;
        let mut lines = Lines::new(&self.file, &self.path, 0, 0);
        let mut header = Header::new(Some(header::Compacted {
            file: lines.header()?.file,
            inode: old.ino(),
            bytes: old.len(),
            keys: keys.len() as u64,
            ends_at: 0,
        }))
        .map_err(|error| random(&self.path, error))?;
        let mut out = BufWriter::with_capacity(1 << 20, new);
        (out.write_all(header.line().as_bytes())).map_err(fail)?;
        for key in keys {
            let text = loop {
                let (offset, _) = lines.position();
                match lines.next()? {
                    Some((_, text)) if offset == key.offset => break text,
                    Some(_) => {}
                    // Nobody cuts a file that we have locked.
                    None => return Err(fail(io::ErrorKind::UnexpectedEof.into())),
                }
            };
            match (key.revoked_at_s, Record::parse(text)) {
                (Some(at_s), Ok(Record::Put(mut put))) => {
                    put.revoked_at_s = Some(at_s);
                    let mut text = Zeroizing::default();
                    Record::Put(put).write(&mut text);
                    out.write_all(&text)
                }
                _ => out.write_all(text).and_then(|()| out.write_all(b"\n")),
            }
            .map_err(fail)?;
        }
        out.flush().map_err(fail)?;
        drop(out);
        let mut finish = || -> io::Result<()> {
            let created = new.metadata()?;
            if let Some(compacted) = &mut header.compacted {
                compacted.ends_at = created.len();
            }
            new.write_all_at(header.line().as_bytes(), 0)?;
            if (created.uid(), created.gid()) != (old.uid(), old.gid()) {
                // The daemon must still be able to read it.
                fchown(new, Some(old.uid()), Some(old.gid()))?;
            }
            new.set_permissions(old.permissions())?;
            new.sync_all()
        };
        finish().map_err(fail)
    }

    /// Whether a compaction would be worth it, from what [`Writer::find`] saw.
    #[must_use]
    pub fn worth_compacting(search: &Search) -> bool {
        search.records >= COMPACT_FROM_RECORDS && search.dead > search.records - search.dead
    }

    /// Every line is parsed before anything is dropped.
    fn survey(&self) -> Result<(u64, Vec<Live>), Error> {
        let mut live: HashMap<KeyId, Live> = HashMap::new();
        let mut records = 0;
        let mut lines = Lines::new(&self.file, &self.path, 0, 0);
        lines.header()?;
        loop {
            let (offset, _) = lines.position();
            let Some((number, text)) = lines.next()? else {
                break;
            };
            records += 1;
            let record = Record::parse(text).map_err(|reason| Error::Line {
                path: self.path.clone(),
                line: number,
                reason,
            })?;
            match record {
                Record::Put(key) => {
                    let before = live.get(&key.id).and_then(|before| before.revoked_at_s);
                    let put = Live {
                        offset,
                        // A revocation stays until the key is removed.
                        revoked_at_s: before.or(key.revoked_at_s),
                    };
                    live.insert(key.id, put);
                }
                Record::Revoke { id, at_s } => {
                    if let Some(key) = live.get_mut(&id) {
                        key.revoked_at_s.get_or_insert(at_s);
                    }
                }
                Record::Remove(id) => drop(live.remove(&id)),
            }
        }
        let mut live: Vec<_> = live.into_values().collect();
        live.sort_unstable_by_key(|key| key.offset);
        Ok((records, live))
    }

    fn mend_tail(&self, bytes: u64) -> Result<(), Error> {
        let mut lines = Lines::new(&self.file, &self.path, self.last_line(bytes)?, 0);
        while lines.next()?.is_some() {}
        let (finished, _) = lines.position();
        if finished == bytes {
            return Ok(());
        }
        let mut rest = Zeroizing::new(vec![0; (bytes - finished) as usize]);
        let mend = || -> io::Result<()> {
            self.file.read_exact_at(&mut rest, finished)?;
            if Record::parse(&rest).is_ok() {
                // Whole but for its newline, as editors may leave it.
                (&self.file).write_all(b"\n")?;
            } else {
                self.file.set_len(finished)?;
            }
            self.file.sync_data()
        };
        let mut mend = mend;
        mend().map_err(Error::io(&self.path, "mend"))
    }

    /// An offset at or before the start of the last line, not far from the end.
    fn last_line(&self, bytes: u64) -> Result<u64, Error> {
        let window = super::line::MAX_BYTES as u64 + 1;
        let from = bytes.saturating_sub(window);
        let mut text = Zeroizing::new(vec![0; (bytes - from) as usize]);
        (self.file.read_exact_at(&mut text, from)).map_err(Error::io(&self.path, "read"))?;
        Ok(memchr::memrchr(b'\n', &text).map_or(0, |at| from + at as u64 + 1))
    }

    fn bytes(&self) -> Result<u64, Error> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(Error::io(&self.path, "read"))?.len())
    }
}

/// A key's last put line.
struct Live {
    offset: u64,
    revoked_at_s: Option<u64>,
}

/// Every key of the store in the order of its last put, as the lines leave it.
///
/// # Errors
/// When the store cannot be read, or at the first bad line.
pub fn list(path: &Path) -> Result<Vec<StoredKey>, Error> {
    let mut keys: Vec<Option<StoredKey>> = Vec::new();
    let mut places: HashMap<KeyId, usize> = HashMap::new();
    super::read(path, |record| {
        let place = *places.entry(record.id()).or_insert_with(|| {
            keys.push(None);
            keys.len() - 1
        });
        fold(&mut keys[place], record);
    })?;
    Ok(keys.into_iter().flatten().collect())
}

/// Applies a record to what is known of its key.
fn fold(key: &mut Option<StoredKey>, record: Record) {
    match record {
        Record::Put(mut put) => {
            let revoked = key.as_ref().and_then(|key| key.revoked_at_s);
            put.revoked_at_s = revoked.or(put.revoked_at_s);
            *key = Some(put);
        }
        Record::Revoke { at_s, .. } => {
            if let Some(key) = key {
                key.revoked_at_s.get_or_insert(at_s);
            }
        }
        Record::Remove(_) => *key = None,
    }
}

/// Kind and id of a line as we write it; other spellings must be parsed.
fn glance(text: &[u8]) -> Option<(&'static str, KeyId)> {
    ["put", "revoke", "remove"].into_iter().find_map(|kind| {
        let rest = text.strip_prefix(b"{\"")?.strip_prefix(kind.as_bytes())?;
        let (id, rest) = rest.strip_prefix(b"\":\"")?.split_at_checked(16)?;
        let id = KeyId::from_hex(std::str::from_utf8(id).ok()?)?;
        (rest.starts_with(b"\"") && rest.ends_with(b"}")).then_some((kind, id))
    })
}

/// A store without keys, there all at once. Fine when another process was first.
fn create(path: &Path) -> Result<(), Error> {
    let directory = directory(path);
    let header = Header::new(None).map_err(|error| random(path, error))?;
    let new = new_file(path, directory)?;
    (write!(new.as_file(), "{}", header.line()).and_then(|()| new.as_file().sync_all()))
        .map_err(Error::io(path, "write"))?;
    match new.persist_noclobber(path) {
        Ok(_) => sync_directory(directory).map_err(Error::io(path, "sync")),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::Io {
            path: path.to_owned(),
            what: "make",
            source: error.error,
        }),
    }
}

/// A file of mode 0600 beside the store, gone unless it is renamed.
fn new_file(path: &Path, directory: &Path) -> Result<tempfile::NamedTempFile, Error> {
    (tempfile::Builder::new()
        .prefix(".edge-keys-")
        .tempfile_in(directory))
    .map_err(|source| Error::Io {
        path: path.to_owned(),
        what: "make a file beside",
        source,
    })
}

fn random(path: &Path, error: secret::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        what: "name",
        source: io::Error::other(error),
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
