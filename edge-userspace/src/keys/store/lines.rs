//! A file's finished lines, from an offset on, through one buffer of bounded size.

use super::Error;
use super::header::Header;
use super::line::{self, BadLine};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use zeroize::Zeroizing;

const CHUNK_BYTES: usize = 1 << 20;

/// Reads lines that have their newline; what follows the last newline is left alone.
pub(super) struct Lines<'a> {
    file: &'a File,
    path: &'a Path,
    /// Where in the file the buffer's unread part begins.
    offset: u64,
    line: u64,
    buffer: Zeroizing<Vec<u8>>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
}

impl<'a> Lines<'a> {
    /// `offset` is the start of a line, `line` the number of lines before it.
    pub(super) fn new(file: &'a File, path: &'a Path, offset: u64, line: u64) -> Self {
        Self {
            file,
            path,
            offset,
            line,
            buffer: Zeroizing::new(vec![0; CHUNK_BYTES + line::MAX_BYTES]),
            start: 0,
            end: 0,
        }
    }

    /// Takes the first line and checks that it is a header of our version.
    pub(super) fn header(&mut self) -> Result<Header, Error> {
        let path = self.path;
        let wrong = |reason| Error::Line {
            path: path.to_owned(),
            line: 1,
            reason,
        };
        match self.next()? {
            Some((_, text)) => Header::parse(text).map_err(wrong),
            None => Err(wrong(BadLine::NoHeader)),
        }
    }

    /// The next finished line with its number, without the newline.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>, Error> {
        let newline = loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', unread) {
                break at;
            }
            if unread.len() > line::MAX_BYTES {
                return Err(Error::Line {
                    path: self.path.to_owned(),
                    line: self.line + 1,
                    reason: BadLine::TooLong,
                });
            }
            if !self.fill()? {
                return Ok(None);
            }
        };
        let text = self.start..self.start + newline;
        self.start = text.end + 1;
        self.offset += newline as u64 + 1;
        self.line += 1;
        Ok(Some((self.line, &self.buffer[text])))
    }

    /// Where the next line begins, and the number of lines before it.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.offset, self.line)
    }

    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let end = self.end;
        let read = (self.file)
            .read_at(&mut self.buffer[end..], self.offset + end as u64)
            .map_err(Error::io(self.path, "read"))?;
        self.end += read;
        Ok(read > 0)
    }
}
