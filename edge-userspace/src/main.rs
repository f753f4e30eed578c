//! The `edge` binary. Everything is in the library, where it can be tested.

#[global_allocator]
static ALLOCATOR: edge_userspace::memory::Allocator = edge_userspace::memory::Allocator;

fn main() -> std::process::ExitCode {
    edge_userspace::cli::main()
}
