//! Conversations through the edge: each goes on where its beginning is cached, is counted but
//! once, and nothing of it is known to anybody else.

use crate::client::{Answer, Ask, Client, Http};
use crate::world::{ALICE, BOB, Wishes, World, token, until};
use edge_userspace::demo_model::{DemoModel, Options};
use edge_userspace::telemetry::{ContextOutcome, HintOutcome, Preheat};
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A model that reads a prompt in some milliseconds, and what it has cached in none.
fn options() -> Options {
    Options {
        first_token: Duration::ZERO,
        inter_token: Duration::ZERO,
        tokens: 4,
        kv_cache_tokens: 1_000_000,
        prefill_tokens_per_ms: 20,
        ..Options::default()
    }
}

fn two_models() -> (World, DemoModel) {
    let other = DemoModel::start(options()).unwrap();
    let world = World::with(Wishes {
        model: options(),
        more: vec![other.address()],
        ..Wishes::default()
    });
    (world, other)
}

impl World {
    async fn alice(&self) -> Client {
        self.connect(Http::H2, Some(token(ALICE))).await
    }

    fn turns(&self) -> [u64; 4] {
        use ContextOutcome::{Beginning, Hit, Miss, Unnamed};
        [Hit, Beginning, Miss, Unnamed].map(|outcome| self.metrics.contexts.get(outcome))
    }
}

/// A conversation that grows by what was answered.
struct Conversation {
    number: usize,
    messages: Vec<Value>,
    system: bool,
}

impl Conversation {
    fn new(number: usize) -> Self {
        Self {
            number,
            messages: Vec::new(),
            system: false,
        }
    }

    /// As a client keeps it: now a string, now blocks, a cache mark that moves.
    fn body(&mut self, model: &str) -> String {
        let n = self.messages.len();
        let text = format!("Conversation {}, message {n}: ", self.number)
            + &"some words that make it long enough to be worth a cache. ".repeat(20);
        self.messages.push(json!({"role": "user", "content": text}));
        let mut messages = self.messages.clone();
        let last = messages.len() - 1;
        let marked =
            json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
        messages[last]["content"] = marked;
        let mut body = json!({"max_tokens": 4, "messages": messages, "model": model});
        if self.system {
            body["system"] = json!("You are a helpful plug-in. ".repeat(50));
        }
        body.to_string()
    }

    fn answered(&mut self, answer: &Answer) {
        let content = answer.json()["content"].clone();
        (self.messages).push(json!({"role": "assistant", "content": content}));
    }

    async fn turn(&mut self, client: &mut Client, ask: impl Fn(Ask) -> Ask) -> (Answer, Duration) {
        let ask = ask(Ask::message(ALICE).body(self.body("claude-demo")));
        let begun = Instant::now();
        let answer = client.ask(ask).await.unwrap();
        let took = begun.elapsed();
        assert_eq!(answer.status, 200);
        self.answered(&answer);
        (answer, took)
    }
}

fn cached(answer: &Answer) -> u64 {
    let usage = &answer.json()["usage"];
    usage["cache_read_input_tokens"].as_u64().unwrap()
}

/// Fewer tokens than a message here has, and more than all that stands before the first.
const A_MESSAGE: u64 = 100;

fn same(ask: Ask) -> Ask {
    ask
}

#[tokio::test]
async fn a_conversation_goes_on_where_its_beginning_is_cached() {
    let (world, other) = two_models();
    let mut client = world.alice().await;
    let mut conversations: Vec<_> = (0..24).map(Conversation::new).collect();
    let mut took = [Duration::ZERO; 6];
    for (turn, of_turn) in took.iter_mut().enumerate() {
        for conversation in &mut conversations {
            let (answer, took) = conversation.turn(&mut client, same).await;
            *of_turn += took;
            assert_eq!(cached(&answer) > A_MESSAGE, turn > 0, "turn {turn}");
        }
    }
    assert_eq!(world.turns(), [5 * 24, 0, 24, 0]);
    let on_both = [&world.model, &other].map(|model| model.stats().figures().requests);
    assert!(on_both.iter().all(|count| *count > 24), "{on_both:?}");
    let [first, warm @ ..] = took.map(|took| took.as_secs_f64() * 1000.0 / 24.0);
    println!("mean time to the answer, ms: first turns {first:.2}, later ones {warm:.2?}");
}

