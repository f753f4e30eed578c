//! Puts the parts together: start, reload, drain, stop.
