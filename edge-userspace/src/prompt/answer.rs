//! What is read of an answer beside its relay: what the upstream counted, and how it begins.
//!
//! Of the Messages API the `usage` of a message or of an event stream's `message_start`: input
//! tokens, those that were written to and read from a cache among them; and the beginning of
//! its first text. Of the Chat Completions API `usage.prompt_tokens` and the beginning of the
//! first choice's content. Nothing else is kept of the response.

use super::json::{Reader, Visit};
use super::learn::Learn;
use crate::context::hints::MOST_BYTES;

/// What an event stream may say before all is known; of a longer one no more is learnt.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// Its first text begins within so much of it, or is not waited for: a model that thinks for
/// long, or calls a tool.
const MAX_BEFORE_TEXT_BYTES: usize = 64 << 10;
/// A field's name that matters, and a little more.
const NAME_BYTES: usize = 32;

/// Reads one response.
#[derive(Debug)]
pub struct AnswerReading {
    /// Until the tokens are known.
    learn: Option<Learn>,
    opening: Option<Opening>,
    reader: Reader,
    found: Found,
    /// None: the body is one JSON text.
    line: Option<Line>,
    read_bytes: usize,
}

/// Is told how an answer began: its first [`MOST_BYTES`] bytes, or all when it is shorter;
/// nothing at all when it began with no text.
pub struct Opening(Told);

type Told = Box<dyn FnOnce(&[u8])>;

impl Opening {
    /// `told` is called once, unless the response breaks off before.
    #[must_use]
    pub fn new(told: impl FnOnce(&[u8]) + 'static) -> Self {
        Self(Box::new(told))
    }
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opening")
    }
}

/// Where in a line of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// So many bytes of `data:` have come.
    Name(usize),
    Data,
    Other,
}

const DATA: &[u8] = b"data:";

impl AnswerReading {
    /// For a body that is JSON, or an event stream of JSON; `None` when nobody wants to know.
    #[must_use]
    pub fn new(
        learn: Option<Learn>,
        opening: Option<Opening>,
        is_event_stream: bool,
    ) -> Option<Self> {
        (learn.is_some() || opening.is_some()).then(|| Self {
            learn,
            opening,
            reader: Reader::new(),
            found: Found::default(),
            line: is_event_stream.then_some(Line::Name(0)),
            read_bytes: 0,
        })
    }

    /// More of the response; true when nothing of the rest matters.
    pub fn pass(&mut self, bytes: &[u8]) -> bool {
        match self.line {
            None => {
                let wrong = self.reader.push(bytes, &mut self.found).is_err();
                self.take_found() || wrong
            }
            Some(line) => {
                self.read_bytes = self.read_bytes.saturating_add(bytes.len());
                if self.read_bytes > MAX_BEFORE_TEXT_BYTES
                    && self.found.text.length == 0
                    && let Some(told) = self.opening.take()
                {
                    told.0(&[]);
                }
                self.events(line, bytes) || self.read_bytes > MAX_EVENT_BYTES
            }
        }
    }

    /// The response came to its end.
    pub fn end(mut self) {
        self.found.text.is_over = true;
        self.take_found();
    }

    fn events(&mut self, mut line: Line, mut bytes: &[u8]) -> bool {
        while let Some(&first) = bytes.first() {
            if first == b'\n' || first == b'\r' {
                if line == Line::Data && self.take_found() {
                    return true;
                }
                self.reader = Reader::new();
                self.found.begin_event();
                line = Line::Name(0);
                bytes = &bytes[1..];
                continue;
            }
            match line {
                Line::Name(seen) => {
                    line = match DATA.get(seen) {
                        Some(byte) if *byte == first && seen + 1 == DATA.len() => Line::Data,
                        Some(byte) if *byte == first => Line::Name(seen + 1),
                        _ => Line::Other,
                    };
                    bytes = &bytes[1..];
                }
                Line::Data | Line::Other => {
                    let end = memchr::memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
                    // An event that is no JSON is not the one: `[DONE]`.
                    if line == Line::Data
                        && self.reader.push(&bytes[..end], &mut self.found).is_err()
                    {
                        line = Line::Other;
                    }
                    bytes = &bytes[end..];
                }
            }
        }
        self.line = Some(line);
        false
    }

    /// Tells what has been found, once that is whole; true when there is nothing more to find.
    fn take_found(&mut self) -> bool {
        if let Some(tokens) = self.found.tokens()
            && let Some(learn) = self.learn.take()
        {
            learn.observe(tokens);
        }
        if self.found.is_error {
            // It broke off, however politely.
            self.opening = None;
        }
        if let Some(opening) = self.found.text.whole()
            && let Some(told) = self.opening.take()
        {
            told.0(opening);
        }
        self.learn.is_none() && self.opening.is_none()
    }
}

/// How the answer begins.
#[derive(Debug)]
struct Beginning {
    bytes: [u8; MOST_BYTES],
    length: usize,
    is_over: bool,
}

impl Default for Beginning {
    fn default() -> Self {
        Self {
            bytes: [0; MOST_BYTES],
            length: 0,
            is_over: false,
        }
    }
}

impl Beginning {
    fn push(&mut self, piece: &[u8]) {
        if self.is_over {
            return;
        }
        let taken = piece.len().min(MOST_BYTES - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&piece[..taken]);
        self.length += taken;
        self.is_over |= self.length == MOST_BYTES;
    }

