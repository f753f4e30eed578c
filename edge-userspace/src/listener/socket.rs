//! Listening sockets.
#![expect(
    unsafe_code,
    reason = "named island: TCP_DEFER_ACCEPT and SIOCOUTQ have no safe wrapper"
)]

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A client that acknowledges nothing, or keeps its window shut, is gone after this time
/// (tcp(7), TCP_USER_TIMEOUT).
const STALLED: Duration = Duration::from_secs(180);

/// Finds out about peers that vanished without a word, within two minutes.
fn keep_alive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(15))
        .with_retries(4)
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Someone listens there.
    #[error(
        "{address}: the port is in use, perhaps by another edge; `ss -ltnp sport = :{port}` shows by whom", port = .address.port()
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("{address}: cannot listen: {source}{}", cure(source))]
    Other {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

fn cure(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        io::ErrorKind::AddrNotAvailable => "; it is no address of this machine (`ip address`)",
        _ => "",
    }
}

/// `count` sockets that share one address by SO_REUSEPORT, so that each serving thread has
/// its own queue. With port 0 the system chooses the port, the same for all.
///
/// SO_REUSEPORT would also let the sockets of another process of the same user join, and
/// silently share the connections with it. Therefore the first socket is bound without it,
/// which fails when anyone listens there, and is opened to the others only then.
///
/// With TCP_DEFER_ACCEPT and `defer_accept` (rounded up to seconds) a connection is accepted
/// when its first bytes are there, so one that the kernel half refuses is never accepted at
/// all. Accepted connections inherit TCP_NODELAY, keep-alive, and a bound on how long a
/// client may acknowledge or read nothing of what was sent to it.
///
/// # Errors
/// When the address is in use, is not this machine's, or needs a privilege.
pub fn bind(
    address: SocketAddr,
    backlog: u32,
    defer_accept: Duration,
    count: NonZeroUsize,
) -> Result<Vec<TcpListener>, BindError> {
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        _ => BindError::Other { address, source },
    };
    let first = bound(address, false).map_err(fail)?;
    first.set_reuse_port(true).map_err(fail)?;
    let address = (first.local_addr().map_err(fail)?.as_socket()).unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..count.get() {
        sockets.push(bound(address, true).map_err(fail)?);
    }
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    for socket in &sockets {
        socket.listen(backlog).map_err(fail)?;
        // Without Nagle's algorithm an event leaves when it is written, not a round trip later.
        socket.set_tcp_nodelay(true).map_err(fail)?;
        socket.set_tcp_keepalive(&keep_alive()).map_err(fail)?;
        socket.set_tcp_user_timeout(Some(STALLED)).map_err(fail)?;
        set_defer_accept(socket, defer_accept).map_err(fail)?;
    }
    Ok(sockets.into_iter().map(TcpListener::from).collect())
}

fn bound(address: SocketAddr, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    // Connections of a daemon that has just ended may linger on the port.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    if address.is_ipv6() {
        // An IPv4 address is listed of its own.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// tcp(7): "a listener is awakened only when data arrives on the socket".
fn set_defer_accept(socket: &Socket, wait: Duration) -> io::Result<()> {
    let rounded_up = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let seconds = libc::c_int::try_from(rounded_up).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open while `socket` is borrowed; the pointer and the length
    // are of one c_int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            SockRef::from(socket).as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            std::ptr::from_ref(&seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether the peer has yet to acknowledge something that was sent, the end included (tcp(7),
/// SIOCOUTQ, which is TIOCOUTQ). A socket that cannot say has nothing more to say.
pub(super) fn has_unacknowledged(socket: &impl AsRawFd) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open while `socket` is borrowed; the request writes one c_int to
    // the pointer, which is of one that outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    result == 0 && bytes > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpStream;
    use std::time::Instant;

    const ANY_PORT: &str = "127.0.0.1:0";

    fn bind_many(address: &str, count: usize) -> Result<Vec<TcpListener>, BindError> {
        let count = NonZeroUsize::new(count).unwrap();
        bind(address.parse().unwrap(), 16, Duration::from_secs(3), count)
    }

    #[test]
    fn the_sockets_of_one_call_share_the_port_and_all_get_connections() {
        let sockets = bind_many(ANY_PORT, 3).unwrap();
        let address = sockets[0].local_addr().unwrap();
        assert!(
            sockets
                .iter()
                .all(|socket| socket.local_addr().unwrap() == address)
        );
        let mut accepted = [0; 3];
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut clients = Vec::new();
        while accepted.contains(&0) {
            assert!(
                Instant::now() < deadline,
                "a socket gets no connections: {accepted:?}"
            );
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"x").unwrap();
            clients.push(client);
            for (socket, accepted) in sockets.iter().zip(&mut accepted) {
                if let Ok((connection, _)) = socket.accept() {
                    let options = SockRef::from(&connection);
                    assert!(options.tcp_nodelay().unwrap(), "inherited");
                    assert!(options.keepalive().unwrap(), "inherited");
                    assert_eq!(options.tcp_user_timeout().unwrap(), Some(STALLED));
                    *accepted += 1;
                }
            }
        }
    }

    #[test]
    fn a_second_edge_on_the_port_is_told_although_both_would_reuse_it() {
        for count in [1, 2] {
            let sockets = bind_many(ANY_PORT, count).unwrap();
            let address = sockets[0].local_addr().unwrap().to_string();
            let error = bind_many(&address, 2).unwrap_err();
            assert!(matches!(error, BindError::InUse { .. }), "{error}");
            drop(sockets);
            bind_many(&address, 2).unwrap();
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let error = bind_many("192.0.2.1:0", 1).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }

    #[test]
    fn a_silent_connection_is_not_accepted_before_it_speaks() {
        let sockets = bind_many(ANY_PORT, 1).unwrap();
        let mut client = TcpStream::connect(sockets[0].local_addr().unwrap()).unwrap();
        let error = sockets[0].accept().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        client.write_all(b"x").unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while sockets[0].accept().is_err() {
            assert!(Instant::now() < deadline, "it spoke and was not accepted");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
