//! Runs the command line and exits with its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    gpuctl::run()
}
