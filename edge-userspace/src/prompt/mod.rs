//! What a request's body asks a model to read, counted in tokens while it arrives.
//!
//! [`Reading`] takes the body in the pieces in which it comes. [`json`] reads them, a walk
//! gives each value to whom it belongs ([`place`], by the tables of [`messages`] and [`chat`]),
//! a tally counts the texts by the model's way ([`counters`]), [`guard`] refuses what is too
//! long, and [`Count`] says what it comes to. [`calibration`] learns of models whose tokenizer
//! is not published, and [`Output`] counts what a model writes.
//!
//! Not here: the tokenizers ([`crate::tokens`]), and what a refusal looks like
//! ([`crate::api`]).

pub mod calibration;
mod chat;
mod count;
mod counters;
pub mod decode;
mod guard;
pub mod image;
pub mod json;
mod learn;
mod listen;
mod messages;
mod output;
mod pieces;
mod place;
mod prefixes;
mod reading;
mod room;
mod shared;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

pub use count::{Count, Kind, Parts};
pub use counters::Counters;
pub use guard::{Limits, TooLong, Whose};
pub use learn::Learn;
pub use output::Output;
#[cfg(test)]
pub(crate) use output::output_for_tests;
pub use place::Part;
pub use prefixes::Prefixes;
pub use reading::{Counted, Reading, Refusal};
pub use room::{Held, Room};
pub use shared::Prompts;
pub use walk::Shape;
