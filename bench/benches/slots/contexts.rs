//! Keys and values, the same for all tables, and how time is taken.

use bench::trace::random::{Random, mix};
use edge_userspace::context::slots::{Sizes, Slots};
use edge_userspace::context::{ContextId, Entry, Fingerprint, Key, Tenant};
use edge_userspace::upstream::UpstreamId;
use rustix::time::{ClockId, clock_gettime};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::hint::black_box;

/// The second at which everything happens.
pub(crate) const NOW_S: u32 = 1;

/// A key whose hash is its fingerprint's first word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hashed(pub(crate) Key);

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.fingerprint.words()[0]);
    }
}

/// Takes that word as it is.
#[derive(Default, Clone)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys write one word")
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

pub(crate) type BuildAsItIs = BuildHasherDefault<AsItIs>;

/// So many contexts, and the size that our table has for them.
pub(crate) struct Contexts {
    pub(crate) keys: Vec<Hashed>,
    pub(crate) slots: usize,
}

impl Contexts {
    /// `number`, or a few less: only what a table of `slots` can keep all at once.
    pub(crate) fn new(number: usize, slots: usize) -> Self {
        let keys = (0..number as u64).map(|of| {
            Hashed(Key {
                tenant: Tenant(mix(of % 50 + 1)),
                context: ContextId(mix(of % 7)),
                fingerprint: Fingerprint::new([mix(2 * of + 1), mix(2 * of + 2)]),
            })
        });
        let mut contexts = Self {
            keys: keys.collect(),
            slots,
        };
        let table = contexts.table();
        for key in &contexts.keys {
            table.commit(&key.0, entry(0), NOW_S);
        }
        let kept = |key: &Hashed| table.peek(&key.0, NOW_S).is_some();
        contexts.keys.retain(kept);
        assert!(contexts.keys.len() * 100 >= number * 99);
        contexts
    }

    /// Our table, empty.
    pub(crate) fn table(&self) -> Slots {
        let sizes = Sizes {
            bytes: self.slots * 64,
            ..Sizes::default()
        };
        Slots::new(&sizes, 4).expect("memory")
    }

    /// Numbers of contexts, at random.
    pub(crate) fn order(&self, look_ups: usize, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let number = self.keys.len() as u64;
        (0..look_ups).map(|_| random.below(number) as u32).collect()
    }
}

/// What is known of a context.
pub(crate) fn entry(number: usize) -> Entry {
    Entry {
        upstream: UpstreamId((number % 4) as u16),
        tokens: number as u32,
        exact: number as u64,
        long: true,
    }
}

/// Keys are fetched so many look-ups ahead: the time is the table's, not the key's.
pub(crate) const AHEAD: usize = 16;

/// Nanoseconds of one call of `find`, and the sum of all that it found: tokens, which are
/// the key's number, and one. The last [`AHEAD`] of `order` are not looked up. A function of
/// its own for each `find`, which is called in this one place: so it is in line, and no
/// table's loop is made worse by another's.
#[inline(never)]
pub(crate) fn each<const DEPENDENT: bool>(
    contexts: &Contexts,
    order: &[u32],
    find: impl Fn(&Hashed) -> Option<Entry>,
) -> (f64, u64) {
    let keys = &contexts.keys[..];
    let next = order[AHEAD..].iter();
    let look_ups = next.len();
    // Always 0, which the compiler cannot know: a number is below 2^40.
    let (mut before, mut sum) = (0, 0);
    let began = thread_ns();
    for (number, next) in order.iter().zip(next) {
        let mut key = keys[*number as usize];
        prefetch(&keys[*next as usize]);
        if DEPENDENT {
            let [first, second] = key.0.fingerprint.words();
            key.0.fingerprint = Fingerprint::new([first ^ before, second]);
        }
        if let Some(entry) = find(&key) {
            before = entry.exact >> 40;
            sum += u64::from(entry.tokens) + 1;
        }
    }
    let ns = thread_ns() - began;
    black_box(before);
    (ns / look_ups as f64, sum)
}

/// Has a key fetched.
#[inline(always)]
fn prefetch(key: &Hashed) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the intrinsic takes a pointer")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(key).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = key;
}

/// Nanoseconds that this thread has had of a processor.
pub(crate) fn thread_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}
