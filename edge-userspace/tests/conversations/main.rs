//! Conversations as real clients send them: where the next turn meets what the turn before it
//! left, and where it must not.

mod edge;
mod names;
mod next_turn;
mod written;
