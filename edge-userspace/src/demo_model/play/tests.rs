//! What plays, and what is booked of it.

use super::*;
use crate::demo_model::script::{Kind as Part, Said, Shape, Tool};
use http_body_util::BodyExt as _;

fn script(tokens: u64) -> Script {
    Script {
        shape: Shape::Messages,
        model: "claude-demo".to_owned(),
        input_tokens: 7,
        cached: None,
        tokens,
        beginning: None,
        parts: vec![Part::Text],
        choices: 1,
        tells_usage: false,
        said: Said::Right,
        stop_reason: "end_turn",
        inter_token: Duration::ZERO,
        chunk_bytes: None,
        fault: None,
        fault_at: None,
        vocabulary: None,
    }
}

async fn played(script: Script) -> Result<Vec<u8>, Vec<u8>> {
    let mut play = Play::events(script, Ending::default(), stats::Stats::default().begin());
    let mut bytes = Vec::new();
    while let Some(frame) = play.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
            Err(_) => return Err(bytes),
        }
    }
    Ok(bytes)
}

#[tokio::test]
async fn the_events_are_the_apis_in_its_order() {
    let stream = String::from_utf8(played(script(3)).await.unwrap()).unwrap();
    let names: Vec<_> = (stream.lines())
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let data = (stream.lines()).filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<serde_json::Value> = data
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    for (name, data) in names.iter().zip(&data) {
        assert_eq!(data["type"], **name);
    }
    let told: String = (data.iter())
        .filter_map(|data| data["delta"]["text"].as_str())
        .collect();
    assert_eq!(told, script(3).last_text());
    assert_eq!(data[7]["usage"]["output_tokens"], 3);
}

#[tokio::test]
async fn chunks_change_nothing_but_where_it_is_cut() {
    let whole = played(script(40)).await.unwrap();
    for chunk_bytes in [1, 7, 1000, 1 << 20] {
        let cut = Script {
            chunk_bytes: Some(chunk_bytes),
            ..script(40)
        };
        assert_eq!(played(cut).await.unwrap(), whole, "{chunk_bytes}");
    }
}

#[tokio::test]
async fn faults_strike_in_the_middle_or_where_they_are_to() {
    let whole = played(script(40)).await.unwrap();
    for (fault, between_events) in [
        (Fault::CloseBetweenEvents, true),
        (Fault::ResetBetweenEvents, true),
        (Fault::CloseMidEvent, false),
        (Fault::ResetMidEvent, false),
    ] {
        let broken = |fault_at| Script {
            fault: Some(fault),
            fault_at,
            ..script(40)
        };
        let begun = played(broken(None)).await.unwrap_err();
        assert!(begun.len() > 1000 && whole.starts_with(&begun));
        assert_eq!(begun.ends_with(b"\n\n"), between_events, "{fault:?}");
        let last = script(40).len() - 1;
        let all_but_one = played(broken(Some(last))).await.unwrap_err();
        assert!(all_but_one.len() > begun.len() && all_but_one.len() < whole.len());
    }
    let broken = Script {
        fault: Some(Fault::CloseBetweenEvents),
        fault_at: Some(script(40).len()),
        ..script(40)
    };
    assert_eq!(
        played(broken).await.unwrap_err(),
        whole,
        "after the last event"
    );
}

#[tokio::test]
async fn an_error_event_in_the_middle_is_the_last() {
    let broken = Script {
        fault: Some(Fault::ErrorEventMidStream),
        ..script(40)
    };
    let stream = String::from_utf8(played(broken).await.unwrap()).unwrap();
    let events: Vec<_> = stream.trim_end().split("\n\n").collect();
    assert_eq!(events.len() as u64, script(40).len() / 2 + 1);
    assert!(events.last().unwrap().starts_with("event: error\n"));
}

/// What a client puts together out of the deltas of one block.
fn told(stream: &str, block: u64, field: &str) -> String {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str::<serde_json::Value>(data).unwrap())
        .filter(|data| data["index"] == block)
        .filter_map(|data| data["delta"][field].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn all_blocks_are_told_whatever_is_said_of_usage() {
    let input = serde_json::json!({ "city": "água", "days": 7 });
    let tool = Tool {
        name: "weather".to_owned(),
        input: input.clone(),
    };
    for said in [
        Said::Right,
        Said::Twice,
        Said::Cumulative,
        Said::Null,
        Said::Huge,
    ] {
        let script = Script {
            parts: vec![Part::Thinking, Part::Text, Part::Tool(tool.clone())],
            said,
            ..script(50)
        };
        let stream = String::from_utf8(played(script.clone()).await.unwrap()).unwrap();
        let whole = script.whole();
        assert_eq!(
            told(&stream, 0, "thinking"),
            whole["content"][0]["thinking"]
        );
        assert_eq!(
            told(&stream, 0, "signature"),
            whole["content"][0]["signature"]
        );
        assert_eq!(told(&stream, 1, "text"), whole["content"][1]["text"]);
        let told: serde_json::Value =
            serde_json::from_str(&told(&stream, 2, "partial_json")).unwrap();
        assert_eq!(told, input);
        let events = stream.matches("event: ").count() as u64;
        assert_eq!(events, script.len(), "{said:?}");
        let stops = stream.matches("event: content_block_stop").count();
        assert_eq!(stops, 3);
        assert!(stream.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    }
}

#[tokio::test]
async fn what_was_handed_over_is_what_is_booked() {
    let stats = stats::Stats::default();
    let mut request = stats.begin();
    request.put_to("a");
    let mut play = Play::events(script(40), Ending::default(), request);
    // Start, the block's start, ping, and five pieces.
    for _ in 0..8 {
        play.frame().await.unwrap().unwrap();
    }
    drop(play);
    assert_eq!(stats.ledger().accounts()["a"].cancelled.output_tokens, 5);
    let mut request = stats.begin();
    request.put_to("a");
    let mut play = Play::events(script(40), Ending::default(), request);
    while play.frame().await.is_some() {}
    drop(play);
    assert_eq!(stats.ledger().accounts()["a"].finished.output_tokens, 40);
}

#[tokio::test]
async fn chat_completions_end_with_the_usage_when_it_is_asked_for() {
    let chat = Script {
        shape: Shape::ChatCompletions,
        choices: 2,
        tells_usage: true,
        ..script(6)
    };
    let stream = String::from_utf8(played(chat.clone()).await.unwrap()).unwrap();
    let events: Vec<_> = stream.trim_end().split("\n\n").collect();
    assert_eq!(events.len() as u64, chat.len());
    assert_eq!(*events.last().unwrap(), "data: [DONE]");
    let parse = |event: &str| -> serde_json::Value {
        serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()
    };
    let usage = parse(events[events.len() - 2]);
    assert_eq!(usage["choices"], serde_json::json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 12);
    for choice in 0..2 {
        let text: String = (events[..events.len() - 2].iter())
            .map(|event| parse(event)["choices"][0].clone())
            .filter(|chunk| chunk["index"] == choice)
            .filter_map(|chunk| chunk["delta"]["content"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(text, chat.last_text());
    }
    assert_eq!(chat.whole()["usage"]["completion_tokens"], 12);
    assert_eq!(chat.output_tokens(5), 5);
}
