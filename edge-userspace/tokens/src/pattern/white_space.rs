//! The alternatives of the patterns for white space, tried when nothing else matches. At
//! `start` there is white space.

use super::class::{self, SPACE};

/// `\s++$|\s*[\r\n]|\s+(?!\S)|\s`: a run that ends the text is one piece.
pub(super) fn cl100k(bytes: &[u8], start: usize) -> usize {
    let run = Run::read(bytes, start);
    if run.end == bytes.len() {
        return run.end;
    }
    run.after_newline.unwrap_or(run.without_last)
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last line end of the run, wherever it is.
pub(super) fn lines(bytes: &[u8], start: usize) -> usize {
    let run = Run::read(bytes, start);
    run.after_newline.unwrap_or(run.before_word(bytes))
}

/// `\s+(?!\S)|\s+`: a run leaves its last character to the word behind it.
pub(super) fn gpt2(bytes: &[u8], start: usize) -> usize {
    Run::read(bytes, start).before_word(bytes)
}

/// A run of white space.
struct Run {
    end: usize,
    /// Behind the last of its CR and LF.
    after_newline: Option<usize>,
    /// Before its last character; of a run of one, its end.
    without_last: usize,
}

impl Run {
    fn read(bytes: &[u8], start: usize) -> Self {
        let mut run = Self {
            end: start,
            after_newline: None,
            without_last: start,
        };
        while run.end < bytes.len() {
            let (bits, length) = class::at(bytes, run.end);
            if bits & SPACE == 0 {
                break;
            }
            run.without_last = run.end;
            run.end += length;
            if matches!(bytes[run.end - 1], b'\r' | b'\n') {
                run.after_newline = Some(run.end);
            }
        }
        if run.without_last == start {
            run.without_last = run.end;
        }
        run
    }

    fn before_word(&self, bytes: &[u8]) -> usize {
        if self.end == bytes.len() {
            self.end
        } else {
            self.without_last
        }
    }
}
