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
    behind: Option<Endless>,
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
            behind: None,
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
                    self.white(merge, character);
                    pushed = at + length;
                }
                State::Upper => {
                    let both = bits & LOWER != 0;
                    if both || !self.is_marked {
                        self.behind = None;
                    } else if let Some(behind) = &mut self.behind {
                        behind.push(merge, character);
                    } else {
                        let mut behind = Endless::new(merge);
                        behind.push(merge, character);
                        self.behind = Some(behind);
                    }
                    if both {
                        self.add(merge, &text[pushed..at + length]);
                        pushed = at + length;
                        self.whole.mark();
                        self.is_marked = true;
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
                State::Lower => self.behind = None,
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

    /// One character of white space.
    fn white(&mut self, merge: &merge::Shared<'_>, character: &[u8]) {
        self.whole.push(merge, character);
        let newline = matches!(character[0], b'\r' | b'\n') && self.pattern != Pattern::Gpt2;
        if newline {
            self.whole.mark();
            self.is_marked = true;
            self.behind = None;
            self.held.clear();
            return;
        }
        let behind = self.behind.get_or_insert_with(|| Endless::new(merge));
        // What there is without the last character.
        behind.mark();
        behind.push(merge, character);
        self.held.clear();
        self.held.extend_from_slice(character);
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
                let tokens = match self.behind {
                    // The last that is both was given back to the first word.
                    Some(mut behind) => {
                        behind.push(merge, &held);
                        self.whole.finish_at_mark(merge) + behind.finish(merge)
                    }
                    None => {
                        self.whole.push(merge, &held);
                        self.whole.finish(merge)
                    }
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
        let lines = match self.is_marked {
            true => self.whole.finish_at_mark(merge),
            false => 0,
        };
        let blanks = match self.behind {
            Some(behind) if text_ends => behind.finish(merge),
            Some(behind) => behind.finish_at_mark(merge),
            None => 0,
        };
        Ended {
            tokens: lines + blanks,
            given_back: if text_ends { Vec::new() } else { self.held },
        }
    }
}
