//! Requests that become ready in one turn of a thread's loop, written one right after the other.
//!
//! Between two requests of one read the edge works for some 10 µs. An upstream's process that has
//! nothing to do falls asleep in less, and each write then pays for waking it. So a small request
//! is put aside when it is ready, and all of them are written when what was ready before has
//! run: after at most [`MOST`] of them, so that the first does not wait for long. Alone, a request
//! is written as soon as its own task has run.
//!
//! Not here: larger requests, and those over TLS, which are written as they come
//! ([`super::sending`]).

use super::Upload;
use super::connect::Socket;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// So many are put aside; then they are written at once.
const MOST: usize = 16;

/// One thread's.
#[derive(Default)]
pub(super) struct Burst {
    ready: RefCell<Vec<Ready>>,
    /// Of the one who writes them; without one nothing is put aside.
    writer: RefCell<Option<Waker>>,
}

struct Ready {
    /// Gone when the request was given up meanwhile: nothing of it is written then.
    slot: Weak<Slot>,
    bytes: Vec<u8>,
}

/// Writes what is put aside, as long as there is anyone to put it there.
pub(super) struct Writer(Weak<Burst>);

/// One connection's: where it is told what has become of its request.
pub(super) struct Slot {
    socket: Socket,
    state: RefCell<State>,
}

/// A request with a body that may lie put aside. Given up there, its body has gone nowhere.
pub(super) struct Aside<'a> {
    slot: Rc<Slot>,
    upload: &'a Upload,
}

enum State {
    Nothing,
    PutAside(Waker),
    Tried(Vec<u8>, io::Result<usize>),
}

impl Burst {
    /// Puts a request aside; gives it back when nobody would write it.
    pub(super) fn put(
        &self,
        slot: &Rc<Slot>,
        bytes: Vec<u8>,
        cx: &Context<'_>,
    ) -> Result<(), Vec<u8>> {
        let writer = self.writer.borrow();
        let Some(writer) = &*writer else {
            return Err(bytes);
        };
        *slot.state.borrow_mut() = State::PutAside(cx.waker().clone());
        let count = {
            let mut ready = self.ready.borrow_mut();
            ready.push(Ready {
                slot: Rc::downgrade(slot),
                bytes,
            });
            ready.len()
        };
        match count {
            1 => writer.wake_by_ref(),
            MOST => self.write(),
            _ => {}
        }
        Ok(())
    }

    fn write(&self) {
        let mut ready = self.ready.take();
        for Ready { slot, bytes } in ready.drain(..) {
            if let Some(slot) = slot.upgrade() {
                slot.write(bytes);
            }
        }
        // Writing runs nobody's code, so nothing was put aside meanwhile.
        *self.ready.borrow_mut() = ready;
    }
}

impl Writer {
    pub(super) fn new(burst: &Rc<Burst>) -> Self {
        Self(Rc::downgrade(burst))
    }
}

impl Future for Writer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(burst) = self.0.upgrade() else {
            return Poll::Ready(());
        };
        burst.write();
        let mut writer = burst.writer.borrow_mut();
        if !(writer.as_ref()).is_some_and(|writer| writer.will_wake(cx.waker())) {
            *writer = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(burst) = self.0.upgrade() {
            burst.writer.take();
            burst.write();
        }
    }
}

impl Slot {
    pub(super) fn new(socket: Socket) -> Rc<Self> {
        Rc::new(Self {
            socket,
            state: RefCell::new(State::Nothing),
        })
    }

