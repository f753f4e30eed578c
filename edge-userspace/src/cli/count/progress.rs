//! A bar on a terminal while a large text is read; gone when it has been.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// What is read in less time than that has no bar.
const PATIENCE: Duration = Duration::from_millis(300);
/// Between two looks of it.
const PACE: Duration = Duration::from_millis(100);
const WIDTH: u64 = 30;

/// How far a text has been read.
pub(super) struct Progress {
    length: Option<u64>,
    began: Instant,
    next: Duration,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(length: Option<u64>) -> Self {
        Self {
            length,
            began: Instant::now(),
            next: PATIENCE,
            is_shown: false,
        }
    }

    /// `bytes` have been read.
    pub(super) fn show(&mut self, bytes: u64) {
        let elapsed = self.began.elapsed();
        if elapsed < self.next {
            return;
        }
        self.next = elapsed + PACE;
        self.is_shown = true;
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{}",
            line(bytes, self.length, elapsed)
        );
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(bytes: u64, length: Option<u64>, elapsed: Duration) -> String {
    let read = super::size(bytes as f64);
    let speed = super::per_second(bytes, elapsed);
    let Some(length) = length.filter(|length| *length > 0) else {
        return format!("{read}, {speed}");
    };
    // A file may grow while it is read.
    let done = bytes.min(length);
    let filled = (done * WIDTH / length) as usize;
    let percent = done * 100 / length;
    let rest = WIDTH as usize - filled;
    let whole = super::size(length as f64);
    format!(
        "[{}{}] {percent:3} %  {read} of {whole}, {speed}",
        "#".repeat(filled),
        "-".repeat(rest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_fast() {
        let second = Duration::from_secs(1);
        assert_eq!(
            line(50_000_000, Some(100_000_000), second),
            "[###############---------------]  50 %  50.0 MB of 100.0 MB, 50.0 MB/s"
        );
        assert_eq!(
            line(2_500_000_000, None, second),
            "2.5 GB, 2.5 GB/s",
            "of a pipe nobody knows the length"
        );
        assert!(line(7, Some(5), second).contains("100 %"), "it grew");
        assert_eq!(line(5, Some(0), second), "5 B, 5 B/s");
    }
}
