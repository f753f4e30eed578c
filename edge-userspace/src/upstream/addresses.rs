//! The addresses of the upstream's name: resolved, kept for a moment, tried in turn.

use super::connect::ConnectError;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// How long the addresses of a name are used. Addresses may move, so not for long; but a
/// burst of new connections asks the resolver once.
const KEEP: Duration = Duration::from_secs(5);
/// An address has at least this long to answer, if there is as much.
const LEAST: Duration = Duration::from_millis(250);

/// What one thread knows of the upstream's name.
#[derive(Default)]
pub(super) struct Addresses(RefCell<Option<Resolved>>);

struct Resolved {
    addresses: Vec<SocketAddr>,
    until: Instant,
}

impl Addresses {
    /// The addresses as they are known, or else as `lookup` finds them.
    pub(super) async fn resolve<A: Iterator<Item = SocketAddr>>(
        &self,
        lookup: impl Future<Output = io::Result<A>>,
    ) -> io::Result<Vec<SocketAddr>> {
        let now = Instant::now();
        let known = |resolved: &&Resolved| now < resolved.until;
        if let Some(resolved) = self.0.borrow().as_ref().filter(known) {
            return Ok(resolved.addresses.clone());
        }
        let addresses: Vec<_> = lookup.await?.collect();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no address"));
        }
        *self.0.borrow_mut() = Some(Resolved {
            addresses: addresses.clone(),
            until: Instant::now() + KEEP,
        });
        Ok(addresses)
    }

    /// Connects to the first of `addresses` that answers, until `deadline`. That one is tried
    /// first from now on; when none answers the resolver is asked again the next time.
    pub(super) async fn dial(
        &self,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<TcpStream, ConnectError> {
        let dialled = dial_one_of(addresses, deadline).await;
        let mut known = self.0.borrow_mut();
        match (&dialled, &mut *known) {
            (Ok((_, good)), Some(resolved)) => {
                if let Some(at) = (resolved.addresses.iter()).position(|address| address == good) {
                    resolved.addresses[..=at].rotate_right(1);
                }
            }
            (Ok(_), None) => {}
            (Err(_), _) => *known = None,
        }
        dialled.map(|(tcp, _)| tcp)
    }
}

/// Each address gets its share of the time that is left, so that one which swallows packets
/// does not use up that of the others.
async fn dial_one_of(
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let begun = Instant::now();
    let mut failed = ConnectError::TimedOut(deadline - begun);
    for (at, address) in addresses.iter().enumerate() {
        let rest = deadline.saturating_duration_since(Instant::now());
        let left = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        let share = (rest / left).max(LEAST).min(rest);
        match timeout(share, super::connect::dial(*address)).await {
            Ok(Ok(tcp)) => return Ok((tcp, *address)),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = ConnectError::TimedOut(begun.elapsed()),
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::cell::Cell;

    fn address(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 443).into()
    }

    #[tokio::test(start_paused = true)]
    async fn the_resolver_is_asked_again_after_a_while_and_after_a_failure() {
        let addresses = Addresses::default();
        let asked = Cell::new(0);
        let resolve = || {
            addresses.resolve(async {
                asked.set(asked.get() + 1);
                Ok([address(1), address(2)].into_iter())
            })
        };
        for _ in 0..3 {
            assert_eq!(resolve().await.unwrap(), [address(1), address(2)]);
        }
        assert_eq!(asked.get(), 1);
        tokio::time::advance(KEEP).await;
        resolve().await.unwrap();
        assert_eq!(asked.get(), 2);
        // No time is left, so none answers.
        addresses
            .dial(&[address(1)], Instant::now())
            .await
            .unwrap_err();
        resolve().await.unwrap();
        assert_eq!(asked.get(), 3);
        let none = Addresses::default();
        let found = none.resolve(async { Ok(std::iter::empty()) }).await;
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// A listener whose queue is full: to connect to it takes for ever.
    fn dead() -> (Socket, Vec<std::net::TcpStream>, SocketAddr) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        socket.bind(&any.into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        let patience = Duration::from_millis(300);
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, patience) {
            queued.push(stream);
            assert!(queued.len() < 100, "the queue is never full");
        }
        (socket, queued, address)
    }

    #[tokio::test]
    async fn a_dead_address_leaves_time_for_the_next_which_is_tried_first_then() {
        let (_socket, _queued, dead) = dead();
        let good = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let good = good.local_addr().map(|address| (good, address)).unwrap();
        let addresses = Addresses::default();
        let both = addresses.resolve(async { Ok([dead, good.1].into_iter()) });
        let both = both.await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(4);
        let tcp = addresses.dial(&both, deadline).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), good.1);
        let kept = async { panic!("resolved again") };
        let kept = addresses.resolve::<std::array::IntoIter<_, 0>>(kept);
        assert_eq!(kept.await.unwrap(), [good.1, dead]);
        let only = addresses.dial(&[dead], Instant::now() + LEAST).await;
        assert!(matches!(only, Err(ConnectError::TimedOut(_))));
    }
}
