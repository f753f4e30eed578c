//! The kinds of characters in the tables of `super`, which the build script works out, one
//! for each form.

/// It is left as it is, whatever precedes it, and nothing that precedes it is changed.
pub(crate) const PLAIN: u8 = 0;
/// From 1 up to this, the combining class of a mark that is left as it is behind marks of the
/// same or a lower class: it composes with nothing.
pub(crate) const LAST_CLASS: u8 = 240;
/// It may compose with what precedes it, or is a mark that changes.
pub(crate) const COMBINES: u8 = 254;
/// It changes, but neither it nor what precedes it has to do with the other.
pub(crate) const CHANGES: u8 = 255;
