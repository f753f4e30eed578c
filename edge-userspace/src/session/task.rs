//! What runs one HTTP/2 stream, and ends it when its client takes nothing for too long.
//!
//! While a stream waits for its client's window nothing in it is polled, so nothing in it can end
//! it. What is around it can: dropped, it resets the stream (RFC 9113 section 6.4) and drops the answer,
//! which closes the upstream's connection. Not here: who finds out ([`Session::end_unread`]).

use super::Session;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// The request that a task runs: its place among those of the connection, and its number, for
/// places are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) slot: usize,
    pub(super) number: u64,
}

pin_project! {
    /// A stream's future, with the request that was begun in it.
    pub struct Task<F> {
        // None once it is over.
        #[pin]
        future: Option<F>,
        session: Rc<Session>,
        begun: Option<Begun>,
    }
}

impl<F> Task<F> {
    /// Of a stream of that connection: of the request that was begun just before, if one was,
    /// else of the one that is begun in `future`.
    pub fn new(future: F, session: &Rc<Session>) -> Self {
        Self {
            future: Some(future),
            session: Rc::clone(session),
            begun: session.begun.take(),
        }
    }
}

impl<F: Future<Output = ()>> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if !(this.begun).is_some_and(|begun| this.session.is_unread(begun))
            && let Some(future) = this.future.as_mut().as_pin_mut()
        {
            let polled = future.poll(cx);
            // It was begun in there: nothing else ran meanwhile.
            if let Some(begun) = this.session.begun.take() {
                *this.begun = Some(begun);
            }
            ready!(polled);
        }
        this.future.set(None);
        Poll::Ready(())
    }
}
