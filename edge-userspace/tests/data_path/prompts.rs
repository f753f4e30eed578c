//! Prompts: counted, told, limited, before anything goes upstream.

use crate::client::{Answer, Ask, Client, Http, pieces};
use crate::limits::{gzip, zstd};
use crate::world::{ALICE, BOB, Wishes, World, record, soon, token, until};
use bytes::Bytes;
use edge_userspace::context::wire;
use edge_userspace::keys::Edit;
use edge_userspace::prompt::Kind;
use edge_userspace::telemetry::PromptRefusal;
use http::Method;

/// A Chat Completions request whose prompt has that many words, and so tokens, and what is
/// around them: 3 a message, 1 its role, 3 for the answer.
fn chat(words: usize) -> Ask {
    Ask::new(Method::POST, "/v1/chat/completions")
        .with("authorization", &format!("Bearer {ALICE}"))
        .body(chat_body(words))
}

fn chat_body(words: usize) -> String {
    let words = "word ".repeat(words);
    let words = words.trim_end();
    format!(r#"{{"messages":[{{"role":"user","content":"{words}"}}],"model":"gpt-4o"}}"#)
}

const AROUND: usize = 7;

/// Alice's prompts have at most `tokens`.
fn limit(world: &World, tokens: u64) {
    let mut key = record(ALICE);
    key.max_prompt_tokens = Some(tokens);
    world.keyring.apply([Edit::Put(key)]);
}

async fn serves_on(client: &mut Client) {
    assert_eq!(client.ask(chat(10)).await.unwrap().status, 200);
}

#[tokio::test]
async fn responses_say_how_many_tokens_came_in_and_whether_that_is_exact() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(chat(100)).await.unwrap();
        assert_eq!(answer.header("x-edge-input-tokens"), "107;exact");
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        let told = answer.header("x-edge-input-tokens");
        let (tokens, kind) = told.split_once(';').unwrap();
        assert_eq!(kind, "estimate");
        assert!(tokens.parse::<u64>().unwrap() > 7, "{told}");
        // Errors of the upstream have it too.
        let answer = client
            .ask(chat(3).with("x-demo-error", "status-529"))
            .await
            .unwrap();
        assert_eq!(
            answer.header("x-edge-input-tokens"),
            "10;exact",
            "{answer:?}"
        );
        let models = Ask::new(Method::GET, "/v1/models").with("x-api-key", ALICE);
        let answer = client.ask(models).await.unwrap();
        assert_eq!(answer.header("x-edge-input-tokens"), "");
    }
    let exact = world.metrics.prompt_tokens.get(Kind::Exact);
    assert_eq!(exact, 2 * (107 + 10));
    assert_eq!(world.metrics.prompts.get(Kind::Estimate), 2);
}

