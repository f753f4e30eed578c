//! Walks through a request while it is read, and gives each value to whom it belongs.

mod asked;
mod marks;
mod media;
mod short;
mod spans;
mod uses;
mod visit;

use super::counters::Rules;
use super::image::{Media, Probe};
use super::place::{Meaning, Part, Place, Use};
use super::tally::{Method, Sort, Tally};
use super::{chat, messages};
use asked::Number;
use short::Short;
use std::rc::Rc;

pub(super) use asked::Asked;
pub(super) use marks::Marks;
use spans::Span;
pub(super) use spans::Spans;

/// Longest model name that is looked at, bytes; a longer one is nobody's.
const MAX_MODEL_BYTES: usize = 256;
/// Longest other short text that is looked at.
const SHORT_BYTES: usize = 32;
/// Keys of the request itself that must not come twice: what the edge looks at, and what the
/// upstream goes by, must be the same.
const OWNED: [&str; 6] = [
    "model",
    "max_tokens",
    "stream",
    "messages",
    "system",
    "tools",
];

/// Whose API a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions.
    Chat,
}

/// One walk.
pub(super) struct Walk {
    shape: Shape,
    places: Vec<Place>,
    /// The key whose value comes, as far as it is looked at.
    key: Short<SHORT_BYTES>,
    owned_seen: u8,
    reading: Reading,
    pub(super) tally: Tally,
    /// How the texts are counted once the model is known.
    rules: Rc<Rules>,
    /// Set from the start when the request is read a second time.
    pub(super) model: Option<Vec<u8>>,
    /// The number of its rule.
    rule: Option<usize>,
    model_bytes: Short<MAX_MODEL_BYTES>,
    pub(super) seen: Seen,
    /// What the request asks for.
    pub(super) asked: Asked,
    /// The number of it that is being read.
    number: Option<Number>,
    blocks: Vec<Block>,
    picture: Picture,
    short: Short<SHORT_BYTES>,
    probe: Probe,
    /// Characters of base64 in the string that is being read.
    data_bytes: u64,
    /// In JSON that is written again: whether a comma comes before the next value, level by
    /// level.
    commas: u128,
    json_depth: u32,
    pub(super) marks: Marks,
    /// Where it is in the body, bytes; and where the text began that is being read.
    at: u64,
    text_at: u64,
    /// Bytes of the JSON that is being read, as it is counted.
    json_bytes: u64,
    /// Where the texts lie, as long as they are not counted.
    pub(super) spans: Spans,
    /// The tokens of so many messages, and of what comes before them, are known.
    pub(super) known: Option<u64>,
    /// Texts are counted when all have come: some may be known by then.
    pub(super) waits: bool,
}

/// What there is besides texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) messages: u64,
    pub(super) names: u64,
    pub(super) tools: u64,
    pub(super) has_messages: bool,
    /// Tokens of pictures and documents: at least, about, at most.
    pub(super) pictures: [u64; 3],
    /// Whether something can only be estimated, whatever the vocabulary.
    pub(super) estimated: bool,
}

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Key,
    String(Use),
    /// A string or a key within JSON.
    Json,
}

/// A content block.
#[derive(Default)]
struct Block {
    is_document: bool,
    /// What it holds encrypted it also holds as text.
    is_compaction: bool,
    /// Characters of base64 that hold text which only the upstream can read.
    encrypted: u64,
    /// Whether its source is base64.
    source: Option<bool>,
    /// What the source holds, when that came before its type; bytes of the base64.
    data: Option<(Option<Media>, u64)>,
    /// Sources that the upstream fetches.
    elsewhere: u64,
}

/// An `image_url`.
#[derive(Default)]
struct Picture {
    low: bool,
    media: Option<Media>,
    is_there: bool,
}

impl Walk {
    /// Goes to the beginning. The model is known when the request is read a second time.
    /// Until it is, texts are counted in the way `unknown`.
    pub(super) fn new(
        shape: Shape,
        model: Option<Vec<u8>>,
        unknown: Method,
        rules: Rc<Rules>,
    ) -> Self {
        let rule = model.as_deref().map(|name| rules.models.number_of(name));
        let method =
            (model.as_deref().zip(rule)).map_or(unknown, |(name, rule)| rules.method(rule, name));
        Self {
            shape,
            places: Vec::with_capacity(16),
            key: Short::default(),
            owned_seen: 0,
            reading: Reading::Key,
            tally: Tally::new(method),
            rules,
            model,
            rule,
            model_bytes: Short::default(),
            seen: Seen::default(),
            asked: Asked::default(),
            number: None,
            blocks: Vec::new(),
            picture: Picture::default(),
            short: Short::default(),
            probe: Probe::default(),
            data_bytes: 0,
            commas: 0,
            json_depth: 0,
            marks: Marks::default(),
            at: 0,
            text_at: 0,
            json_bytes: 0,
            spans: Spans::default(),
            known: None,
            waits: false,
        }
    }

    /// Goes to the beginning of another body, nothing of the last one being there; the model is
    /// not known.
    pub(super) fn begin_body(&mut self, shape: Shape, unknown: Method, rules: Rc<Rules>) {
        self.shape = shape;
        self.rules = rules;
        self.tally.begin_again(unknown);
    }

