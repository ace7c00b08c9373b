//! `version`: what this program is, for people and for programs. Asks no cluster.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::config::Key;
use crate::error::Error;
use crate::view::config::without_credentials;
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
    // A broken config file is no reason to keep the version secret.
    let config = world.config().unwrap_or_default();
    let value = |key: &str| config.find(Key::named(key)).map(|(value, _)| value).unwrap_or_default();
    let interval = config.duration("scheduler.interval").map(|interval| interval.as_secs()).ok();
    let url = world.flag("prometheus.url").unwrap_or_else(|| value("prometheus.url"));
    let url = url.as_str().map(without_credentials);
    let value = json!({
        "service": "gpuctl",
        "version": version,
        "features": {"ai_analysis": value("ai.enabled"), "prometheus_metrics": true, "control_api": value("control.enabled")},
        "config": {"prometheus_url": url, "threshold": value("thresholds.low_utilization"), "interval": interval},
    });
    let text = document(args.output.into(), &value).unwrap_or_else(|| format!("gpuctl {version}\n"));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
