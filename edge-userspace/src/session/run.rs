//! Work for a request, until it is done or the request is to end.
//!
//! Written by hand: an async function has room for what it is given twice, and the work for a
//! request is large.

use super::{End, Stream};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// See [`Stream::run`].
    pub struct Run<'a, W> {
        stream: &'a Stream,
        #[pin]
        work: W,
    }
}

impl<'a, W> Run<'a, W> {
    pub(super) fn new(stream: &'a Stream, work: W) -> Self {
        Self { stream, work }
    }
}

impl<W: Future> Future for Run<'_, W> {
    type Output = Result<W::Output, End>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(end) = this.stream.poll_end(cx) {
            return Poll::Ready(Err(end));
        }
        this.work.poll(cx).map(Ok)
    }
}
