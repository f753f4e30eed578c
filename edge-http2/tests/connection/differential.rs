//! The connection beside the h2 crate's server: what a client does, right or wrong, frame by frame,
//! has the same outcome at both, or another one that is listed here with its reason.
//!
//! Both run one application: it reads each request's body and then answers 200 with as many bytes as
//! the path says.

use crate::client::{Client, HEADERS, PUSH_PROMISE};
use crate::ops::{self, Head, Op, Request, Trailers};
use crate::seen::Seen;
use crate::{h2_server, server};
use proptest::prelude::*;

/// Codes (RFC 9113, section 7).
const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const STREAM_CLOSED: u32 = 5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn frames_have_the_same_outcome(ops in ops::ops()) {
        let mut client = Client::default();
        let mut ours = server::Server::new();
        let mut theirs = h2_server::Server::new();
        let (mut done, mut over) = (Vec::new(), Vec::new());
        for op in &ops {
            let bytes = client.write(op);
            let (mine, other) = (ours.step(&bytes, usize::MAX), theirs.step(&bytes));
            done.push(format!("{op:?}\n  here {mine:?}\n  h2   {other:?}"));
            if mine != other {
                let is_over = client.target(op).is_some_and(|id| over.contains(&id));
                match agreed(op, is_over, &mine, &other) {
                    Some(Agreed::GoOn) => {}
                    Some(Agreed::Stop) => break,
                    None => prop_assert!(false, "{}", done.join("\n")),
                }
            }
            if mine.goaway.is_some() {
                break;
            }
            over.extend(mine.streams.iter().filter(|it| it.1.reset.is_some()).map(|it| *it.0));
        }
    }

    #[test]
    fn it_does_not_matter_in_what_pieces_frames_come(ops in ops::ops(), most in 1..40_usize) {
        let mut client = Client::default();
        let mut whole = server::Server::new();
        let mut cut = server::Server::new();
        for op in &ops {
            let bytes = client.write(op);
            prop_assert_eq!(whole.step(&bytes, usize::MAX), cut.step(&bytes, most), "{:?}", op);
        }
    }

    /// Bytes that were changed on their way: whatever comes of it, it is no panic, and the frames
    /// that are sent are whole.
    #[test]
    fn bytes_that_are_changed_do_no_harm(
        ops in ops::ops(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        most in 1..2_000_usize,
    ) {
        let mut client = Client::default();
        let mut server = server::Server::new();
        let mut bytes: Vec<u8> = ops.iter().flat_map(|op| client.write(op)).collect();
        for (place, change) in &changes {
            let place = place.index(bytes.len());
            bytes[place] ^= change;
        }
        server.step(&bytes, most);
    }
}

/// How it goes on after two outcomes that differ and may.
enum Agreed {
    /// Both are in the same state.
    GoOn,
    /// Each is in a state of its own.
    Stop,
}

/// Whether two outcomes may differ. Where they do, h2 ends more than it has to or says
/// PROTOCOL_ERROR where there is a code that says more, or it lets pass what is malformed.
/// `is_over`: the stream had been reset before.
fn agreed(op: &Op, is_over: bool, mine: &Seen, other: &Seen) -> Option<Agreed> {
    // What comes on a stream that was reset was on its way (section 5.4.2): h2 minds what is wrong
    // with it.
    if is_over && *mine == Seen::default() {
        return match other.goaway {
            None => are_resets(other).then_some(Agreed::GoOn),
            Some(_) => Some(Agreed::Stop),
        };
    }
    // Of HEADERS of noise h2 looks at the beginning before the end has come, and has other bounds.
    if matches!(op, Op::Frame { kind: HEADERS, .. }) {
        return Some(Agreed::Stop);
    }
    match (mine.goaway, other.goaway) {
        (Some(mine), Some(_)) => (mine != NO_ERROR).then_some(Agreed::Stop),
        // What is a stream's fault alone (sections 5.1 and 8.1.1), or none: a stream that is over.
        (None, Some(PROTOCOL_ERROR)) => {
            let is_late = matches!(
                op,
                Op::Window {
                    more: 0 | 0x8000_0000,
                    ..
                }
            );
            (are_resets(mine) || is_late && mine.streams.is_empty()).then_some(Agreed::Stop)
        }
        (Some(PROTOCOL_ERROR | STREAM_CLOSED), None) => match op {
            // PUSH_PROMISE is no client's, whole or not.
            Op::Frame {
                kind: PUSH_PROMISE, ..
            } => Some(Agreed::Stop),
            // An identifier below one that was used (section 5.1.1), in a request that is malformed.
            Op::Request(_) => are_resets(other).then_some(Agreed::Stop),
            _ => None,
        },
        // The client goes, and nothing is left to be done: h2 says farewell.
        (None, Some(NO_ERROR)) => mine.streams.is_empty().then_some(Agreed::Stop),
        (None, None) => match op {
            // 431, and then h2 has it that the request is at fault.
            Op::Request(Request {
                head: Head::Large, ..
            }) if is_431(mine) && is_431(other) => Some(Agreed::GoOn),
            // Section 8.1: among trailers there is no pseudo-header.
            Op::Trailers {
                kind: Trailers::Pseudo,
                ..
            } => are_resets(mine).then_some(Agreed::Stop),
            // Refused or malformed; closed or malformed.
            Op::Request(_) | Op::Trailers { .. } => {
                (are_resets(mine) && are_resets(other)).then_some(Agreed::GoOn)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether what was answered is that streams are over.
fn are_resets(seen: &Seen) -> bool {
    !seen.streams.is_empty()
        && seen
            .streams
            .values()
            .all(|it| it.status.is_none() && it.bytes == 0 && it.reset.is_some())
}

fn is_431(seen: &Seen) -> bool {
    seen.streams
        .values()
        .all(|it| it.status.as_deref() == Some("431") && it.is_end)
}
