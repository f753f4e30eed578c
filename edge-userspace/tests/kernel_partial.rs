//! Beginnings of hellos that fill the flow table: honest clients still connect, whatever was
//! pushed out is counted, and none of it is a hello.

mod counters;
mod net;
#[macro_use]
mod skip;

use edge_common::policy::{Counter, Reason, Verdict};
use net::client::{Ask, Clients, Shape};
use net::edge::Edge;
use net::handshake;
use net::process::token;
use net::wire::{Conditions, Family, Wire};
use std::time::Duration;

/// Places in the flow table.
const FLOWS: u64 = 512;
/// Hellos that are only begun: many times what there is room for in any set.
const BEGUN: u64 = 4 * FLOWS;
const HONEST: u64 = 100;

fn check(mode: &str, family: Family) {
    let wire = Wire::new(Conditions::default());
    wire.server.run(|| {
        let edge = Edge::start(mode, 1, |text| {
            text.replace("[kernel]", &format!("[kernel]\nflows = {FLOWS}"))
        });
        let clients = Clients::of(&edge.place);
        let key = &edge.keys[0];
        let hello = clients.hello(Shape::PostQuantum, Some(token(key)));
        let honest = |from: u64| {
            wire.client.run(|| {
                for n in from..from + HONEST {
                    let shape = [Shape::PostQuantum, Shape::Classic][(n % 2) as usize];
                    let (from, to) = (family.own(n as u32), family.server());
                    let token = (n % 4 < 2).then(|| token(key));
                    let ask = Ask {
                        shape,
                        key,
                        token,
                        from,
                        to,
                    };
                    assert_eq!(clients.ask(&ask), Ok(()), "{shape:?} from {from}");
                }
            });
        };
        let done = wire.client.run(|| {
            let begin = handshake::Clients::new(family, true, &[&hello[..700]]);
            begin.run(0, BEGUN, Duration::from_secs(60))
        });
        let full = edge.counters();
        println!("{mode} {family:?}: {done:?}\n  full: {}", full.show());
        assert!(done.connected >= BEGUN, "the table was not filled");
        let begun = full.of(Reason::HelloBegun);
        assert!(begun >= BEGUN, "only {begun} were begun");
        assert!(
            full.count(Counter::HellosEvicted) >= BEGUN - FLOWS,
            "what was pushed out is not counted"
        );
        assert!(full.count(Counter::FlowsEvicted) >= full.count(Counter::HellosEvicted));
        assert_eq!(
            full.count(Counter::Hellos),
            0,
            "a beginning was counted as a hello"
        );

        honest(1);
        let after = edge.counters().since(&full);
        println!("  then {HONEST} honest clients: {}", after.show());
        assert_eq!(after.count(Counter::HellosResumed), HONEST / 2);
        assert_eq!(after.count(Counter::Hellos), HONEST);
        assert_eq!(after.verdicts(Verdict::Accept), HONEST / 2);
        assert_eq!(after.verdicts(Verdict::Legacy), HONEST / 2);

        // And beside others that go on filling it.
        let before = edge.counters();
        std::thread::scope(|scope| {
            scope.spawn(|| honest(1000));
            wire.client.run(|| {
                let begin = handshake::Clients::new(family, true, &[&hello[..700]]);
                begin.run(BEGUN, BEGUN, Duration::from_secs(60))
            });
        });
        let beside = edge.counters().since(&before);
        println!("  beside {BEGUN} more: {}", beside.show());
        assert_eq!(
            beside.verdicts(Verdict::Reject),
            0,
            "somebody honest was refused"
        );
        let counters = edge.counters();
        counters::add_up(|name| counters.named(name));
        // Not stopped in order: that would wait for every hello that is only begun.
        drop(edge);
    });
}

#[test]
fn honest_clients_connect_though_beginnings_fill_the_flow_table_in_driver_mode() {
    needs_kernel!();
    check("driver", Family::V4);
}

#[test]
fn honest_clients_connect_though_beginnings_fill_the_flow_table_in_generic_mode() {
    needs_kernel!();
    check("generic", Family::V6);
}
