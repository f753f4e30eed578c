//! What an upstream says that it counted, read beside a response that is relayed.
//!
//! Of the Messages API the `usage` of a message or of an event stream's `message_start`: input
//! tokens, those that were written to and read from a cache among them. Of the Chat Completions
//! API `usage.prompt_tokens`. Nothing is kept of the response.

use super::json::{Duplicate, Reader, Visit};
use super::reading::Learn;

/// What an event stream may say before its usage; of a longer one nothing is learnt.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// A field's name that matters, and a little more.
const NAME_BYTES: usize = 32;

/// Reads one response.
#[derive(Debug)]
pub struct Usage {
    learn: Learn,
    reader: Reader,
    found: Found,
    /// None: the body is one JSON text.
    line: Option<Line>,
    read_bytes: usize,
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

impl Usage {
    /// For a body that is JSON, or an event stream of JSON.
    #[must_use]
    pub fn new(learn: Learn, is_event_stream: bool) -> Self {
        Self {
            learn,
            reader: Reader::new(),
            found: Found::default(),
            line: is_event_stream.then_some(Line::Name(0)),
            read_bytes: 0,
        }
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
                self.events(line, bytes) || self.read_bytes > MAX_EVENT_BYTES
            }
        }
    }

    fn events(&mut self, mut line: Line, mut bytes: &[u8]) -> bool {
        while let Some(&first) = bytes.first() {
            if first == b'\n' || first == b'\r' {
                if line == Line::Data && self.take_found() {
                    return true;
                }
                self.reader = Reader::new();
                self.found = Found::default();
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

    /// Learns from what has been found, once that is whole.
    fn take_found(&mut self) -> bool {
        match self.found.tokens() {
            Some(tokens) => {
                self.learn.observe(tokens);
                true
            }
            None => false,
        }
    }
}

/// Looks for the usage in one JSON text.
#[derive(Debug, Default)]
struct Found {
    /// What the open objects are, the outermost first; deeper ones are nothing that matters.
    places: [Place; 3],
    depth: usize,
    key: [u8; NAME_BYTES],
    key_length: usize,
    number: Option<u64>,
    /// In the words of the Messages API, and in those of Chat Completions: some gateways say
    /// the same in both.
    input: Option<u64>,
    prompt: Option<u64>,
    is_over: bool,
    is_key: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nothing,
    Root,
    Message,
    Usage,
}

impl Found {
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
        let place = match (self.depth, self.place(), self.key()) {
            (0, ..) => Place::Root,
            (_, Place::Root, b"message") => Place::Message,
            (_, Place::Root | Place::Message, b"usage") => Place::Usage,
            _ => Place::Nothing,
        };
        self.open(place);
    }

    fn end_object(&mut self) {
        self.is_over |= self.place() == Place::Usage;
        self.depth -= 1;
    }

    fn begin_array(&mut self) {
        self.open(Place::Nothing);
    }

    fn end_array(&mut self) {
        self.depth -= 1;
    }

    fn begin_string(&mut self, is_key: bool) {
        self.is_key = is_key;
        if is_key {
            self.key_length = 0;
        }
    }

    fn string(&mut self, piece: &[u8]) {
        if self.is_key {
            let from = self.key_length.min(NAME_BYTES);
            let taken = piece.len().min(NAME_BYTES - from);
            self.key[from..from + taken].copy_from_slice(&piece[..taken]);
            self.key_length += piece.len();
        }
    }

    fn end_string(&mut self) -> Result<(), Duplicate> {
        Ok(())
    }

    fn begin_number(&mut self) {
        let counts = self.place() == Place::Usage
            && matches!(
                self.key(),
                b"input_tokens"
                    | b"cache_creation_input_tokens"
                    | b"cache_read_input_tokens"
                    | b"prompt_tokens"
            );
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
        if let Some(number) = self.number.take() {
            let sum = match self.key() {
                b"prompt_tokens" => &mut self.prompt,
                _ => &mut self.input,
            };
            *sum = Some(sum.unwrap_or(0).saturating_add(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calibration::Calibration;
    use super::*;
    use std::sync::Arc;

    /// What is found in a response, whole and in pieces.
    fn found(body: &str, is_event_stream: bool) -> Option<u64> {
        let mut tokens = Vec::new();
        for size in [1, 7, 1000] {
            let calibration = Arc::new(Calibration::new(1, None));
            let learn = Learn::new(Arc::clone(&calibration), b"m".as_slice().into(), 1000, 0);
            let mut usage = Usage::new(learn, is_event_stream);
            for piece in body.as_bytes().chunks(size) {
                if usage.pass(piece) {
                    break;
                }
            }
            let observed = calibration
                .learnt()
                .first()
                .map(|learnt| learnt.observations);
            assert_eq!(observed.is_some(), usage.found.tokens().is_some());
            tokens.push(usage.found.tokens());
        }
        assert!(tokens.iter().all(|other| *other == tokens[0]), "{tokens:?}");
        tokens[0]
    }

    #[test]
    fn usage_is_where_the_apis_have_it() {
        let usage = r#""usage":{"input_tokens":1200,"cache_creation_input_tokens":30,"cache_read_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":7},"output_tokens":9,"service_tier":"standard"}"#;
        let message = format!(
            r#"{{"type":"message","content":[{{"text":"usage","usage":{{"input_tokens":5}}}}],{usage}}}"#
        );
        assert_eq!(found(&message, false), Some(1234));
        let start = format!(r#"{{"type":"message_start","message":{{"content":[],{usage}}}}}"#);
        let chat = r#"{"choices":[],"usage":{"prompt_tokens":77,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#;
        for end in ["\n", "\r\n", "\r"] {
            for data in ["data: ", "data:"] {
                let events = format!(
                    "event: ping{end}{data}{{\"type\":\"ping\"}}{end}{end}: comment{end}event: message_start{end}{data}{start}{end}{end}"
                );
                assert_eq!(found(&events, true), Some(1234));
                let events = format!(
                    "{data}{{\"usage\":null}}{end}{end}{data}{chat}{end}{end}{data}[DONE]{end}{end}"
                );
                assert_eq!(found(&events, true), Some(77));
            }
        }
        assert_eq!(found(chat, false), Some(77));
        let both = r#"{"usage":{"prompt_tokens":77,"input_tokens":77,"output_tokens":5}}"#;
        assert_eq!(found(both, false), Some(77));
    }

    #[test]
    fn what_is_no_usage_teaches_nothing() {
        for body in [
            "{}",
            r#"{"usage":null}"#,
            r#"{"usage":{"output_tokens":3}}"#,
            r#"{"usage":{"input_tokens":1.5}}"#,
            r#"{"usage":{"input_tokens":-1}}"#,
            r#"{"usage":{"input_tokens":99999999999999999999999}}"#,
            r#"{"usage":{"input_tokens":"7"}}"#,
            r#"{"usage":{"input_tokens":7"#,
            r#"{"other":{"usage":{"input_tokens":7}}}"#,
            r#"[{"usage":{"input_tokens":7}}]"#,
            "no JSON",
        ] {
            assert_eq!(found(body, false), None, "{body}");
            assert_eq!(found(&format!("data: {body}\n\n"), true), None, "{body}");
        }
    }
}
