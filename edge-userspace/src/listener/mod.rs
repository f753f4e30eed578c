//! Accepts connections, judges the hello again in full, terminates TLS.
