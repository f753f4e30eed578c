//! What the edge learns of a model whose vocabulary it is not given, from what the upstream
//! says that it counted.

use crate::client::{Ask, Client, Http};
use crate::world::{ALICE, Wishes, World, token};
use edge_userspace::demo_model::Options;
use edge_userspace::tokens::Vocabulary;
use std::time::Duration;

/// The upstream counts with a vocabulary that no rule of the edge names for the model.
fn world() -> World {
    World::with(Wishes {
        model: Options {
            first_token: Duration::ZERO,
            inter_token: Duration::ZERO,
            tokens: 1,
            vocabulary: Vocabulary::embedded("cl100k_base"),
            ..Options::default()
        },
        ..Wishes::default()
    })
}

/// Texts of one kind, each another one.
#[derive(Clone, Copy)]
enum Sort {
    English,
    Code,
    Numbers,
}

/// The sources that are compiled here: any text of that kind will do.
const CODE: &str = include_str!("../../src/upstream/upstreams.rs");
const PROSE: &str = include_str!("../../../docs/protocol.md");

impl Sort {
    fn text(self, n: usize) -> String {
        let part = |text: &str| {
            let length = 400 + n * 37 % 1600;
            let begin = n * 211 % (text.len() - 3000);
            let begin = (begin..).find(|at| text.is_char_boundary(*at)).unwrap();
            let end = (begin + length..)
                .find(|at| text.is_char_boundary(*at))
                .unwrap();
            text[begin..end].to_owned()
        };
        match self {
            Self::English => part(PROSE),
            Self::Code => part(CODE),
            Self::Numbers => (0..40 + n % 100)
                .map(|i| format!("{},", i * 7919 + n))
                .collect(),
        }
    }
}

/// What was told of some requests, and what the upstream counted.
#[derive(Default)]
struct Told {
    estimated: f64,
    actual: f64,
}

impl Told {
    /// Of all together, in parts of a hundred.
    fn error_percent(&self) -> f64 {
        (self.estimated / self.actual - 1.0).abs() * 100.0
    }
}

async fn ask(client: &mut Client, text: &str, stream: bool, told: &mut Told) {
    let text = serde_json::to_string(text).unwrap();
    let body = format!(
        r#"{{"max_tokens":1,"messages":[{{"role":"user","content":{text}}}],"model":"claude-unpublished","stream":{stream}}}"#
    );
    let answer = client.ask(Ask::message(ALICE).body(body)).await.unwrap();
    assert_eq!(answer.status, 200);
    let header = answer.header("x-edge-input-tokens");
    let (tokens, kind) = header.split_once(';').unwrap();
    assert_eq!(kind, "estimate");
    told.estimated += tokens.parse::<f64>().unwrap();
    let body = std::str::from_utf8(&answer.body).unwrap();
    let (_, counted) = body.split_once("\"input_tokens\":").unwrap();
    let digits: String = counted.chars().take_while(char::is_ascii_digit).collect();
    told.actual += digits.parse::<f64>().unwrap();
}

/// Of a mix that stays: learnt from 300 requests, judged by 600 more.
#[tokio::test]
async fn the_estimate_of_a_stationary_mix_is_right_within_one_percent() {
    let world = world();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let sort = |n: usize| [Sort::English, Sort::Code, Sort::English, Sort::Numbers][n * 7 % 11 % 4];
    let (mut first, mut learnt) = (Told::default(), Told::default());
    for n in 0..900 {
        let told = if n < 300 { &mut first } else { &mut learnt };
        ask(&mut client, &sort(n).text(n), n % 2 == 0, told).await;
    }
    assert!(
        learnt.error_percent() <= 1.0,
        "{} %",
        learnt.error_percent()
    );
    let models = world.prompts.calibration().learnt();
    assert_eq!(
        (&*models[0].model, models[0].observations),
        ("claude-unpublished", 900)
    );
}

/// The mix changes at once: within 200 requests the estimate is right again.
#[tokio::test]
async fn after_a_shift_of_the_mix_the_estimate_is_right_within_five_percent() {
    let world = world();
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    for (before, after) in [(Sort::English, Sort::Numbers), (Sort::Numbers, Sort::Code)] {
        let mut told = Told::default();
        for n in 0..300 {
            ask(&mut client, &before.text(n), true, &mut told).await;
        }
        for n in 0..200 {
            ask(&mut client, &after.text(n), n % 2 == 0, &mut told).await;
        }
        let mut learnt = Told::default();
        for n in 200..300 {
            ask(&mut client, &after.text(n), false, &mut learnt).await;
        }
        assert!(
            learnt.error_percent() <= 5.0,
            "{} %",
            learnt.error_percent()
        );
    }
}
