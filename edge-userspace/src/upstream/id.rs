//! The name of an upstream in memory.

/// An upstream: its place in the configuration's list. The same name keeps its place across
/// reloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamId(pub u16);
