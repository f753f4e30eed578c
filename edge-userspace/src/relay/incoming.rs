//! A request's body as the client's connection gives it, whichever HTTP it speaks.
//!
//! Trailers are read and thrown away: no API of this kind has any. Not here: what may come of
//! it, and how much ([`super::request`]).

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of any request.
#[derive(Debug)]
pub struct Incoming(Wire);

#[derive(Debug)]
enum Wire {
    Http1(hyper::body::Incoming),
    Http2 {
        stream: RecvStream,
        /// What is still to come by its `content-length`, bytes.
        left: Option<u64>,
        /// Nothing more comes.
        is_over: bool,
    },
}

/// The body broke off.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// Over HTTP/1.1.
    #[error("{0}")]
    Http1(#[source] hyper::Error),
    /// Over HTTP/2.
    #[error("{0}")]
    Http2(#[source] h2::Error),
}

impl Incoming {
    /// Of an HTTP/2 stream. `length`: what its `content-length` says, bytes, which h2 holds it to.
    #[must_use]
    pub fn http2(stream: RecvStream, length: Option<u64>) -> Self {
        Self(Wire::Http2 {
            stream,
            left: length,
            is_over: false,
        })
    }
}

impl From<hyper::body::Incoming> for Incoming {
    fn from(body: hyper::body::Incoming) -> Self {
        Self(Wire::Http1(body))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = IncomingError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        match &mut self.get_mut().0 {
            Wire::Http1(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(IncomingError::Http1)))
            }
            Wire::Http2 { is_over: true, .. } => Poll::Ready(None),
            Wire::Http2 {
                stream,
                left,
                is_over,
            } => {
                let data = match ready!(stream.poll_data(cx)) {
                    Some(Ok(data)) => {
                        // What is read is given back: the window is what lies unread.
                        let _ = stream.flow_control().release_capacity(data.len());
                        *left = left.map(|left| left.saturating_sub(data.len() as u64));
                        *is_over = stream.is_end_stream();
                        Some(Ok(Frame::data(data)))
                    }
                    // Ours, behind an answer that came early: nothing is missing (RFC 9113 section
                    // 8.1). Of a client that breaks off, whatever it calls it, something is.
                    Some(Err(error))
                        if error.reason() == Some(h2::Reason::NO_ERROR) && !error.is_remote() =>
                    {
                        None
                    }
                    Some(Err(error)) => Some(Err(IncomingError::Http2(error))),
                    None => {
                        let _ = ready!(stream.poll_trailers(cx));
                        *is_over = true;
                        None
                    }
                };
                Poll::Ready(data)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Wire::Http1(body) => body.is_end_stream(),
            Wire::Http2 {
                stream, is_over, ..
            } => *is_over || stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Wire::Http1(body) => body.size_hint(),
            Wire::Http2 { left, .. } => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
