//! Whole answers and the day's cap: what cannot be cut is held back beforehand.

use super::*;

/// 2027-01-15 08:00:00, so long before the next day.
const LEFT_OF_DAY: std::time::Duration = std::time::Duration::from_secs(16 * 3600);

fn day_of(tokens: u64) -> Books {
    Books::new(Quotas {
        tokens_per_day: Some(tokens),
        requests_per_minute: Some(1000),
        ..Quotas::default()
    })
}

fn whole(books: &Books, input: u64, max_tokens: u64) -> Held {
    books.ledger.held(input, Some(max_tokens), 1, false)
}

fn finish(mut settlement: Settlement, output: u64) {
    settlement.sent();
    settlement.answered(StatusCode::OK);
    let used = Observed {
        output: Some(output),
        is_finished: true,
        ..Observed::default()
    };
    settlement.end(StreamEnd::Complete, &used);
}

#[test]
fn whole_answers_hold_back_all_that_they_may_have_and_streams_nothing_of_the_day() {
    let books = day_of(1000);
    let held = whole(&books, 100, 400);
    assert_eq!((held.output, held.whole), (40, 400));
    assert_eq!(books.ledger.held(100, Some(400), 3, true).whole, 0);
    assert_eq!(books.ledger.held(100, None, 2, false).whole, 8192);
    let mut first = books.begin();
    first.reserve(held).unwrap();
    assert_eq!(books.remaining()[3], 500);
    assert_eq!(
        (books.usage().tokens_today, books.usage().reserved_today),
        (100, 400)
    );
    let mut second = books.begin();
    second.reserve(held).unwrap();
    // Nothing is left, but some will be when those have ended.
    let third = books.begin().reserve(held).unwrap_err();
    assert_eq!(
        (third.limit, third.until, third.is_soon_over()),
        (QuotaLimit::Day, Until::OthersEnd, true)
    );
    finish(first, 30);
    assert_eq!(books.usage().tokens_today, 230);
    let mut third = books.begin();
    third.reserve(whole(&books, 10, 360)).unwrap();
    finish(second, 400);
    finish(third, 360);
    assert_eq!(
        (books.usage().tokens_today, books.remaining()[3]),
        (1000, 0)
    );
    books.assert_nothing_is_held_back("all have ended");
    assert_eq!(books.usage().requests, 3, "not the refused one");
}

#[test]
fn without_a_days_cap_nothing_is_held_back_of_it_whatever_is_asked_for() {
    let books = Books::new(Quotas::default());
    let (mut first, mut second) = (books.begin(), books.begin());
    for settlement in [&mut first, &mut second] {
        let held = books.ledger.held(9, Some(u64::MAX), u64::MAX, false);
        settlement.reserve(held).unwrap();
    }
    assert_eq!(books.usage().reserved_today, 0);
    drop((first, second));
    books.assert_nothing_is_held_back("both are dropped");
}

#[test]
fn what_no_day_has_can_never_fit_and_what_this_one_lacks_fits_tomorrow() {
    let books = day_of(1000);
    for (asked, prompt, answer) in [
        (whole(&books, 100, 901), 100, 901),
        (whole(&books, 100, u64::MAX), 100, u64::MAX),
        (held(1001, 0), 1001, 0),
    ] {
        let refused = books.begin().reserve(asked).unwrap_err();
        assert_eq!(refused.until, Until::Never(OfDay { prompt, answer }));
        assert!(!refused.is_soon_over());
    }
    let mut first = books.begin();
    first.reserve(whole(&books, 100, 900)).unwrap();
    finish(first, 600);
    let refused = books.begin().reserve(whole(&books, 100, 250)).unwrap_err();
    let needs = OfDay {
        prompt: 100,
        answer: 250,
    };
    assert_eq!(
        refused.until,
        Until::NextDay {
            needs,
            left: 300,
            after: LEFT_OF_DAY
        }
    );
    assert!(!refused.is_soon_over());
    // As a stream it may begin: it will be cut.
    books.begin().reserve(held(100, 25)).unwrap();
    LATER_S.set(16 * 3600);
    books.begin().reserve(whole(&books, 100, 250)).unwrap();
    books.assert_nothing_is_held_back("all are dropped");
}

#[test]
fn over_midnight_a_whole_answer_is_held_back_of_the_day_on_which_it_ends() {
    let books = day_of(1000);
    let mut settlement = books.begin();
    settlement.reserve(whole(&books, 100, 700)).unwrap();
    LATER_S.set(86_400);
    assert_eq!(books.remaining()[3], 300);
    finish(settlement, 650);
    assert_eq!(
        books.usage().tokens_today,
        650,
        "the prompt is of the day before"
    );
    books.assert_nothing_is_held_back("it has ended");
}

#[test]
fn of_several_at_once_that_fit_alone_no_more_than_fit_are_let_in() {
    let books = day_of(10_000);
    let held = whole(&books, 0, 30);
    let ask = || {
        let asked = (0..200).map(|_| {
            let mut settlement = books.begin();
            settlement.reserve(held).is_ok().then_some(settlement)
        });
        asked.flatten().collect::<Vec<_>>()
    };
    let let_in: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(ask));
        threads
            .map(|thread| thread.join().unwrap())
            .into_iter()
            .flatten()
            .collect()
    });
    assert_eq!(let_in.len(), 10_000 / 30);
    assert_eq!(books.usage().reserved_today, 10_000 / 30 * 30);
    drop(let_in);
    books.assert_nothing_is_held_back("all are dropped");
}
