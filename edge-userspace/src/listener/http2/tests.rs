use super::*;
use crate::keys::Keyring;
use crate::session::{Keeper, Kept, Limits, Sessions};
use crate::telemetry::Lane;
use bytes::Bytes;
use edge_common::policy::Reason as Accepted;
use std::time::Duration;
use tokio::io::BufReader;

fn session() -> Kept {
    let day = Duration::from_secs(24 * 3600);
    let limits = Limits {
        idle: day,
        idle_unbound: day,
        drain: day,
        unread: None,
    };
    let (keyring, sessions) = (Arc::new(Keyring::new(1)), Arc::new(Sessions::new()));
    let keeper = Keeper::new(keyring, sessions, Arc::default(), limits);
    let peer = "192.0.2.1:1234".parse().unwrap();
    keeper.open(crate::listener::Identity {
        lane: Lane::Legacy,
        key: None,
        reason: Accepted::NoToken,
        peer,
        socket_peer: peer,
        ja4: None,
        over_rate: false,
    })
}

#[tokio::test]
async fn a_fault_in_one_request_is_no_fault_of_the_others() {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let service = |request: Request<Incoming>| {
        let path = request.uri().path().to_owned();
        assert_ne!(path, "/head");
        async move {
            assert_ne!(path, "/work");
            Response::new(ResponseBody::Whole(Some(Bytes::from_static(b"fine"))))
        }
    };
    let session = session();
    let served = Http2::new(BufReader::new(server), 10, &session, service);
    let asked = async {
        let (sender, connection) = h2::client::handshake(client).await.unwrap();
        let asking = async {
            let mut sender = sender.ready().await.unwrap();
            for path in ["/", "/head", "/work", "/head", "/"] {
                let request = Request::get(format!("http://edge{path}"));
                let sent = sender.send_request(request.body(()).unwrap(), true);
                match (path, sent.unwrap().0.await) {
                    ("/", answered) => assert_eq!(answered.unwrap().status(), 200),
                    (_, failed) => assert!(failed.unwrap_err().is_reset(), "{path}"),
                }
            }
        };
        tokio::select! {
            () = asking => {}
            ended = connection => panic!("{ended:?}"),
        }
    };
    tokio::select! {
        () = asked => {}
        ended = served => panic!("{ended:?}"),
    }
}
