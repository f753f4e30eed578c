//! Pieces that go on and on: runs of one kind, of which a text that arrives in parts holds no
//! more than the state of their merging.

use crate::merge::{self, Endless};
use crate::pattern::Pattern;
use crate::pattern::class::{self, LETTER, LOWER, NUMBER, SPACE, UPPER};

/// One piece, or a run of white space, whose end has not arrived.
pub(super) struct LongPiece {
    pattern: Pattern,
    state: State,
    /// All of it.
    whole: Endless,
    /// What is behind the mark of `whole`: of a word, capitals that may be a word of their own;
    /// of white space, what follows the last line end.
    behind: Behind,
    is_marked: bool,
    /// Of white space, its last character; of a word, what may be its contraction.
    held: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Characters with one of these bits.
    Run(u8),
    /// What is neither white space, letter nor number.
    Rest,
    /// Its line ends.
    Tail,
    /// The first half of a word of o200k_base, and the second.
    Upper,
    Lower,
    /// What may be the contraction of a word.
    Suffix,
    White,
}

/// What a piece comes to: its tokens, and what was taken but belongs to what follows.
pub(super) struct Ended {
    pub(super) tokens: u64,
    pub(super) given_back: Vec<u8>,
}

impl LongPiece {
    /// The piece that `text` starts with, which is known to reach its end; nothing of it has
    /// been pushed.
    pub(super) fn new(pattern: Pattern, merge: &merge::Shared<'_>, text: &[u8]) -> (Self, usize) {
        let (first, length) = class::at(text, 0);
        let second = text.get(length).map_or(0, |_| class::at(text, length).0);
        let word = match pattern {
            Pattern::O200k => UPPER | LOWER,
            _ => LETTER,
        };
        let is_newline = matches!(text[0], b'\r' | b'\n');
        let takes_word = match pattern {
            Pattern::Gpt2 => text[0] == b' ',
            _ => first & (LETTER | NUMBER) == 0 && !is_newline,
        };
        let prefix = |takes: bool| if takes { length } else { 0 };
        let (state, start) = if first & word != 0 {
            (Self::word(pattern), 0)
        } else if takes_word && second & word != 0 {
            (Self::word(pattern), length)
        } else if pattern == Pattern::Gpt2
            && (first | if takes_word { second } else { 0 }) & NUMBER != 0
        {
            (State::Run(NUMBER), prefix(first & NUMBER == 0))
        } else if first & SPACE != 0 && (text[0] != b' ' || second & SPACE != 0) {
            (State::White, 0)
        } else {
            (State::Rest, prefix(text[0] == b' '))
        };
        let mut whole = Endless::new(merge);
        whole.push(merge, &text[..start]);
        let piece = Self {
            pattern,
            state,
            whole,
            behind: Behind::default(),
            is_marked: false,
            held: Vec::new(),
        };
        (piece, start)
    }

    fn word(pattern: Pattern) -> State {
        match pattern {
            Pattern::O200k => State::Upper,
            _ => State::Run(LETTER),
        }
    }

    /// More of the text, whole characters. Answers how much of it was taken, and whether the
    /// piece has ended there.
    pub(super) fn push(&mut self, merge: &merge::Shared<'_>, text: &[u8]) -> (usize, bool) {
        let (mut at, mut pushed) = (0, 0);
        while at < text.len() {
            let (bits, length) = class::at(text, at);
            let next = self.next(bits, text[at]);
            let Some(next) = next else {
                self.add(merge, &text[pushed..at]);
                return (at, true);
            };
            let character = &text[at..at + length];
            match next {
                State::White => {
                    let end = at + white_space(&text[at..]);
                    self.white(merge, &text[at..end]);
                    (at, pushed) = (end, end);
                    continue;
                }
                State::Upper => {
                    let both = bits & LOWER != 0;
                    if both {
                        self.behind.clear();
                        self.add(merge, &text[pushed..at + length]);
                        pushed = at + length;
                        self.whole.mark(merge);
                        self.is_marked = true;
                    } else if self.is_marked {
                        self.behind.push(merge, character);
                    }
                }
                State::Suffix => {
                    self.add(merge, &text[pushed..at]);
                    pushed = at + length;
                    self.held.extend_from_slice(character);
                    if self.held.len() >= 3 || self.contraction().is_some() {
                        self.state = next;
                        return (at + length, true);
                    }
                }
                State::Lower => self.behind.clear(),
                _ => {}
            }
            self.state = next;
            at += length;
        }
        self.add(merge, &text[pushed..]);
        (at, false)
    }

    /// The state with one more character; `None` if it does not belong to the piece.
    fn next(&self, bits: u8, first: u8) -> Option<State> {
        let is_newline = matches!(first, b'\r' | b'\n');
        let is_tail = self.pattern != Pattern::Gpt2 && is_newline
            || self.pattern == Pattern::O200k && first == b'/';
        match self.state {
            State::Run(class) => (bits & class != 0).then_some(self.state),
            State::Rest if bits & (SPACE | LETTER | NUMBER) == 0 => Some(State::Rest),
            State::Rest | State::Tail => is_tail.then_some(State::Tail),
            State::Upper if bits & UPPER != 0 => Some(State::Upper),
            State::Upper | State::Lower if bits & LOWER != 0 => Some(State::Lower),
            State::Upper | State::Lower => (first == b'\'').then_some(State::Suffix),
            State::Suffix => Some(State::Suffix),
            State::White => (bits & SPACE != 0).then_some(State::White),
        }
    }

