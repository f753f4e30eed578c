//! Logs: tracing events to standard error, panics among them.

use crate::config::Log;
use std::any::Any;
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
        tracing::error!(
            at = info.location().map(tracing::field::display),
            thread = std::thread::current().name(),
            message = message(info.payload()),
            "panic: this is a fault of the program, please report it"
        );
    }));
    Ok(())
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
