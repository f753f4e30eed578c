use super::*;
use std::sync::atomic::AtomicUsize;

const SECRET: siphash::Key = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
/// The 16 bits of the second wrap within the tests.
const NOW: u64 = (27_466 << 16) - 20;
const BACK: u64 = 30;

fn table(sets: u32) -> Replay {
    Replay::new(Memory::own(Replay::words_for(sets)), SECRET)
}

/// Ids as tokens have them: no pattern in them.
fn id(number: u64) -> u64 {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ word >> 31 | 1
}

#[test]
fn a_token_is_one_connections() {
    let table = table(64);
    let last = NOW + BACK;
    assert_eq!(table.use_token(5, 1, last, NOW), Use::First);
    assert_eq!(table.use_token(5, 1, last, NOW + 1), Use::Again);
    assert_eq!(table.use_token(5, 2, last, NOW + 1), Use::Replayed);
    assert_eq!(table.use_token(6, 2, last, NOW + 1), Use::First);
    assert_eq!(table.use_token(5, 1, last, last), Use::Again);
    assert_eq!(table.use_token(5, 2, last, last), Use::Replayed);
    assert_eq!(table.entries(), 2);
}

#[test]
fn of_many_connections_at_once_with_one_token_exactly_one_is_the_first() {
    const THREADS: u64 = 8;
    let table = table(64);
    for token in 1..=200 {
        let (firsts, replayed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let start = std::sync::Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for mark in 0..THREADS {
                let (table, firsts, replayed, start) = (&table, &firsts, &replayed, &start);
                scope.spawn(move || {
                    start.wait();
                    match table.use_token(id(token), mark, NOW + BACK, NOW) {
                        Use::First => firsts.fetch_add(1, Ordering::Relaxed),
                        Use::Replayed => replayed.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other:?}"),
                    };
                });
            }
        });
        assert_eq!(firsts.into_inner(), 1);
        assert_eq!(replayed.into_inner(), THREADS as usize - 1);
    }
    assert_eq!(table.entries(), 200);
}

#[test]
fn a_full_table_says_so_and_forgets_nobody() {
    let table = table(8);
    let last = NOW + BACK;
    let used: Vec<_> = (1..=1000)
        .map(|number| (number, table.use_token(id(number), number, last, NOW)))
        .collect();
    let first = |used: &Use| *used == Use::First;
    let remembered: Vec<_> = (used.iter().filter(|(_, used)| first(used)))
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(remembered.len() as u64, table.entries());
    assert_eq!(table.capacity(), 56);
    assert_eq!(table.full(), 1000 - table.entries());
    assert!(table.entries() >= 50, "{}", table.entries());
    for number in remembered {
        let again = table.use_token(id(number), 0xffff, last, last);
        assert_eq!(again, Use::Replayed, "{number}");
    }
}

#[test]
fn entries_are_used_again_when_their_tokens_are_out_of_their_window() {
    let table = table(1);
    let last = NOW + BACK;
    for number in 1..=7 {
        assert_eq!(table.use_token(number, 0, last, NOW), Use::First);
    }
    assert_eq!(table.use_token(8, 0, last, NOW), Use::Full);
    // The last second is one in which the tokens are good.
    assert_eq!(table.use_token(8, 0, last + 5, last), Use::Full);
    for number in 8..=14 {
        let last = last + 1 + BACK;
        assert_eq!(table.use_token(number, 0, last, NOW + BACK + 1), Use::First);
    }
    assert_eq!(table.entries(), 7);
}

#[test]
fn a_sweep_takes_out_what_is_dead_and_nothing_else() {
    let table = table(64);
    for number in 1..=100 {
        let last = NOW + BACK + u64::from(number > 50) * 10;
        assert_eq!(table.use_token(id(number), 1, last, NOW), Use::First);
    }
    table.sweep(0, 64, NOW + BACK);
    assert_eq!(table.entries(), 100);
    table.sweep(0, 32, NOW + BACK + 1);
    let half = table.entries();
    assert!((51..100).contains(&half), "{half}");
    table.sweep(32, 1000, NOW + BACK + 1);
    assert_eq!(table.entries(), 50);
    for number in 51..=100 {
        let used = table.use_token(id(number), 2, NOW + BACK + 10, NOW + BACK + 1);
        assert_eq!(used, Use::Replayed);
    }
}

#[test]
fn what_lay_there_for_a_round_of_the_second_is_dead() {
    let table = table(1);
    for number in 1..=7 {
        table.use_token(number, 0, NOW + BACK, NOW);
    }
    // No sweep for more than nine hours, as after a suspend.
    for hours in [10, 12, 16] {
        let now = NOW + hours * 3600;
        assert!(is_dead(&table.words.as_chunks().0[0], 0, now), "{hours}");
    }
    let now = NOW + 10 * 3600;
    assert_eq!(table.use_token(8, 0, now + BACK, now), Use::First);
}

/// The simulated load: every second other keys open connections at their full rate, for one
/// window, and victims some. The table has room for what the keys may do together.
#[test]
fn other_keys_at_their_full_rates_push_no_victims_token_out() {
    const KEYS: u64 = 100;
    const PER_SECOND: u64 = 100;
    const AHEAD: u64 = 5;
    let live = KEYS * PER_SECOND * (BACK + AHEAD) + 1000;
    let table = table(Replay::sets_for(u32::try_from(live).unwrap()));
    let victim = |number: u64| id(1 << 40 | number);
    for number in 0..1000 {
        // Issued by a clock that is ahead: these live longest.
        let used = table.use_token(victim(number), number, NOW + AHEAD + BACK, NOW);
        assert_eq!(used, Use::First);
    }
    let mut number = 0;
    for second in 0..=BACK + AHEAD {
        let now = NOW + second;
        for _ in 0..KEYS * PER_SECOND {
            number += 1;
            let used = table.use_token(id(number), number, now + AHEAD + BACK, now);
            assert_eq!(used, Use::First, "number {number}");
        }
        let accepted = (0..1000)
            .map(|number| table.use_token(victim(number), 0xabcd_0000 + number, now + 1, now))
            .filter(|used| *used != Use::Replayed)
            .count();
        assert_eq!(accepted, 0, "second {second}");
    }
    assert_eq!(table.full(), 0);
}

/// As the kernel half does: id, holder, id again, without a lock.
#[test]
fn who_reads_without_a_lock_never_finds_a_new_token_with_an_old_connection() {
    let table = table(1);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let set = &table.words.as_chunks::<SET_WORDS>().0[0];
                while !stop.load(Ordering::Relaxed) {
                    for entry in 0..WAYS {
                        let id = set[2 * entry].load(Ordering::Acquire);
                        let holder = Holder(set[2 * entry + 1].load(Ordering::Acquire));
                        if id != 0 && set[2 * entry].load(Ordering::Relaxed) == id {
                            assert!(holder.is(id * 3), "{id}: {holder:?}");
                        }
                    }
                }
            });
        }
        for round in 0..30_000 {
            // Each round finds the last one's dead.
            let now = NOW + round * 2;
            for number in 1..=7 {
                let id = round * 7 + number;
                assert_eq!(table.use_token(id, id * 3, now + 1, now), Use::First);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
