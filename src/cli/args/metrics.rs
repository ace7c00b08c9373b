//! Options that select the metrics source, for every command with metrics.

use clap::Args;

use crate::config::{MetricsFlags, SettingKey};

/// Options of every command that may show metrics
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsArgs {
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Metrics options",
        help = SettingKey::help("prometheus.url")
    )]
    pub prometheus: Option<String>,
    /// Header to send to the Prometheus server, as NAME: VALUE; may be repeated
    #[arg(
        long,
        global = true,
        value_name = "HEADER",
        help_heading = "Metrics options"
    )]
    pub prometheus_header: Vec<String>,
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Metrics options",
        help = SettingKey::help("prometheus.token_file")
    )]
    pub prometheus_token_file: Option<std::path::PathBuf>,
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Metrics options",
        help = SettingKey::help("prometheus.ca_file")
    )]
    pub prometheus_ca_file: Option<std::path::PathBuf>,
    /// Use only series with this label, for example cluster=prod, if Prometheus holds several
    /// clusters; may be repeated
    #[arg(
        long = "match",
        global = true,
        value_name = "LABEL=VALUE",
        help_heading = "Metrics options"
    )]
    pub matchers: Vec<String>,
    /// Fail if metrics are unavailable, instead of showing `-` for them
    #[arg(long, global = true, help_heading = "Metrics options")]
    pub require_metrics: bool,
    /// Config file to use instead of gpuctl/config.yaml in your config directory
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub config: Option<std::path::PathBuf>,
}

impl MetricsArgs {
    /// The options as typed. The config module resolves them.
    pub(crate) fn flags(&self) -> MetricsFlags {
        MetricsFlags {
            config: self.config.clone(),
            url: self.prometheus.clone(),
            token_file: self.prometheus_token_file.clone(),
            authority_file: self.prometheus_ca_file.clone(),
            headers: self.prometheus_header.clone(),
            matchers: self.matchers.clone(),
        }
    }
}
