//! `version`: what this program is, for people and for programs. Asks no cluster.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::error::Error;
use crate::view::document;

use super::{OneFormat, World};

/// Show the version of this program
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl version -o json")]
pub struct Version {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub fn run(args: &Version, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let version = env!("CARGO_PKG_VERSION");
    let value = json!({
        "service": "gpuctl",
        "version": version,
        "features": {"ai_analysis": false, "prometheus_metrics": false, "control_api": false},
        "config": {"prometheus_url": null, "threshold": null, "interval": null},
    });
    let text = document(args.output.into(), &value).unwrap_or_else(|| format!("gpuctl {version}\n"));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
