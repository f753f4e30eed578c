//! A request's body that can be sent again, as long as there is room to keep what has gone.
//!
//! Pieces pass as they come, and are kept beside, so that a request that one edge has refused can
//! go to another from its beginning. Where they find no room they pass all the same, and the
//! request cannot be sent again. What is left of a body when the answer is there, because the edge
//! refused it early, is read off, so that the program hears the answer and not a reset.
//! Not here: whether a request may be sent again ([`super::forward`]).

use bytes::Bytes;
use edge_client::client::BoxError;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// So much of a refused body is read off, for so long; what is more meets a reset.
const READ_OFF_BYTES: u64 = 64 << 20;
const READ_OFF_TIME: Duration = Duration::from_secs(30);

/// Room for what is kept of all requests.
#[derive(Debug)]
pub struct Room {
    most_bytes: u64,
    taken_bytes: AtomicU64,
}

/// One request's body.
#[derive(Clone)]
pub struct Held(Arc<Mutex<State>>);

struct State {
    incoming: Incoming,
    kept: Vec<Bytes>,
    kept_bytes: u64,
    room: Arc<Room>,
    /// All that has come is kept.
    is_repeatable: bool,
    has_ended: bool,
    /// Of the attempts, the one that gets what comes.
    attempt: u32,
    /// That one is still being sent.
    is_sending: bool,
    /// There will be no other.
    is_settled: bool,
    exact: Option<u64>,
}

/// One attempt to send it.
pub struct Attempt {
    held: Held,
    number: u32,
    /// The next piece, of those that are kept.
    next: usize,
    has_begun: bool,
}

/// It is being sent elsewhere.
#[derive(Debug, thiserror::Error)]
#[error("the request is being sent to another edge")]
struct Superseded;

impl Room {
    /// Of so many bytes.
    #[must_use]
    pub fn new(most_bytes: u64) -> Self {
        Self {
            most_bytes,
            taken_bytes: AtomicU64::new(0),
        }
    }

    /// What is kept now, bytes.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.taken_bytes() >= self.most_bytes
    }

    fn take(&self, bytes: u64) -> bool {
        let fits = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            (sum <= self.most_bytes).then_some(sum)
        };
        let order = Ordering::Relaxed;
        self.taken_bytes.fetch_update(order, order, fits).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Held {
    /// Nothing of it has been read.
    #[must_use]
    pub fn new(incoming: Incoming, room: Arc<Room>) -> Self {
        let exact = incoming.size_hint().exact();
        Self(Arc::new(Mutex::new(State {
            has_ended: incoming.is_end_stream(),
            incoming,
            kept: Vec::new(),
            kept_bytes: 0,
            room,
            is_repeatable: true,
            attempt: 0,
            is_sending: false,
            is_settled: false,
            exact,
        })))
    }

    /// Reads and keeps up to `most_bytes` before anything is sent, as far as there is room; gives
    /// the body's pieces when that is all of it.
    ///
    /// # Errors
    /// When the client breaks off.
    pub async fn read_ahead(&self, most_bytes: u64) -> Result<Option<Vec<Bytes>>, hyper::Error> {
        poll_fn(|cx| {
            let mut state = self.lock();
            loop {
                if state.has_ended {
                    let kept = state.is_repeatable.then(|| state.kept.clone());
                    return Poll::Ready(Ok(kept));
                }
                // What does not fit waits at the client until it is sent.
                if state.kept_bytes > most_bytes || !state.is_repeatable || state.room.is_full() {
                    return Poll::Ready(Ok(None));
                }
                match ready!(state.poll_incoming(cx)) {
                    Some(Ok(data)) => state.keep(data, true),
                    Some(Err(error)) => return Poll::Ready(Err(error)),
                    None => {}
                }
            }
        })
        .await
    }

    /// Whether another attempt would have all of it.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.lock().is_repeatable
    }

    /// Begins an attempt, which ends those before it.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        let mut state = self.lock();
        state.attempt += 1;
        state.is_sending = true;
        Attempt {
            held: self.clone(),
            number: state.attempt,
            next: 0,
            has_begun: false,
        }
    }

    /// It will not be sent again: what has gone need not be kept, and what nobody sends any more
    /// is read off.
    pub fn settle(&self) {
        let mut state = self.lock();
        state.is_repeatable = false;
        state.is_settled = true;
        self.read_off(&state);
    }

    /// Reads the rest, when nobody else will.
    fn read_off(&self, state: &State) {
        if !state.is_settled || state.is_sending || state.has_ended {
            return;
        }
        let held = self.clone();
        let rest = async move {
            let mut left = READ_OFF_BYTES;
            poll_fn(|cx| {
                let mut state = held.lock();
                state.let_go();
                while left > 0 {
                    match ready!(state.poll_incoming(cx)) {
                        Some(Ok(data)) => left = left.saturating_sub(data.len() as u64),
                        _ => break,
                    }
                }
                Poll::Ready(())
            })
            .await;
        };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async { timeout(READ_OFF_TIME, rest).await });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next piece from the client.
    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            return match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    Poll::Ready(Some(Ok(data)))
                }
                Some(Err(error)) => {
                    self.is_repeatable = false;
                    Poll::Ready(Some(Err(error)))
                }
                None => {
                    self.has_ended = true;
                    Poll::Ready(None)
                }
            };
        }
    }

    /// Keeps a piece when there is room; one that has not gone yet in any case.
    fn keep(&mut self, data: Bytes, must: bool) {
        let bytes = data.len() as u64;
        let has_room = self.is_repeatable && self.room.take(bytes);
        if !has_room {
            self.is_repeatable = false;
            if !must {
                return;
            }
            self.room.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.kept_bytes += bytes;
        self.kept.push(data);
    }

    fn let_go(&mut self) {
        self.kept = Vec::new();
        self.room.give_back(std::mem::take(&mut self.kept_bytes));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut state = self.held.lock();
        if state.attempt == self.number {
            state.is_sending = false;
            self.held.read_off(&state);
        }
    }
}

impl Body for Attempt {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        this.has_begun = true;
        let mut state = this.held.lock();
        if state.attempt != this.number {
            return Poll::Ready(Some(Err(Superseded.into())));
        }
        if let Some(piece) = state.kept.get(this.next) {
            this.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        if state.has_ended {
            return Poll::Ready(None);
        }
        // All that was kept has gone.
        if !state.is_repeatable {
            state.let_go();
        }
        let piece = ready!(state.poll_incoming(cx));
        if let Some(Ok(data)) = &piece {
            state.keep(data.clone(), false);
        }
        this.next = state.kept.len();
        Poll::Ready(piece.map(|piece| piece.map(Frame::data).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.held.lock();
        state.has_ended && self.next >= state.kept.len()
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.held.lock();
        match state.exact {
            Some(exact) if !self.has_begun => SizeHint::with_exact(exact),
            _ => SizeHint::default(),
        }
    }
}