#[tokio::test]
async fn without_memory_most_turns_find_no_cache_on_the_other_upstream() {
    let other = DemoModel::start(options()).unwrap();
    let world = World::with(Wishes {
        model: options(),
        more: vec![other.address()],
        config: |config| config.context.enabled = false,
        ..Wishes::default()
    });
    let mut client = world.alice().await;
    let mut misses = 0;
    let mut second = Duration::ZERO;
    for number in 0..40 {
        let mut conversation = Conversation::new(number);
        conversation.turn(&mut client, same).await;
        let (answer, took) = conversation.turn(&mut client, same).await;
        second += took;
        misses += u32::from(cached(&answer) < A_MESSAGE);
    }
    let mean_ms = second.as_secs_f64() * 1000.0 / 40.0;
    println!("mean time to the answer, ms: second turns without memory {mean_ms:.2}");
    assert!((5..=35).contains(&misses), "{misses} of 40");
    assert_eq!(world.turns(), [0; 4]);
}

/// Counts of a conversation that is remembered are those of one that is not.
#[tokio::test]
async fn what_is_known_is_not_counted_again_and_the_count_is_the_same() {
    let world = World::new();
    let plain = World::configured(|config| config.context.enabled = false);
    for (path, model) in [
        ("/v1/messages", "gpt-4o"),
        ("/v1/messages", "claude-demo"),
        ("/v1/chat/completions", "gpt-4"),
    ] {
        let (mut client, mut other) = (world.alice().await, plain.alice().await);
        let mut conversation = Conversation::new(7);
        conversation.system = path == "/v1/messages";
        let mut known = world.metrics.context_known_tokens.get(());
        for turn in 0..6 {
            let body = conversation.body(model);
            let ask = |body: &str| {
                Ask::new(Method::POST, path)
                    .with("anthropic-version", "2023-06-01")
                    .with("content-type", "application/json")
                    .with("x-api-key", ALICE)
                    .body(body.to_owned())
            };
            let answer = client.ask(ask(&body)).await.unwrap();
            let told = answer.header("x-edge-input-tokens");
            let expected = other.ask(ask(&body)).await.unwrap();
            assert_eq!(told, expected.header("x-edge-input-tokens"), "{turn}");
            let knows = world.metrics.context_known_tokens.get(());
            let is_exact = told.ends_with(";exact");
            assert_eq!(knows > known, turn > 0 && is_exact, "turn {turn}, {told}");
            known = knows;
            let text = json!({"role": "assistant", "content": format!("Answer {turn}.")});
            conversation.messages.push(text);
        }
    }
}

/// A conversation that goes on, on another upstream than others that begin like it, leaves
/// what their common beginning counts where it was.
#[tokio::test]
async fn a_common_beginning_keeps_its_number_wherever_conversations_go() {
    let (world, other) = two_models();
    let mut client = world.alice().await;
    let known = || world.metrics.context_known_tokens.get(());
    let body = |conversation: &mut Conversation| conversation.body("gpt-4o");
    let mut long = Conversation::new(0);
    long.system = true;
    for turn in 0..3 {
        let ask = Ask::message(ALICE).body(body(&mut long));
        let answer = client.ask(ask).await.unwrap();
        long.answered(&answer);
        assert_eq!(known() > 0, turn > 0);
    }
    // The one that it is at goes; its beginning is written anew, by a turn that did not count it.
    let at_other = other.stats().figures().requests > 0;
    if at_other {
        drop(other);
    }
    for number in 1..4 {
        let ask = Ask::message(ALICE).body(body(&mut long));
        long.answered(&client.ask(ask).await.unwrap());
        let before = known();
        let mut new = Conversation::new(number);
        new.system = true;
        let ask = Ask::message(ALICE).body(body(&mut new));
        let answer = client.ask(ask).await.unwrap();
        assert!(answer.header("x-edge-input-tokens").ends_with(";exact"));
        // Where the upstream has gone the first new conversation counts it once more.
        assert!(known() > before || at_other && number == 1, "{number}");
    }
}

#[tokio::test]
async fn who_begins_alike_goes_where_it_is_being_read() {
    let (world, other) = two_models();
    let (mut first, mut second) = (world.alice().await, world.alice().await);
    let ask = |number| {
        let mut conversation = Conversation::new(number);
        conversation.system = true;
        Ask::message(ALICE).body(conversation.body("claude-demo"))
    };
    let slow = first.ask(ask(0).with("x-demo-first-token-ms", "60000"));
    let both = [&world.model, &other];
    let prompts = || both.map(|model| model.stats().figures().prompts);
    let others = async {
        until("the first is being read", || prompts().contains(&1)).await;
        for number in 1..5 {
            let answer = second.ask(ask(number)).await.unwrap();
            assert!(cached(&answer) > A_MESSAGE, "{number}");
        }
    };
    tokio::select! {
        _ = slow => panic!("it is not answered"),
        () = others => {}
    }
    // Without that they go where less is under way, which is the other one.
    assert!([[5, 0], [0, 5]].contains(&prompts()), "{:?}", prompts());
}

