//! The `edge` binary. Everything is in the library, where it can be tested.

fn main() -> std::process::ExitCode {
    edge_userspace::cli::main()
}
