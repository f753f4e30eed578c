//! Prompts: each request's is another, so that nothing of it is known before, or the next turn of
//! a conversation, whose beginning is.

use crate::client::Connection;
use crate::target::Target;
use bench::peers::Speaks;
use bench::trace::random::Random;
use bytes::Bytes;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Connections over TLS, and requests at a time on each.
const CONNECTIONS: usize = 4;
const AT_A_TIME: usize = 8;
/// Of a conversation, the first included.
pub(crate) const TURNS: usize = 8;
const LATER_BYTES: usize = 120;

/// No two prompts of a process are alike.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// Sends that many prompts of that size: conversations of `TURNS` turns, or of one.
pub(crate) async fn run(target: &Arc<Target>, requests: usize, bytes: usize, turns: usize) {
    let clients = CONNECTIONS * AT_A_TIME;
    let mut connections = Vec::new();
    let needed = match target.speaks {
        Speaks::Tls => CONNECTIONS,
        Speaks::Plain => clients,
    };
    for _ in 0..needed {
        connections.push(Connection::open(target, false).await.0);
    }
    let mut running = Vec::new();
    for client in 0..clients {
        let mut connection = match &connections[client % connections.len()] {
            Connection::H2(send, _) => Connection::H2(send.clone(), tokio::spawn(async {})),
            Connection::H1(_) => connections.pop().expect("one for each client"),
        };
        let target = Arc::clone(target);
        let conversations = (client..requests / turns).step_by(clients).count();
        running.push(tokio::spawn(async move {
            for _ in 0..conversations {
                let mut conversation = Conversation::new(bytes);
                for _ in 0..turns {
                    let mut answer = 0;
                    let count = |piece: &[u8]| answer += piece.len();
                    connection.ask(&target, conversation.body(), count).await;
                    assert!(answer > 100, "{answer} bytes of an answer");
                    conversation.go_on();
                }
            }
        }));
    }
    for client in running {
        client.await.expect("a client");
    }
}

struct Conversation {
    messages: String,
    number: u64,
    turn: usize,
}

impl Conversation {
    fn new(bytes: usize) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let text = text(number, bytes);
        Self {
            messages: format!(r#"{{"role":"user","content":"{text}"}}"#),
            number,
            turn: 0,
        }
    }

    fn body(&self) -> Bytes {
        let Self { messages, .. } = self;
        format!(r#"{{"model":"bench","max_tokens":16,"messages":[{messages}]}}"#).into()
    }

    /// The answer as the upstream gave it, and what is asked next.
    fn go_on(&mut self) {
        self.turn += 1;
        let next = text(self.number * 1000 + self.turn as u64, LATER_BYTES);
        let _ = write!(
            self.messages,
            r#",{{"role":"assistant","content":"As far as anyone knows."}},{{"role":"user","content":"{next}"}}"#
        );
    }
}

/// English words in an order of its own, with a mark now and then, that begins as no other does.
fn text(seed: u64, bytes: usize) -> String {
    const WORDS: [&str; 32] = [
        "the",
        "of",
        "and",
        "a",
        "to",
        "in",
        "is",
        "you",
        "that",
        "it",
        "he",
        "was",
        "for",
        "on",
        "are",
        "as",
        "with",
        "his",
        "they",
        "at",
        "be",
        "this",
        "have",
        "from",
        "connection",
        "request",
        "measure",
        "Thursday",
        "kilometre",
        "understand",
        "answer",
        "river",
    ];
    let mut random = Random::new(seed);
    let mut text = format!("{seed:012} ");
    while text.len() < bytes {
        text += WORDS[random.below(WORDS.len() as u64) as usize];
        text += match random.below(12) {
            0 => ", ",
            1 => ". ",
            2 => " (17) ",
            _ => " ",
        };
    }
    text
}
