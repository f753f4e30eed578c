//! The admin address: `/metrics`, `/livez`, `/readyz`, `/status`.
