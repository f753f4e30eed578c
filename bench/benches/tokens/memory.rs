//! What counting takes in memory, under text that nobody has seen: a fresh process counts
//! random text as it arrives, and is looked at before and after.

use crate::reference::texts::Random;
use crate::{child, ours};
use bench::figure;
use edge_userspace::tokens::{Counter, Isa, Text};
use std::process::ExitCode;

/// Of the text that is there at a time.
const PART_BYTES: usize = 1 << 20;
/// What a process takes besides, for its buffers and stack.
const SLACK_BYTES: u64 = 512 << 10;

/// Prints `tokens.memory.*`; what is learnt while counting stays within its bound.
pub(crate) fn run(vocabulary: &str, bytes: usize) {
    let numbers = match child::numbers(&format!("memory {vocabulary} {bytes}"), "") {
        Ok(numbers) => numbers,
        Err(why) => return println!("SKIPPED tokens.memory.{vocabulary}.*: {why}"),
    };
    let [own, mapped, tokens] = numbers[..] else {
        panic!("{numbers:?}")
    };
    assert!(tokens > 0);
    let shared = ours::vocabulary(vocabulary).shared_bytes() as u64;
    let bound = Counter::MEMO_BYTES as u64 + SLACK_BYTES;
    assert!(
        own <= bound,
        "{vocabulary}: {own} bytes learnt, the bound is {bound}"
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let name = |what: &str| format!("tokens.memory.{vocabulary}.{what}_mib");
    figure(&name("text_counted"), mib(bytes as u64), "MiB");
    figure(&name("learnt"), mib(own), "MiB");
    figure(&name("tables_touched"), mib(mapped), "MiB");
    figure(&name("tables"), mib(shared), "MiB");
}

/// What the child process does.
pub(crate) fn as_child(vocabulary: &str, bytes: usize) -> Option<ExitCode> {
    let mut random = Random::new(6);
    let mut part = Vec::with_capacity(PART_BYTES + 64);
    fill(&mut random, &mut part);
    let (own, mapped) = (resident("RssAnon")?, resident("RssFile")?);
    let mut counter = ours::counter(vocabulary, Isa::detect());
    let mut text = Text::new(&counter);
    let mut sent = 0;
    while sent < bytes {
        text.push(&mut counter, &part);
        sent += part.len();
        fill(&mut random, &mut part);
    }
    let tokens = text.finish(&mut counter);
    let grown = |name, before| resident(name).map(|now| now.saturating_sub(before));
    println!(
        "{} {} {tokens}",
        grown("RssAnon", own)?,
        grown("RssFile", mapped)?
    );
    Some(ExitCode::SUCCESS)
}

/// Words of random letters of several scripts, numbers, punctuation.
fn fill(random: &mut Random, part: &mut Vec<u8>) {
    part.clear();
    while part.len() < PART_BYTES {
        let length = 1 + random.below(20);
        let (first, letters) = [
            ('a', 26),
            ('A', 26),
            ('a', 26),
            ('\u{430}', 32),
            ('\u{4e00}', 2_000),
            ('0', 10),
            ('!', 15),
        ][random.below(7)];
        for _ in 0..length {
            let letter = char::from_u32(first as u32 + random.below(letters) as u32);
            let mut bytes = [0; 4];
            part.extend(letter.unwrap_or(' ').encode_utf8(&mut bytes).bytes());
        }
        part.push(b' ');
    }
}

/// Bytes of this process that are resident, by a name of `/proc/self/status`.
fn resident(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line
        .trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kib << 10)
}
