//! The lines of an event stream and where its events end (WHATWG HTML, section 9.2.6), in
//! whatever pieces they come.
//!
//! Nothing is kept but where in a line it stands: values are handed out as they lie in the
//! pieces. Not here: what events say ([`super::event`]).

/// Follows an event stream.
#[derive(Debug)]
pub(super) struct Lines {
    at: At,
    /// The last byte was a CR that ended a line: a LF belongs to it.
    after_cr: bool,
    /// The event has a data line.
    has_data: bool,
}

/// Where in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At the stream's beginning, where a byte order mark may stand; so many bytes of it came.
    Mark(usize),
    /// In the field's name.
    Name(Name),
    /// After the colon: one space is no part of the value.
    Colon(Field),
    Value(Field),
}

/// As much of a field's name as is needed to tell the two that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    bytes: [u8; LONGEST],
    length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Other,
}

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Nothing that matters.
    Other,
    /// A data line begins; the flag: it is not the event's first.
    DataBegins(bool),
    /// A part of a data line's value.
    Data(&'a [u8]),
    /// A line with the event's name begins: it replaces an earlier one.
    NameBegins,
    /// A part of the event's name.
    Name(&'a [u8]),
    /// The blank line that ends an event; the flag: the event has data, so it counts.
    Ends(bool),
}

const MARK: &[u8; 3] = b"\xef\xbb\xbf";
const LONGEST: usize = b"event".len();
const LINE: At = At::Name(Name {
    bytes: [0; LONGEST],
    length: 0,
});

impl Default for Lines {
    fn default() -> Self {
        Self {
            at: At::Mark(0),
            after_cr: false,
            has_data: false,
        }
    }
}

impl Lines {
    /// Takes what comes next off `bytes`, of which there is at least one: how many bytes it
    /// is, and what.
    #[inline]
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> (usize, Piece<'a>) {
        if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
            return (1, Piece::Other);
        }
        match self.at {
            At::Mark(seen) => (self.mark(seen, bytes[0]), Piece::Other),
            At::Name(name) => self.name(name, bytes),
            At::Colon(field) => {
                self.at = At::Value(field);
                (usize::from(bytes[0] == b' '), Piece::Other)
            }
            At::Value(field) => self.value(field, bytes),
        }
    }

    fn mark(&mut self, seen: usize, byte: u8) -> usize {
        if byte != MARK[seen] {
            // Of a mark that is none, the bytes are a name's.
            self.at = if seen == 0 {
                LINE
            } else {
                At::Name(Name::long())
            };
            return 0;
        }
        self.at = if seen + 1 == MARK.len() {
            LINE
        } else {
            At::Mark(seen + 1)
        };
        1
    }

    fn name<'a>(&mut self, mut name: Name, bytes: &'a [u8]) -> (usize, Piece<'a>) {
        if name.length == 0 {
            // Nearly every line is one of these.
            for (start, field) in [(&b"data:"[..], Field::Data), (b"event:", Field::Event)] {
                if let Some(rest) = bytes.strip_prefix(start)
                    && let Some(first) = rest.first()
                {
                    self.at = At::Value(field);
                    let space = usize::from(*first == b' ');
                    return (start.len() + space, self.begin(field));
                }
            }
        }
        match bytes[0] {
            b'\r' | b'\n' => {
                let length = self.end_line(bytes);
                if name.length == 0 {
                    let counts = std::mem::take(&mut self.has_data);
                    return (length, Piece::Ends(counts));
                }
                // A field without a colon has an empty value.
                (length, self.begin(name.field()))
            }
            b':' => {
                let field = name.field();
                self.at = At::Colon(field);
                (1, self.begin(field))
            }
            byte => {
                name.push(byte);
                self.at = At::Name(name);
                (1, Piece::Other)
            }
        }
    }

    fn value<'a>(&mut self, field: Field, bytes: &'a [u8]) -> (usize, Piece<'a>) {
        let length = memchr::memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
        if length == 0 {
            return (self.end_line(bytes), Piece::Other);
        }
        let value = &bytes[..length];
        let piece = match field {
            Field::Data => Piece::Data(value),
            Field::Event => Piece::Name(value),
            Field::Other => Piece::Other,
        };
        (length, piece)
    }

    fn begin<'a>(&mut self, field: Field) -> Piece<'a> {
        match field {
            Field::Data => Piece::DataBegins(std::mem::replace(&mut self.has_data, true)),
            Field::Event => Piece::NameBegins,
            Field::Other => Piece::Other,
        }
    }

    /// The bytes of the line end that `bytes` begin with; of a CRLF that is cut, the CR.
    fn end_line(&mut self, bytes: &[u8]) -> usize {
        self.at = LINE;
        match bytes {
            [b'\r', b'\n', ..] => 2,
            [b'\r'] => {
                self.after_cr = true;
                1
            }
            _ => 1,
        }
    }
}