    /// Adds bytes to the whole piece.
    fn add(&mut self, merge: &merge::Shared<'_>, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.whole.push(merge, bytes);
        }
    }

    /// More white space.
    fn white(&mut self, merge: &merge::Shared<'_>, white: &[u8]) {
        let lines = match self.pattern {
            Pattern::Gpt2 => None,
            _ => white.iter().rposition(|byte| matches!(byte, b'\r' | b'\n')),
        };
        let (lines, blanks) = white.split_at(lines.map_or(0, |last| last + 1));
        if !lines.is_empty() {
            self.whole.push(merge, lines);
            self.whole.mark(merge);
            self.is_marked = true;
            self.behind.clear();
            self.held.clear();
        }
        self.add(merge, blanks);
        if self.is_marked {
            self.behind.push(merge, blanks);
        }
        if let Some(last) = blanks.iter().rposition(|byte| byte & 0xc0 != 0x80) {
            self.held.clear();
            self.held.extend_from_slice(&blanks[last..]);
        }
    }

    /// The length of the contraction that what is held starts with, once that is certain.
    fn contraction(&self) -> Option<usize> {
        let [b'\'', rest @ ..] = &self.held[..] else {
            return None;
        };
        let fold = |i: usize| rest.get(i).map(u8::to_ascii_lowercase);
        match (fold(0), fold(1)) {
            (Some(b's' | b'd' | b'm' | b't'), _) => Some(2),
            (Some(b'l'), Some(b'l')) | (Some(b'v' | b'r'), Some(b'e')) => Some(3),
            (Some(0xc5), Some(0xbf)) => Some(3),
            _ => None,
        }
    }

    /// Ends the piece: by what follows it, or by the end of the text.
    pub(super) fn end(mut self, merge: &merge::Shared<'_>, text_ends: bool) -> Ended {
        match self.state {
            State::White => self.end_white(merge, text_ends),
            State::Upper | State::Suffix => {
                let suffix = self.contraction().unwrap_or(0);
                let given_back = self.held.split_off(suffix);
                let held = std::mem::take(&mut self.held);
                let tokens = if self.behind.is_empty() {
                    self.whole.push(merge, &held);
                    self.whole.finish(merge)
                } else {
                    // The last that is both was given back to the first word.
                    self.behind.push(merge, &held);
                    self.whole.finish_at_mark(merge) + self.behind.finish_before(merge, 0)
                };
                Ended { tokens, given_back }
            }
            _ => Ended {
                tokens: self.whole.finish(merge),
                given_back: Vec::new(),
            },
        }
    }

    fn end_white(self, merge: &merge::Shared<'_>, text_ends: bool) -> Ended {
        if text_ends && self.pattern == Pattern::Cl100k {
            return Ended {
                tokens: self.whole.finish(merge),
                given_back: Vec::new(),
            };
        }
        // The last blank goes with what follows.
        let given_back = if text_ends { Vec::new() } else { self.held };
        let tokens = if self.is_marked {
            let blanks = self.behind.finish_before(merge, given_back.len());
            self.whole.finish_at_mark(merge) + blanks
        } else {
            self.whole.finish_before(merge, given_back.len())
        };
        Ended { tokens, given_back }
    }
}

/// The bytes of white space that a text starts with.
fn white_space(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        let (bits, length) = class::at(text, at);
        if bits & SPACE == 0 {
            break;
        }
        at += length;
    }
    at
}

/// What may be a piece of its own, and mostly is short or nothing.
#[derive(Default)]
struct Behind {
    few: Vec<u8>,
    many: Option<Endless>,
}

impl Behind {
    /// So many bytes are kept as they are.
    const FEW: usize = 256;

    fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_none()
    }

    fn clear(&mut self) {
        self.few.clear();
        self.many = None;
    }

    fn push(&mut self, merge: &merge::Shared<'_>, bytes: &[u8]) {
        if let Some(many) = &mut self.many {
            many.push(merge, bytes);
        } else if self.few.len() + bytes.len() <= Self::FEW {
            self.few.extend_from_slice(bytes);
        } else {
            let mut many = Endless::new(merge);
            many.push(merge, &self.few);
            many.push(merge, bytes);
            self.few.clear();
            self.many = Some(many);
        }
    }

    /// The tokens of all but the last bytes.
    fn finish_before(self, merge: &merge::Shared<'_>, last_bytes: usize) -> u64 {
        let many = self.many.unwrap_or_else(|| {
            let mut few = Endless::new(merge);
            few.push(merge, &self.few);
            few
        });
        many.finish_before(merge, last_bytes)
    }
}