    /// Nothing of the body stays.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.key.erase();
        self.owned_seen = 0;
        self.reading = Reading::Key;
        self.tally.begin_again(Method::Later);
        (self.model, self.rule) = (None, None);
        self.model_bytes.erase();
        self.seen = Seen::default();
        self.asked = Asked::default();
        self.number = None;
        self.blocks.clear();
        self.picture = Picture::default();
        self.short.erase();
        self.probe = Probe::default();
        self.data_bytes = 0;
        (self.commas, self.json_depth) = (0, 0);
        self.marks.reset();
        (self.at, self.text_at, self.json_bytes) = (0, 0, 0);
        self.spans.begin();
        self.known = None;
        self.waits = false;
    }

    /// What it has taken besides itself, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.capacity() * size_of::<Block>();
        self.marks.memory_bytes() + self.spans.memory_bytes() + blocks + self.places.capacity()
    }

    /// What the value that comes now is.
    fn meaning(&self) -> Meaning {
        let Some(&place) = self.places.last() else {
            return Meaning::object(Place::Root);
        };
        let key = self.key.bytes();
        match self.shape {
            Shape::Messages => messages::meaning(place, key),
            Shape::Chat => chat::meaning(place, key),
        }
    }

    fn begin(&mut self, is_object: bool) {
        if self.in_json() {
            self.json_value(if is_object { b"{" } else { b"[" });
            self.json_depth += 1;
            self.commas <<= 1;
            return;
        }
        let meaning = self.meaning();
        let place = if is_object {
            meaning.object
        } else {
            meaning.array
        };
        match place {
            Place::Messages => self.seen.has_messages = true,
            Place::Message => {
                self.seen.messages += 1;
                self.marks.begin(&self.seen);
            }
            Place::Tool => self.seen.tools += 1,
            Place::Block(_) => self.blocks.push(Block::default()),
            Place::Source(_) => {
                if let Some(block) = self.blocks.last_mut() {
                    (block.source, block.data) = (None, None);
                }
            }
            Place::Picture => self.picture = Picture::default(),
            // Nobody publishes how calls are put before the model.
            Place::Call | Place::Function(_) | Place::Opaque => self.seen.estimated = true,
            Place::Json(part) => return self.begin_json(part, is_object),
            _ => {}
        }
        self.places.push(place);
        // The elements of an array have no key.
        self.key.clear();
    }

    /// JSON begins that the model reads as JSON.
    pub(super) fn begin_json(&mut self, part: Part, is_object: bool) {
        self.seen.estimated = true;
        self.json_depth = 1;
        self.commas = 0;
        (self.text_at, self.json_bytes) = (self.at, 0);
        self.begin_text(part, Sort::Json);
        self.json_mark(if is_object { b"{" } else { b"[" });
        self.places.push(Place::Json(part));
        self.key.clear();
    }

    fn end(&mut self, is_object: bool) {
        if self.in_json() {
            self.json_mark(if is_object { b"}" } else { b"]" });
            self.json_depth -= 1;
            self.commas >>= 1;
            if self.json_depth > 0 {
                return;
            }
            self.tally.end();
            if let Some(&Place::Json(part)) = self.places.last() {
                self.note_span(part, Some(self.json_bytes));
            }
        }
        match self.places.pop() {
            Some(Place::Message) => self.marks.end(&self.seen, &self.tally),
            Some(Place::Block(_)) => self.end_block(),
            Some(Place::Source(_)) => self.end_source(),
            Some(Place::Picture) => self.end_picture(),
            _ => {}
        }
        self.key.clear();
    }

    fn begin_text(&mut self, part: Part, sort: Sort) {
        match self.known {
            Some(messages) if part != Part::Messages || self.seen.messages <= messages => {
                self.tally.begin_known(part, sort);
            }
            _ => self.tally.begin(part, sort),
        }
    }

    /// The number of the rule by which it is counted, as far as is known.
    pub(super) fn rule(&self) -> usize {
        let model = || self.model.as_deref().unwrap_or_default();
        self.rule
            .unwrap_or_else(|| self.rules.models.number_of(model()))
    }

    /// A text is over that may have to be found again.
    fn note_span(&mut self, part: Part, json_bytes: Option<u64>) {
        if self.tally.is_bound() {
            self.spans.push(Span {
                from: self.text_at,
                to: self.at + 1,
                part,
                messages: self.seen.messages,
                json_bytes,
            });
        }
    }

    pub(super) fn in_json(&self) -> bool {
        self.json_depth > 0
    }

    /// Marks of JSON say nothing of a prompt as long as nothing is known of the upstream.
    fn json_mark(&mut self, mark: &[u8]) {
        self.json_bytes += mark.len() as u64;
        if !self.tally.is_bound() {
            self.tally.push(mark);
        }
    }

    /// A value in JSON begins.
    fn json_value(&mut self, mark: &[u8]) {
        if self.commas & 1 == 1 {
            self.json_mark(b",");
        }
        self.commas |= 1;
        self.json_mark(mark);
    }

    fn json_string(&mut self) {
        // What joins strings is not known, so each is a text of its own.
        if self.tally.is_bound()
            && let Some(&Place::Json(part)) = self.places.last()
        {
            self.tally.end();
            self.begin_text(part, Sort::Json);
        }
    }
}
