//! What outlives a restart.

use super::combinations::{Phase, Way, run};
use super::*;

#[test]
fn what_is_saved_is_there_again() {
    let quotas = Quotas {
        requests_per_minute: Some(10),
        input_tokens_per_minute: Some(1000),
        ..Quotas::default()
    };
    let books = Books::new(quotas);
    run(
        books.begin(),
        Phase::Finished,
        Way::Ended(StreamEnd::Complete),
        9,
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("usage");
    let mut saved: Vec<_> = books.ledger.saved().collect();
    assert_eq!(saved.len(), 1);
    assert_eq!(saved[0].debts_ns, [6_000_000_000, 6_600_000_000, 0]);
    saved[0].debts_ns = [6_000_000_000, 30_000_000_000, 0];
    crate::usage::snapshot::write(&file, saved.iter().copied()).unwrap();
    let (read, age) = crate::usage::snapshot::read(&file).unwrap();
    assert_eq!(read, saved);
    let other = Books::new(quotas);
    let gone = crate::usage::snapshot::Saved {
        usage: crate::usage::KeyUsage {
            key_id: KeyId(7),
            ..read[0].usage
        },
        ..read[0]
    };
    assert!(age.as_secs() < 60, "{age:?}");
    other.ledger.resume(&[read[0], gone], 0);
    assert_eq!(other.usage(), books.usage());
    assert_eq!(
        other.ledger.status().accounts,
        1,
        "that of a key that is gone is left out"
    );
    let left = other.remaining();
    assert_eq!([left[0], left[1]], [9, 500]);
    let later = Books::new(quotas);
    later.ledger.resume(&read, 60_000_000_000);
    assert_eq!(later.remaining()[1], 1000, "it filled meanwhile");
}

#[test]
fn what_runs_is_saved_with_what_it_has_used_and_without_what_it_holds_back() {
    let quotas = Quotas {
        tokens_per_day: Some(100_000),
        ..Quotas::default()
    };
    let books = Books::new(quotas);
    let whole = books.ledger.held(40, Some(5000), 1, false);
    let mut waits = books.begin();
    waits.reserve(whole).unwrap();
    let mut runs = books.begin();
    runs.reserve(held(300, 10)).unwrap();
    runs.sent();
    runs.answered(StatusCode::OK);
    let so_far = Observed {
        input: Some(250),
        relayed_output: 60,
        ..Observed::default()
    };
    assert_eq!(runs.progress(&so_far), Go::On);
    assert_eq!(books.usage().requests, 0);
    // The daemon is killed here.
    let saved: Vec<_> = books.ledger.saved().collect();
    let other = Books::new(quotas);
    other.ledger.resume(&saved, 0);
    let usage = other.usage();
    assert_eq!(
        (usage.requests, usage.input, usage.output),
        (2, 40 + 250, 60)
    );
    assert_eq!(usage.tokens_today, usage.input + usage.output);
    other.assert_nothing_is_held_back("nothing runs");
    // It is not: what they come to is what is kept in the end.
    drop((waits, runs));
    let saved: Vec<_> = books.ledger.saved().collect();
    let usage = saved[0].usage;
    assert_eq!((usage.requests, usage.input, usage.output), (2, 250, 60));
    assert_eq!(usage, books.usage());
}

#[test]
fn a_damaged_file_is_no_usage_and_is_kept_aside() {
    use crate::usage::snapshot::{Error, keep_aside, read, write};
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("usage");
    assert_eq!(read(&file).unwrap().0, []);
    let nowhere = directory.path().join("nowhere/usage");
    assert!(matches!(read(&nowhere), Err(Error::Io { .. })));
    let books = Books::new(Quotas::default());
    run(books.begin(), Phase::Sent, Way::Dropped, 0);
    write(&file, books.ledger.saved()).unwrap();
    let good = std::fs::read(&file).unwrap();
    // Cut anywhere, also between lines; only its last newline may go.
    assert!(good.ends_with(b"\n{\"keys\":1}\n"));
    for length in 0..good.len() - 1 {
        std::fs::write(&file, &good[..length]).unwrap();
        let error = read(&file).unwrap_err();
        assert!(matches!(error, Error::Content { .. }), "{length}: {error}");
    }
    let text = String::from_utf8(good).unwrap();
    for (from, to) in [
        ("\"edge_usage\":1", "\"edge_usage\":2"),
        ("\"keys\":1", "\"keys\":2"),
        ("[1,", "[-1,"),
    ] {
        assert!(text.contains(from), "{text}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        assert!(matches!(read(&file), Err(Error::Content { .. })), "{to}");
    }
    let aside = keep_aside(&file).unwrap();
    assert!(aside.to_str().unwrap().ends_with("usage.damaged") && !file.exists());
    for number in 2..=9 {
        std::fs::write(&file, "x").unwrap();
        let aside = keep_aside(&file).unwrap();
        assert!(aside.to_str().unwrap().ends_with(&format!("-{number}")));
    }
    std::fs::write(&file, "x").unwrap();
    assert!(matches!(keep_aside(&file), Err(Error::Aside { .. })));
    assert!(file.exists());
}

#[test]
fn a_file_is_one_edges_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("usage");
    let held = crate::usage::snapshot::lock(&path).unwrap();
    let error = crate::usage::snapshot::lock(&path).unwrap_err().to_string();
    assert!(
        error.contains("another edge keeps its usage there"),
        "{error}"
    );
    drop(held);
    crate::usage::snapshot::lock(&path).unwrap();
}
