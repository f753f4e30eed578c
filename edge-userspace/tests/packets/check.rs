//! What the program did with a frame, held against what the model says must come of it.

use super::answers::assert_made;
use super::case::{Action, Wish};
use super::edge::{Moved, Seen};
use super::model::{Expected, Fate, Model};
use edge_common::policy::{Reason, Verdict};

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// Adds what must be counted for a frame.
pub(crate) fn expected_counters(counted: &mut Moved, wish: &Wish, expected: &Expected) {
    for (name, count) in expected.counters(wish) {
        *counted.entry(name.to_owned()).or_default() += count;
    }
}

/// Action, frame, event and reject record.
pub(crate) fn assert_outcome(
    seen: &Seen,
    wish: &Wish,
    model: &Model,
    frame: &[u8],
    expected: &Expected,
) {
    let reason = expected.reason;
    let what = || format!("{expected:?} for {}", hex::encode(frame));
    let action = match expected.fate {
        Fate::Pass | Fate::ResetServer(..) => Action::Pass,
        Fate::Drop => Action::Drop,
        Fate::Answer(..) => Action::Tx,
    };
    assert_eq!(seen.action, action.number(), "{}", what());
    match expected.fate {
        Fate::Pass => assert_eq!(seen.frame, frame, "{}", what()),
        Fate::Drop => {}
        Fate::Answer(..) | Fate::ResetServer(..) => {
            let Ok(segment) = model.dissect(frame) else {
                panic!("no segment: {}", what());
            };
            assert_made(&seen.frame, wish.answer, &expected.fate, frame, &segment);
        }
    }
    // The daemon is told of what was answered to the client alone.
    let told = reason.verdict() == Verdict::Reject && matches!(expected.fate, Fate::Answer(..));
    assert_eq!(seen.rejects.len(), usize::from(told), "{}", what());
    assert_event(seen, model, frame, expected);
}

/// A verdict is reported once, with the connection, the reason and the key that it names.
fn assert_event(seen: &Seen, model: &Model, frame: &[u8], expected: &Expected) {
    let reason = expected.reason;
    if reason.verdict() == Verdict::Pass {
        assert!(
            seen.events.is_empty(),
            "{:?} for {}",
            seen.events,
            reason.name()
        );
        return;
    }
    let [event] = &seen.events[..] else {
        panic!("{} events for {}", seen.events.len(), reason.name());
    };
    let segment = model
        .dissect(frame)
        .unwrap_or_else(|other| panic!("{}", other.name()));
    let name = |number: u32| Reason::ALL[number as usize].name();
    assert_eq!(name(event.reason), reason.name(), "{}", hex::encode(frame));
    assert_eq!(event.flow, segment.flow);
    assert_eq!(event.payload_bytes as usize, segment.payload_bytes);
    assert_eq!(event.key_id, expected.key_id, "{}", reason.name());
    if let Some(flow) = seen.rejects.first() {
        assert_eq!(*flow, segment.flow);
    }
}

/// The frames since the connections were last forgotten, which a test that fails prints.
#[derive(Default)]
pub(crate) struct History(Vec<(Expected, Vec<u8>)>);

impl History {
    pub(crate) fn add(&mut self, expected: &Expected, frame: &[u8]) {
        self.0.push((expected.clone(), frame.to_vec()));
    }

    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (expected, frame) in &self.0 {
                eprintln!("{expected:?} for {}", hex::encode(frame));
            }
        }
    }
}
