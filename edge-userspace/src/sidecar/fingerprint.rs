//! Puts the fingerprint of a request into its headers, so that the edge checks that it read what
//! was meant.
//!
//! For that the body must be there first. It is waited for up to a bound; a larger one, one that
//! is encoded, and one that is no request go without.

use super::held::Held;
use crate::api::Route;
use crate::context::canonical::Canonical;
use crate::context::{Secret, wire};
use crate::prompt::Shape;
use crate::prompt::json::Reader;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;

/// Largest body that is read before it goes on, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the body ahead and names the request, unless the client has done so.
///
/// # Errors
/// When the client breaks off.
pub(super) async fn put(head: &mut Parts, held: &Held) -> Result<(), hyper::Error> {
    let shape = match Route::of(head.uri.path()) {
        Route::Messages | Route::CountTokens => Shape::Messages,
        Route::ChatCompletions => Shape::Chat,
        _ => return Ok(()),
    };
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    if head.headers.contains_key(wire::HEADER)
        || head.headers.contains_key(header::CONTENT_ENCODING)
        || length.is_some_and(|length: u64| length > MOST_BYTES)
    {
        return Ok(());
    }
    let Some(pieces) = held.read_ahead(MOST_BYTES).await? else {
        return Ok(());
    };
    if let Some(value) = of(shape, &pieces) {
        head.headers.insert(wire::HEADER, value);
    }
    Ok(())
}

/// The fingerprint of a body; none of one that is no request, which the edge says better.
fn of(shape: Shape, pieces: &[Bytes]) -> Option<HeaderValue> {
    // Plays no part in what goes over the wire.
    let secret = Secret::demonstration();
    let mut canonical = Canonical::new(shape, &secret);
    canonical.add_wire();
    let mut reader = Reader::new();
    for piece in pieces {
        reader.push(piece, &mut canonical).ok()?;
    }
    reader.finish(&mut canonical).ok()?;
    if !canonical.is_request() {
        return None;
    }
    let computed = canonical.wire_form()?;
    HeaderValue::try_from(computed.fingerprint.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_that_of_the_documentation_however_the_body_is_cut() {
        let body = br#"{"system": [{"type": "text", "text": "You help."}], "model": "claude-x", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}"#;
        let expected = "5d548584def170658dac4700d735739d8ef7e6872ad5aff595bccb9ca4eb059e";
        for cut in 0..=body.len() {
            let (before, after) = body.split_at(cut);
            let pieces = [before, after].map(Bytes::from_static);
            assert_eq!(of(Shape::Messages, &pieces).unwrap(), expected, "{cut}");
        }
        assert_eq!(of(Shape::Messages, &[Bytes::from_static(b"[]")]), None);
        assert_eq!(of(Shape::Messages, &[Bytes::from_static(b"{")]), None);
        assert_eq!(of(Shape::Chat, &[]), None);
    }
}
