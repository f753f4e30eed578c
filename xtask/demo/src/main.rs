//! `edge-demo`: what the demo needs of TLS on the client's side.

mod certificate;
mod client;

use clap::Parser;
use std::process::ExitCode;

/// Tools of `cargo xtask run`; each works by hand as well.
#[derive(Parser, Debug)]
#[command(version)]
enum Command {
    /// One TLS client; says what it saw in lines of JSON.
    Client(client::Options),
    /// A throw-away authority and a server certificate.
    Certificate(certificate::Options),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Client(options) => client::main(&options),
        Command::Certificate(options) => certificate::main(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
