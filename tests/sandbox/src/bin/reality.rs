//! `cargo reality`: runs the tests that need a real node or a real queue controller. Reports first
//! which parts it builds and which requirements this machine does not meet. They are separate from
//! `cargo test`, which every newcomer can run.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use gpuctl_sandbox::binaries::{Binaries, Extras, missing};
use gpuctl_sandbox::node_requirements::{UnmetRequirement, unmet_requirement};

const USAGE: &str = "usage: cargo reality [--slow] [-- OPTIONS OF THE TESTS]
  Runs the tests that need a real kubelet. They need Linux, root, a C compiler, Rust and Go.
  --slow  also run tests that take minutes each, and tests with a real Kueue and a real Volcano, which take about 25 minutes to build once
Exits with 1 when a test fails or a requirement is missing, and with 3 when this kernel or its container forbids a real node.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, tests) = match arguments.iter().position(|argument| argument == "--") {
        Some(index) => (&arguments[..index], &arguments[index + 1..]),
        None => (&arguments[..], &[][..]),
    };
    let slow = match options.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--slow"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(unmet_requirement) = unmet_requirement() {
        eprintln!("reality: {unmet_requirement}");
        return ExitCode::from(
            if matches!(unmet_requirement, UnmetRequirement::Forbidden(_)) {
                3
            } else {
                1
            },
        );
    }
    match run(slow, tests) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reality: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(slow: bool, tests: &[String]) -> Result<bool> {
    let extras = Extras {
        real_node: true,
        stores: true,
        helm: true,
        kueue: slow,
        volcano: slow,
        lws: slow,
        ..Extras::default()
    };
    let missing = missing(extras)?;
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
        let minutes: u32 = missing.iter().map(|(_, minutes)| minutes).sum();
        eprintln!(
            "reality: builds {} first, once: about {minutes} minutes on two cores",
            names.join(", ")
        );
    }
    Binaries::ready(extras)?;
    // Only the browser needs npm, so its absence is not an error.
    let browser = match gpuctl_sandbox::browser::ready() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("reality: skipping the browser test of `report -o html`: {error:#}");
            false
        }
    };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = Command::new(cargo)
        .current_dir(root)
        .args([
            "test",
            "--locked",
            "--no-fail-fast",
            "--test",
            "reality",
            "--test",
            "stores",
        ])
        .args(
            browser
                .then_some(["--test", "browser"])
                .into_iter()
                .flatten(),
        )
        .args(slow.then_some(["--test", "queues"]).into_iter().flatten())
        .arg("--")
        .args(slow.then_some("--include-ignored"))
        .args(tests)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}
