//! Where metrics come from: options of every command that may show them.

use clap::Args;

use crate::config::MetricsFlags;

/// Options of every command that may show metrics
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsArgs {
    /// URL of Prometheus, instead of the one found in the cluster; `none` disables metrics
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help_heading = "Metrics options"
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
    /// File with a bearer token for the Prometheus server
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Metrics options"
    )]
    pub prometheus_token_file: Option<std::path::PathBuf>,
    /// PEM file of CA certificates that verify the Prometheus server
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Metrics options"
    )]
    pub prometheus_ca_file: Option<std::path::PathBuf>,
    /// Label that every series must have, as cluster=prod, where a store has several clusters; may
    /// be repeated
    #[arg(
        long = "match",
        global = true,
        value_name = "LABEL=VALUE",
        help_heading = "Metrics options"
    )]
    pub matchers: Vec<String>,
    /// Fail when metrics are unavailable, instead of leaving their cells empty
    #[arg(long, global = true, help_heading = "Metrics options")]
    pub require_metrics: bool,
    /// Config file to use instead of gpuctl/config.yaml in your config folder
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub config: Option<std::path::PathBuf>,
}

impl MetricsArgs {
    /// Returns what was typed, for the config to resolve.
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
