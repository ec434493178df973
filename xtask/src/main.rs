//! `cargo xtask`: set-up, build, demo and tests of pbg-host. See `cargo xtask --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::main()
}
