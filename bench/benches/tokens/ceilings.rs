//! What does far less than count, in the same run: a sum of bytes (the null baseline),
//! memchr, simdutf, and reading memory. They show how much of a figure is the machine's.

use crate::Effort;
use crate::clock::{mb_s, mean_ns};
use bench::{figure, median};
use std::hint::black_box;

/// More than any cache holds.
const MEMORY_BYTES: usize = 256 << 20;

/// Prints `tokens.null.*` and `tokens.ceiling.*` for sizes of an ASCII text.
pub(crate) fn run(text: &str, sizes: &[(&str, usize)], effort: Effort) {
    for (size, bytes) in sizes {
        let text = &text.as_bytes()[..(*bytes).min(text.len())];
        let speed = |work: &dyn Fn() -> usize| gb_s(text.len(), effort, work);
        figure(
            &format!("tokens.null.sum_of_bytes.{size}.gb_s"),
            speed(&|| sum(text)),
            "GB/s",
        );
        figure(
            &format!("tokens.ceiling.memchr_count.{size}.gb_s"),
            speed(&|| memchr::memchr_iter(b'\n', text).count()),
            "GB/s",
        );
        figure(
            &format!("tokens.ceiling.simdutf_count_utf8.{size}.gb_s"),
            speed(&|| count_utf8(text)),
            "GB/s",
        );
    }
    let memory = vec![1_u8; MEMORY_BYTES];
    let speed = gb_s(memory.len(), effort, &|| sum(&memory));
    figure("tokens.ceiling.memory_read.gb_s", speed, "GB/s");
}

/// Characters of UTF-8.
pub(crate) fn count_utf8(text: &[u8]) -> usize {
    simdutf::count_utf8(text)
}

fn sum(text: &[u8]) -> usize {
    // By words, of which a compiler makes vectors: as fast as memory gives them.
    let (words, rest) = text.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let sum = words.fold(0_u64, u64::wrapping_add) as usize;
    rest.iter()
        .fold(sum, |sum, byte| sum.wrapping_add(usize::from(*byte)))
}

fn gb_s(bytes: usize, effort: Effort, work: &dyn Fn() -> usize) -> f64 {
    let expected = work();
    let samples = (0..effort.rounds)
        .map(|_| mean_ns(effort.least, || assert_eq!(black_box(work()), expected)));
    mb_s(bytes, median(samples.collect())) / 1e3
}
