//! Walks through a request while it is read, and gives each value to whom it belongs.

mod asked;
mod marks;
mod media;
mod short;
mod spans;

use super::counters::Rules;
use super::image::{Media, Probe};
use super::json::{Duplicate, Literal, Visit};
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

    fn begin_use(&mut self, used: Use) {
        match used {
            Use::Text(part) | Use::Name(part) => {
                if matches!(used, Use::Name(_)) {
                    self.seen.names += 1;
                }
                self.begin_text(part, Sort::Plain);
            }
            Use::Data(part) => {
                self.probe = Probe::default();
                self.data_bytes = 0;
                // Two in one source: nobody knows which one holds.
                self.tally.settle(true);
                match self.source() {
                    Some(true) => {}
                    is_base64 => {
                        // Whether it is a text may show when it is over.
                        self.spans.lose();
                        let is_text = is_base64 == Some(false);
                        let sort = if is_text { Sort::Plain } else { Sort::Doubtful };
                        self.begin_text(part, sort);
                    }
                }
            }
            Use::PictureUrl => {
                self.probe = Probe::default();
                self.short.clear();
                self.data_bytes = 0;
            }
            Use::Encrypted => self.data_bytes = 0,
            Use::Model => self.model_bytes.clear(),
            Use::Number => self.number = Number::of(self.key.bytes()),
            Use::BlockType | Use::SourceType | Use::Detail => self.short.clear(),
            Use::Elsewhere | Use::Nothing => {}
        }
    }

    fn push_use(&mut self, used: Use, piece: &[u8]) {
        match used {
            Use::Text(_) | Use::Name(_) => self.tally.push(piece),
            Use::Data(_) => {
                self.data_bytes += piece.len() as u64;
                self.probe.push(piece);
                if self.probe.media().is_some() && self.source().is_none() {
                    self.tally.forget();
                }
                self.tally.push(piece);
            }
            Use::PictureUrl => self.picture_url(piece),
            Use::Encrypted => self.data_bytes += piece.len() as u64,
            Use::Model => self.model_bytes.push(piece),
            Use::Number => self.push_number(piece),
            Use::BlockType | Use::SourceType | Use::Detail => self.short.push(piece),
            Use::Elsewhere | Use::Nothing => {}
        }
    }

    fn end_use(&mut self, used: Use) -> Result<(), Duplicate> {
        match used {
            Use::Text(part) | Use::Name(part) => {
                self.tally.end();
                self.note_span(part, None);
            }
            Use::Data(_) => self.end_data(),
            Use::PictureUrl => {
                if self.model.is_none() {
                    // What it counts depends on the model.
                    self.spans.lose();
                }
                self.picture.media = self.probe.media();
                self.picture.is_there = true;
                // Written without an object around it.
                if self.places.last() != Some(&Place::Picture) {
                    self.end_picture();
                }
            }
            Use::Detail => self.picture.low = self.short.bytes() == b"low",
            Use::Model => self.end_model(),
            Use::Number => self.end_number(),
            Use::BlockType => {
                if let Some(block) = self.blocks.last_mut() {
                    block.is_document = self.short.bytes() == b"document";
                    block.is_compaction = self.short.bytes() == b"compaction";
                }
            }
            Use::SourceType => {
                let is_base64 = self.short.bytes() == b"base64";
                if let Some(block) = self.blocks.last_mut()
                    // Which of two holds would decide what counts.
                    && block.source.replace(is_base64).is_some()
                {
                    return Err(Duplicate("type"));
                }
            }
            Use::Encrypted => {
                if let Some(block) = self.blocks.last_mut() {
                    block.encrypted += self.data_bytes;
                }
            }
            Use::Elsewhere => {
                if let Some(block) = self.blocks.last_mut() {
                    block.elsewhere += 1;
                }
            }
            Use::Nothing => {}
        }
        Ok(())
    }

    fn push_number(&mut self, piece: &[u8]) {
        if let Some(number) = &mut self.number {
            number.push(piece);
        }
    }

    fn end_model(&mut self) {
        let model = self.model_bytes.bytes().to_vec();
        let rule = self.rules.models.number_of(&model);
        let nothing_yet = !self.tally.is_touched() && self.seen.pictures == [0; 3];
        if self.tally.is_bound() && nothing_yet {
            let method = self.rules.method(rule, &model);
            if !(self.waits && method.is_exact()) {
                self.tally.begin_again(method);
            }
        }
        (self.model, self.rule) = (Some(model), Some(rule));
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

impl Visit for Walk {
    #[inline]
    fn at(&mut self, offset: u64) {
        self.at = offset;
    }

    fn begin_object(&mut self) {
        self.begin(true);
    }

    fn end_object(&mut self) {
        self.end(true);
    }

    fn begin_array(&mut self) {
        self.begin(false);
    }

    fn end_array(&mut self) {
        self.end(false);
    }

    fn begin_string(&mut self, is_key: bool) {
        if self.in_json() {
            self.json_string();
            self.json_value(b"\"");
            // A key's value has no comma before it.
            self.commas = self.commas & !1 | u128::from(!is_key);
            self.reading = Reading::Json;
            self.key.clear();
        } else if is_key {
            self.key.clear();
            self.reading = Reading::Key;
        } else {
            let used = self.meaning().string;
            self.reading = Reading::String(used);
            self.text_at = self.at;
            self.begin_use(used);
        }
    }

    fn string(&mut self, piece: &[u8]) {
        match self.reading {
            Reading::Key => self.key.push(piece),
            Reading::String(used) => self.push_use(used, piece),
            Reading::Json => {
                self.json_bytes += piece.len() as u64;
                self.tally.push(piece);
            }
        }
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        match self.reading {
            Reading::Key if self.places.len() == 1 => {
                let key = self.key.bytes();
                let owned = OWNED.iter().position(|name| name.as_bytes() == key);
                if let Some(at) = owned {
                    let bit = 1 << at;
                    if self.owned_seen & bit != 0 {
                        return Err(Duplicate(OWNED[at]));
                    }
                    self.owned_seen |= bit;
                }
            }
            Reading::Key => {}
            Reading::String(used) => return self.end_use(used),
            Reading::Json => {
                let is_key = self.commas & 1 == 0;
                self.json_mark(if is_key { b"\":" } else { b"\"" });
                self.json_string();
            }
        }
        Ok(())
    }

    fn begin_number(&mut self) {
        if self.in_json() {
            self.json_value(b"");
        } else if self.places.len() == 1 {
            self.number = Number::of(self.key.bytes());
        }
    }

    fn number(&mut self, piece: &[u8]) {
        if self.in_json() {
            self.json_mark(piece);
        } else {
            self.push_number(piece);
        }
    }

    fn end_number(&mut self) {
        if let Some(number) = self.number.take() {
            self.asked.hear(number);
        }
    }

    fn literal(&mut self, literal: Literal) {
        if self.in_json() {
            self.json_value(literal.text().as_bytes());
        } else if self.places.len() == 1 && self.key.bytes() == b"stream" {
            self.asked.is_stream = literal == Literal::True;
        }
    }
}
