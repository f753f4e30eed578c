//! JSON as a tree of cells, from the leaves up, in bounded memory.
//!
//! Twice at once: in canonical form, where the order of keys is nothing and what is left out is
//! not there; and as it stands, for what counts tokens.

use super::cell::{Cell, Kind};
use highway::Key;

/// Most keys of one object.
pub(super) const MAX_KEYS: usize = 1024;
/// Most values of objects that are open at once, times two.
const MAX_CELLS: usize = 8192;
/// Elements of an array after which they become one.
const FOLD: usize = 64;

/// Why something has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key stands twice in one object: which of them holds is for the reader to choose.
    DuplicateKey,
    /// An object has more than 1,024 keys, or objects within each other more than 4,096.
    TooManyKeys,
    /// A message that is no object.
    NotAnObject,
}

impl Fault {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::DuplicateKey => "a key stands twice in one object",
            Self::TooManyKeys => "an object has more than 1,024 keys, or open ones have over 4,096",
            Self::NotAnObject => "it is no object",
        }
    }
}

/// A value both ways. None: it is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) canonical: Option<Cell>,
    pub(super) exact: Option<Cell>,
}

impl Value {
    pub(super) const NOTHING: Self = Self {
        canonical: None,
        exact: None,
    };

    #[inline]
    pub(super) const fn both(cell: Cell) -> Self {
        Self {
            canonical: Some(cell),
            exact: Some(cell),
        }
    }

    /// Both made into something else, once when they are the same.
    pub(super) fn map(self, make: impl Fn(Cell) -> Cell) -> Self {
        let exact = self.exact.map(&make);
        let canonical = match self.canonical == self.exact {
            true => exact,
            false => self.canonical.map(make),
        };
        Self { canonical, exact }
    }
}

/// Objects and arrays that are open; `P` says what each is.
pub(super) struct Tree<P> {
    key: Key,
    levels: Vec<Level<P>>,
    canonical: Side,
    exact: Side,
    pub(super) fault: Option<Fault>,
}

pub(super) struct Level<P> {
    pub(super) place: P,
    is_object: bool,
    /// Whose value comes.
    pub(super) key: Cell,
    /// Values so far, those that are left out included.
    values: u32,
    canonical: Open,
    exact: Open,
}

/// Where a level's cells begin, and how many values there were.
#[derive(Clone, Copy, Default)]
struct Open {
    from: usize,
    count: u64,
}

/// The cells of all open levels, innermost last.
#[derive(Default)]
struct Side(Vec<[u64; 4]>);

