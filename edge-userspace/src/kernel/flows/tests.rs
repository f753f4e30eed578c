use super::*;
use crate::charges::flow_key;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SECRET: siphash::Key = [0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321];

/// An empty table of our own.
pub(in crate::kernel) fn table(sets: u32) -> Arc<FlowTable> {
    let (set_words, slot_words) = words_for(sets);
    let (sets, slots) = (Memory::own(set_words), Memory::own(slot_words));
    Arc::new(FlowTable::new(sets, slots, SECRET).unwrap())
}

/// A connection with this number.
pub(in crate::kernel) fn flow(number: u16) -> FlowKey {
    flow_key(
        SocketAddr::from(([192, 0, 2, 7], number)),
        SocketAddr::from(([198, 51, 100, 1], 443)),
    )
}

impl FlowTable {
    /// Does what the kernel half does, as it does it: in `way`, under the set's sequence.
    pub(in crate::kernel) fn write(&self, way: usize, key: &FlowKey, flow: &Flow) {
        let (set, tag) = key.place(self.secret, self.sets_mask);
        let set = set as usize;
        let sequence = &self.sets[set * SET_WORDS];
        sequence.fetch_add(1, Ordering::AcqRel);
        let put = |words: &[AtomicU64], at: usize, half: u32| {
            let mut bytes = words[at / 8].load(Ordering::Relaxed).to_ne_bytes();
            bytes[at % 8..][..4].copy_from_slice(&half.to_ne_bytes());
            words[at / 8].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        };
        let tags = &self.sets[set * SET_WORDS..];
        let tag = if flow.state == state::FREE { 0 } else { tag };
        put(tags, offset_of!(FlowSet, tags) + way * 4, tag);
        let slot = &self.slots[(set * WAYS as usize + way) * SLOT_WORDS..][..SLOT_WORDS];
        for word in 0..4 {
            put(slot, word * 4, key.client[word]);
            put(slot, 16 + word * 4, key.server[word]);
        }
        let ports = [
            key.client_port_be.to_ne_bytes(),
            key.server_port_be.to_ne_bytes(),
        ];
        let ports = u32::from_ne_bytes([ports[0][0], ports[0][1], ports[1][0], ports[1][1]]);
        put(slot, 32, ports);
        put(slot, offset_of!(FlowSlot, state), flow.state);
        let reason = flow.reason.map_or(0, |reason| reason as u32);
        put(slot, offset_of!(FlowSlot, reason), reason);
        for (at, whole) in [
            (offset_of!(FlowSlot, began_ns), flow.began_ns),
            (offset_of!(FlowSlot, judged_ns), flow.judged_ns),
            (offset_of!(FlowSlot, key_id), flow.key_id.0),
        ] {
            slot[at / 8].store(whole, Ordering::Relaxed);
        }
        put(slot, offset_of!(FlowSlot, segments), flow.segments);
        put(slot, offset_of!(FlowSlot, hello_bytes), flow.hello_bytes);
        sequence.fetch_add(1, Ordering::Release);
    }
}

pub(in crate::kernel) fn judged(reason: Reason, judged_ns: u64) -> Flow {
    let rejected = reason.verdict() == edge_common::policy::Verdict::Reject;
    Flow {
        state: if rejected {
            state::REJECTED
        } else {
            state::JUDGED
        },
        reason: Some(reason),
        began_ns: judged_ns,
        judged_ns,
        key_id: KeyId(7),
        segments: 2,
        hello_bytes: 1700,
    }
}

#[test]
fn what_the_kernel_writes_is_found_in_every_way_and_only_by_its_connection() {
    for way in 0..WAYS as usize {
        let table = table(8);
        let wrote = judged(Reason::TagWrong, 5 << 30);
        table.write(way, &flow(9), &wrote);
        assert_eq!(table.find(&flow(9)), Look::Found(wrote));
        assert_eq!(table.find(&flow(10)), Look::Absent);
        table.write(
            way,
            &flow(9),
            &Flow {
                state: state::FREE,
                ..wrote
            },
        );
        assert_eq!(table.find(&flow(9)), Look::Absent);
    }
}

