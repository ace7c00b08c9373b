//! `gpuctl version`: prints the version as text or JSON.

use std::process::ExitCode;

use crate::cli::program::version::VersionArgs;
use crate::config::SettingKey;
use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::program::config::without_credentials;
use gpuctl_view::program::version;

pub(crate) async fn run(args: &VersionArgs, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let gpuctl_version = env!("CARGO_PKG_VERSION");
    // Print the version even if the config file is invalid.
    let config = context.config().unwrap_or_default();
    let value = |key: &str| {
        config
            .find(SettingKey::by_name(key))
            .map(|(value, _)| value)
            .unwrap_or_default()
    };
    let interval = config
        .duration("scheduler.interval")
        .map(|interval| interval.as_secs())
        .ok();
    let url = context
        .flag("prometheus.url")
        .unwrap_or_else(|| value("prometheus.url"));
    // A URL may contain a password.
    let url = url.as_str().map(without_credentials);
    let answer = version::Version {
        service: "gpuctl",
        version: gpuctl_version,
        features: version::Features {
            ai_analysis: value("ai.enabled"),
            prometheus_metrics: true,
            control_api: value("control.enabled"),
        },
        config: version::Configured {
            prometheus_url: url.as_deref(),
            threshold: value("thresholds.low_utilization"),
            interval,
        },
    };
    let text = document(args.output.into(), &answer)
        .unwrap_or_else(|| format!("gpuctl {gpuctl_version}\n"));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
