//! Follows the journal: reads what was appended since last time, or all of it when the file
//! is another one.

use super::header::Header;
use super::line::Record;
use super::lines::Lines;
use super::{Error, open};
use crate::keys::{Edit, Keyring, Snapshot};
use edge_common::token::KeyId;
use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// A tail longer than this is read by reading everything: that needs no copy of it in memory.
const MAX_TAIL_BYTES: u64 = 64 << 20;
/// A file rewritten in place must have been quiet for so long. Whoever does that writes in
/// pieces, and a piece would look like a store that lost keys.
const QUIET: Duration = Duration::from_millis(200);
/// Lines that are handed on together, and how many such pieces may wait, while the whole file
/// is read.
const PIECE: usize = 1024;
const PIECES_AHEAD: usize = 4;
/// Bytes before the end of what was read, by which an appended file is told from a rewritten.
const SEAM_BYTES: u64 = 256;

/// Where in which file we are.
pub struct Follower {
    path: PathBuf,
    audience: String,
    position: Option<Position>,
    /// The file as it was when we last looked, whether or not we liked it.
    seen: Option<Stamp>,
    /// A rewritten file that must be quiet first, and since when it has been.
    restless: Option<(Stamp, Instant)>,
}

struct Position {
    device: u64,
    inode: u64,
    /// The file's name in its header.
    file: String,
    /// End of the last line that was read.
    offset: u64,
    /// Lines before it.
    lines: u64,
    seam: Zeroizing<Vec<u8>>,
    /// Bytes after it.
    unfinished_bytes: u64,
    /// The file as it was when we had read it to its very end. Lines may be appended between
    /// our look and our reading, and reading them is no reason to look again.
    read: Option<Stamp>,
}

/// Tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What [`Follower::follow`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing new.
    Nothing,
    /// So many appended records, now applied.
    Appended(u64),
    /// The same keys in a compacted file of so many records, and what was appended to it.
    Compacted(u64),
    /// Another file with so many records, now applied.
    Replaced(u64),
}

impl Follower {
    /// Follows `path` for an edge of that audience.
    #[must_use]
    pub fn new(path: &Path, audience: &str) -> Self {
        Self {
            path: path.to_owned(),
            audience: audience.to_owned(),
            position: None,
            seen: None,
            restless: None,
        }
    }

    /// The store's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records in the file so far, dead ones too.
    #[must_use]
    pub fn records(&self) -> u64 {
        (self.position.as_ref()).map_or(0, |position| position.lines.saturating_sub(1))
    }

    /// Whether the file went on after the last finished line when we read it: a writer was at
    /// work, or a line has lost its end.
    #[must_use]
    pub fn unfinished(&self) -> bool {
        (self.position.as_ref()).is_some_and(|position| position.unfinished_bytes > 0)
    }

    /// Looks at the file and brings `keyring` up to date.
    ///
    /// # Errors
    /// When the file cannot be read or has a bad line. The table is then as it was; the
    /// next change of the file is tried again.
    pub fn follow(&mut self, keyring: &Keyring) -> Result<Found, Error> {
        let found = self.look(keyring);
        if matches!(found, Err(Error::Io { .. })) {
            // Not the file's fault (no descriptor left, a disk that failed once), so the file
            // need not change for the next look to be worth it.
            self.seen = None;
        }
        found
    }