    fn whole(&self) -> Option<&[u8]> {
        self.is_over.then(|| &self.bytes[..self.length])
    }
}

/// Looks for what matters in one JSON text.
#[derive(Debug, Default)]
struct Found {
    /// What the open objects and arrays are, the outermost first; deeper ones are nothing that
    /// matters.
    places: [Place; 4],
    depth: usize,
    key: [u8; NAME_BYTES],
    key_length: usize,
    number: Option<u64>,
    /// In the words of the Messages API, and in those of Chat Completions: some gateways say
    /// the same in both.
    input: Option<u64>,
    prompt: Option<u64>,
    text: Beginning,
    is_over: bool,
    is_key: bool,
    is_text: bool,
    /// An error is told instead of an answer, or of the rest of one.
    is_error: bool,
    /// Within a choice after the first.
    is_other_choice: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nothing,
    Root,
    Message,
    Usage,
    /// A message's content: blocks.
    Blocks,
    /// Choices of Chat Completions.
    Choices,
    /// One of them: has the message, or a part of it.
    Choice,
    /// A block, a message, or a part of either: has the text.
    Text,
}

impl Found {
    /// Another event; what was found before is kept.
    fn begin_event(&mut self) {
        let Self {
            input,
            prompt,
            text,
            is_over,
            is_error,
            ..
        } = std::mem::take(self);
        // Of a usage that broke off nothing is kept.
        self.input = input.filter(|_| is_over);
        self.prompt = prompt.filter(|_| is_over);
        self.is_over = is_over;
        self.is_error = is_error;
        self.text = text;
    }

    fn tokens(&self) -> Option<u64> {
        self.input.max(self.prompt).filter(|_| self.is_over)
    }

    fn place(&self) -> Place {
        match self.depth.checked_sub(1) {
            Some(at) => self.places.get(at).copied().unwrap_or_default(),
            None => Place::Nothing,
        }
    }

    fn key(&self) -> &[u8] {
        self.key.get(..self.key_length).unwrap_or_default()
    }

    fn open(&mut self, place: Place) {
        if let Some(slot) = self.places.get_mut(self.depth) {
            *slot = place;
        }
        self.depth += 1;
        self.key_length = 0;
    }
}

impl Visit for Found {
    fn begin_object(&mut self) {
        let place = match (self.place(), self.key()) {
            _ if self.depth == 0 => Place::Root,
            (Place::Root, b"message") => Place::Message,
            (Place::Root | Place::Message, b"usage") => Place::Usage,
            (Place::Root, b"error") => {
                self.is_error = true;
                Place::Nothing
            }
            (Place::Root, b"delta") => Place::Text,
            (Place::Root, b"content_block") | (Place::Blocks, _) => {
                // What was said before it was all of the first block.
                self.text.is_over |= self.text.length > 0;
                Place::Text
            }
            (Place::Choices, _) => {
                self.is_other_choice = false;
                Place::Choice
            }
            (Place::Choice, b"delta" | b"message") => Place::Text,
            _ => Place::Nothing,
        };
        self.open(place);
    }

    fn end_object(&mut self) {
        self.is_over |= self.place() == Place::Usage;
        self.depth -= 1;
    }

    fn begin_array(&mut self) {
        let place = match (self.place(), self.key()) {
            (Place::Root, b"content") => Place::Blocks,
            (Place::Root, b"choices") => Place::Choices,
            _ => Place::Nothing,
        };
        self.open(place);
    }

    fn end_array(&mut self) {
        self.text.is_over |= self.place() == Place::Blocks;
        self.depth -= 1;
    }

    fn begin_string(&mut self, is_key: bool) {
        self.is_key = is_key;
        self.is_text = !is_key
            && !self.is_other_choice
            && self.place() == Place::Text
            && matches!(self.key(), b"text" | b"content");
        if is_key {
            self.key_length = 0;
        }
    }

    fn string(&mut self, piece: &[u8]) {
        if self.is_text {
            self.text.push(piece);
        } else if self.is_key {
            let from = self.key_length.min(NAME_BYTES);
            let taken = piece.len().min(NAME_BYTES - from);
            self.key[from..from + taken].copy_from_slice(&piece[..taken]);
            self.key_length += piece.len();
        }
    }

    fn begin_number(&mut self) {
        let counts = match self.place() {
            Place::Usage => matches!(
                self.key(),
                b"input_tokens"
                    | b"cache_creation_input_tokens"
                    | b"cache_read_input_tokens"
                    | b"prompt_tokens"
            ),
            Place::Choice => self.key() == b"index",
            _ => false,
        };
        self.number = counts.then_some(0);
    }

    fn number(&mut self, piece: &[u8]) {
        for byte in piece {
            let digit = char::from(*byte).to_digit(10).map(u64::from);
            self.number = (self.number.zip(digit))
                .and_then(|(number, digit)| number.checked_mul(10)?.checked_add(digit));
        }
    }

    fn end_number(&mut self) {
        let Some(number) = self.number.take() else {
            return;
        };
        if self.place() == Place::Choice {
            self.is_other_choice = number != 0;
            return;
        }
        let sum = match self.key() {
            b"prompt_tokens" => &mut self.prompt,
            _ => &mut self.input,
        };
        *sum = Some(sum.unwrap_or(0).saturating_add(number));
    }
}

#[cfg(test)]
mod tests;
