//! The tables of what is charged, in the kernel half's own maps.

#[macro_use]
mod skip;

use edge_common::replay::{Holder, SET_WORDS, WAYS};
use edge_userspace::charges::{Replay, Sizes, Tables, Use};
use edge_userspace::kernel::memory::Memory;
use edge_userspace::kernel::{self, Program, object};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SIZES: Sizes = Sizes {
    replay_sets: 64,
    prefix_sets: 64,
    keys: 100,
};
const SECRET: [u64; 2] = [3, 4];

fn program() -> Program {
    let sizes = kernel::Sizes {
        keys: SIZES.keys,
        replay_sets: SIZES.replay_sets,
        prefix_sets: SIZES.prefix_sets,
        ..kernel::Sizes::SMALL
    };
    Program::load(object::OBJECT, &sizes).unwrap()
}

/// Many threads use tokens up while another reads as the kernel half does, through a mapping of
/// its own and without a lock.
#[test]
fn what_is_charged_is_in_the_kernels_maps_and_never_half_an_entry() {
    needs_kernel!();
    let mut program = program();
    let maps = program.take_tables().unwrap();
    let tables = Tables::of_maps(&maps, SIZES).unwrap();
    let words = SIZES.replay_sets as usize * SET_WORDS;
    let seen = Memory::map(maps.replay.fd().as_fd(), words).unwrap();
    let replay = Replay::new(tables.replay, SECRET);
    let (stop, first) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read = 0u64;
            while !stop.load(Ordering::Relaxed) {
                for set in seen.as_chunks::<SET_WORDS>().0 {
                    for entry in 0..WAYS {
                        let id = set[2 * entry].load(Ordering::Acquire);
                        let holder = Holder(set[2 * entry + 1].load(Ordering::Acquire));
                        if id != 0 && set[2 * entry].load(Ordering::Relaxed) == id {
                            assert!(holder.is(id * 3), "{id}: {holder:?}");
                            read += 1;
                        }
                    }
                }
            }
            read
        });
        let writers: Vec<_> = (0..3u64)
            .map(|thread| {
                let (replay, first) = (&replay, &first);
                scope.spawn(move || {
                    for round in 0..20_000u64 {
                        let id = 1 + round * 3 + thread;
                        let now_s = 1_800_000_000 + round / 50;
                        let used = replay.use_token(id, id * 3, now_s + 1, now_s);
                        if used == Use::First {
                            first.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert!(first.into_inner() > 10_000);
    let entries = seen.as_chunks::<2>().0;
    let used = (entries.chunks(SET_WORDS / 2).flat_map(|set| &set[..WAYS]))
        .filter(|[id, _]| id.load(Ordering::Relaxed) != 0)
        .count();
    assert_eq!(used as u64, replay.entries());
}

/// The maps outlive the program, and a map that is too small is no table.
#[test]
fn maps_of_other_sizes_are_refused() {
    needs_kernel!();
    let mut program = program();
    let maps = program.take_tables().unwrap();
    drop(program);
    let large = Sizes {
        replay_sets: 1 << 20,
        ..SIZES
    };
    let error = Tables::of_maps(&maps, large).err().unwrap().to_string();
    assert!(error.contains("REPLAY"), "{error}");
    assert!(Tables::of_maps(&maps, SIZES).is_ok());
}
