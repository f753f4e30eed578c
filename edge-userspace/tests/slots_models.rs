//! The table of contexts under every order in which threads may meet (loom), in small: the
//! same sources, with loom's words and locks in place of the standard library's, sets of four
//! slots, and two looks of a reader.
//!
//! Which meetings: all with up to two changes of the thread that runs where it need not
//! change. `LOOM_MAX_PREEMPTIONS=3` takes some minutes; it was run when the table was made.

use edge_userspace::{context, upstream};

#[expect(dead_code, reason = "the models need a part of it")]
mod slots {
    #[path = "../../src/context/slots/elsewhere.rs"]
    mod elsewhere;
    #[path = "../../src/context/slots/keep.rs"]
    mod keep;
    #[path = "../../src/context/slots/life.rs"]
    mod life;
    mod memory {
        use super::slot::Slot;

        /// The slots of one set.
        pub(super) struct Memory(Vec<Slot>);

        impl Memory {
            pub(super) fn one_set() -> Self {
                Self((0..super::WAYS).map(|_| Slot::default()).collect())
            }
        }

        impl std::ops::Deref for Memory {
            type Target = [Slot];

            fn deref(&self) -> &[Slot] {
                &self.0
            }
        }
    }
    mod models;
    #[path = "../../src/context/slots/place.rs"]
    mod place;
    #[path = "../../src/context/slots/set.rs"]
    mod set;
    #[path = "../../src/context/slots/slot.rs"]
    mod slot;
    mod sync {
        pub(super) use loom::hint::spin_loop;
        pub(super) use loom::sync::Mutex;
        pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
        pub(super) use std::sync::PoisonError;
    }
    #[path = "../../src/context/slots/table.rs"]
    mod table;

    const WAYS: usize = 4;
    const LOOKS: usize = 2;
}
