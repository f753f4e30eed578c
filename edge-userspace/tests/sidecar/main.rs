//! `edge connect` between programs and edges: real edges with a demo model behind them, and edges
//! that play a script where a rule needs one.

mod command;
mod killed;
mod one_edge;
mod program;
mod rules;
mod scripted;
mod setup;
mod waiting;

#[expect(dead_code, reason = "the daemon's tests use the rest")]
#[path = "../daemon/process.rs"]
mod process;
#[expect(dead_code, reason = "the data path's tests use the rest")]
#[path = "../data_path/world.rs"]
mod world;
