//! `cargo xtask run`: the edge at work, with real clients, in network namespaces of its own.

use std::process::ExitCode;

/// Show the edge at work.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// End after the table instead of running until Ctrl-C; exits 0 only when every row is as
    /// expected.
    #[arg(long)]
    once: bool,

    /// Decide everything in userspace, as on a machine without BPF.
    #[arg(long)]
    no_xdp: bool,
}

/// Runs the demo.
///
/// # Errors
/// When it could not be started; a row that is not as expected is an exit code of 1.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "the demo has not landed in {} yet (once: {}, no-xdp: {})",
        crate::workspace().display(),
        args.once,
        args.no_xdp
    )
}
