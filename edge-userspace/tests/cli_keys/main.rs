//! The commands that need no daemon, as a person would type them.

mod changed;
mod check;
mod made;
mod place;
