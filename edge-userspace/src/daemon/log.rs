//! Logs: tracing events to standard error, panics among them.
//!
//! A thread of its own writes them: whoever reads them may be slow or stand still, and no
//! serving thread waits for that. What does not fit the bounded queue is lost and counted.

use crate::config::Log;
use std::any::Any;
use std::io::IsTerminal as _;
use std::panic;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Lines that wait to be written.
const QUEUE_LINES: usize = 8192;

/// The running log. Dropping it writes out what waits, as far as the reader takes it.
pub(super) struct Running {
    _writer: WorkerGuard,
    /// Counts the lines that were lost.
    pub(super) lost: ErrorCounter,
}

/// Starts to write logs as configured.
pub(super) fn start(config: &Log) -> Result<Running, ParseError> {
    // A look at every change in the key store's directory, which may be the log's as well: its
    // lines would make more of themselves.
    let filter = EnvFilter::builder().parse(format!("{},notify=info", config.filter))?;
    let (queue, writer) = NonBlockingBuilder::default()
        .buffered_lines_limit(QUEUE_LINES)
        .lossy(true)
        .thread_name("edge-log")
        .finish(std::io::stderr());
    let running = Running {
        _writer: writer,
        lost: queue.error_counter(),
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue)
        .with_ansi(std::io::stderr().is_terminal());
    if config.json {
        lines.json().init();
    } else {
        lines.init();
    }
    panic::set_hook(Box::new(|info| {
        tracing::error!(
            at = info.location().map(tracing::field::display),
            thread = std::thread::current().name(),
            message = message(info.payload()),
            "panic: this is a fault of the program, please report it"
        );
    }));
    Ok(running)
}

/// What is shown of a panic's text. A formatted one may hold anything, what a client sent
/// too; a literal cannot.
fn message(payload: &(dyn Any + Send)) -> &'static str {
    (payload.downcast_ref::<&'static str>()).unwrap_or(&"(its text is not shown)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literal_texts_of_panics_are_shown() {
        let caught = |panics: fn()| panic::catch_unwind(panics).unwrap_err();
        let literal = caught(|| panic!("a literal"));
        assert_eq!(message(&*literal), "a literal");
        let formatted = caught(|| panic!("of {}", std::hint::black_box("sk-edge-test")));
        assert_eq!(message(&*formatted), "(its text is not shown)");
        let unwrapped = caught(|| {
            let parsed = std::hint::black_box("sk-edge-test").parse::<u8>();
            parsed.expect("sk-edge-test");
        });
        assert_eq!(message(&*unwrapped), "(its text is not shown)");
    }
}