#[tokio::test]
async fn nothing_is_known_to_another_key_or_in_another_context() {
    let (world, _other) = two_models();
    let mut alice = world.alice().await;
    let mut bob = world.connect(Http::H2, Some(token(BOB))).await;
    let mut conversation = Conversation::new(1);
    conversation.system = true;
    let in_context = |ask: Ask| ask.with("x-anthropic-context-id", "user-1");
    for _ in 0..3 {
        conversation.turn(&mut alice, in_context).await;
    }
    assert_eq!(world.turns(), [2, 0, 1, 0]);
    // The same bytes, and whatever a client may say of them.
    let body = conversation.body("claude-demo");
    let mut asks = vec![(&mut bob, Ask::message(BOB).body(body.clone()))];
    let forged = Ask::message(BOB).body(body.clone());
    let mut again = world.connect(Http::H1, Some(token(BOB))).await;
    asks.push((&mut again, in_context(forged)));
    for (client, ask) in asks {
        let before = world.turns();
        assert_eq!(client.ask(ask).await.unwrap().status, 200);
        let [hit, beginning, miss, _] = world.turns();
        assert_eq!([hit, beginning, miss - 1, 0], before, "nothing is known");
    }
    for context in [None, Some("user-2")] {
        let mut ask = Ask::message(ALICE).body(body.clone());
        if let Some(context) = context {
            ask = ask.with("x-anthropic-context-id", context);
        }
        let before = world.turns();
        assert_eq!(alice.ask(ask).await.unwrap().status, 200);
        let [hit, beginning, miss, _] = world.turns();
        assert_eq!([hit, beginning, miss - 1, 0], before, "{context:?}");
    }
    let ask = in_context(Ask::message(ALICE).body(body));
    assert_eq!(alice.ask(ask).await.unwrap().status, 200);
    assert_eq!(world.turns()[0], 3, "its own goes on");
    let two = Ask::message(ALICE)
        .with("x-anthropic-context-id", "user-1")
        .with("x-anthropic-context-id", "user-2");
    let refused = alice.ask(two).await.unwrap();
    refused.is_error(400, "invalid_request_error", "x-anthropic-context-id");
}

#[tokio::test]
async fn when_an_upstream_is_gone_its_conversations_go_on_elsewhere() {
    let (world, other) = two_models();
    let mut client = world.alice().await;
    let mut conversations: Vec<_> = (0..20).map(Conversation::new).collect();
    for _ in 0..2 {
        for conversation in &mut conversations {
            conversation.turn(&mut client, same).await;
        }
    }
    let there = other.stats().figures().requests;
    assert!(there > 2, "{there}");
    drop(other);
    // Nobody sees an error, and from the next turn on all are known again.
    for turn in 0..3 {
        let [before, ..] = world.turns();
        for conversation in &mut conversations {
            conversation.turn(&mut client, same).await;
        }
        let [hits, ..] = world.turns();
        assert!(turn == 0 || hits - before == 20, "turn {turn}");
    }
    let requests = world.model.stats().figures().requests;
    assert_eq!(requests + there, 5 * 20);
}

fn hint_of(answer: &Answer) -> Option<String> {
    let value = answer.headers.get("x-anthropic-prefix-hint")?;
    let value = value.to_str().unwrap();
    let mut text = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits: String = bytes.by_ref().take(2).map(char::from).collect();
            text.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            text.push(byte);
        }
    }
    Some(String::from_utf8(text).unwrap())
}

/// A scripted mixture: what the user asks for, and how the model begins.
const CLASSES: [(&str, &str); 3] = [
    ("Write a Python function that sorts ", "```python"),
    (
        "Extract the fields of this invoice as JSON: ",
        "{\"number\":",
    ),
    (
        "Please write an essay about the history of ",
        "In the beginning,",
    ),
];

