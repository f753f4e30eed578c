//! Logs: tracing events to standard error, panics among them.

use crate::config::Log;
use std::io::IsTerminal as _;
use std::panic;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Starts to write logs as configured.
pub(super) fn start(config: &Log) -> Result<(), ParseError> {
    let filter = EnvFilter::builder().parse(&config.filter)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if config.json {
        lines.json().init();
    } else {
        lines.init();
    }
    panic::set_hook(Box::new(|info| {
        // A formatted message may hold anything, what a client sent too; a literal cannot.
        let message = info.payload().downcast_ref::<&'static str>();
        tracing::error!(
            at = info.location().map(tracing::field::display),
            thread = std::thread::current().name(),
            message = message.unwrap_or(&"(its text is not shown)"),
            "panic: this is a fault of the program, please report it"
        );
    }));
    Ok(())
}
