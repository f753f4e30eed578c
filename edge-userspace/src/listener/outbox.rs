//! What the connections of a thread send in one turn of its loop, written one right after the
//! other.
//!
//! Between the writes of two connections the edge works for some 10 µs. A client's process that has
//! nothing to do falls asleep in less, and each write then pays for waking it: a fifth of what
//! an event of a stream costs, where many connections lead to one process, as those of a gateway
//! do. So small writes are kept back until what was ready before has run, or [`MOST`]
//! connections have some. What is large is written as it comes, behind what was kept back.
//!
//! Not here: what belongs together within one connection ([`super::gather`]), and the same for
//! requests to upstreams ([`crate::upstream`]).

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::mem;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// When so many connections have something, it is written at once.
const MOST: usize = 16;
/// What is kept back of one connection, bytes.
const MOST_BYTES: usize = 8 * 1024;

/// One thread's.
#[derive(Default)]
pub(super) struct Outbox {
    /// Those that have something; some are gone meanwhile, and have written it themselves.
    ready: RefCell<Vec<Weak<Slot>>>,
    /// Of the one who writes; without one nothing is kept back.
    writer: RefCell<Option<Waker>>,
    /// Empty ones: an idle connection has none.
    buffers: RefCell<Vec<Vec<u8>>>,
}

/// Writes what is kept back, as long as there is anyone to keep it.
pub(super) struct Writer(Weak<Outbox>);

/// A connection's socket.
pub(super) struct Outgoing {
    slot: Rc<Slot>,
    /// None: everything is written as it comes.
    outbox: Option<Rc<Outbox>>,
}

struct Slot {
    tcp: RefCell<TcpStream>,
    held: RefCell<Held>,
}

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// The writer will come; else whoever runs the connection has to see to what is left.
    is_listed: bool,
    /// That one.
    runner: Option<Waker>,
    failed: Option<io::Error>,
}

impl Outbox {
    /// Whether the writer will come to it.
    fn list(&self, slot: &Rc<Slot>, held: &mut Held) -> bool {
        if held.is_listed {
            return true;
        }
        let writer = self.writer.borrow();
        let Some(writer) = &*writer else {
            return false;
        };
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            writer.wake_by_ref();
        }
        ready.push(Rc::downgrade(slot));
        held.is_listed = true;
        if held.bytes.capacity() == 0 {
            held.bytes = self.buffers.borrow_mut().pop().unwrap_or_default();
        }
        true
    }

    fn is_full(&self) -> bool {
        self.ready.borrow().len() >= MOST
    }

    fn write(&self) {
        let mut ready = self.ready.take();
        for slot in ready.drain(..).filter_map(|slot| slot.upgrade()) {
            let buffer = slot.write();
            let mut buffers = self.buffers.borrow_mut();
            if buffer.capacity() > 0 && buffers.len() < MOST {
                buffers.push(buffer);
            }
        }
        // Writing runs nobody's code, so nothing was listed meanwhile.
        *self.ready.borrow_mut() = ready;
    }
}

impl Writer {
    pub(super) fn new(outbox: &Rc<Outbox>) -> Self {
        Self(Rc::downgrade(outbox))
    }
}

impl Future for Writer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(outbox) = self.0.upgrade() else {
            return Poll::Ready(());
        };
        outbox.write();
        let mut writer = outbox.writer.borrow_mut();
        if !(writer.as_ref()).is_some_and(|writer| writer.will_wake(cx.waker())) {
            *writer = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(outbox) = self.0.upgrade() {
            outbox.writer.take();
            outbox.write();
        }
    }
}

impl Slot {
    /// Writes what is kept back, as far as the kernel takes it. The buffer, when it is empty.
    fn write(&self) -> Vec<u8> {
        let held = &mut *self.held.borrow_mut();
        held.is_listed = false;
        if !held.bytes.is_empty() {
            match self.tcp.borrow().try_write(&held.bytes) {
                Ok(count) => drop(held.bytes.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    held.bytes.clear();
                    held.failed = Some(error);
                }
            }
        }
        if (!held.bytes.is_empty() || held.failed.is_some())
            && let Some(runner) = held.runner.take()
        {
            runner.wake();
        }
        if held.bytes.is_empty() {
            mem::take(&mut held.bytes)
        } else {
            Vec::new()
        }
    }
}

impl Held {
    /// Whether something is left that nobody will come for.
    fn is_stuck(&self) -> bool {
        self.failed.is_some() || (!self.bytes.is_empty() && !self.is_listed)
    }

    fn run_by(&mut self, waker: &Waker) {
        if !(self.runner.as_ref()).is_some_and(|known| known.will_wake(waker)) {
            self.runner = Some(waker.clone());
        }
    }
}

