//! What a request's body asks a model to read, counted in tokens while it arrives.
//!
//! [`json`] reads the body in the chunks in which it comes, and hands on its strings without
//! keeping them.

pub mod json;
