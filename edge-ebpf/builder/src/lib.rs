//! Finds the BPF toolchain, builds the XDP object, and tells a stale object from a fresh one.
