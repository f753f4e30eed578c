//! The body of a request that is refused without it.

use bytes::Bytes;
use http::Version;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;

/// Bytes of a refused request's body that are read before the answer.
const SHORT_BYTES: u64 = 65_536;
/// Most bytes that are read beside it.
const LONG_BYTES: u64 = 1 << 20;
/// How long they are waited for.
const READ_OFF_TIME: Duration = Duration::from_secs(1);

/// Reads the body of a refused request and forgets it: a short one before the answer, the
/// begin of a long one beside it. An HTTP/2 answer to a body that is still on its way ends
/// with a RST_STREAM (NO_ERROR, RFC 9113 section 8.1), which some clients, curl among them,
/// take for a failure if it crosses their data.
pub(super) async fn read_off(body: Incoming, version: Version) {
    if body.size_hint().lower() <= SHORT_BYTES {
        read_some(body, SHORT_BYTES).await;
    } else if version == Version::HTTP_2 {
        tokio::task::spawn_local(read_some(body, LONG_BYTES));
    }
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
