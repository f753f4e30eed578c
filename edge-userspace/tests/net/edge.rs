//! A real `edge run` at the server's end of the wire, with keys, and its counters.

use super::process::{Daemon, Key, Place};
use super::wire::SERVER_INTERFACE;
use edge_common::policy::{Counter, Reason, Verdict};
use std::collections::HashMap;

/// A running edge. Made on a thread that lives in the server's namespace, and asked there.
pub(crate) struct Edge {
    pub(crate) place: Place,
    pub(crate) daemon: Daemon,
    pub(crate) keys: Vec<Key>,
}

impl Edge {
    /// Starts one in this mode with so many keys and a changed configuration.
    pub(crate) fn start(attach: &str, keys: usize, change: impl FnOnce(String) -> String) -> Self {
        let place = Place::new();
        place.configure(|text| {
            let attach = format!("\"{attach}\"\ninterfaces = [\"{SERVER_INTERFACE}\"]");
            let listen = "\"10.9.0.1:443\", \"[2001:db8::1]:443\"";
            let text = text.replacen("\"127.0.0.1:0\"", listen, 1);
            change(text.replace("\"off\"", &attach))
        });
        let keys = (0..keys)
            .map(|n| place.new_key(&format!("key-{n}")))
            .collect();
        let daemon = place.start();
        Self {
            place,
            daemon,
            keys,
        }
    }

    /// The kernel half's counters, once nothing came between two looks.
    pub(crate) fn counters(&self) -> Counters {
        let mut before = self.daemon.status();
        let status = self.daemon.wait_for_status(|status| {
            let same = status["kernel"]["counters"] == before["kernel"]["counters"];
            before = status.clone();
            same
        });
        let counters = status["kernel"]["counters"].as_array().unwrap();
        let pair = |counter: &serde_json::Value| {
            (
                counter[0].as_str().unwrap().to_owned(),
                counter[1].as_u64().unwrap(),
            )
        };
        Counters(counters.iter().map(pair).collect())
    }
}

/// A look at every counter.
#[derive(Clone, Debug)]
pub(crate) struct Counters(HashMap<String, u64>);

impl Counters {
    pub(crate) fn of(&self, reason: Reason) -> u64 {
        self.named(reason.name())
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.named(counter.name())
    }

    /// A counter by its name in metrics.
    pub(crate) fn named(&self, name: &str) -> u64 {
        *self
            .0
            .get(name)
            .unwrap_or_else(|| panic!("there is no counter {name}"))
    }

    /// Hellos with this verdict.
    pub(crate) fn verdicts(&self, verdict: Verdict) -> u64 {
        let reasons = Reason::ALL
            .iter()
            .filter(|reason| reason.verdict() == verdict);
        reasons.map(|reason| self.of(*reason)).sum()
    }

    /// What came since an earlier look.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let rise = |(name, value): (&String, &u64)| (name.clone(), value - earlier.0[name]);
        Self(self.0.iter().map(rise).collect())
    }

    /// Every counter that is not 0, for people.
    pub(crate) fn show(&self) -> String {
        let mut shown: Vec<_> = self.0.iter().filter(|(_, value)| **value > 0).collect();
        shown.sort();
        let shown: Vec<_> = shown
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        shown.join(", ")
    }
}
