//! A process that runs out of file descriptors pauses, counts, and goes on.
//!
//! In a process of its own, because the limit is the process's.

#[path = "data_path/client.rs"]
#[expect(
    dead_code,
    reason = "shared with the data path's tests, which use all of it"
)]
mod client;
#[path = "data_path/world.rs"]
#[expect(
    dead_code,
    reason = "shared with the data path's tests, which use all of it"
)]
mod world;

use client::{Ask, Http};
use edge_userspace::telemetry::ConnectionEnd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use world::{ALICE, World, token, until};

#[tokio::test]
async fn accept_goes_on_when_there_are_descriptors_again() {
    let world = World::new();
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);

    let before = getrlimit(Resource::Nofile);
    let low = Rlimit {
        current: Some(64),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, low).unwrap();
    // One is left for the client's own socket, none for the edge's.
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.pop();
    let mut waiting = std::net::TcpStream::connect(world.address).unwrap();
    std::io::Write::write_all(&mut waiting, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let failed = || {
        world
            .metrics
            .connection_ends
            .get(ConnectionEnd::AcceptFailed)
    };
    until("accept's failure", || failed() >= 2).await;
    let answer = client.ask(Ask::message(ALICE)).await.unwrap();
    assert_eq!(answer.status, 200, "what is open is served");

    drop(taken);
    setrlimit(Resource::Nofile, before).unwrap();
    let answer = tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        let _ = std::io::Read::read_to_string(&mut waiting, &mut answer);
        answer
    });
    let answer = world::soon("the answer", answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let mut client = world.connect(Http::H2, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
}