    /// What has become of the request that was put aside: its bytes, and how many of them were
    /// written.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<(Vec<u8>, io::Result<usize>)> {
        let mut state = self.state.borrow_mut();
        match std::mem::replace(&mut *state, State::Nothing) {
            State::Tried(bytes, outcome) => Poll::Ready((bytes, outcome)),
            State::PutAside(waker) if waker.will_wake(cx.waker()) => {
                *state = State::PutAside(waker);
                Poll::Pending
            }
            State::PutAside(_) | State::Nothing => {
                *state = State::PutAside(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn write(&self, bytes: Vec<u8>) {
        let outcome = match self.socket.try_write(&bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            outcome => outcome,
        };
        // Who waits for the answer needs to know only what is left to be done.
        let is_whole = matches!(outcome, Ok(count) if count == bytes.len());
        let state = self.state.replace(State::Tried(bytes, outcome));
        if let State::PutAside(waker) = state
            && !is_whole
        {
            waker.wake();
        }
    }
}

impl<'a> Aside<'a> {
    pub(super) fn new(slot: &Rc<Slot>, upload: &'a Upload) -> Self {
        let slot = Rc::clone(slot);
        Self { slot, upload }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if let State::PutAside(_) = *self.slot.state.borrow() {
            self.upload.nothing_passed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpStream};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn times(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    async fn connected() -> (TcpStream, Rc<Slot>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let ours = ours.unwrap();
        ours.writable().await.unwrap();
        (theirs.unwrap().0, Slot::new(Socket::new(ours)))
    }

    fn whole(slot: &Slot, cx: &Context<'_>) -> bool {
        matches!(slot.poll(cx), Poll::Ready((bytes, Ok(count))) if count == bytes.len())
    }

    #[tokio::test]
    async fn what_is_put_aside_is_written_when_the_writers_turn_comes_or_there_is_much() {
        let (mut upstream, slot) = connected().await;
        let burst = Rc::<Burst>::default();
        let (writer, asker) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let (writer_waker, asker_waker) = (Arc::clone(&writer).into(), Arc::clone(&asker).into());
        let mut writer_cx = Context::from_waker(&writer_waker);
        let cx = Context::from_waker(&asker_waker);

        // Nobody would write it.
        assert_eq!(burst.put(&slot, b"a".to_vec(), &cx), Err(b"a".to_vec()));
        let mut turn = Writer::new(&burst);
        assert!(Pin::new(&mut turn).poll(&mut writer_cx).is_pending());
        assert_eq!(burst.put(&slot, b"one".to_vec(), &cx), Ok(()));
        assert_eq!(writer.times(), 1);
        assert!(slot.poll(&cx).is_pending());
        assert!(upstream.try_read(&mut [0; 8]).is_err());
        assert!(Pin::new(&mut turn).poll(&mut writer_cx).is_pending());
        assert!(whole(&slot, &cx));
        assert_eq!(asker.times(), 0, "it waits for the answer anyway");
        let mut read = [0; 3];
        upstream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one");

        let mut others = Vec::new();
        for number in 1..=MOST {
            let (upstream, slot) = connected().await;
            assert_eq!(burst.put(&slot, vec![0; number], &cx), Ok(()));
            others.push((upstream, slot));
        }
        assert_eq!(writer.times(), 2);
        for (number, (mut upstream, slot)) in (1..).zip(others) {
            assert!(whole(&slot, &cx));
            upstream.read_exact(&mut vec![0; number]).await.unwrap();
        }

        // The last turn of one that ends; after it nobody would write.
        assert_eq!(burst.put(&slot, b"two".to_vec(), &cx), Ok(()));
        drop(turn);
        assert!(whole(&slot, &cx));
        assert_eq!(burst.put(&slot, b"b".to_vec(), &cx), Err(b"b".to_vec()));
    }

    #[tokio::test]
    async fn who_left_has_nothing_written_and_who_is_left_with_some_is_told() {
        let (mut gone_upstream, gone) = connected().await;
        let (_upstream, slot) = connected().await;
        let burst = Rc::<Burst>::default();
        let asker = Arc::new(Woken::default());
        let waker = Arc::clone(&asker).into();
        let cx = Context::from_waker(&waker);
        let mut turn = Writer::new(&burst);
        let mut noop = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut turn).poll(&mut noop).is_pending());
        assert_eq!(burst.put(&gone, b"never".to_vec(), &cx), Ok(()));
        // More than any socket takes.
        let much = 1 << 26;
        assert_eq!(burst.put(&slot, vec![0; much], &cx), Ok(()));
        drop(gone);
        assert!(Pin::new(&mut turn).poll(&mut noop).is_pending());
        assert_eq!(asker.times(), 1);
        let Poll::Ready((bytes, Ok(count))) = slot.poll(&cx) else {
            panic!("it was tried");
        };
        assert!(count < bytes.len() && bytes.len() == much);
        assert_eq!(gone_upstream.read(&mut [0; 8]).await.unwrap(), 0);
    }
}
