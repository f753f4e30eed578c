//! What is held back for one request while it runs.

/// How much a request holds back, tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Of the prompt, by the edge's own count: of the minute's input, and of the day.
    pub input: u64,
    /// Of the answer, of the minute's output.
    pub output: u64,
    /// Of the answer, of the day: all that a whole answer may have, since it cannot be cut.
    /// 0 of a stream, which is cut when it passes the day.
    pub whole: u64,
}
