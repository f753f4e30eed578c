//! Who of a connection has something to do: its wire, its clock, or one of its requests.
//!
//! All of them are polled by the connection's own task. Each has a bell of its own, so that
//! only who has been woken is looked at; and what is rung while the task runs is heard in
//! the same turn, without going through the runtime.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The bells of one connection.
#[derive(Default)]
pub(super) struct Bells(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    /// Whose bells have been rung since the last look, each once.
    rung: Vec<usize>,
    /// The task to wake. None: it runs, or has been woken.
    task: Option<Waker>,
}

/// One of them.
pub(super) struct Bell {
    bells: Arc<Bells>,
    /// Whose it is.
    number: usize,
    is_rung: AtomicBool,
}

impl Bells {
    /// Takes down whose bells have been rung. `false`: none has, and `task` is woken by the next.
    pub(super) fn hear(&self, rung: &mut Vec<usize>, task: &Waker) -> bool {
        rung.clear();
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.rung.is_empty() {
            if !(heard.task.as_ref()).is_some_and(|known| known.will_wake(task)) {
                heard.task = Some(task.clone());
            }
            return false;
        }
        heard.task = None;
        mem::swap(&mut heard.rung, rung);
        true
    }
}

impl Bell {
    pub(super) fn new(bells: &Arc<Bells>, number: usize) -> Arc<Self> {
        Arc::new(Self {
            bells: Arc::clone(bells),
            number,
            is_rung: AtomicBool::new(false),
        })
    }

    /// Its owner is about to be looked at: what is rung from now on is news.
    pub(super) fn answered(&self) {
        self.is_rung.store(false, Ordering::Release);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let bells = &self.bells.0;
            let mut heard = bells.lock().unwrap_or_else(PoisonError::into_inner);
            heard.rung.push(self.number);
            heard.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_rings_is_heard_once_and_the_task_is_woken_when_it_rests() {
        let (bells, woken) = (Arc::new(Bells::default()), Arc::new(Woken::default()));
        let (one, two) = (Bell::new(&bells, 1), Bell::new(&bells, 2));
        let task = Waker::from(Arc::clone(&woken));
        let count = || woken.0.load(Ordering::Relaxed);
        let mut rung = Vec::new();
        one.wake_by_ref();
        assert!(bells.hear(&mut rung, &task), "rung before the first look");
        assert_eq!((&rung[..], count()), (&[1][..], 0));
        // It has not been answered yet: there is nothing new in it.
        one.wake_by_ref();
        assert!(!bells.hear(&mut rung, &task));
        one.answered();
        two.wake_by_ref();
        assert_eq!(count(), 1, "the task rests");
        one.wake_by_ref();
        one.wake_by_ref();
        assert_eq!(count(), 1, "it has been woken");
        assert!(bells.hear(&mut rung, &task));
        assert_eq!(rung, [2, 1]);
        one.answered();
        one.wake_by_ref();
        assert_eq!(count(), 1, "it runs");
        assert!(bells.hear(&mut rung, &task));
        assert_eq!(rung, [1]);
        assert!(!bells.hear(&mut rung, &task));
    }
}
