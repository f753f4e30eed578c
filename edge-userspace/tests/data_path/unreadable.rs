//! Answers that the edge cannot read along: they pass as they are, and are booked by an estimate
//! that is told, never for nothing and never without a word.

use crate::client::{Ask, Http};
use crate::upstream::{read_request, scripted};
use crate::world::{ALICE, Wishes, World, record, token, until};
use edge_userspace::telemetry::UnreadAnswer;
use tokio::io::AsyncWriteExt as _;

const WHOLE: &str = r#"{"content":[{"type":"text","text":"Hi there, how are you today?"}],"usage":{"input_tokens":9,"output_tokens":5}}"#;

struct Case {
    name: &'static str,
    head: &'static str,
    body: Vec<u8>,
    why: Option<UnreadAnswer>,
    /// Whether the upstream's own figures are seen.
    is_said: bool,
}

fn cases() -> Vec<Case> {
    let json = "content-type: application/json\r\n";
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = WHOLE.replace(
        r#""}],"#,
        &format!(r#""}},{{"type":"tool_use","input":{{"x":{deep}}}}}],"#),
    );
    let case = |name, head, body: Vec<u8>, why, is_said| Case {
        name,
        head,
        body,
        why,
        is_said,
    };
    let mut latin = WHOLE.as_bytes().to_vec();
    let at = latin.iter().position(|byte| *byte == b'?').unwrap();
    latin[at] = 0xe9;
    let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"usage\":{\"output_tokens\":5}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    vec![
        case("as it should be", json, WHOLE.into(), None, true),
        case(
            "compressed",
            "content-type: application/json\r\ncontent-encoding: gzip\r\n",
            vec![0x1f; 90],
            Some(UnreadAnswer::Encoded),
            false,
        ),
        case(
            "no content type",
            "",
            WHOLE.into(),
            Some(UnreadAnswer::ContentType),
            true,
        ),
        case(
            "an event stream without a content type",
            "",
            stream.into(),
            Some(UnreadAnswer::ContentType),
            true,
        ),
        case(
            "another content type",
            "content-type: text/plain\r\n",
            b"Hi there, how are you today?".to_vec(),
            Some(UnreadAnswer::ContentType),
            false,
        ),
        case(
            "nested too deep",
            json,
            deep.into(),
            Some(UnreadAnswer::Depth),
            false,
        ),
        case("not UTF-8", json, latin, Some(UnreadAnswer::Utf8), false),
        case(
            "not JSON",
            json,
            b"<html>Hi there, how are you today?".to_vec(),
            Some(UnreadAnswer::Json),
            false,
        ),
        case(
            "JSON that is not whole",
            json,
            WHOLE.as_bytes()[..60].to_vec(),
            Some(UnreadAnswer::Json),
            false,
        ),
    ]
}

#[tokio::test]
async fn what_cannot_be_read_passes_untouched_is_told_and_booked_by_an_estimate() {
    for http in Http::BOTH {
        for (number, case) in cases().into_iter().enumerate() {
            let what = format!("{http:?}, {}", case.name);
            let script = move |_, mut tcp: tokio::net::TcpStream| async move {
                let Case { head, body, .. } = cases().swap_remove(number);
                while read_request(&mut tcp).await.is_some() {
                    let length = body.len();
                    let head = format!("HTTP/1.1 200 OK\r\n{head}content-length: {length}\r\n\r\n");
                    tcp.write_all(head.as_bytes()).await.unwrap();
                    tcp.write_all(&body).await.unwrap();
                }
            };
            let world = World::with(Wishes {
                upstream: Some(scripted(script).await),
                ..Wishes::default()
            });
            let mut client = world.connect(http, Some(token(ALICE))).await;
            let answer = client.ask(Ask::message(ALICE)).await.unwrap();
            assert_eq!(answer.status, 200, "{what}");
            assert_eq!(answer.body, case.body, "{what}");
            let counted = answer.header("x-edge-input-tokens");
            let counted = counted.split(';').next().unwrap().parse::<u64>().unwrap();
            let usage = || world.ledger.usage(record(ALICE).id).unwrap();
            until("its end", || usage().requests == 1).await;
            let used = usage();
            if case.is_said {
                assert_eq!((used.input, used.output), (9, 5), "{what}");
            } else {
                assert_eq!(used.input, counted, "{what}");
                let most = case.body.len() as u64 / 2;
                assert!((4..=most).contains(&used.output), "{what}: {used:?}");
            }
            assert_eq!(used.tokens_today, used.input + used.output, "{what}");
            for why in [
                UnreadAnswer::Encoded,
                UnreadAnswer::ContentType,
                UnreadAnswer::Depth,
                UnreadAnswer::Utf8,
                UnreadAnswer::Length,
                UnreadAnswer::Json,
            ] {
                let count = u64::from(case.why == Some(why));
                assert_eq!(world.metrics.unread_answers.get(why), count, "{what}");
            }
        }
    }
}
