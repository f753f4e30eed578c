//! `tests/framing/http2`, one script of frames a file.
//!
//! A script is a head of `what`, `rfc`, `expect` and `upstream` (the numbers of requests that
//! the model may see), a line of `---`, then one line a step, escapes as in
//! `tests/framing/README.md`:
//!
//! - `headers STREAM FLAGS NAME=VALUE …`, `continuation …` likewise: literals without an index
//!   and without Huffman's code; FLAGS are `-`, `end_headers`, `end_stream`, or both;
//! - `fields STREAM FLAGS FIELD …`: HEADERS with FLAGS as a number, of which the bits for padding and
//!   priority put these in; a field is a literal, kept in the table with a `+` before it and never
//!   to be kept with a `!`, or `#` and an index, or `^` and a new size of the table;
//! - `data STREAM FLAGS TEXT`;
//! - `frame TYPE FLAGS STREAM PAYLOAD` by numbers, or `… zeros BYTES`; `raw BYTES`;
//! - `until CONDITION`: nothing more is sent before that has come true;
//! - `bare` and `nothing` as the first line: without our SETTINGS, and without preface too.
//!
//! After the script comes a PING. `expect` has alternatives, parted by `|`, each of conditions,
//! parted by commas: `status STREAM CODE`, `end STREAM`, `rst STREAM ERROR`, `goaway ERROR`, `closed`,
//! `pong` for another PING's answer, `settings` and `acknowledged COUNT` for the edge's SETTINGS and
//! its acknowledgements, and `open` when the PING is answered. `never`, in some, is a condition that must not come true.
//! Behind a `goaway` of an error, whatever the script, nothing comes but the connection's end.

use super::*;
use crate::framing::{assert_none_wrong, files, split};
use crate::world::until;
use std::path::Path;

fn flags(names: &str) -> u8 {
    let flag = |name| match name {
        "-" => 0,
        "end_stream" => END_STREAM,
        "end_headers" => END_HEADERS,
        other => panic!("no flag: {other}"),
    };
    names.split(',').map(flag).sum()
}

/// An integer whose first byte has so many bits for it behind `first` (RFC 7541 section 5.1).
fn integer(first: u8, bits: u32, value: usize) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if value < most {
        return vec![first | u8::try_from(value).unwrap()];
    }
    let (mut bytes, mut rest) = (vec![first | u8::try_from(most).unwrap()], value - most);
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// HEADERS with fields in every form that there is.
fn fields(stream: u32, flags: u8, list: &str) -> Vec<u8> {
    const PADDED: u8 = 8;
    const PRIORITY: u8 = 0x20;
    let (mut payload, mut padding) = (Vec::new(), Vec::new());
    if flags & PADDED != 0 {
        payload.push(3);
        padding = vec![0; 3];
    }
    if flags & PRIORITY != 0 {
        payload.extend([0, 0, 0, 0, 15]);
    }
    for field in list.split(' ').filter(|field| !field.is_empty()) {
        let rest = &field[1..];
        let literal = |first: u8, field: &str| {
            let mut literal = block(field);
            literal[0] = first;
            literal
        };
        payload.extend(match field.as_bytes()[0] {
            b'#' => integer(0x80, 7, rest.parse().unwrap()),
            b'^' => integer(0x20, 5, rest.parse().unwrap()),
            b'+' => literal(0x40, rest),
            b'!' => literal(0x10, rest),
            _ => literal(0, field),
        });
    }
    payload.extend(padding);
    frame(HEADERS, flags, stream, &payload)
}

/// What one line sends.
fn step(line: &str) -> Vec<u8> {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let parts: Vec<_> = rest.splitn(3, ' ').collect();
    let number = |at: usize| parts[at].parse::<u32>().unwrap();
    match what {
        "headers" => frame(HEADERS, flags(parts[1]), number(0), &block(parts[2])),
        "continuation" => frame(CONTINUATION, flags(parts[1]), number(0), &block(parts[2])),
        "fields" => fields(number(0), u8::try_from(number(1)).unwrap(), parts[2]),
        "data" => frame(DATA, flags(parts[1]), number(0), &unescape(parts[2])),
        "raw" => unescape(rest),
        "frame" => {
            let (stream, payload) = parts[2].split_once(' ').unwrap();
            let payload = match payload.strip_prefix("zeros ") {
                Some(count) => vec![0; count.parse().unwrap()],
                None => unescape(payload),
            };
            let (kind, flags) = (u8::try_from(number(0)), u8::try_from(number(1)));
            frame(
                kind.unwrap(),
                flags.unwrap(),
                stream.parse().unwrap(),
                &payload,
            )
        }
        other => panic!("no step: {other}"),
    }
}

async fn run(world: &World, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let (head, script) = split(&text);
    let one = |name: &str| {
        let found = head.iter().find(|(other, _)| other == name);
        found
            .map(|(_, value)| value.as_str())
            .unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(!one("what").is_empty() && !one("rfc").is_empty());
    let script = script.replace("{key}", ALICE);
    let mut lines = script.lines().peekable();
    let mut bytes = match lines.peek() {
        Some(&"nothing") => Vec::new(),
        Some(&"bare") => PREFACE.to_vec(),
        _ => [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(),
    };
    lines.next_if(|line| matches!(*line, "nothing" | "bare"));
    let before = world.model.stats().figures().requests;
    let mut wire = Wire::open(world).await;
    let mut seen = Vec::new();
    for line in lines {
        match line.strip_prefix("until ") {
            None => bytes.extend(step(line)),
            Some(condition) => {
                // The edge may have ended it meanwhile.
                let _ = wire.tls.write_all(&bytes).await;
                bytes.clear();
                observe_on(&mut wire, &mut seen, |seen| {
                    seen.iter().any(|s| s == condition)
                })
                .await;
            }
        }
    }
    bytes.extend(frame(PING, 0, 0, ASK));
    let _ = wire.tls.write_all(&bytes).await;
    let expect = one("expect");
    let never = head.iter().find(|(name, _)| name == "never");
    observe_on(&mut wire, &mut seen, |seen| is_observed(seen, expect)).await;
    drop(wire);
    let stats = || world.model.stats().figures();
    until("the model's rest", || stats().active == 0).await;
    let met =
        alternatives(expect).any(|wanted| wanted.iter().all(|one| seen.iter().any(|s| s == one)));
    let requests = (stats().requests - before).to_string();
    let may = one("upstream").split(' ').any(|number| number == requests);
    let is_clean = never.is_none_or(|(_, never)| !seen.contains(never)) && is_last(&seen);
    match met && may && is_clean {
        true => Ok(()),
        false => Err(format!("{seen:?}, {requests} requests; not {expect}")),
    }
}

/// Whether a GOAWAY of an error is the last thing that is said (RFC 9113 section 5.4.1).
fn is_last(seen: &[String]) -> bool {
    let is_error = |said: &&String| said.starts_with("goaway ") && *said != "goaway NO_ERROR";
    let mut behind = seen.iter().skip_while(|said| !is_error(said)).skip(1);
    behind.all(|said| said == "closed")
}

#[tokio::test]
async fn each_script_of_frames_gets_the_error_that_the_standard_has_for_it() {
    let world = World::new();
    let files = files("http2");
    assert!(files.len() > 180, "the scripts are there");
    let mut wrong = Vec::new();
    for file in files {
        // A script that hangs is one of those that are wrong.
        if let Err(what) = run(&world, &file).await {
            wrong.push(format!("{}: {what}", file.file_stem().unwrap().display()));
        }
    }
    assert_none_wrong(&world, &wrong);
}
