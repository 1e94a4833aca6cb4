//! The `sluice` binary.

/// A request makes some hundred small allocations on its way; this allocator makes them for half the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    sluice::cli::main()
}
