//! What the requests of a connection share: its frames, and how they get its attention.

use super::bells::Bell;
use crate::relay;
use edge_http2::{Code, Connection, Stream};
use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;
use std::task::Wake as _;

/// One connection's.
pub(super) struct Line {
    connection: RefCell<Connection>,
    /// Rung when something is to be written, and the connection's task does not run.
    wire: Arc<Bell>,
    /// It runs.
    is_in_turn: Cell<bool>,
}

impl Line {
    pub(super) fn new(connection: Connection, wire: Arc<Bell>) -> Self {
        Self {
            connection: RefCell::new(connection),
            wire,
            is_in_turn: Cell::new(false),
        }
    }

    /// Its frames. Not to be held while a request runs or is dropped.
    pub(super) fn frames(&self) -> RefMut<'_, Connection> {
        self.connection.borrow_mut()
    }

    /// The connection's task begins a turn, or ends it: who runs in it need not say that there
    /// is something to be written.
    pub(super) fn in_turn(&self, is_in_turn: bool) {
        self.is_in_turn.set(is_in_turn);
    }

    /// Ends a stream before its time.
    pub(super) fn reset(&self, stream: Stream, code: Code) {
        self.change(|connection| connection.reset(stream, code));
    }

    fn change(&self, how: impl FnOnce(&mut Connection)) {
        let mut connection = self.connection.borrow_mut();
        how(&mut connection);
        if !self.is_in_turn.get() && connection.has_output() {
            self.wire.wake_by_ref();
        }
    }
}

impl relay::Line for Line {
    fn ask(&self, stream: Stream) {
        self.change(|connection| connection.ask(stream));
    }

    fn read(&self, stream: Stream, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.change(|connection| connection.release(stream, bytes));
    }

    fn leave(&self, stream: Stream) {
        self.change(|connection| connection.discard(stream));
    }
}