impl Name {
    /// None of those that matter.
    fn long() -> Self {
        Self {
            bytes: [0; LONGEST],
            length: LONGEST + 1,
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
        }
        self.length = (self.length + 1).min(LONGEST + 1);
    }

    fn field(&self) -> Field {
        match self.bytes.get(..self.length) {
            Some(b"data") => Field::Data,
            Some(b"event") => Field::Event,
            _ => Field::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Event = (Vec<u8>, Vec<u8>);

    /// Name and data of each event, and where it ends.
    fn read(pieces: &[&[u8]]) -> Vec<(Event, usize)> {
        let (mut events, mut lines) = (Vec::new(), Lines::default());
        let (mut name, mut data) = (Vec::new(), Vec::new());
        let mut at = 0;
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, piece) = lines.next(rest);
                rest = &rest[taken..];
                at += taken;
                match piece {
                    Piece::Other => {}
                    Piece::DataBegins(again) => {
                        data.extend_from_slice(if again { b"\n" } else { b"" });
                    }
                    Piece::Data(more) => data.extend_from_slice(more),
                    Piece::NameBegins => name.clear(),
                    Piece::Name(more) => name.extend_from_slice(more),
                    Piece::Ends(counts) => {
                        let event = (std::mem::take(&mut name), std::mem::take(&mut data));
                        if counts {
                            events.push((event, at));
                        }
                    }
                }
            }
        }
        events
    }

    /// The plain way: all of it, line by line.
    fn naive(stream: &[u8]) -> Vec<Event> {
        let stream = stream.strip_prefix(MARK).unwrap_or(stream);
        let text = String::from_utf8_lossy(stream)
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let mut events = Vec::new();
        let (mut name, mut data): (String, Option<String>) = Default::default();
        let mut lines: Vec<_> = text.split('\n').collect();
        // What no line end follows is no line.
        lines.pop();
        for line in lines {
            if line.is_empty() {
                if let Some(data) = data.take() {
                    events.push((name.clone().into(), data.into()));
                }
                name.clear();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => name = value.to_owned(),
                "data" => {
                    data = Some(match data {
                        Some(before) => format!("{before}\n{value}"),
                        None => value.to_owned(),
                    });
                }
                _ => {}
            }
        }
        events
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = proptest::sample::select(vec![
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "data",
            "data:",
            "data: x",
            "data:  {\"a\":1}",
            "event: ping",
            "event:",
            "event",
            "event:é",
            ": comment",
            "id: 7",
            "retry:3",
            "datax: 1",
            "日本",
            "\u{feff}",
            " ",
            ":",
            "dat",
        ]);
        proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn reads_what_the_plain_way_reads_however_it_is_cut(stream in stream()) {
            let whole = read(&[&stream]);
            let events: Vec<_> = whole.iter().map(|(event, _)| event.clone()).collect();
            prop_assert_eq!(&events, &naive(&stream));
            for size in [1, 2, 3] {
                let cut: Vec<_> = stream.chunks(size).collect();
                let cut: Vec<_> = read(&cut).into_iter().map(|(event, _)| event).collect();
                prop_assert_eq!(&cut, &events);
            }
            for at in 0..=stream.len() {
                let cut = read(&[&stream[..at], &stream[at..]]);
                let cut: Vec<_> = cut.into_iter().map(|(event, _)| event).collect();
                prop_assert_eq!(&cut, &events);
            }
        }

        #[test]
        fn an_event_ends_where_another_may_be_put(stream in stream()) {
            for (_, end) in read(&[&stream]) {
                let mut boundary = crate::relay::Boundary::default();
                boundary.pass(&stream[..end]);
                prop_assert!(boundary.is_between_events());
                prop_assert!(!(stream[end - 1] == b'\r' && stream.get(end) == Some(&b'\n')));
            }
        }
    }

    #[test]
    fn the_usual_shapes() {
        let event = |name: &str, data: &str| (name.into(), data.into());
        for (stream, expected) in [
            ("event: a\ndata: 1\n\n", vec![event("a", "1")]),
            ("event:a\r\ndata:1\r\n\r\n", vec![event("a", "1")]),
            ("event: a\rdata: 1\r\r", vec![event("a", "1")]),
            ("\u{feff}data: 1\n\n", vec![event("", "1")]),
            ("data: 1\ndata: 2\nevent: a\n\n", vec![event("a", "1\n2")]),
            ("data:  1 \n\n", vec![event("", " 1 ")]),
            (": x\n\ndata\n\n", vec![event("", "")]),
            ("event: lost\n\ndata: 1\n\n", vec![event("", "1")]),
            ("event: a\nevent: b\ndata: 1\n\n", vec![event("b", "1")]),
            ("data: 1\n", vec![]),
        ] {
            let events: Vec<_> = read(&[stream.as_bytes()])
                .into_iter()
                .map(|(event, _)| event)
                .collect();
            assert_eq!(events, expected, "{stream:?}");
        }
    }
}
