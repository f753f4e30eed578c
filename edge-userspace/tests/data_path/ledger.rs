//! The edge's ledger beside the demo model's own, with many keys, random limits, clients that
//! leave at random and upstream faults.
//!
//! A key all of whose requests came to an end, good or bad, has exactly what the model counted.
//! Of one whose client left, or whose stream was cut by its cap, the edge has what it relayed:
//! at most the events lack that were on their way.
//!
//! `EDGE_LEDGER_SECONDS` and `EDGE_LEDGER_KEYS` make it longer and larger, `EDGE_LEDGER_SEED`
//! another one; `cargo xtask test --exhaustive` takes 1,000 keys and five minutes.

use crate::client::{Ask, Client, Http};
use crate::world::{Wishes, World, record, token, until};
use edge_common::token::KeyId;
use edge_userspace::config::{Framing, Model, Models, Name, Tokenizer};
use edge_userspace::demo_model::{Account, Options, Taken};
use edge_userspace::keys::{Allowance, Edit, Quotas};
use edge_userspace::tokens::Vocabulary;
use edge_userspace::usage::KeyUsage;
use http_body_util::BodyExt as _;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Requests under way at a time.
const CLIENTS: usize = 48;
/// Events that may be on their way between the model and the client when the client leaves.
/// They come every two to six milliseconds: this is how long news of a leave may take on a
/// machine that is busy with other things.
const EVENTS_IN_FLIGHT: u64 = 64;

/// How long the edge waits for an upstream that says nothing: no honest answer takes as long,
/// also on a machine that does other things besides.
const SILENCE: Duration = Duration::from_secs(8);

/// A number that the environment may change.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    let said = std::env::var(name).ok();
    said.map_or(default, |said| said.parse().unwrap())
}

