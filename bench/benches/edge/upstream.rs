//! The upstream of all: a process of this program that answers HTTP/1.1 as fast as it can. It
//! reads a request's body to its end and knows it by two words in it; it is no model.
//!
//! Answers are constant, so that who relays them can be held to their bytes; only the text of a
//! stream's events tells when each was written, on the clock that all processes share.

use memchr::memmem::find;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Events of a stream, the frame around them included.
pub(crate) const EVENTS: usize = 200;
/// What stands before the time in an event's text.
pub(crate) const STAMP: &str = "at ";
/// Decimal digits of that time, nanoseconds.
pub(crate) const STAMP_DIGITS: usize = 16;

/// A long answer's body, bytes, in either shape.
pub(crate) const LONG_BYTES: usize = 256 * 1024;
/// What a request says in its prompt for one.
pub(crate) const LONG: &str = "Tell me everything.";
/// Only in requests up to this size that is looked for.
const SHORT_REQUEST_BYTES: usize = 1024;

const MESSAGE: &str = r#"{"id":"msg_bench","type":"message","role":"assistant","model":"bench","content":[{"type":"text","text":"As far as anyone knows."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":6}}"#;
const COMPLETION: &str = r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1800000000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"As far as anyone knows."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":6,"total_tokens":18}}"#;
/// What routers ask for before they send anything; other paths of theirs are told the same.
const MODELS: &str = r#"{"object":"list","data":[{"id":"bench","object":"model"}]}"#;

/// Answers on that address until the process is ended.
pub(crate) fn serve(address: &str) -> ! {
    crate::block_on(async {
        let listener = TcpListener::bind(address).await.expect("that address");
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream));
            }
        }
    })
}

/// The clock of the machine, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The text of an event that tells when it was written.
fn stamp() -> String {
    format!("{STAMP}{:0STAMP_DIGITS$} ", now_ns())
}

async fn connection(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = Vec::with_capacity(16_384);
    let responses = [response(MESSAGE), response(COMPLETION)];
    static LONG_ANSWERS: LazyLock<[String; 2]> = LazyLock::new(|| [MESSAGE, COMPLETION].map(long));
    let models = response(MODELS);
    loop {
        let (head, end) = loop {
            if let Some(head) = find(&buffer, b"\r\n\r\n") {
                let head = head + 4;
                if let Some(end) = end_of_body(&buffer, head)? {
                    break (head, end);
                }
            }
            if stream.read_buf(&mut buffer).await.ok()? == 0 {
                return None;
            }
        };
        let is_chat = find(&buffer[..head], b"/chat/completions").is_some();
        let body = &buffer[head..end];
        let streams = find(body, b"\"stream\":true").or_else(|| find(body, b"\"stream\": true"));
        if streams.is_some() {
            let interval = interval(body);
            events(&mut stream, is_chat, interval).await?;
        } else if buffer.starts_with(b"GET ") {
            stream.write_all(models.as_bytes()).await.ok()?;
        } else {
            let is_long =
                body.len() <= SHORT_REQUEST_BYTES && find(body, LONG.as_bytes()).is_some();
            let answers = if is_long { &*LONG_ANSWERS } else { &responses };
            let answer = answers[usize::from(is_chat)].as_bytes();
            stream.write_all(answer).await.ok()?;
        }
        buffer.drain(..end);
    }
}

fn response(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The same answer with a text that makes its body `LONG_BYTES` long.
fn long(message: &str) -> String {
    const WORDS: &str = "As far as anyone knows.";
    let (before, after) = message.split_once(WORDS).expect("a text");
    let bytes = LONG_BYTES - before.len() - after.len();
    let text = format!("{WORDS} ").repeat(bytes / WORDS.len());
    response(&format!("{before}{}{after}", &text[..bytes]))
}

/// Where the body ends, when all of it is there. `None` for one that cannot be read.
fn end_of_body(buffer: &[u8], head: usize) -> Option<Option<usize>> {
    let text = std::str::from_utf8(&buffer[..head]).ok()?;
    for line in text.split("\r\n") {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            let end = head + value.trim().parse::<usize>().ok()?;
            return Some((buffer.len() >= end).then_some(end));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            // Nobody's trailer is asked for, so the last chunk's end is the body's.
            let last = find(&buffer[head..], b"\r\n0\r\n\r\n").map(|at| head + at + 7);
            let empty = buffer[head..].starts_with(b"0\r\n\r\n");
            return Some(last.or(empty.then_some(head + 5)));
        }
    }
    Some(Some(head))
}

/// A request says in its prompt, which everyone hands on, how far apart the events are to be.
pub(crate) const PACE: &str = "one word every ";

fn interval(body: &[u8]) -> Duration {
    let digits = find(body, PACE.as_bytes()).map_or(&body[..0], |at| &body[at + PACE.len()..]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    Duration::from_millis(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// All events of a stream, each written by itself at its time.
async fn events(stream: &mut TcpStream, is_chat: bool, interval: Duration) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let began = tokio::time::Instant::now();
    let mut text = String::with_capacity(512);
    for number in 0..EVENTS {
        if number > 0 && !interval.is_zero() {
            tokio::time::sleep_until(began + interval * number as u32).await;
        }
        text.clear();
        if number == 0 {
            text += head;
        }
        let event = if is_chat {
            chunk(number)
        } else {
            event(number)
        };
        let _ = write!(text, "{:x}\r\n{event}\r\n", event.len());
        if number + 1 == EVENTS {
            text += "0\r\n\r\n";
        }
        stream.write_all(text.as_bytes()).await.ok()?;
    }
    Some(())
}

/// An event of the Messages API's stream.
fn event(number: usize) -> String {
    let (name, data) = match EVENTS - number {
        _ if number == 0 => (
            "message_start",
            r#"{"type":"message_start","message":{"id":"msg_bench","type":"message","role":"assistant","content":[],"model":"bench","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":1}}}"#.to_owned(),
        ),
        _ if number == 1 => (
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.to_owned(),
        ),
        3 => (
            "content_block_stop",
            r#"{"type":"content_block_stop","index":0}"#.to_owned(),
        ),
        2 => (
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":195}}"#.to_owned(),
        ),
        1 => ("message_stop", r#"{"type":"message_stop"}"#.to_owned()),
        _ => (
            "content_block_delta",
            format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{}"}}}}"#,
                stamp()
            ),
        ),
    };
    format!("event: {name}\ndata: {data}\n\n")
}

/// A chunk of a chat completion's stream.
fn chunk(number: usize) -> String {
    let beginning = r#"{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1800000000,"model":"bench","choices":"#;
    let data = match EVENTS - number {
        _ if number == 0 => format!(
            r#"{beginning}[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}"#
        ),
        3 => format!(r#"{beginning}[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}"#),
        2 => format!(
            r#"{beginning}[],"usage":{{"prompt_tokens":12,"completion_tokens":196,"total_tokens":208}}}}"#
        ),
        1 => "[DONE]".to_owned(),
        _ => format!(
            r#"{beginning}[{{"index":0,"delta":{{"content":"{}"}},"finish_reason":null}}]}}"#,
            stamp()
        ),
    };
    format!("data: {data}\n\n")
}
