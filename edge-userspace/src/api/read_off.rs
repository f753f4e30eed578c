//! The body of a request that is refused without it.

use crate::relay::Incoming;
use bytes::Bytes;
use http::Version;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use std::time::Duration;

/// Most bytes of a stranger's refused body that are read on HTTP/1.1; a client that means to
/// send more is told by the connection's end.
const SHORT_BYTES: u64 = 65_536;
/// The same on HTTP/2, where only the stream would end.
const LONG_BYTES: u64 = 1 << 20;
/// How long they are waited for.
const READ_OFF_TIME: Duration = Duration::from_secs(30);

/// How much of a refused body is read. `known_bytes`: of a client whose key is known, which
/// might have sent as much anyway.
pub(super) fn most_bytes(version: Version, known_bytes: Option<u64>) -> u64 {
    match (known_bytes, version) {
        (Some(bytes), _) => bytes,
        (None, Version::HTTP_2) => LONG_BYTES,
        (None, _) => SHORT_BYTES,
    }
}

/// Reads at most so many bytes of a refused request's body beside the answer, which does not wait for
/// it, and forgets it. An HTTP/1.1 connection can serve on only when the body is off it. An
/// HTTP/2 answer to a body that is still on its way ends with a RST_STREAM (NO_ERROR, RFC
/// 9113 section 8.1), which some clients, curl among them, take for a failure if it crosses
/// their data.
///
/// Nothing is read when the client waits to be told to go on (`expect: 100-continue`): to
/// read is to tell it so (RFC 9110 section 10.1.1).
pub(super) fn read_off(body: Incoming, version: Version, most_bytes: u64, expects_continue: bool) {
    if expects_continue || body.is_end_stream() {
        return;
    }
    // A part would not save an HTTP/1.1 connection.
    if version < Version::HTTP_2 && body.size_hint().lower() > most_bytes {
        return;
    }
    tokio::task::spawn_local(read_some(body, most_bytes));
}

/// Reads at most `left` bytes. What is late or longer meets the reset.
async fn read_some(mut body: Incoming, mut left: u64) {
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            match left.checked_sub(length) {
                Some(less) => left = less,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(READ_OFF_TIME, read).await;
}
