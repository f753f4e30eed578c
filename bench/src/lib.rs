//! Benches that assert the answer they time.
