//! The client's body on its way up: as it comes, and not more of it than is allowed.

use super::incoming::Incoming;
use crate::prompt::Held;
use crate::upstream::{Fault, Sendable, Upload};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Most bytes that are taken in before there is a connection to send them on.
const AHEAD_BYTES: usize = 64 * 1024;

/// A request's body. Trailers are not passed on: no API of this kind has any.
///
/// In a box: it travels through several futures, each of which has room for it.
#[derive(Default)]
pub struct RequestBody(Option<Box<Live>>);

struct Live {
    /// None: all of it is in `ahead`.
    incoming: Option<Incoming>,
    upload: Rc<Upload>,
    /// Bytes that may still come.
    allowed_bytes: u64,
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    /// The room of a body that has been held whole.
    _held: Option<Held>,
}

/// The body failed; [`Upload::fault`] says how to those who wait for the response.
#[derive(Debug)]
pub struct Failed(Fault);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request's body failed: {:?}", self.0)
    }
}

impl std::error::Error for Failed {}

impl RequestBody {
    /// The body of a request, of at most `max_bytes`, and its progress; no progress when
    /// there is no body.
    #[must_use]
    pub fn new(incoming: Incoming, max_bytes: u64) -> (Self, Option<Rc<Upload>>) {
        if incoming.is_end_stream() {
            return (Self(None), None);
        }
        let upload = Rc::new(Upload::default());
        let live = Live {
            incoming: Some(incoming),
            upload: Rc::clone(&upload),
            allowed_bytes: max_bytes,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            _held: None,
        };
        (Self(Some(Box::new(live))), Some(upload))
    }

    /// A body that has come whole, and its room, which is given back when it has been sent.
    #[must_use]
    pub fn whole(pieces: Vec<Bytes>, held: Held) -> (Self, Rc<Upload>) {
        let upload = Rc::new(Upload::default());
        let live = Live {
            incoming: None,
            upload: Rc::clone(&upload),
            allowed_bytes: 0,
            ahead_bytes: pieces.iter().map(Bytes::len).sum(),
            ahead: pieces.into(),
            _held: Some(held),
        };
        (Self(Some(Box::new(live))), upload)
    }
}

impl Live {
    /// Nothing more comes of it, and nothing is missing: a fault is still to be told.
    fn is_over(&self) -> bool {
        let more = (self.incoming.as_ref()).is_some_and(|incoming| !incoming.is_end_stream());
        self.ahead.is_empty() && !more && self.upload.fault().is_none()
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failed>>> {
        if let Some(fault) = self.upload.fault() {
            return Poll::Ready(Some(Err(Failed(fault))));
        }
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        loop {
            let data = match Pin::new(&mut *incoming).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(_))) => return self.fail(Fault::ClientLeft),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_trailers) => continue,
                },
            };
            match self.allowed_bytes.checked_sub(data.len() as u64) {
                Some(left) => self.allowed_bytes = left,
                None => return self.fail(Fault::TooLarge),
            }
            return Poll::Ready(Some(Ok(data)));
        }
    }

    fn fail(&self, fault: Fault) -> Poll<Option<Result<Bytes, Failed>>> {
        self.upload.fail(fault);
        Poll::Ready(Some(Err(Failed(fault))))
    }
}

impl Sendable for RequestBody {
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        let Some(live) = &mut self.0 else { return };
        while live.ahead_bytes < AHEAD_BYTES {
            match live.poll_incoming(cx) {
                Poll::Ready(Some(Ok(data))) => {
                    live.ahead_bytes += data.len();
                    live.ahead.push_back(data);
                }
                // A fault is kept in the progress, and met again when the body is sent.
                _ => break,
            }
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        let Some(live) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let data = match live.ahead.pop_front() {
            Some(data) => {
                live.ahead_bytes -= data.len();
                Poll::Ready(Some(Ok(data)))
            }
            None => live.poll_incoming(cx),
        };
        match data {
            Poll::Pending => live.upload.waits_for_client(),
            Poll::Ready(_) => live.upload.passed(),
        }
        if live.is_over() {
            live.upload.all_passed();
        }
        data.map(|data| data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        (self.0.as_ref()).is_none_or(|live| live.is_over())
    }

    fn size_hint(&self) -> SizeHint {
        let Some(live) = &self.0 else {
            return SizeHint::with_exact(0);
        };
        let ahead = live.ahead_bytes as u64;
        let Some(incoming) = &live.incoming else {
            return SizeHint::with_exact(ahead);
        };
        let coming = incoming.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = coming.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint.set_lower(coming.lower().saturating_add(ahead));
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_with_a_fault_has_not_come_to_its_end() {
        let upload = Rc::new(Upload::default());
        let live = Live {
            incoming: None,
            upload: Rc::clone(&upload),
            allowed_bytes: 0,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            _held: None,
        };
        let mut body = RequestBody(Some(Box::new(live)));
        assert!(body.is_end_stream());
        upload.fail(Fault::TooLarge);
        assert!(!body.is_end_stream());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let next = Pin::new(&mut body).poll_frame(&mut cx);
        assert!(matches!(next, Poll::Ready(Some(Err(_)))));
        assert!(!upload.has_passed());
    }
}