#[tokio::test]
async fn the_edge_answers_count_tokens_itself() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let ask = |body: &str| {
        Ask::new(Method::POST, "/v1/messages/count_tokens")
            .with("x-api-key", ALICE)
            .with("anthropic-version", "2023-06-01")
            .body(body.to_owned())
    };
    let body = r#"{"model":"gpt-4o","system":"one two","messages":[{"role":"user","content":"three four five"}]}"#;
    let answer = client.ask(ask(body)).await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), &answer.body[..]),
        (200, &br#"{"input_tokens":11}"#[..])
    );
    assert_eq!(answer.header("x-edge-input-tokens"), "11;exact");
    assert_eq!(answer.header("content-type"), "application/json");
    for (body, missing) in [
        (r#"{"messages":[]}"#, "model: Field required"),
        (r#"{"model":"gpt-4o"}"#, "messages: Field required"),
    ] {
        let answer = client.ask(ask(body)).await.unwrap();
        answer.is_error(400, "invalid_request_error", missing);
    }
    // A prompt that is too long may be counted.
    limit(&world, 5);
    assert_eq!(client.ask(ask(body)).await.unwrap().status, 200);
    assert_eq!(
        world.model.stats().figures().requests,
        0,
        "nothing went upstream"
    );
}

#[tokio::test]
async fn a_prompt_over_its_keys_limit_is_refused_with_both_numbers() {
    let world = World::new();
    limit(&world, 50);
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let answer = client.ask(chat(50 - AROUND)).await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-edge-input-tokens")),
            (200, "50;exact")
        );
        let answer = client.ask(chat(51 - AROUND)).await.unwrap();
        answer.is_error(
            400,
            "invalid_request_error",
            "prompt is at least 51 tokens; this key's limit is 50",
        );
        serves_on(&mut client).await;
        // Another key has another limit.
        let mut bob = world.connect(http, Some(token(BOB))).await;
        let ask = chat(1000).without("authorization").with("x-api-key", BOB);
        assert_eq!(bob.ask(ask).await.unwrap().status, 200);
    }
    let refused = &world.metrics.prompt_refusals;
    assert_eq!(refused.get(PromptRefusal::KeyLimit), 2);
    // The key's entry changes: so does the limit, on connections that are open.
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    serves_on(&mut client).await;
    limit(&world, 5);
    assert_eq!(client.ask(chat(10)).await.unwrap().status, 400);
    limit(&world, 0);
    assert_eq!(client.ask(chat(1000)).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_refused_while_it_arrives() {
    let world = World::configured(|config| config.prompt.max_tokens = 1000);
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        for model in [r#""model":"gpt-4o","#, ""] {
            let (send, body) = pieces();
            let ask = chat(0).streamed(body);
            client.ready().await.unwrap();
            let answer = tokio::spawn(client.begin(ask));
            let begin = format!(r#"{{{model}"messages":[{{"role":"user","content":""#);
            send.send(Bytes::from(begin)).await.unwrap();
            let piece = Bytes::from("some words ".repeat(1000));
            send.send(piece).await.unwrap();
            // The body has not come to its end, and never does.
            let response = soon("the refusal", answer).await.unwrap().unwrap();
            let answer = soon("its body", Answer::read(response)).await.unwrap();
            answer.is_error(400, "invalid_request_error", "prompt is at least ");
            let told = answer.json()["error"]["message"].to_string();
            assert!(told.contains("tokens; this node's limit is 1000"), "{told}");
            drop(send);
            // A connection of HTTP/1.1 serves on when the rest has come.
            if http == Http::H2 || model.is_empty() {
                serves_on(&mut client).await;
            } else {
                client = world.connect(http, Some(token(ALICE))).await;
            }
        }
    }
    let refused = &world.metrics.prompt_refusals;
    assert_eq!(refused.get(PromptRefusal::NodeLimit), 4);
}

#[tokio::test]
async fn a_models_context_window_is_a_limit_where_it_is_configured() {
    let world = World::new();
    let file = world.files.path("edge.toml");
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(chat(100)).await.unwrap().status, 200);
    let follow = |models: &str| {
        let config = crate::world::configuration(&world.files, models);
        std::fs::write(&file, config).unwrap();
        edge_userspace::config::load(&file).map(|config| world.prompts.follow(&config.prompt))
    };
    follow(
        "[[prompt.models]]\nname = \"gpt-4*\"\ntokenizer = \"o200k_base\"\nper_request = 3\nper_message = 3\ncontext_tokens = 100\n",
    )
    .unwrap();
    let answer = client.ask(chat(100)).await.unwrap();
    answer.is_error(
        400,
        "invalid_request_error",
        "prompt is at least 107 tokens; the model's context window is 100",
    );
    assert_eq!(world.metrics.prompt_refusals.get(PromptRefusal::Context), 1);
    // What is no good changes nothing.
    let wrong = follow("[[prompt.models]]\nname = \"*\"\ntokenizer = \"no-such-file.json\"\n");
    assert!(wrong.is_err());
    assert_eq!(client.ask(chat(100)).await.unwrap().status, 400);
    // Another vocabulary, from a file.
    let words = ["one", " two", "zzz"];
    let ranks: Vec<String> = ((0..=255_u8).map(|byte| vec![byte]))
        .chain(
            words
                .iter()
                .flat_map(|word| (2..=word.len()).map(|end| word.as_bytes()[..end].to_vec())),
        )
        .enumerate()
        .map(|(rank, token)| {
            use base64::Engine as _;
            let token = base64::engine::general_purpose::STANDARD.encode(token);
            format!("{token} {rank}")
        })
        .collect();
    std::fs::write(world.files.path("own.tiktoken"), ranks.join("\n")).unwrap();
    follow("[[prompt.models]]\nname = \"own\"\ntokenizer = \"own.tiktoken\"\npattern = \"cl100k\"\nper_request = 0\nper_message = 0\n").unwrap();
    let body = r#"{"model":"own","messages":[{"content":"one two three"}]}"#;
    let answer = client.ask(chat(0).body(body)).await.unwrap();
    // " three" has six letters, and only " t" is a token of two of them.
    assert_eq!(answer.header("x-edge-input-tokens"), "7;exact");
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_with_the_place() {
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        for (body, told) in [
            ("", "valid JSON: the JSON ends too early at byte 0"),
            ("[1,]", "valid JSON: expected a value at byte 3"),
            (
                r#"{"model":"a","model":"b"}"#,
                "taken: the key model comes a second time at byte 19",
            ),
            (
                r#"{"messages":[]}}"#,
                "valid JSON: the JSON goes on after its end at byte 15",
            ),
        ] {
            let answer = client.ask(Ask::message(ALICE).body(body)).await.unwrap();
            let told = format!("The request's body is not {told}");
            answer.is_error(400, "invalid_request_error", &told);
        }
        serves_on(&mut client).await;
    }
    assert_eq!(world.metrics.prompt_refusals.get(PromptRefusal::Json), 8);
}