impl Outgoing {
    /// Everything is written as it comes.
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self {
            slot: Rc::new(Slot {
                tcp: RefCell::new(tcp),
                held: RefCell::default(),
            }),
            outbox: None,
        }
    }

    /// From now on it is written together with others.
    pub(super) fn write_with(&mut self, outbox: &Rc<Outbox>) {
        self.outbox = Some(Rc::clone(outbox));
    }

    /// The socket.
    pub(super) fn tcp(&self) -> impl Deref<Target = TcpStream> {
        self.slot.tcp.borrow()
    }

    /// Keeps back a small write; `None` when it is to be written.
    fn keep(&self, slices: &[IoSlice<'_>], cx: &Context<'_>) -> Option<usize> {
        let outbox = self.outbox.as_ref()?;
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        {
            let held = &mut *self.slot.held.borrow_mut();
            let fits = held.bytes.len() + bytes <= MOST_BYTES;
            if !fits || held.is_stuck() || !outbox.list(&self.slot, held) {
                return None;
            }
            for slice in slices {
                held.bytes.extend_from_slice(slice);
            }
            held.run_by(cx.waker());
        }
        if outbox.is_full() {
            outbox.write();
        }
        Some(bytes)
    }

    /// Writes what was kept back.
    fn poll_held(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = &mut *self.slot.held.borrow_mut();
        if let Some(error) = held.failed.take() {
            return Poll::Ready(Err(error));
        }
        while !held.bytes.is_empty() {
            let tcp = &mut *self.slot.tcp.borrow_mut();
            match ready!(Pin::new(tcp).poll_write(cx, &held.bytes))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => drop(held.bytes.drain(..count)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The same where the writer does not come.
    #[inline]
    fn poll_stuck(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.slot.held.borrow().is_stuck() {
            self.poll_held(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}

impl AsyncRead for Outgoing {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever is woken for what is left may have nothing to write.
        if let Poll::Ready(Err(error)) = self.poll_stuck(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut *self.slot.tcp.borrow_mut()).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Outgoing {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(bytes) = self.keep(slices, cx) {
            return Poll::Ready(Ok(bytes));
        }
        ready!(self.poll_held(cx))?;
        Pin::new(&mut *self.slot.tcp.borrow_mut()).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What the writer will come for counts as sent.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_stuck(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_held(cx))?;
        Pin::new(&mut *self.slot.tcp.borrow_mut()).poll_shutdown(cx)
    }
}

impl Drop for Outgoing {
    /// A connection that ends without a word has been promised that what it wrote goes out.
    fn drop(&mut self) {
        self.slot.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn connected(outbox: &Rc<Outbox>) -> (TcpStream, Outgoing) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (theirs, ours) = tokio::join!(TcpStream::connect(address), listener.accept());
        let ours = ours.unwrap().0;
        ours.writable().await.unwrap();
        let mut outgoing = Outgoing::new(ours);
        outgoing.write_with(outbox);
        (theirs.unwrap(), outgoing)
    }

    fn turn(writer: &mut Writer) {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(writer).poll(&mut cx).is_pending());
    }

    fn has_nothing(client: &TcpStream) -> bool {
        client.try_read(&mut [0; 8]).is_err()
    }

    #[tokio::test]
    async fn what_is_small_is_written_when_the_writers_turn_comes_or_many_have_some() {
        let outbox = Rc::<Outbox>::default();
        let mut writer = Writer::new(&outbox);
        let (mut client, mut ours) = connected(&outbox).await;
        // Nobody would write it.
        ours.write_all(b"a").await.unwrap();
        client.read_exact(&mut [0]).await.unwrap();
        turn(&mut writer);
        ours.write_all(b"on").await.unwrap();
        ours.write_all(b"e").await.unwrap();
        ours.flush().await.unwrap();
        assert!(has_nothing(&client));
        turn(&mut writer);
        let mut read = [0; 3];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one");
        assert_eq!(ours.slot.held.borrow().bytes.capacity(), 0, "it is idle");

        let mut others = Vec::new();
        for _ in 0..MOST {
            let (client, mut ours) = connected(&outbox).await;
            ours.write_all(b"x").await.unwrap();
            others.push((client, ours));
        }
        for (client, _) in &mut others {
            client.read_exact(&mut [0]).await.unwrap();
        }

        // The last turn of one that ends.
        ours.write_all(b"b").await.unwrap();
        drop(writer);
        client.read_exact(&mut [0]).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_large_and_what_ends_come_behind_what_was_kept_back() {
        let outbox = Rc::<Outbox>::default();
        let mut writer = Writer::new(&outbox);
        turn(&mut writer);
        for is_shut in [true, false] {
            let (mut client, mut ours) = connected(&outbox).await;
            let large = vec![b'l'; MOST_BYTES];
            ours.write_all(b"small").await.unwrap();
            ours.write_all(&large).await.unwrap();
            ours.write_all(b"last").await.unwrap();
            if is_shut {
                ours.shutdown().await.unwrap();
            }
            drop(ours);
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            assert!(all == [b"small", &large[..], b"last"].concat());
        }
        turn(&mut writer);
    }

    #[tokio::test]
    async fn who_reads_late_gets_all_and_whoever_runs_the_connection_is_woken() {
        let outbox = Rc::<Outbox>::default();
        let mut writer = Writer::new(&outbox);
        turn(&mut writer);
        let (mut client, mut ours) = connected(&outbox).await;
        let runner = Arc::new(Woken::default());
        let waker = Arc::clone(&runner).into();
        let mut cx = Context::from_waker(&waker);
        // More than any socket takes, in small pieces.
        let (piece, mut sent) = ([7; 1000], 0);
        while let Poll::Ready(written) = Pin::new(&mut ours).poll_write(&mut cx, &piece) {
            sent += written.unwrap();
            turn(&mut writer);
        }
        assert!(runner.0.load(Ordering::Relaxed) > 0);
        assert!(Pin::new(&mut ours).poll_flush(&mut cx).is_pending());
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            all.len()
        });
        // Reading alone sees to what is left.
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        poll_fn(|cx| {
            assert!(Pin::new(&mut ours).poll_read(cx, &mut read).is_pending());
            if ours.slot.held.borrow().is_stuck() {
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        ours.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap(), sent);
    }
}
