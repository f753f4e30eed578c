//! Rules by what kind of client it is: what each action leads to.

use crate::client::{Ask, Client, Http, alpn};
use crate::world::{ALICE, MALLORY, World, token};
use edge_common::policy::Reason;
use edge_userspace::config::{Action, Clients, Config, Rule};
use edge_userspace::telemetry::{Lane, Verdict};

fn rules(rules: &[(&str, Action)]) -> Clients {
    let rule = |(ja4, action): &(&str, Action)| Rule {
        ja4: ja4.parse().unwrap(),
        action: *action,
    };
    Clients {
        rules: rules.iter().map(rule).collect(),
    }
}

/// rustls with its post-quantum key share, as the specification counts it, offering h2 first.
const RUSTLS_H2: &str = "t13d1011h2_61a7ad8aa9b6_*";

#[tokio::test]
async fn a_denied_client_is_refused_whatever_its_token_and_others_are_not() {
    let world = World::configured(|config| config.clients = rules(&[(RUSTLS_H2, Action::Deny)]));
    for names in [vec![b"h2".to_vec()], vec![b"h2".to_vec(), token(ALICE)]] {
        let mut hello = alpn(&[]);
        hello.alpn = names;
        let error = world.tls(&hello).await.unwrap_err().to_string();
        assert!(error.contains("AccessDenied"), "{error}");
    }
    let verdicts = &world.metrics.verdicts;
    assert_eq!(verdicts.get(Verdict::of(Reason::ClientDenied)), 2);
    assert_eq!(world.metrics.client_rules.get(Action::Deny), 2);
    // Its own fault comes first.
    let error = world.tls(&alpn(&[b"h2", &token(MALLORY)])).await;
    assert!(error.unwrap_err().to_string().contains("AccessDenied"));
    assert_eq!(verdicts.get(Verdict::of(Reason::KeyUnknown)), 1);
    // The same library that wants HTTP/1.1 is another kind of client.
    let mut client = world.connect(Http::H1, Some(token(ALICE))).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    assert_eq!(world.metrics.connections.get(Lane::Zero), 1);
}

#[tokio::test]
async fn a_client_of_the_legacy_lane_gets_no_other_with_a_good_token() {
    let world = World::configured(|config| config.clients = rules(&[("*", Action::Legacy)]));
    for http in Http::BOTH {
        let mut client = world.connect(http, Some(token(ALICE))).await;
        let without = client.ask(Ask::message(ALICE).without("x-api-key")).await;
        without
            .unwrap()
            .is_error(401, "authentication_error", "No API key");
        let answer = client.ask(Ask::message(ALICE)).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-claude-route"), "fallback");
    }
    assert_eq!(world.metrics.connections.get(Lane::Zero), 0);
    let verdicts = &world.metrics.verdicts;
    assert_eq!(verdicts.get(Verdict::LEGACY_BY_RULE), 2);
    assert_eq!(verdicts.get(Verdict::of(Reason::Accepted)), 0);
    let text = world.metrics.render();
    for line in [
        r#"edge_verdicts_total{decided_by="userspace",verdict="legacy",reason="client_rule"} 2"#,
        r#"edge_client_rules_total{action="legacy"} 2"#,
    ] {
        assert!(text.lines().any(|other| other == line), "no {line}\n{text}");
    }
}

#[tokio::test]
async fn the_legacy_lane_of_a_rule_can_be_closed_too() {
    let world = World::configured(|config: &mut Config| {
        config.clients = rules(&[("*", Action::Legacy)]);
        config.legacy.deny = true;
    });
    let error = world.tls(&alpn(&[b"h2", &token(ALICE)])).await;
    assert!(error.unwrap_err().to_string().contains("AccessDenied"));
    let denied = Verdict::of(Reason::LegacyDenied);
    assert_eq!(world.metrics.verdicts.get(denied), 1);
}

#[tokio::test]
async fn the_first_rule_that_means_a_client_is_the_one() {
    let world = World::configured(|config| {
        config.clients = rules(&[(RUSTLS_H2, Action::Allow), ("*", Action::Deny)]);
    });
    let tls = world.tls(&alpn(&[b"h2", &token(ALICE)])).await.unwrap();
    let mut client = Client::over(tls, Http::H2).await;
    assert_eq!(client.ask(Ask::message(ALICE)).await.unwrap().status, 200);
    assert_eq!(world.metrics.connections.get(Lane::Zero), 1);
    assert!(world.tls(&alpn(&[b"http/1.1"])).await.is_err());
    let rules = &world.metrics.client_rules;
    assert_eq!(rules.get(Action::Allow), 1);
    assert_eq!(rules.get(Action::Deny), 1);
}