impl<P: Copy> Tree<P> {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            levels: Vec::with_capacity(16),
            canonical: Side(Vec::with_capacity(64)),
            exact: Side(Vec::with_capacity(64)),
            fault: None,
        }
    }

    /// Another one, of another key, nothing being open.
    pub(super) fn begin(&mut self, key: Key) {
        self.key = key;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let cells = self.canonical.0.capacity() + self.exact.0.capacity();
        cells * size_of::<Cell>() + self.levels.capacity() * size_of::<Level<P>>()
    }

    /// Nothing is open any more.
    pub(super) fn clear(&mut self) {
        self.levels.clear();
        self.canonical.0.clear();
        self.exact.0.clear();
        self.fault = None;
    }

    #[inline]
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    #[inline]
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    #[inline]
    pub(super) fn level(&self) -> Option<&Level<P>> {
        self.levels.last()
    }

    /// The place of a level, outermost first.
    pub(super) fn place_at(&self, level: usize) -> Option<P> {
        self.levels.get(level).map(|level| level.place)
    }

    /// How many values a level has had, outermost first.
    pub(super) fn values_at(&self, level: usize) -> u32 {
        self.levels.get(level).map_or(0, |level| level.values)
    }

    #[inline]
    pub(super) fn open(&mut self, place: P, is_object: bool) {
        let open = |side: &Side| Open {
            from: side.0.len(),
            count: 0,
        };
        self.levels.push(Level {
            place,
            is_object,
            key: Cell::NONE,
            values: 0,
            canonical: open(&self.canonical),
            exact: open(&self.exact),
        });
    }

    /// The key whose value comes.
    #[inline]
    pub(super) fn set_key(&mut self, key: Cell) {
        if let Some(level) = self.levels.last_mut() {
            level.key = key;
        }
    }

    #[inline]
    pub(super) fn add(&mut self, value: Value) {
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        level.values += 1;
        let key = level.is_object.then_some(level.key);
        let Value { canonical, exact } = value;
        let has_room = [
            self.canonical
                .add(&mut level.canonical, key, canonical, &self.key),
            self.exact.add(&mut level.exact, key, exact, &self.key),
        ];
        if has_room != [true; 2] {
            self.fault.get_or_insert(Fault::TooManyKeys);
        }
    }

    /// The innermost level ends, of which nothing is asked.
    pub(super) fn leave(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.exact.0.truncate(level.exact.from);
            self.canonical.0.truncate(level.canonical.from);
        }
    }

    /// The innermost level ends; what it is, and its value. `is_free`: what it counts does not
    /// depend on the order of its keys either.
    pub(super) fn close(&mut self, is_free: bool) -> Option<(P, Value)> {
        let level = self.levels.pop()?;
        let kind = match level.is_object {
            true => Kind::Object,
            false => Kind::Array,
        };
        let exact = &mut self.exact.0[level.exact.from..];
        let canonical = &mut self.canonical.0[level.canonical.from..];
        let mut is_same = exact == canonical && level.exact.count == level.canonical.count;
        if level.is_object {
            if sort(canonical) {
                self.fault.get_or_insert(Fault::DuplicateKey);
            }
            if is_free && !is_same {
                sort(exact);
            }
            is_same &= is_free || exact == canonical;
        }
        let cell = |count, cells: &[_]| Cell::container(kind, count, cells, &self.key);
        let canonical = cell(level.canonical.count, canonical);
        let exact = match is_same {
            true => canonical,
            false => cell(level.exact.count, exact),
        };
        self.exact.0.truncate(level.exact.from);
        self.canonical.0.truncate(level.canonical.from);
        let value = Value {
            canonical: Some(canonical),
            exact: Some(exact),
        };
        Some((level.place, value))
    }

    /// The innermost level's value of a key, in canonical form, while it is open.
    pub(super) fn value_of(&self, key: Cell) -> Option<Cell> {
        let level = self.levels.last()?;
        let cells = self.canonical.0.get(level.canonical.from..)?;
        let (pairs, _) = cells.as_chunks::<2>();
        let pair = pairs.iter().find(|pair| pair[0] == key.0)?;
        Some(Cell(pair[1]))
    }
}

/// Brings keys in order; whether one stands there twice.
fn sort(cells: &mut [[u64; 4]]) -> bool {
    let (pairs, _) = cells.as_chunks_mut::<2>();
    if pairs.is_sorted_by(|one, next| one[0] < next[0]) {
        return false;
    }
    pairs.sort_unstable();
    pairs.windows(2).any(|two| two[0][0] == two[1][0])
}

impl Side {
    /// One more value of the innermost level, under its key in an object; whether there is room.
    #[inline]
    fn add(
        &mut self,
        open: &mut Open,
        key: Option<Cell>,
        cell: Option<Cell>,
        secret: &Key,
    ) -> bool {
        let Some(cell) = cell else {
            return true;
        };
        let has_room = self.0.len() + 2 <= MAX_CELLS;
        if !has_room || (key.is_some() && open.count as usize >= MAX_KEYS) {
            return false;
        }
        open.count += 1;
        match key {
            Some(key) => {
                self.0.push(key.0);
                self.0.push(cell.0);
            }
            None => self.element(open, cell, secret),
        }
        true
    }

    fn element(&mut self, open: &Open, cell: Cell, key: &Key) {
        if self.0.len() - open.from >= FOLD {
            let folded = Cell::container(Kind::Folded, 0, &self.0[open.from..], key);
            self.0.truncate(open.from);
            self.0.push(folded.0);
        }
        self.0.push(cell.0);
    }
}
