//! The body of a request that is refused without it.

use crate::relay::Incoming;
use bytes::Bytes;
use http::Version;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use std::time::Duration;
use tokio::time::timeout;

/// So many times the largest body is read of a client whose key is known, so that one that is too
/// large is told so.
const TIMES: u64 = 4;
/// How long they are waited for.
const READ_OFF_TIME: Duration = Duration::from_secs(30);
/// How long a client that holds its body back is waited for: until the answer, which is on its way,
/// has been read before the reset comes. A slow way there and back and a lost packet or two are
/// within it. Nothing is held for it but a stream's place.
const HELD_BACK_TIME: Duration = Duration::from_secs(3);

/// How much of a refused body is read. `max_body_bytes`: of one that is not refused;
/// `is_known`: the client's key is.
///
/// A bound is there for those who never end alone: a client that is cut off may send as much on its
/// next stream or connection, and some of those that are never come to read the answer.
pub(super) fn most_bytes(max_body_bytes: u64, is_known: bool) -> u64 {
    match is_known {
        true => max_body_bytes.saturating_mul(TIMES),
        false => max_body_bytes,
    }
}

/// Reads at most so many bytes of a refused request's body beside the answer, which does not wait
/// for it, and forgets it. An HTTP/1.1 connection can serve on only when the body is off it, and
/// its end may come before the answer is read: Node gives up at the first write that fails. An
/// HTTP/2 answer to a body that is still on its way ends with a RST_STREAM (NO_ERROR, RFC 9113
/// section 8.1), which some clients take for a failure if it crosses their data (curl) or do not
/// hear of while they wait for room to send more (httpcore).
///
/// A client that waits to be told to go on (`expect: 100-continue`) is not told so, which over
/// HTTP/1.1 is what reading does (RFC 9110 section 10.1.1): nothing is read there. Over HTTP/2 it
/// is given time to read the answer: curl takes one for no answer at all if the reset comes with
/// it.
pub(super) fn read_off(body: Incoming, version: Version, most_bytes: u64, expects_continue: bool) {
    if body.is_end_stream() {
        return;
    }
    let is_held_back = expects_continue && !body.has_begun();
    if version < Version::HTTP_2 {
        // A part would not save the connection.
        if is_held_back || body.size_hint().lower() > most_bytes {
            return;
        }
    } else if is_held_back {
        body.do_not_ask();
    }
    tokio::task::spawn_local(read_some(body, most_bytes, is_held_back));
}

/// Reads at most `left` bytes. What is late or longer meets the reset.
async fn read_some(mut body: Incoming, mut left: u64, is_held_back: bool) {
    let read = async {
        let mut is_held_back = is_held_back;
        loop {
            let frame = match is_held_back {
                true => timeout(HELD_BACK_TIME, body.frame()).await.ok().flatten(),
                false => body.frame().await,
            };
            let Some(Ok(frame)) = frame else { break };
            is_held_back = false;
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            match left.checked_sub(length) {
                Some(less) => left = less,
                None => break,
            }
        }
    };
    let _ = timeout(READ_OFF_TIME, read).await;
}
