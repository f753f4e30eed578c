use super::*;
use crate::keys::Keyring;
use crate::session::{Keeper, Kept, Limits, Sessions};
use crate::telemetry::Lane;
use bytes::Bytes;
use edge_common::policy::Reason as Accepted;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, BufReader, ReadBuf};

fn session() -> Kept {
    let day = Duration::from_secs(24 * 3600);
    let limits = Limits {
        idle: day,
        idle_unbound: day,
        drain: day,
        unread: None,
    };
    let (keyring, sessions) = (Arc::new(Keyring::new(1)), Arc::new(Sessions::new()));
    let keeper = Keeper::new(keyring, sessions, Arc::default(), limits);
    let peer = "192.0.2.1:1234".parse().unwrap();
    keeper.open(crate::listener::Identity {
        lane: Lane::Legacy,
        key: None,
        reason: Accepted::NoToken,
        peer,
        socket_peer: peer,
        ja4: None,
        over_rate: false,
    })
}

#[tokio::test]
async fn a_fault_in_one_request_is_no_fault_of_the_others() {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let service = |request: Request<Incoming>| {
        let path = request.head.uri.path().to_owned();
        assert_ne!(path, "/head");
        async move {
            assert_ne!(path, "/work");
            Response::new(ResponseBody::Whole(Some(Bytes::from_static(b"fine"))))
        }
    };
    let session = session();
    let served = Http2::new(BufReader::new(server), 10, &session, service);
    let asked = async {
        let (sender, connection) = h2::client::handshake(client).await.unwrap();
        let asking = async {
            let mut sender = sender.ready().await.unwrap();
            for path in ["/", "/head", "/work", "/head", "/"] {
                let request = http::Request::get(format!("http://edge{path}"));
                let sent = sender.send_request(request.body(()).unwrap(), true);
                match (path, sent.unwrap().0.await) {
                    ("/", answered) => assert_eq!(answered.unwrap().status(), 200),
                    (_, failed) => assert!(failed.unwrap_err().is_reset(), "{path}"),
                }
            }
        };
        tokio::select! {
            () = asking => {}
            ended = connection => panic!("{ended:?}"),
        }
    };
    tokio::select! {
        () = asked => {}
        ended = served => panic!("{ended:?}"),
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client that sends without a pause: there is always more to read.
struct Endless {
    begin: Vec<u8>,
    /// Bytes that have been read.
    read: usize,
}

/// WINDOW_UPDATE of the connection, again and again.
const UPDATES: [u8; 1300] = {
    let mut updates = [0; 1300];
    let mut at = 0;
    while at < updates.len() {
        (updates[at + 2], updates[at + 3], updates[at + 12]) = (4, 8, 1);
        at += 13;
    }
    updates
};

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        unreachable!("it is read where it lies")
    }
}

impl AsyncBufRead for Endless {
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        Poll::Ready(Ok(match this.begin.get(this.read..) {
            Some(begin) if !begin.is_empty() => begin,
            _ => &UPDATES[(this.read - this.begin.len()) % UPDATES.len()..],
        }))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().read += bytes;
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn who_sends_without_a_pause_lets_others_run() {
    let wire = Endless {
        begin: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        read: 0,
    };
    let service = async |_| -> Response<ResponseBody> { unreachable!("nothing is asked") };
    let session = session();
    let mut served = Http2::new(wire, 10, &session, service);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    for turn in 1..=10 {
        let polled = Pin::new(&mut served).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let read = served.io.read;
        let most = turn * (READ_BYTES + UPDATES.len());
        assert!((turn * READ_BYTES..=most).contains(&read), "{turn}: {read}");
        let times = woken.0.load(Ordering::Relaxed);
        assert_eq!(times, turn, "it goes on when others have run");
    }
}