/// Splitmix64.
#[derive(Clone)]
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = self.0.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn of<T: Copy>(&self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// A key, and what may happen to its requests.
struct Customer {
    key: String,
    id: KeyId,
    /// Leaves at random.
    is_hasty: bool,
    /// Has a hard cap, which cuts streams.
    is_capped: bool,
    /// Requests that did not come to their end by the client's or the edge's doing.
    left: Mutex<u64>,
    /// What its latest requests asked for, for who has to find out.
    asked: Mutex<VecDeque<String>>,
}

/// Requests of a key that are remembered.
const REMEMBERED: usize = 20;

impl Customer {
    fn new(number: u64, dice: &Dice) -> (Self, Edit) {
        let key = format!("sk-edge-ledger-{number}");
        let some = |values: &[u64]| dice.one_in(2).then(|| dice.of(values));
        let quotas = Quotas {
            requests_per_minute: some(&[20, 200, 100_000]),
            input_tokens_per_minute: some(&[500, 5_000, 1_000_000]),
            output_tokens_per_minute: some(&[500, 5_000, 1_000_000]),
            concurrent_requests: some(&[1, 2, 100]),
            tokens_per_day: dice.one_in(5).then(|| dice.of(&[300, 3_000])),
        };
        let mut record = record(&key);
        record.allowance = Allowance {
            quotas,
            ..Allowance::default()
        }
        .boxed();
        let customer = Self {
            id: record.id,
            is_hasty: dice.one_in(2),
            is_capped: quotas.tokens_per_day.is_some(),
            left: Mutex::default(),
            asked: Mutex::default(),
            key,
        };
        (customer, Edit::Put(record))
    }

    fn left(&self) {
        *self.left.lock().unwrap() += 1;
    }

    fn asks(&self, what: String) {
        let mut asked = self.asked.lock().unwrap();
        asked.truncate(REMEMBERED - 1);
        asked.push_front(what);
    }
}

/// Prompts of different lengths.
fn prompt(dice: &Dice) -> String {
    "How much is it, água 日本? ".repeat(1 + usize::try_from(dice.below(20)).unwrap())
}

/// A request of that key.
fn ask(customer: &Customer, dice: &Dice) -> Ask {
    let stream = !dice.one_in(4);
    let body = serde_json::json!({
        "max_tokens": dice.of(&[20, 200, 4000]),
        "messages": [{ "role": "user", "content": prompt(dice) }],
        "model": "exact",
        "stream": stream,
    });
    let mut headers = vec![
        ("x-demo-account", customer.id.to_string()),
        ("x-demo-tokens", dice.below(40).to_string()),
        ("x-demo-inter-token-ms", (2 + dice.below(5)).to_string()),
        ("x-demo-first-token-ms", dice.below(10).to_string()),
    ];
    if dice.one_in(3) {
        let usage = dice.of(&["twice", "cumulative", "cache", "cache-null"]);
        headers.push(("x-demo-usage", usage.to_owned()));
    }
    if dice.one_in(4) {
        let blocks = dice.of(&["thinking,text", "text,tool", "text,text"]);
        headers.push(("x-demo-blocks", blocks.to_owned()));
    }
    if dice.one_in(4) {
        let fault = match stream {
            true => dice.of(&STREAM_FAULTS),
            false => dice.of(&FAULTS),
        };
        // Who waits for silence asks for nothing else: a few of them will do.
        let fault = match fault {
            "hang" | "hang-between-events" if !dice.one_in(5) => "500",
            fault => fault,
        };
        headers.push(("x-demo-error", fault.to_owned()));
        if fault != "truncated-chunk" && dice.one_in(2) {
            headers.push(("x-demo-fault-at", dice.below(12).to_string()));
        }
    }
    customer.asks(format!("stream: {stream}, {:?}", &headers[1..]));
    let ask = Ask::message(&customer.key).body(body.to_string());
    headers
        .into_iter()
        .fold(ask, |ask, (name, value)| ask.with(name, &value))
}

/// Not that half of a JSON text comes: what is in a half only its reader knows.
const FAULTS: [&str; 6] = ["429", "500", "529", "400", "close-before-head", "hang"];
const STREAM_FAULTS: [&str; 12] = [
    "hang",
    "hang-between-events",
    "429",
    "500",
    "529",
    "close-before-head",
    "close-between-events",
    "close-mid-event",
    "reset-between-events",
    "reset-mid-event",
    "error-event-mid-stream",
    "truncated-chunk",
];

/// Asks some times on one connection.
async fn visit(world: &World, customer: &Customer, dice: Dice) {
    let http = dice.of(&Http::BOTH);
    let zero = dice.one_in(2).then(|| token(&customer.key));
    let mut client = world.connect(http, zero).await;
    for _ in 0..=dice.below(4) {
        let ask = ask(customer, &dice);
        if client.ready().await.is_err() {
            return; // a refusal closed it
        }
        let leaves = customer.is_hasty && dice.one_in(3);
        if !leaves {
            if !read(&mut client, ask, customer).await {
                return;
            }
            continue;
        }
        // In any phase: before it was sent, before the head, in the middle, after the end.
        let patience = Duration::from_micros(dice.below(150_000));
        let whole = read(&mut client, ask, customer);
        if tokio::time::timeout(patience, whole).await.is_err() {
            customer.left();
            if http == Http::H1 || dice.one_in(3) {
                client.vanish();
                return;
            }
        }
    }
}

/// Reads an answer to its end; whether the connection is good for more.
async fn read(client: &mut Client, ask: Ask, customer: &Customer) -> bool {
    let Ok(response) = client.begin(ask).await else {
        return false;
    };
    let mut body = response.into_body();
    let mut last = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        if let Ok(data) = frame.into_data() {
            last = data.to_vec();
        }
    }
    if customer.is_capped && last.starts_with(b"event: error") {
        customer.left(); // perhaps by the cap
    }
    true
}

/// All outcomes of an account together.
fn taken(account: &Account) -> Taken {
    let all = [
        account.finished,
        account.failed,
        account.broken,
        account.cancelled,
    ];
    all.iter().fold(Taken::default(), |sum, taken| Taken {
        requests: sum.requests + taken.requests,
        input_tokens: sum.input_tokens + taken.input_tokens,
        output_tokens: sum.output_tokens + taken.output_tokens,
    })
}

/// What was compared.
#[derive(Debug, Default)]
struct Compared {
    exactly: u64,
    within: u64,
    requests: u64,
    finished: u64,
    left: u64,
    tokens: u64,
    /// Tokens of the model that the edge did not pass on, in all and for one who left at most.
    in_flight: u64,
    most_in_flight: u64,
}

