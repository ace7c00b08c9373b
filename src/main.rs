//! Builds the real world, runs the command line, returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    gpuctl::run()
}