#[tokio::test]
async fn an_encoded_body_is_counted_and_passes_as_it_came() {
    let world = World::configured(|config| config.api.max_body_bytes = 1 << 20);
    limit(&world, 5000);
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    for (name, encode) in [
        ("gzip", gzip as fn(&[u8]) -> Vec<u8>),
        ("zstd", zstd as fn(&[u8]) -> Vec<u8>),
    ] {
        let ask = |body: &[u8]| chat(0).body(body.to_vec()).with("content-encoding", name);
        let body = encode(chat_body(1000).as_bytes());
        let answer = client
            .ask(ask(&body).with("x-demo-echo", "1"))
            .await
            .unwrap();
        assert_eq!(answer.header("x-edge-input-tokens"), "1007;exact");
        assert_eq!(answer.json()["body_bytes"], body.len());
        let answer = client
            .ask(ask(&encode(chat_body(6000).as_bytes())))
            .await
            .unwrap();
        answer.is_error(400, "invalid_request_error", "prompt is at least ");
        let bomb = encode(&vec![b' '; 2 << 20]);
        let answer = client.ask(ask(&bomb)).await.unwrap();
        answer.is_error(
            413,
            "request_too_large",
            "The request's body is larger than",
        );
        for broken in [&b"{}"[..], &body[..body.len() - 9]] {
            let answer = client.ask(ask(broken)).await.unwrap();
            let told = format!("The request's body is not {name}");
            answer.is_error(400, "invalid_request_error", &told);
        }
    }
    until("the room back", || world.prompts.room().bytes() == 0).await;
}