#[test]
fn connections_with_one_tag_are_told_apart() {
    let table = table(1);
    table.write(0, &flow(1), &judged(Reason::Accepted, 1 << 30));
    // The tag of flow 1 and all else of another one.
    let (_, tag) = flow(1).place(SECRET, 0);
    let word = &table.sets[1];
    word.store(u64::from(tag) | u64::from(tag) << 32, Ordering::Relaxed);
    let Look::Found(found) = table.find(&flow(1)) else {
        panic!("not found");
    };
    assert_eq!(found.reason, Some(Reason::Accepted));
}

#[test]
fn a_hello_under_way_has_no_reason_and_a_number_that_is_none_gives_none() {
    let table = table(4);
    let begun = Flow {
        state: state::BEGUN,
        ..judged(Reason::Accepted, 0)
    };
    table.write(0, &flow(1), &begun);
    let found = Flow {
        reason: None,
        ..begun
    };
    assert_eq!(table.find(&flow(1)), Look::Found(found));
}

#[test]
fn a_set_that_is_being_written_is_left_alone() {
    let table = table(1);
    table.write(0, &flow(1), &judged(Reason::Accepted, 1));
    table.sets[0].fetch_add(1, Ordering::Relaxed);
    assert_eq!(table.find(&flow(1)), Look::Contended);
    table.sets[0].fetch_add(1, Ordering::Relaxed);
    assert!(matches!(table.find(&flow(1)), Look::Found(_)));
}

#[test]
fn no_reader_sees_half_of_a_write() {
    let table = table(1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                let whole = Flow {
                    key_id: KeyId(number),
                    segments: number as u32,
                    ..judged(Reason::Accepted, number)
                };
                table.write(0, &flow(1), &whole);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..100_000 {
            if let Look::Found(seen) = table.find(&flow(1)) {
                assert_eq!(seen.key_id.0, seen.judged_ns);
                assert_eq!(u64::from(seen.segments), seen.judged_ns & 0xffff_ffff);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn usage_tells_old_from_recent_and_unfinished() {
    let table = table(sets_for(1));
    let now_ns = 1 << 40;
    let begun = Flow {
        state: state::BEGUN,
        reason: None,
        ..judged(Reason::Accepted, now_ns)
    };
    table.write(0, &flow(1), &judged(Reason::Accepted, now_ns));
    table.write(1, &flow(2), &begun);
    table.write(
        2,
        &flow(3),
        &judged(Reason::Accepted, now_ns - RECENT_NS - 1),
    );
    let expected = Usage {
        capacity: 4,
        used: 3,
        recent: 2,
        unfinished: 1,
    };
    assert_eq!(table.usage(now_ns), expected);
}

#[test]
fn sets_are_a_power_of_two_that_holds_the_flows() {
    for (flows, sets) in [
        (0, 1),
        (1, 1),
        (4, 1),
        (5, 2),
        (32_768, 8192),
        (32_769, 16_384),
    ] {
        assert_eq!(sets_for(flows), sets);
    }
    assert!(u64::from(sets_for(u32::MAX)) * u64::from(WAYS) >= 1 << 30);
    let (sets, slots) = words_for(2);
    assert!(FlowTable::new(Memory::own(sets), Memory::own(slots - 1), SECRET).is_none());
    assert!(FlowTable::new(Memory::own(3 * 8), Memory::own(3 * 128), SECRET).is_none());
}

#[test]
fn addresses_and_keys_are_each_others() {
    for (client, server) in [
        ("192.0.2.1:5", "198.51.100.1:443"),
        ("[2001:db8::7]:65535", "[2001:db8::1]:443"),
    ] {
        let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
        let key = flow_key(client, server);
        assert_eq!(addresses(&key), (client, server));
    }
    let mapped = flow_key(
        "[::ffff:192.0.2.1]:5".parse().unwrap(),
        "[::ffff:198.51.100.1]:443".parse().unwrap(),
    );
    assert_eq!(
        mapped,
        flow_key(
            "192.0.2.1:5".parse().unwrap(),
            "198.51.100.1:443".parse().unwrap()
        )
    );
    assert_eq!(mapped.client[2], FlowKey::MAPPED);
}