    fn look(&mut self, keyring: &Keyring) -> Result<Found, Error> {
        let stamp = match std::fs::metadata(&self.path) {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) => {
                self.seen = None;
                return Err(Error::io(&self.path, "read")(error));
            }
        };
        if self.seen == Some(stamp) {
            return Ok(Found::Nothing);
        }
        self.seen = Some(stamp);
        let (file, metadata) = open(&self.path)?;
        let stamp = Stamp::of(&metadata);
        self.seen = Some(stamp);
        if (self.position.as_ref()).is_some_and(|position| position.read == Some(stamp)) {
            return Ok(Found::Nothing);
        }
        let header = Lines::new(&file, &self.path, 0, 0).header();
        let is_same = self.is_same(stamp, header.as_ref().ok());
        if is_same && let Some((offset, lines)) = self.appended(&file, &metadata) {
            return self.tail(&file, offset, lines, keyring);
        }
        if let Some((offset, lines)) = self.compacted(&file, header.as_ref().ok(), keyring) {
            self.tail(&file, offset, lines, keyring)?;
            return Ok(Found::Compacted(self.records()));
        }
        if is_same && self.is_restless(stamp) {
            self.seen = None;
            return Ok(Found::Nothing);
        }
        self.whole(&file, keyring)
    }

    /// Whether the file is the one that we know. One that lost its header is: it is being
    /// rewritten.
    fn is_same(&self, stamp: Stamp, header: Option<&Header>) -> bool {
        (self.position.as_ref()).is_some_and(|position| {
            (position.device, position.inode) == (stamp.device, stamp.inode)
                && header.is_none_or(|header| header.file == position.file)
        })
    }

    /// Whether a file that we know, and that was not appended to, is still being rewritten.
    fn is_restless(&mut self, stamp: Stamp) -> bool {
        match self.restless {
            Some((same, since)) if same == stamp => since.elapsed() < QUIET,
            _ => {
                self.restless = Some((stamp, Instant::now()));
                true
            }
        }
    }

    /// Where to read on, when the file is the one we know and has grown.
    fn appended(&self, file: &File, metadata: &Metadata) -> Option<(u64, u64)> {
        let position = self.position.as_ref()?;
        let grown = position.offset + 1..=position.offset + MAX_TAIL_BYTES;
        let appended = grown.contains(&metadata.len())
            && read_seam(file, position.offset).is_ok_and(|seam| seam == position.seam);
        appended.then_some((position.offset, position.lines))
    }

    /// Where to read on, when the file is a compaction of the one that we have read to its
    /// end. It then holds what the table has, and a million keys need not be read again.
    fn compacted(
        &self,
        file: &File,
        header: Option<&Header>,
        keyring: &Keyring,
    ) -> Option<(u64, u64)> {
        let position = self.position.as_ref()?;
        let from = header?.compacted.as_ref()?;
        let ours = !from.file.is_empty()
            && (&position.file, position.inode, position.offset)
                == (&from.file, from.inode, from.bytes);
        // A table that lacks keys does not hold what the file did.
        let known = ours
            && keyring.complete()
            && read_seam(file, from.ends_at).is_ok_and(|seam| seam.ends_with(b"\n"));
        known.then_some((from.ends_at, from.keys + 1))
    }

    fn tail(
        &mut self,
        file: &File,
        offset: u64,
        lines: u64,
        keyring: &Keyring,
    ) -> Result<Found, Error> {
        let mut reader = Lines::new(file, &self.path, offset, lines);
        let mut edits = Vec::new();
        while let Some((number, text)) = reader.next()? {
            edits.push(self.edit(parse(&self.path, number, text)?));
        }
        let end = reader.position();
        let makes_room = edits.iter().any(|edit| matches!(edit, Edit::Remove(_)));
        let is_tight = {
            let table = keyring.snapshot();
            !table.complete() || table.len() + edits.len() > table.capacity()
        };
        if makes_room && is_tight {
            // Keys that had no room may have it now, and only the whole file knows them.
            return self.whole(file, keyring);
        }
        let records = edits.len() as u64;
        keyring.apply(edits);
        self.arrived(file, end)?;
        Ok(if records > 0 {
            Found::Appended(records)
        } else {
            Found::Nothing
        })
    }

    fn whole(&mut self, file: &File, keyring: &Keyring) -> Result<Found, Error> {
        let before = keyring.snapshot();
        let (mut next, mut end) = self.replay(file, &before, None)?;
        if !next.complete() {
            // Keys that are removed further down the file must not take the room of others.
            let living = self.living(file)?;
            (next, end) = self.replay(file, &before, Some(&living))?;
        }
        // The table waits for its last reader.
        drop(before);
        keyring.replace(next);
        self.arrived(file, end)?;
        Ok(Found::Replaced(self.records()))
    }

    /// The table that the whole file makes, of the `living` keys when they are given, and
    /// the position of its end.
    fn replay(
        &self,
        file: &File,
        before: &Snapshot,
        living: Option<&HashSet<KeyId>>,
    ) -> Result<(Snapshot, (u64, u64)), Error> {
        let mut next = before.successor();
        let end = self.read_ahead(file, |edit| {
            match edit {
                Edit::Put(record) if living.is_some_and(|ids| !ids.contains(&record.id)) => None,
                Edit::Put(record) => next.put_as_in(before, record),
                edit => next.edit(edit),
            };
        })?;
        Ok((next, end))
    }

    /// Gives what every line of the file says, read by a thread that is some lines ahead, and
    /// the position of the file's end.
    fn read_ahead(&self, file: &File, mut each: impl FnMut(Edit)) -> Result<(u64, u64), Error> {
        let (send, read) = sync_channel::<Vec<Edit>>(PIECES_AHEAD);
        let reader = move || {
            let mut lines = Lines::new(file, &self.path, 0, 0);
            lines.header()?;
            let mut piece = Vec::with_capacity(PIECE);
            while let Some((number, text)) = lines.next()? {
                piece.push(self.edit(parse(&self.path, number, text)?));
                if piece.len() == PIECE {
                    let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE));
                    if send.send(full).is_err() {
                        // The other side panicked.
                        break;
                    }
                }
            }
            let _ = send.send(piece);
            Ok(lines.position())
        };
        std::thread::scope(|scope| {
            let thread = Builder::new().name("read ahead".to_owned());
            let reader = (thread.spawn_scoped(scope, reader))
                .map_err(Error::io(&self.path, "start a thread to read"))?;
            for piece in read {
                piece.into_iter().for_each(&mut each);
            }
            (reader.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The keys that are there after the last line.
    fn living(&self, file: &File) -> Result<HashSet<KeyId>, Error> {
        let mut living = HashSet::new();
        let mut reader = Lines::new(file, &self.path, 0, 0);
        reader.header()?;
        while let Some((number, text)) = reader.next()? {
            match parse(&self.path, number, text)? {
                Record::Put(key) => {
                    living.insert(key.id);
                }
                Record::Remove(id) => {
                    living.remove(&id);
                }
                Record::Revoke { .. } => {}
            }
        }
        Ok(living)
    }

    fn edit(&self, record: Record) -> Edit {
        match record {
            Record::Put(key) => Edit::Put(key.at(&self.audience)),
            Record::Revoke { id, .. } => Edit::Revoke(id),
            Record::Remove(id) => Edit::Remove(id),
        }
    }

    fn arrived(&mut self, file: &File, (offset, lines): (u64, u64)) -> Result<(), Error> {
        let header = Lines::new(file, &self.path, 0, 0).header()?;
        let read = || -> std::io::Result<Position> {
            let metadata = file.metadata()?;
            let (before, after) = (self.seen, Stamp::of(&metadata));
            let grew = before.is_some_and(|before| before.bytes < offset);
            let read = after.bytes == offset && (grew || before == Some(after));
            Ok(Position {
                device: metadata.dev(),
                inode: metadata.ino(),
                file: header.file,
                offset,
                lines,
                seam: read_seam(file, offset)?,
                unfinished_bytes: after.bytes.saturating_sub(offset),
                read: read.then_some(after),
            })
        };
        // Without a position the next change reads everything, which is right too.
        self.position = None;
        self.position = Some(read().map_err(Error::io(&self.path, "read"))?);
        Ok(())
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn parse(path: &Path, line: u64, text: &[u8]) -> Result<Record, Error> {
    Record::parse(text).map_err(|reason| Error::Line {
        path: path.to_owned(),
        line,
        reason,
    })
}

fn read_seam(file: &File, offset: u64) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let length = offset.min(SEAM_BYTES);
    let mut seam = Zeroizing::new(vec![0; length as usize]);
    file.read_exact_at(&mut seam, offset - length)?;
    Ok(seam)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::store::writer::Writer;

    /// A read of address 0 of one's own memory fails (EIO), while the file stays as it is.
    #[test]
    fn what_the_system_failed_to_read_is_read_again_though_the_file_has_not_changed() {
        let keyring = Keyring::new(1);
        let mut follower = Follower::new(Path::new("/proc/self/mem"), "demo");
        for _ in 0..3 {
            let found = follower.follow(&keyring);
            assert!(matches!(found, Err(Error::Io { .. })), "{found:?}");
        }
    }

    #[test]
    fn lines_that_came_between_the_look_and_the_reading_are_not_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        let remove = Record::Remove(KeyId(1));
        let append = || {
            Writer::open_or_create(&path)
                .unwrap()
                .append(std::slice::from_ref(&remove))
        };
        append().unwrap();
        let keyring = Keyring::new(1);
        let mut follower = Follower::new(&path, "demo");
        assert_eq!(follower.follow(&keyring).unwrap(), Found::Replaced(1));
        let earlier = follower.seen;
        append().unwrap();
        assert_eq!(follower.follow(&keyring).unwrap(), Found::Appended(1));
        // As if that look had been before the line came.
        follower.seen = earlier;
        assert_eq!(follower.follow(&keyring).unwrap(), Found::Nothing);
        assert!(follower.restless.is_none(), "it would read all of it soon");
        append().unwrap();
        assert_eq!(follower.follow(&keyring).unwrap(), Found::Appended(1));
    }
}