/// A body of some 150 kB that is 30 MiB decoded: who came after it need not wait for it.
#[tokio::test]
async fn a_body_that_is_huge_decoded_lets_others_have_their_turn() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    serves_on(&mut client).await;
    let numbers = "0,".repeat(15 << 20);
    let body = chat_body(3).replacen('{', &format!(r#"{{"others":[{numbers}0],"#), 1);
    let body = gzip(body.as_bytes());
    assert!(body.len() < 256 << 10, "{}", body.len());
    let ask = chat(0).body(body).with("content-encoding", "gzip");
    let ask = ask.with("x-demo-echo", "1");
    let huge = tokio::spawn(client.begin(ask));
    until("it is being read", || world.prompts.room().bytes() > 0).await;
    serves_on(&mut client).await;
    assert!(!huge.is_finished(), "the other overtook it");
    let answer = soon("the huge one", huge).await.unwrap().unwrap();
    let answer = Answer::read(answer).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-edge-input-tokens"), "10;exact");
}

/// No second try helps, so the client is not told to try again.
#[tokio::test]
async fn a_body_that_could_never_fit_is_too_large() {
    let world = World::with(Wishes {
        config: |config| config.prompt.max_held_bytes = 1 << 20,
        ..Wishes::default()
    });
    let too_large = |answer: &Answer| {
        answer.is_error(
            413,
            "request_too_large",
            "The request's body needs more room than the 1048576 bytes that this node has",
        );
        assert_eq!(answer.header("x-should-retry"), "false");
    };
    for http in Http::BOTH {
        // Its size is told, or not.
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let body = Bytes::from(vec![b' '; 2 << 20]);
        let answer = client.ask(chat(0).body(body.clone())).await.unwrap();
        too_large(&answer);
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let (send, streamed) = pieces();
        client.ready().await.unwrap();
        let answer = tokio::spawn(client.begin(chat(0).streamed(streamed)));
        for piece in body.chunks(64 << 10) {
            // The edge need not take all of it.
            let _ = send.send(Bytes::copy_from_slice(piece)).await;
        }
        drop(send);
        let response = soon("the answer", answer).await.unwrap().unwrap();
        too_large(&Answer::read(response).await.unwrap());
    }
    // What it takes to decode counts too.
    let text: String = (0..400_000).map(|n| format!("{n} ")).collect();
    let body = zstd(text.as_bytes());
    assert!(body.len() < 1 << 20 && text.len() > 2 << 20);
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let ask = chat(0).body(body).with("content-encoding", "zstd");
    let answer = client.ask(ask).await.unwrap();
    answer.is_error(
        413,
        "request_too_large",
        "Decoding the request's body needs more memory than the 524288 bytes",
    );
    serves_on(&mut client).await;
    until("the room back", || world.prompts.room().bytes() == 0).await;
    assert_eq!(world.metrics.prompt_refusals.get(PromptRefusal::NoRoom), 0);
}

#[tokio::test]
async fn bodies_that_find_no_room_are_told_to_come_again() {
    let world = World::with(Wishes {
        config: |config| config.prompt.max_held_bytes = 1 << 20,
        ..Wishes::default()
    });
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let (send, body) = pieces();
    let held = tokio::spawn(client.begin(chat(0).streamed(body)));
    send.send(Bytes::from(vec![b' '; 900 << 10])).await.unwrap();
    until("the room is taken", || {
        world.prompts.room().bytes() > 900 << 10
    })
    .await;
    let mut other = world.connect(Http::H2, Some(token(ALICE))).await;
    let large = || Ask::message(ALICE).body([&vec![b' '; 200 << 10][..], b"{}"].concat());
    let answer = other.ask(large()).await.unwrap();
    answer.is_error(529, "overloaded_error", "This node has no room");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(world.metrics.prompt_refusals.get(PromptRefusal::NoRoom), 1);
    send.send(Bytes::from_static(b"{}")).await.unwrap();
    drop(send);
    let response = soon("the held one", held).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    until("room again", || world.prompts.room().bytes() == 0).await;
    assert_eq!(other.ask(large()).await.unwrap().status, 200);
}

/// A few bytes of a zstd body ask for megabytes: who sends many such ones and waits takes no
/// room from bodies that are not encoded.
#[tokio::test]
async fn decoders_take_half_of_the_room_at_most() {
    let world = World::with(Wishes {
        config: |config| config.prompt.max_held_bytes = 12 << 20,
        ..Wishes::default()
    });
    let text: String = (0..400_000).map(|n| format!("{n} ")).collect();
    let begin = Bytes::from(zstd(text.as_bytes())[..64].to_vec());
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    let mut waiting = Vec::new();
    for n in 1..=2 {
        let (send, body) = pieces();
        let ask = chat(0).with("content-encoding", "zstd").streamed(body);
        waiting.push((tokio::spawn(client.begin(ask)), send.clone()));
        send.send(begin.clone()).await.unwrap();
        until("its window is counted", || {
            world.prompts.decoding().bytes() > n * (2 << 20)
        })
        .await;
    }
    let ask = |body: Vec<u8>| Ask::message(ALICE).body(body);
    let encoded = ask(zstd(text.as_bytes())).with("content-encoding", "zstd");
    let answer = client.ask(encoded).await.unwrap();
    answer.is_error(529, "overloaded_error", "This node has no room");
    let plain = ask([&vec![b' '; 5 << 20][..], b"{}"].concat());
    assert_eq!(client.ask(plain).await.unwrap().status, 200);
    for (answer, send) in waiting {
        drop(send);
        let response = soon("the answer", answer).await.unwrap().unwrap();
        assert_eq!(response.status(), 400, "the body broke off");
    }
    until("the room back", || {
        world.prompts.decoding().bytes() == 0 && world.prompts.room().bytes() == 0
    })
    .await;
}

/// A body in many small pieces costs little more than its bytes, and arrives as it was.
#[tokio::test]
async fn small_pieces_are_put_together() {
    let world = World::new();
    let body = chat_body(2000);
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let (send, streamed) = pieces();
        let ask = chat(0).with("x-demo-echo", "1").streamed(streamed);
        let answer = tokio::spawn(client.begin(ask));
        for piece in body.as_bytes().chunks(7) {
            send.send(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        drop(send);
        let response = soon("the answer", answer).await.unwrap().unwrap();
        let answer = Answer::read(response).await.unwrap();
        assert_eq!(answer.header("x-edge-input-tokens"), "2007;exact");
        use sha2::{Digest as _, Sha256};
        let expected = hex::encode(Sha256::digest(body.as_bytes()));
        assert_eq!(answer.json()["body_sha256"], expected);
    }
}

#[tokio::test]
async fn a_fingerprint_is_checked_and_a_wrong_one_told_what_was_expected() {
    // SHA-256 of the contents "Hi|Hello!|More", then of "You help.|" + that + "|claude-x", by
    // another implementation.
    const RIGHT: &str = "c3344b65a213f79facc9cc41ded582a879cab4318444305166e08992641d4356";
    let body = r#"{"system":[{"type":"text","text":"You "},{"type":"text","text":"help."}],"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Hello!"}]},{"role":"user","content":"More"}],"max_tokens":9,"model":"claude-x"}"#;
    const NOT_HEX: &str = "anthropic-fingerprint must be 64 hex digits, once: what `edge fingerprint` says of the request";
    let world = World::new();
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let upper = RIGHT.to_ascii_uppercase();
        for (path, right) in [
            ("/v1/messages", RIGHT),
            ("/v1/messages/count_tokens", upper.as_str()),
        ] {
            let ask = || {
                Ask::new(Method::POST, path)
                    .with("x-api-key", ALICE)
                    .with("anthropic-version", "2023-06-01")
            };
            let good = ask().body(body).with(wire::HEADER, right);
            assert_eq!(client.ask(good).await.unwrap().status, 200, "{path}");
            // Another body.
            let other = body.replace("More", "Less");
            let wrong = ask().body(other).with(wire::HEADER, right);
            let told = client.ask(wrong).await.unwrap();
            assert_eq!(told.status, 400, "{path}");
            let text = told.json()["error"]["message"].to_string();
            for part in ["system (9 bytes)", "3 messages", "claude-x", "expected "] {
                assert!(text.contains(part), "{text}");
            }
            assert!(!text.contains(RIGHT), "{text}");
            // No fingerprint at all.
            for bad in [
                "",
                "abc",
                &right[1..],
                &format!("{right}0"),
                &right.replace('6', "g"),
            ] {
                let told = client
                    .ask(ask().body(body).with(wire::HEADER, bad))
                    .await
                    .unwrap();
                told.is_error(400, "invalid_request_error", NOT_HEX);
            }
        }
        serves_on(&mut client).await;
    }
    let refusals = &world.metrics.prompt_refusals;
    assert_eq!(refusals.get(PromptRefusal::Fingerprint), 4);
}