#[tokio::test]
async fn hints_are_told_to_who_asks_and_right() {
    let world = World::with(Wishes {
        model: Options {
            kv_cache_tokens: 0,
            prefill_tokens_per_ms: 0,
            ..options()
        },
        ..Wishes::default()
    });
    let mut client = world.alice().await;
    let mut tally = [[0_u32; 3]; 4];
    for n in 0..600_usize {
        let class = n * 7 % 11 % 4;
        let noise = format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (asked, begins) = match CLASSES.get(class) {
            // Now and then a model does something else.
            Some((asked, _)) if n % 50 == 49 => (*asked, "I cannot do"),
            Some((asked, begins)) => (*asked, *begins),
            None => (&*noise, &*noise),
        };
        let content = json!(format!("{asked}{noise}"));
        let body = json!({
            "model": "claude-demo", "max_tokens": 6, "stream": n % 2 == 0,
            "messages": [{"role": "user", "content": content}],
        });
        let wants = n % 5 != 4;
        let mut ask = Ask::message(ALICE)
            .body(body.to_string())
            .with("x-demo-begin", begins);
        if wants {
            ask = ask.with("anthropic-beta", "other-1, prefix-hint-2024-10-22");
        }
        let answer = client.ask(ask).await.unwrap();
        let hint = hint_of(&answer);
        assert!(wants || hint.is_none(), "nobody asked");
        if wants && n >= 200 {
            let [all, told, right] = &mut tally[class];
            *all += 1;
            if let Some(hint) = hint {
                *told += 1;
                *right += u32::from(begins.starts_with(&hint) || hint.starts_with(begins));
            }
        }
    }
    let sum = |of: usize| tally[..3].iter().map(|class| class[of]).sum::<u32>();
    assert!(sum(2) * 100 >= sum(1) * 92, "{tally:?}");
    for [all, told, _] in &tally[..3] {
        assert!(told * 100 >= all * 60, "{tally:?}");
    }
    assert_eq!(tally[3][1], 0, "nothing is told of what is random");
    let hints = |what| world.metrics.hints.get(what);
    assert!(hints(HintOutcome::Right) * 100 >= hints(HintOutcome::Told) * 92);
    assert_eq!(
        hints(HintOutcome::Right) + hints(HintOutcome::Wrong),
        hints(HintOutcome::Told),
    );
    // The same words of another key.
    let mut bob = world.connect(Http::H1, Some(token(BOB))).await;
    let ask = Ask::message(BOB).with("anthropic-beta", "prefix-hint-2024-10-22");
    assert_eq!(hint_of(&bob.ask(ask).await.unwrap()), None);
}

#[tokio::test]
async fn what_speaks_to_the_edge_does_not_go_upstream() {
    let world = World::new();
    let mut client = world.alice().await;
    let ask = Ask::message(ALICE)
        .with("x-demo-echo", "1")
        .with("anthropic-beta", "a-1,prefix-hint-2024-10-22")
        .with("x-anthropic-context-hint", "project")
        .with("x-anthropic-context-id", "user-1");
    let answer = client.ask(ask).await.unwrap().json();
    let headers = answer["headers"].as_array().unwrap();
    let value = |name: &str| {
        let found = headers.iter().find(|header| header[0] == name);
        found.map(|header| header[1].as_str().unwrap())
    };
    assert_eq!(value("anthropic-beta"), Some("a-1"));
    assert_eq!(value("x-anthropic-context-hint"), None);
}

#[tokio::test]
async fn a_client_that_announces_itself_finds_a_connection_open() {
    let world = World::configured(|config| {
        config.upstreams[0].keep_idle = Duration::from_secs(1);
        config.context.preheats_per_minute = 3;
    });
    let mut client = world.alice().await;
    let mut conversation = Conversation::new(1);
    let named = |ask: Ask| ask.with("x-anthropic-context-hint", "project");
    conversation.turn(&mut client, named).await;
    let idle = || world.metrics.idle_upstream_connections.get();
    until("the connection is idle", || idle() == 1).await;
    until("the connection is given up", || idle() == 0).await;
    let connections = || world.model.stats().figures().connections;
    let before = connections();
    let head = |name: &str| {
        Ask::new(Method::HEAD, "/v1/health")
            .with("x-api-key", ALICE)
            .with("x-anthropic-context-hint", name)
    };
    let known = client.ask(head("project")).await.unwrap();
    until("a connection is there", || idle() == 1).await;
    until("the model has it", || connections() == before + 1).await;
    assert_eq!(
        world.model.stats().figures().requests,
        1,
        "nothing was sent"
    );
    let unknown = client.ask(head("another")).await.unwrap();
    let names = |answer: &Answer| {
        let names = answer.headers.keys().map(|name| name.as_str().to_owned());
        (
            answer.status,
            names.collect::<Vec<_>>(),
            answer.body.clone(),
        )
    };
    assert_eq!(names(&known), names(&unknown), "the answer tells nothing");
    let mut bob = world.connect(Http::H2, Some(token(BOB))).await;
    let ask = head("project").without("x-api-key").with("x-api-key", BOB);
    bob.ask(ask).await.unwrap();
    for _ in 0..2 {
        client.ask(head("project")).await.unwrap();
    }
    let preheats = |outcome| world.metrics.preheats.get(outcome);
    until("all are counted", || {
        [Preheat::Warmed, Preheat::Unknown, Preheat::UsedUp].map(preheats) == [2, 2, 1]
    })
    .await;
    assert!(world.contexts.is_some());
}
