//! An upstream shaped like the Messages API, with set delays and deterministic text.
