//! The command line: one file a command, each with its arguments and what it does.
//!
//! What a command is asked for goes to standard output, everything else to standard error,
//! so that outputs can be piped. Exit codes: 0 good, 1 failed, 2 wrong usage.

mod check;
mod connect;
mod count;
mod demo_model;
mod fingerprint;
mod keys;
mod moment;
mod output;
mod run;
mod status;
mod token;
mod verify_layer;

use clap::{Parser, Subcommand};
use output::Failure;
use std::process::ExitCode;

/// The zero-layer edge: a token in the TLS ClientHello decides, in the kernel where it can.
#[derive(Parser)]
#[command(
    name = "edge",
    version,
    // `edge -V` is for scripts, `edge --version` also tells which XDP object is inside.
    long_version = concat!(
        env!("CARGO_PKG_VERSION"),
        "\nXDP object: ",
        env!("EDGE_EBPF_PROVENANCE")
    ),
    propagate_version = true,
    max_term_width = 100
)]
struct Edge {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Check(check::Check),
    Keys(keys::Keys),
    Token(token::Token),
    Connect(connect::Connect),
    Status(status::Status),
    DemoModel(demo_model::DemoModel),
    VerifyLayer(verify_layer::VerifyLayer),
    Count(count::CountTokens),
    Fingerprint(fingerprint::Fingerprint),
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let edge = Edge::parse();
    let outcome = match edge.command {
        Command::Run(run) => run.run(),
        Command::Check(check) => check.run(),
        Command::Keys(keys) => keys.run(),
        Command::Token(token) => token.run(),
        Command::Connect(connect) => connect.run(),
        Command::Status(status) => status.run(),
        Command::DemoModel(demo_model) => demo_model.run(),
        Command::VerifyLayer(verify_layer) => verify_layer.run(),
        Command::Count(count) => count.run(),
        Command::Fingerprint(fingerprint) => fingerprint.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has heard enough.
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Usage(text)) => {
            eprintln!("edge: {text}");
            ExitCode::from(2)
        }
        Err(Failure::Because(text)) => {
            eprintln!("edge: {text}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Edge::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn look(command: &clap::Command) {
            let name = command.get_name();
            let commands: Vec<_> = command.get_subcommands().collect();
            if commands.is_empty() {
                let help = command.get_after_help().map(ToString::to_string);
                let help = help.unwrap_or_default();
                assert!(help.starts_with("Example"), "edge {name} shows no example");
                assert!(help.contains("  edge "), "edge {name}");
            }
            for command in commands {
                look(command);
            }
        }
        look(&super::Edge::command());
    }
}
