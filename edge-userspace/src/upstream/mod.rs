//! Connections to the upstream: a pool of our own on hyper's client connections.
