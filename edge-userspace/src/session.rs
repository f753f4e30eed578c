//! Who is bound to a connection, and how a connection ends when its key does.
