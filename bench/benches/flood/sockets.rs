//! Attackers as a botnet of ordinary programs is: sockets of a stack, each from an address of
//! its own, that send a hello, wait for an answer, and close. They wait for the server, so
//! their rate is what it lets through. Bounded in number, rate and time.

use super::attackers::Done;
use super::net::TARGET;
use socket2::{Domain, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many there are at a time.
const THREADS: u64 = 32;
/// Who hears nothing for so long gives up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs them on threads of the calling one's namespace.
pub(crate) fn run(hello: &[u8], per_second: u64, time: Duration) -> Done {
    let [opened, connected, answers, resets] = [const { AtomicU64::new(0) }; 4];
    let add = |of: &AtomicU64| of.fetch_add(1, Ordering::Relaxed);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while began.elapsed() < time {
                    let number = add(&opened);
                    let due = Duration::from_secs_f64(number as f64 / per_second as f64);
                    if due >= time {
                        opened.fetch_sub(1, Ordering::Relaxed);
                        break;
                    }
                    std::thread::sleep(due.saturating_sub(began.elapsed()));
                    let Ok(mut tcp) = connect(number) else {
                        continue;
                    };
                    add(&connected);
                    let _ = tcp.write_all(hello);
                    match tcp.read(&mut [0; 4096]) {
                        Ok(1..) => drop(add(&answers)),
                        Ok(0) => {}
                        Err(_) => drop(add(&resets)),
                    }
                }
            });
        }
    });
    let value = AtomicU64::into_inner;
    Done {
        opened: value(opened),
        connected: value(connected),
        answers: value(answers),
        resets: value(resets),
        ..Done::default()
    }
}

/// From the `number`th address, one of 64,000 in 256 prefixes.
fn connect(number: u64) -> std::io::Result<TcpStream> {
    let (prefix, host) = ((number % 256) as u32, (number / 256 % 250) as u32);
    let from = Ipv4Addr::from_bits(0x0a40_0001 + (prefix << 8) + host);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from.into(), 0).into())?;
    socket.connect_timeout(&TARGET.into(), PATIENCE)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}
