//! How many upstream connections a thread may have, the idle ones included.

use std::cell::Cell;
use std::rc::Rc;

/// Counts a thread's upstream connections.
pub(super) struct Places {
    max: usize,
    taken: Cell<usize>,
}

/// A connection's place, from before it is made until it is closed.
pub(super) struct Place(Rc<Places>);

impl Places {
    pub(super) fn new(max: usize) -> Rc<Self> {
        Rc::new(Self {
            max,
            taken: Cell::new(0),
        })
    }

    /// A place, unless all are taken.
    pub(super) fn take(self: &Rc<Self>) -> Option<Place> {
        let taken = self.taken.get();
        (taken < self.max).then(|| {
            self.taken.set(taken + 1);
            Place(Rc::clone(self))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
    }
}
