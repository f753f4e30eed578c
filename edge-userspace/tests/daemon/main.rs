//! The daemon as a process: how it starts, what it says, how it stops.

mod memory;
mod process;
mod reload;
mod secrets;
mod start;
mod stop;
mod usage;
