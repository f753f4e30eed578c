//! Bytes from upstream to client, untouched; back-pressure and cancellation both ways.
