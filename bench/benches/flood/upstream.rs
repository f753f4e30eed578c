//! What servers relay to: HTTP/1.1, kept alive, one thread a connection, the same answer to
//! every request. As many connections as servers keep, a bounded number. It times nothing.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The body of every answer.
pub(crate) const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"bench","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}"#;
/// More connections are closed at once.
const CONNECTIONS: usize = 1024;

/// Starts it in the calling thread's namespace.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        static OPEN: AtomicUsize = AtomicUsize::new(0);
        for tcp in listener.incoming().flatten() {
            if OPEN.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                OPEN.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            std::thread::spawn(move || {
                let _ = answer(tcp);
                OPEN.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    address
}

/// Reads requests with a `content-length` (or without a body) and answers each.
fn answer(mut tcp: TcpStream) -> std::io::Result<()> {
    tcp.set_nodelay(true)?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(length) = request_bytes(&seen) {
            seen.drain(..length);
            tcp.write_all(answer.as_bytes())?;
        }
        match tcp.read(&mut buffer)? {
            0 => return Ok(()),
            read => seen.extend_from_slice(&buffer[..read]),
        }
    }
}

/// How long the first request is, when it is there whole.
fn request_bytes(seen: &[u8]) -> Option<usize> {
    let head = seen.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&seen[..head]).ok()?;
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    };
    let is_chunked = text
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    if is_chunked {
        // What proxies stream: it ends with the last chunk.
        let end = seen[head..].windows(5).position(|w| w == b"0\r\n\r\n")?;
        return Some(head + end + 5);
    }
    let length = text.lines().find_map(value).unwrap_or(0);
    (seen.len() >= head + length).then_some(head + length)
}
