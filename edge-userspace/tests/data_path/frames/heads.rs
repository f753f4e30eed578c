//! Answers' heads as HTTP/2 packs them: as they were whatever table the client gives, in frames
//! that it takes, and read by another library.

use super::*;
use crate::ledger::Dice;
use crate::upstream::{read_request, scripted};
use crate::world::{Wishes, until};
use bytes::Bytes;
use http::Request;

/// Headers of the answer with that seed: known names and others, values that come again and
/// such that do not, short and long ones.
fn headers(seed: u64) -> Vec<(String, String)> {
    let dice = Dice::new(seed);
    let one = |_| {
        let name = dice.of(&[
            "etag",
            "server",
            "x-request-cost",
            "set-cookie",
            "link",
            "via",
            "x-a",
        ]);
        let name = match dice.below(3) {
            0 => format!("x-{}", dice.below(20)),
            _ => name.to_owned(),
        };
        let length = dice.below(dice.of(&[3, 40, 3000, 5000]));
        let length = usize::try_from(length).unwrap();
        let letter = (b'!' + u8::try_from(dice.below(90)).unwrap()) as char;
        (name, letter.to_string().repeat(length))
    };
    (0..dice.below(60)).map(one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_arrive_as_they_were_whatever_the_table() {
    let upstream = scripted(|_, mut tcp| async move {
        while let Some(request) = read_request(&mut tcp).await {
            let seed = request
                .lines()
                .find_map(|line| line.strip_prefix("x-seed: "));
            let headers = headers(seed.unwrap().parse().unwrap());
            let line = |(name, value): &(String, String)| format!("{name}: {value}\r\n");
            let lines: String = headers.iter().map(line).collect();
            let answer = format!("HTTP/1.1 200 OK\r\n{lines}content-length: 2\r\n\r\n{{}}");
            if tcp.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    let world = World::with(Wishes {
        upstream: Some(upstream),
        ..Wishes::default()
    });
    for table in [0, 1, 60, 200, 4096, 65_536] {
        let wire = Wire::open(&world).await;
        let (mut sender, connection) = h2::client::Builder::new()
            .header_table_size(table)
            .max_header_list_size(1 << 20)
            .handshake::<_, Bytes>(wire.tls)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        // The same again, so that what was kept is used.
        for seed in (0..25).chain(0..25) {
            let request = Request::post("https://edge.test/v1/messages")
                .header("anthropic-version", "2023-06-01")
                .header("x-api-key", ALICE)
                .header("x-seed", seed);
            sender = soon("a place", sender.ready()).await.unwrap();
            let (response, mut body) = sender
                .send_request(request.body(()).unwrap(), false)
                .unwrap();
            body.send_data(Bytes::from_static(b"{}"), true).unwrap();
            let what = format!("{seed} with a table of {table}");
            let response = soon(&what, response).await.expect(&what);
            let sent = headers(seed);
            let mut names: Vec<_> = sent.iter().map(|(name, _)| name.clone()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let came = response.headers().get_all(&name).iter();
                let came: Vec<_> = came
                    .map(|value| value.to_str().unwrap().to_owned())
                    .collect();
                let of = sent.iter().filter(|(other, _)| *other == name);
                let of: Vec<_> = of.map(|(_, value)| value.clone()).collect();
                assert_eq!(came, of, "{what}: {name}");
            }
            let mut body = response.into_body();
            let data = soon(&what, body.data()).await.unwrap().unwrap();
            assert_eq!(data, "{}", "{what}");
        }
        drop(sender);
        connection.abort();
    }
    let open = || world.metrics.open_connections.get();
    until("no connection", || open() == 0).await;
}
