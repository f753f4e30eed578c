//! The canonical form of a request, as hashes, while its JSON is read.
//!
//! Two requests that a client means as one conversation come as many texts: a string or one
//! block, keys in another order, marks for caches that move, thinking that is dropped. Here each
//! message becomes one hash that is the same for all of them, and beside it one of what is
//! counted, which is the same only for what counts the same. Nothing of a text is kept.
//!
//! Not here: the chain of messages ([`super::chain`]).

mod billing;
mod cell;
mod json;
mod left_out;
mod number;
mod place;
mod strings;
mod tree;
mod walk;

pub use left_out::{LeftOut, Note, Notes, Where};
pub use tree::Fault;

use super::wire::{Computed, Wire};
use super::{Boundary, Secret};
use crate::prompt::Shape;
use place::Place;
use strings::{Opening, Strings};
use tree::Tree;

/// Most messages that are told apart; with more the later ones have no place in the chain.
pub const MAX_MESSAGES: usize = 8192;
/// So much of the last user message's text is kept, bytes.
pub const OPENING_BYTES: usize = 256;

/// Who listens to a request's JSON and makes its canonical form.
pub struct Canonical {
    shape: Shape,
    tree: Tree<Place>,
    strings: Strings,
    number: Vec<u8>,
    /// Objects and arrays within one that is passed over, itself included.
    skipped: u32,
    /// That one is a mark for caches.
    in_mark: bool,
    /// A mark asked for an hour.
    is_long: bool,
    messages: Vec<Message>,
    /// All of them.
    message_count: u64,
    head_fault: Option<Fault>,
    head: Option<Digests>,
    has_head: bool,
    opening: Opening,
    /// That of the last message that a user wrote.
    user_opening: Opening,
    wire: Option<Wire>,
    notes: Option<Notes>,
}

/// The hashes of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digests {
    pub(super) canonical: [u64; 2],
    /// As it counts.
    pub(super) exact: [u64; 2],
}

/// A message that has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) digests: Digests,
    pub(super) is_assistant: bool,
    /// Chat Completions: of the role `system` or `developer`.
    pub(super) is_system: bool,
    pub(super) fault: Option<Fault>,
}

impl Canonical {
    /// At a request's beginning.
    #[must_use]
    pub fn new(shape: Shape, secret: &Secret) -> Self {
        Self {
            shape,
            tree: Tree::new(secret.texts()),
            strings: Strings::default(),
            number: Vec::new(),
            skipped: 0,
            in_mark: false,
            is_long: false,
            messages: Vec::new(),
            message_count: 0,
            head_fault: None,
            head: None,
            has_head: false,
            opening: Opening::default(),
            user_opening: Opening::default(),
            wire: None,
            notes: None,
        }
    }

    /// At another request's beginning, with the memory that it has; it has been
    /// [erased](Self::erase).
    pub(crate) fn start_over(&mut self, shape: Shape, secret: &Secret) {
        self.shape = shape;
        self.tree.begin(secret.texts());
    }

    /// Nothing of the request stays.
    pub(crate) fn erase(&mut self) {
        self.tree.clear();
        self.strings.erase();
        self.number.clear();
        (self.skipped, self.in_mark, self.is_long) = (0, false, false);
        self.messages.clear();
        self.message_count = 0;
        (self.head_fault, self.head, self.has_head) = (None, None, false);
        self.opening.erase();
        self.user_opening.erase();
        (self.wire, self.notes) = (None, None);
    }

    /// The wire form is made too; to be said at the beginning.
    pub fn add_wire(&mut self) {
        self.wire = Some(Wire::new());
    }

    /// It notes what is left out, and why.
    #[must_use]
    pub fn explained(mut self) -> Self {
        self.notes = Some(Notes::default());
        self
    }

    /// Whether what has been read to its end is an object.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.head.is_some()
    }

    /// The wire form of the whole request, if it was asked for, once. Without a name that is a
    /// text the model's is empty.
    #[must_use]
    pub fn wire_form(&mut self) -> Option<Computed> {
        Some(self.wire.take()?.finish())
    }

    /// What was noted, once.
    #[must_use]
    pub fn notes(&mut self) -> Option<Notes> {
        let mut notes = self.notes.take()?;
        notes.head_fault = self.head_fault;
        let mut faults = self.messages.iter().zip(0..);
        notes.message_fault = faults.find_map(|(message, at)| Some((at, message.fault?)));
        Some(notes)
    }

    /// What it holds in memory, and what the chain will that is made of it, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let each = size_of::<Message>() + size_of::<Boundary>();
        self.messages.capacity() * each + self.tree.memory_bytes() + self.strings.memory_bytes()
    }

    /// Model, tools and system, when they have a canonical form.
    pub(super) fn head(&self) -> Option<Digests> {
        self.head.filter(|_| self.head_fault.is_none())
    }

    /// Whether there are tools or a system prompt.
    pub(super) fn has_head(&self) -> bool {
        self.has_head
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Those that are not told apart included.
    pub(super) fn message_count(&self) -> u64 {
        self.message_count
    }

    /// Whether a mark for caches asks for an hour.
    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The beginning of the text of the last message that a user wrote.
    pub(super) fn user_opening(&self) -> &[u8] {
        self.user_opening.bytes()
    }
}
