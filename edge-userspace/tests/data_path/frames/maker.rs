//! An upstream whose answers are as long as they are asked to be, each beginning with what it has
//! received: so both bodies of a request are known to the byte.

use crate::ledger::Dice;
use crate::upstream::scripted;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How an answer's end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    Close,
}

impl Framing {
    pub(super) const ALL: [Self; 3] = [Self::Length, Self::Chunked, Self::Close];
}

/// What is asked of it, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// All that is chosen follows from it.
    pub(super) seed: u64,
    /// Of the request's body, at least [`Want::LEAST_BODY_BYTES`].
    pub(super) body_bytes: usize,
    /// Of the answer's.
    pub(super) answer_bytes: usize,
    pub(super) framing: Framing,
    /// The answer comes now and then.
    pub(super) is_slow: bool,
}

const BODY_BEGIN: &str = r#"{"model":"claude-demo","max_tokens":1,"messages":[],"metadata":{"x":""#;
const BODY_END: &str = r#""}}"#;
/// The received length and its hash; an answer that is shorter does not say them.
const SAID_BYTES: usize = 16;

impl Want {
    pub(super) const LEAST_BODY_BYTES: usize = BODY_BEGIN.len() + BODY_END.len();

    pub(super) fn body(&self) -> Vec<u8> {
        let mut body = BODY_BEGIN.as_bytes().to_vec();
        let filler = self.body_bytes - Self::LEAST_BODY_BYTES;
        body.extend((0..filler).map(|at| b'a' + (self.byte(at) % 26)));
        body.extend_from_slice(BODY_END.as_bytes());
        body
    }

    pub(super) fn answer(&self, received: &[u8]) -> Vec<u8> {
        let mut answer = Vec::with_capacity(self.answer_bytes);
        if self.answer_bytes >= SAID_BYTES {
            answer.extend((received.len() as u64).to_be_bytes());
            answer.extend(hash(received).to_be_bytes());
        }
        answer.extend((answer.len()..self.answer_bytes).map(|at| self.byte(at)));
        answer
    }

    /// What says so in a request's head, as [`super::block`] takes it.
    pub(super) fn headers(&self) -> String {
        let Self {
            seed,
            answer_bytes,
            framing,
            is_slow,
            ..
        } = self;
        format!("x-want={seed}/{answer_bytes}/{framing:?}/{is_slow}")
    }

    fn read(text: &str) -> Option<Self> {
        let parts: Vec<_> = text.split('/').collect();
        let framing = |framing: &Framing| format!("{framing:?}") == parts[2];
        Some(Self {
            seed: parts[0].parse().ok()?,
            body_bytes: 0,
            answer_bytes: parts[1].parse().ok()?,
            framing: Framing::ALL.into_iter().find(framing)?,
            is_slow: parts[3] == "true",
        })
    }

    fn byte(&self, at: usize) -> u8 {
        let mixed = (at as u64 + self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 56) as u8
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325;
    (bytes.iter()).fold(begin, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

pub(super) async fn upstream() -> SocketAddr {
    scripted(|_, mut tcp| async move {
        let mut bytes = Vec::new();
        while serve_one(&mut tcp, &mut bytes).await.is_some() {}
    })
    .await
}

/// None: the connection is over.
async fn serve_one(tcp: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        read(tcp, bytes).await?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let line = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let length: usize = line("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        read(tcp, bytes).await?;
    }
    let want = Want::read(line("x-want").unwrap()).unwrap();
    let answer = want.answer(&bytes[end..end + length]);
    bytes.drain(..end + length);
    let framing = match want.framing {
        Framing::Length => format!("content-length: {}\r\n", answer.len()),
        Framing::Chunked => "transfer-encoding: chunked\r\n".to_owned(),
        Framing::Close => "connection: close\r\n".to_owned(),
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{framing}\r\n");
    write(tcp, head.as_bytes()).await?;
    let dice = Dice::new(want.seed);
    let mut rest = &answer[..];
    while !rest.is_empty() {
        let most = 1 + dice.below(dice.of(&[10, 1000, 20_000, 200_000]));
        let (now, later) = rest.split_at(rest.len().min(usize::try_from(most).unwrap()));
        rest = later;
        if want.framing == Framing::Chunked {
            let chunk = [format!("{:x}\r\n", now.len()).as_bytes(), now, b"\r\n"].concat();
            write(tcp, &chunk).await?;
        } else {
            write(tcp, now).await?;
        }
        if want.is_slow && dice.one_in(4) {
            tokio::time::sleep(Duration::from_millis(1 + dice.below(4))).await;
        }
    }
    match want.framing {
        Framing::Length => Some(()),
        Framing::Chunked => write(tcp, b"0\r\n\r\n").await,
        Framing::Close => None,
    }
}

async fn read(tcp: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let count = tcp.read_buf(bytes).await.ok()?;
    (count > 0).then_some(())
}

async fn write(tcp: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    tcp.write_all(bytes).await.ok()
}
