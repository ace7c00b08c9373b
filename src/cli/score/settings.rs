//! Options of `gpuctl score` for computing scores and sending them.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::value::{Expected, duration};
use crate::config::{QuietHours, SettingKey};
use crate::outbound::OutboundUrl;

/// How to compute scores.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScoringArgs {
    #[arg(
        long = "start",
        alias = "window",
        value_name = "TIME",
        value_parser = duration,
        help = SettingKey::help_with("prometheus.time_window_min", " [default: 10m]")
    )]
    pub window: Option<Duration>,
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        help = SettingKey::with_default("prometheus.step")
    )]
    pub step: Option<Duration>,
    #[arg(
        long,
        value_name = "SCORE",
        value_parser = threshold,
        help = SettingKey::with_default("thresholds.low_utilization")
    )]
    pub threshold: Option<f64>,
    #[arg(
        long,
        value_name = "SCORE",
        value_parser = threshold,
        help = SettingKey::with_default("thresholds.idle")
    )]
    pub idle: Option<f64>,
    #[arg(
        long,
        value_name = "SCORE",
        value_parser = threshold,
        help = SettingKey::with_default("thresholds.high")
    )]
    pub high: Option<f64>,
    /// Weights of utilization, memory copy, memory used and power
    #[arg(long, value_name = "N,N,N,N", value_parser = weights)]
    pub weights: Option<[f64; 4]>,
}

/// Where to send scores.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutboundArgs {
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = "AI options",
        help = SettingKey::help("ai.enabled")
    )]
    pub ai: Option<bool>,
    #[arg(
        long,
        value_name = "URL",
        value_parser = url,
        help_heading = "AI options",
        help = SettingKey::help("ai.api_url")
    )]
    pub ai_url: Option<String>,
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "AI options",
        help = SettingKey::help("ai.model")
    )]
    pub ai_model: Option<String>,
    #[arg(
        long,
        value_name = "LANGUAGE",
        help_heading = "AI options",
        help = SettingKey::with_default("ai.language")
    )]
    pub ai_language: Option<String>,
    #[arg(long, value_name = "N", help_heading = "AI options", help = SettingKey::help("ai.max"))]
    pub ai_max: Option<usize>,
    #[arg(long, help_heading = "AI options", help = SettingKey::help("ai.redact"))]
    pub ai_redact: bool,
    #[arg(
        long,
        num_args = 0..=1,
        value_name = "URL",
        value_parser = url,
        help_heading = "Message options",
        help = SettingKey::help_with("notify.url", "; defaults to the one in the config file")
    )]
    pub notify: Option<Option<String>>,
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        help_heading = "Message options",
        help = SettingKey::help("notify.format")
    )]
    pub notify_format: Option<RobotName>,
    #[arg(
        long,
        value_name = "HOURS",
        value_parser = hours,
        help_heading = "Message options",
        help = SettingKey::help("notify.quiet_hours")
    )]
    pub notify_quiet_hours: Option<QuietHours>,
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        help_heading = "Message options",
        help = SettingKey::help("notify.repeat")
    )]
    pub notify_repeat: Option<Duration>,
    #[arg(
        long,
        value_name = "URL",
        value_parser = url,
        help_heading = "Control options",
        help = SettingKey::help("control.api_url")
    )]
    pub control_api: Option<String>,
    #[arg(
        long,
        value_enum,
        value_name = "STATUS",
        help_heading = "Control options",
        help = SettingKey::with_default("control.status")
    )]
    pub control_status: Option<ControlStatus>,
    /// Also post GPUs whose pods serve requests (vLLM, SGLang, TGI, Triton)
    #[arg(long, help_heading = "Control options")]
    pub control_serving: bool,
    /// Also post low GPUs of pods that use their other GPUs
    #[arg(long, help_heading = "Control options")]
    pub control_partial: bool,
    /// Actually send the requests
    #[arg(long, help_heading = "Control options")]
    pub execute: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RobotName {
    Auto,
    Feishu,
    Lark,
    Slack,
    #[value(name = "dingtalk")]
    DingTalk,
    Wecom,
    Generic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControlStatus {
    Low,
    Idle,
}

pub(crate) fn threshold(text: &str) -> Result<f64, Expected> {
    let number: f64 = text
        .parse()
        .map_err(|_| Expected("a number from 0 to 100"))?;
    if (0.0..=100.0).contains(&number) {
        Ok(number)
    } else {
        Err(Expected("a number from 0 to 100"))
    }
}

pub(crate) fn weights(text: &str) -> Result<[f64; 4], Expected> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    numbers
        .ok()
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or(Expected("four numbers such as 0.5,0.2,0.2,0.1"))
}

pub(crate) fn url(text: &str) -> Result<String, Expected> {
    OutboundUrl::parse(text)
        .map(|_| text.to_owned())
        .map_err(|_| Expected("an http:// or https:// URL with a host"))
}

pub(crate) fn hours(text: &str) -> Result<QuietHours, Expected> {
    QuietHours::parse(text).ok_or(Expected("a time range such as 22:00-08:00"))
}
