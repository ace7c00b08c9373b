//! Options of `gpuctl score`: how scores are computed, and who is told about them.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::args::value::{Expected, duration};
use crate::config::QuietHours;
use crate::outbound::OutboundUrl;

/// How scores are computed.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScoringArgs {
    /// How far to look back: the time that scores cover, up to now [default: 10m]
    #[arg(long = "start", alias = "window", value_name = "TIME", value_parser = duration)]
    pub window: Option<Duration>,
    /// Time between two samples [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub step: Option<Duration>,
    /// GPUs scoring below this are `low` [default: 20]
    #[arg(long, value_name = "SCORE", value_parser = points)]
    pub threshold: Option<f64>,
    /// GPUs scoring below this are `idle` [default: 10]
    #[arg(long, value_name = "SCORE", value_parser = points)]
    pub idle: Option<f64>,
    /// GPUs scoring above this are `high` [default: 70]
    #[arg(long, value_name = "SCORE", value_parser = points)]
    pub high: Option<f64>,
    /// Weights of utilization, memory copy, memory used and power
    #[arg(long, value_name = "N,N,N,N", value_parser = four)]
    pub weights: Option<[f64; 4]>,
}

/// Whom scores are told to.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutboundArgs {
    /// Ask an AI about the lowest scores; the key comes from AI_API_KEY or the config file
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", help_heading = "AI options")]
    pub ai: Option<bool>,
    /// URL of a chat completions API, or of Anthropic's messages API
    #[arg(long, value_name = "URL", value_parser = url, help_heading = "AI options")]
    pub ai_url: Option<String>,
    /// Model to ask
    #[arg(long, value_name = "NAME", help_heading = "AI options")]
    pub ai_model: Option<String>,
    /// Language of the reasons [default: zh]
    #[arg(long, value_name = "LANGUAGE", help_heading = "AI options")]
    pub ai_language: Option<String>,
    /// Maximum number of GPUs to ask about, the lowest scores first
    #[arg(long, value_name = "N", help_heading = "AI options")]
    pub ai_max: Option<usize>,
    /// Do not send names of pods, namespaces and nodes to the AI
    #[arg(long, help_heading = "AI options")]
    pub ai_redact: bool,
    /// Send a message about low GPUs to this webhook, or to that of the config file
    #[arg(long, num_args = 0..=1, value_name = "URL", value_parser = url, help_heading = "Message options")]
    pub notify: Option<Option<String>>,
    /// Format of the message; auto derives it from the host
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        help_heading = "Message options"
    )]
    pub notify_format: Option<RobotName>,
    /// Local hours in which nothing is sent, such as 22:00-08:00
    #[arg(long, value_name = "HOURS", value_parser = hours, help_heading = "Message options")]
    pub notify_quiet_hours: Option<QuietHours>,
    /// Time after which a GPU that is still low is reported again
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Message options")]
    pub notify_repeat: Option<Duration>,
    /// POST every idle GPU to this URL; prints what it would post unless --execute is given
    #[arg(long, value_name = "URL", value_parser = url, help_heading = "Control options")]
    pub control_api: Option<String>,
    /// Post low GPUs (idle ones included), or only idle ones [default: idle]
    #[arg(
        long,
        value_enum,
        value_name = "STATUS",
        help_heading = "Control options"
    )]
    pub control_status: Option<ControlStatus>,
    /// Also post GPUs of pods that serve requests (vLLM, SGLang, TGI, Triton)
    #[arg(long, help_heading = "Control options")]
    pub control_serving: bool,
    /// Really post
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

pub(crate) fn points(text: &str) -> Result<f64, Expected> {
    let number: f64 = text.parse().map_err(|_| Expected("a number of 0 to 100"))?;
    if (0.0..=100.0).contains(&number) {
        Ok(number)
    } else {
        Err(Expected("a number of 0 to 100"))
    }
}

pub(crate) fn four(text: &str) -> Result<[f64; 4], Expected> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    numbers
        .ok()
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or(Expected("four numbers such as 0.5,0.2,0.2,0.1"))
}

pub(crate) fn url(text: &str) -> Result<String, Expected> {
    OutboundUrl::parse(text)
        .map(|_| text.to_owned())
        .map_err(|_| Expected("an address that begins with http:// or https:// and a host"))
}

pub(crate) fn hours(text: &str) -> Result<QuietHours, Expected> {
    QuietHours::parse(text).ok_or(Expected("a time such as 22:00-08:00"))
}