impl Compared {
    fn key(&mut self, customer: &Customer, edge: &KeyUsage, account: &Account, most: (u64, u64)) {
        let (prompt_tokens, event_tokens) = most;
        let model = taken(account);
        let input = edge.input + edge.cache_read + edge.cache_written;
        let left = *customer.left.lock().unwrap();
        let asked = customer.asked.lock().unwrap();
        let context = || format!("{edge:#?}\n{account:#?}\nleft {left}, asked {asked:#?}");
        if left == 0 {
            assert_eq!(input, model.input_tokens, "{}", context());
            assert_eq!(edge.output, model.output_tokens, "{}", context());
            assert_eq!(edge.requests, model.requests, "{}", context());
            self.exactly += 1;
        } else {
            // Who leaves before the answer has begun is charged what was counted.
            let most_input = model.input_tokens + left * prompt_tokens;
            let is_input = (model.input_tokens..=most_input).contains(&input);
            assert!(is_input, "{}", context());
            let in_flight = left * EVENTS_IN_FLIGHT * event_tokens;
            assert!(edge.output <= model.output_tokens, "{}", context());
            let lacking = model.output_tokens - edge.output;
            assert!(lacking <= in_flight, "{}", context());
            self.within += 1;
            self.in_flight += lacking;
            self.most_in_flight = self.most_in_flight.max(lacking.div_ceil(left));
        }
        self.requests += model.requests;
        self.finished += account.finished.requests;
        self.left += left;
        self.tokens += input + edge.output;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_of_many_keys_is_the_demo_models_own() {
    let vocabulary = Vocabulary::embedded("cl100k_base").unwrap();
    let world = World::with(Wishes {
        threads: 2,
        model: Options {
            vocabulary: Some(vocabulary.clone()),
            ..Options::default()
        },
        config: |config| {
            config.keys.capacity = 10_000;
            config.upstreams[0].first_byte_timeout = SILENCE;
            config.upstreams[0].idle_timeout = SILENCE;
            config.prompt.models = Models::new(vec![Model {
                name: Name::parse("exact").unwrap(),
                tokenizer: Tokenizer::Vocabulary(Vocabulary::embedded("cl100k_base").unwrap()),
                framing: Framing {
                    per_request: 3,
                    per_message: 4,
                    per_name: 0,
                    tools: 0,
                    is_published: true,
                },
                context_tokens: None,
            }]);
        },
        ..Wishes::default()
    });
    let seed = setting("EDGE_LEDGER_SEED", 1);
    let dice = Dice(Cell::new(seed));
    let (customers, records): (Vec<_>, Vec<_>) = (0..setting("EDGE_LEDGER_KEYS", 100))
        .map(|number| Customer::new(number, &dice))
        .unzip();
    world.keyring.apply(records);
    let world = Arc::new(world);
    let customers = Arc::new(customers);
    let end = Instant::now() + Duration::from_secs(setting("EDGE_LEDGER_SECONDS", 6));
    let clients = (0..CLIENTS as u64).map(|number| {
        let (world, customers) = (Arc::clone(&world), Arc::clone(&customers));
        tokio::spawn(async move {
            let seed = seed.wrapping_mul(1_000_003) + number;
            let dice = Dice(Cell::new(seed));
            while Instant::now() < end {
                let which = usize::try_from(dice.below(customers.len() as u64)).unwrap();
                let own = Dice(Cell::new(dice.below(u64::MAX)));
                visit(&world, &customers[which], own).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    until("nothing runs", || {
        world.ledger.status().running == 0 && world.model.stats().figures().active == 0
    })
    .await;
    let accounts = world.model.stats().ledger().accounts();
    let usages: BTreeMap<String, KeyUsage> = (world.ledger.entries().into_iter())
        .map(|entry| (entry.usage.key_id.to_string(), entry.usage))
        .collect();
    let most = (longest_prompt(&vocabulary), longest_event(&vocabulary));
    let mut compared = Compared::default();
    for customer in customers.iter() {
        let id = customer.id.to_string();
        let (Some(edge), account) = (usages.get(&id), accounts.get(&id)) else {
            assert!(!accounts.contains_key(&id), "the model knows {id}");
            continue;
        };
        compared.key(customer, edge, &account.copied().unwrap_or_default(), most);
    }
    println!("{compared:#?}");
    assert!(compared.exactly > 0 && compared.within > 0, "{compared:?}");
}

fn longest_prompt(vocabulary: &Vocabulary) -> u64 {
    let text = "How much is it, água 日本? ".repeat(20);
    let mut counter = edge_userspace::tokens::Counter::new(vocabulary);
    counter.count(text.as_bytes()) + 4 + 3
}

/// Of the demo model's words none has more.
fn longest_event(vocabulary: &Vocabulary) -> u64 {
    let mut counter = edge_userspace::tokens::Counter::new(vocabulary);
    let words = ["água ", "über ", "naïve ", "日本 ", "語 ", "🦀 "];
    let counts = words.iter().map(|word| counter.count(word.as_bytes()));
    counts.max().unwrap_or(1)
}
