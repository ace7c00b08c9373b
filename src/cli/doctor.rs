//! `doctor`: for now the rules that let autoscaling see GPUs; what they say is tried with a real adapter in the tests.

use std::process::ExitCode;

use clap::Args;

use crate::error::Error;

use super::World;

/// Print what a cluster needs for gpuctl's features
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl doctor --adapter-rules > rules.yaml")]
pub struct Doctor {
    /// Print rules for prometheus-adapter that serve GPU utilization and memory to autoscaling
    #[arg(long, required = true)]
    adapter_rules: bool,
}

/// What `examples/autoscaling` has: one text, so that both stay the same.
const ADAPTER_RULES: &str = include_str!("../../examples/autoscaling/prometheus-adapter.yaml");

pub fn run(args: &Doctor, world: &World) -> Result<ExitCode, Error> {
    debug_assert!(args.adapter_rules, "clap requires the only flag");
    world.terminal.print(ADAPTER_RULES)?;
    Ok(ExitCode::SUCCESS)
}
