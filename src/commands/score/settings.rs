//! Resolves the settings of `gpuctl score`: flags override the environment, which overrides the
//! config file. Checks rules that span several settings.

use std::time::Duration;

use clap::ValueEnum;

use crate::cli::score::settings::{ControlStatus, OutboundArgs, ScoringArgs};
use crate::config::{
    AiSettings, Config, ControlSettings, NotifySettings, QuietHours, ScoreSettings,
};
use crate::outbound::OutboundUrl;
use crate::outbound::ai::Ai;
use crate::terminal::Verbosity;
use gpuctl_core::error::Error;
use gpuctl_core::stats::score::value::{Thresholds, Weights};

/// An AI, and how to use its opinions.
#[derive(Clone, Debug)]
pub(crate) struct AiPlan {
    pub ai: Ai,
    pub threshold: f64,
    pub language: String,
    pub most: usize,
    pub timeout: Duration,
    pub retries: usize,
    pub redact: bool,
}

/// A chat that receives messages.
#[derive(Clone, Debug)]
pub(crate) struct NotifyPlan {
    pub address: OutboundUrl,
    pub format: String,
    pub secret: Option<String>,
    pub quiet_hours: Option<QuietHours>,
    pub repeat: Duration,
    pub timeout: Duration,
}

/// A control system that receives low devices.
#[derive(Clone, Debug)]
pub(crate) struct ControlPlan {
    pub address: OutboundUrl,
    pub headers: Vec<(String, String)>,
    pub idle_alone: bool,
    /// Whether to post pods that serve requests, too.
    pub with_serving: bool,
    pub timeout: Duration,
    pub execute: bool,
}

/// All settings of a flag, the environment or the config file.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// In seconds.
    pub window: i64,
    /// In seconds.
    pub step: i64,
    pub weights: Weights,
    pub thresholds: Thresholds,
    /// Time between the starts of two analyses.
    pub interval: Duration,
    /// Maximum number of concurrent calls.
    pub workers: usize,
    pub ai: Option<AiPlan>,
    pub notify: Option<NotifyPlan>,
    pub control: Option<ControlPlan>,
    /// The listen address from the config file.
    pub listen: Option<String>,
    /// Allowed hosts from the config file.
    pub hosts: Vec<String>,
    pub talk: Verbosity,
}

/// Minimum interval between analyses, to limit the load on Prometheus.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

impl Settings {
    pub(crate) fn of(
        scoring: &ScoringArgs,
        telling: &OutboundArgs,
        watch: Option<Duration>,
        config: &Config,
    ) -> Result<Self, Error> {
        let set = ScoreSettings::read(config).map_err(Error::usage)?;
        let (window, step) = span(scoring, &set)?;
        let (weights, thresholds) = (weights(scoring, &set)?, thresholds(scoring, &set)?);
        let interval = watch.unwrap_or(set.interval).max(SHORTEST_INTERVAL);
        let talk = match set.level.as_str() {
            "debug" => Verbosity::Details,
            "info" => Verbosity::Notes,
            "warning" => Verbosity::Warnings,
            _ => Verbosity::Errors,
        };
        let (ai, notify) = (telling.ai(config)?, telling.notify(config)?);
        let control = telling.control(config)?;
        Ok(Self {
            window,
            step,
            weights,
            thresholds,
            interval,
            workers: set.workers,
            ai,
            notify,
            control,
            listen: set.listen,
            hosts: set.hosts,
            talk,
        })
    }
}

fn span(scoring: &ScoringArgs, set: &ScoreSettings) -> Result<(i64, i64), Error> {
    let seconds = |flag: Option<Duration>, set: f64| {
        let found = flag.map_or(set, |span| span.as_secs_f64());
        #[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
        if (1.0..=31_536_000.0).contains(&found) {
            Ok(found as i64)
        } else {
            Err(Error::usage("window and step must be at least one second"))
        }
    };
    let (window, step) = (
        seconds(scoring.window, set.window_seconds)?,
        seconds(scoring.step, set.step_seconds)?,
    );
    if step > window {
        return Err(Error::usage("the step cannot be longer than the window"));
    }
    Ok((window, step))
}

fn weights(scoring: &ScoringArgs, set: &ScoreSettings) -> Result<Weights, Error> {
    let found = scoring.weights.unwrap_or(set.weights);
    let weight = |index: usize| found[index];
    let weights = Weights {
        utilization: weight(0),
        memory_copy: weight(1),
        memory_used: weight(2),
        power: weight(3),
    };
    if (0..4).any(|index| !(weight(index) >= 0.0 && weight(index).is_finite()))
        || weights.utilization <= 0.0
    {
        return Err(Error::usage(
            "weights cannot be negative, and the weight of utilization must be above 0",
        ));
    }
    Ok(weights)
}

fn thresholds(scoring: &ScoringArgs, set: &ScoreSettings) -> Result<Thresholds, Error> {
    let thresholds = Thresholds {
        idle: scoring.idle.unwrap_or(set.idle),
        low: scoring.threshold.unwrap_or(set.low),
        high: scoring.high.unwrap_or(set.high),
    };
    if thresholds.idle > thresholds.low || thresholds.low > thresholds.high {
        return Err(Error::usage("thresholds must satisfy idle ≤ low ≤ high"));
    }
    Ok(thresholds)
}

fn address(url: &str, key: &str) -> Result<OutboundUrl, Error> {
    OutboundUrl::parse(url).map_err(|told| Error::usage(format!("`{key}` is {told}")))
}

impl OutboundArgs {
    fn ai(&self, config: &Config) -> Result<Option<AiPlan>, Error> {
        let set = AiSettings::read(config).map_err(Error::usage)?;
        if !self.ai.unwrap_or(set.enabled) {
            return Ok(None);
        }
        let Some(url) = self.ai_url.clone().or(set.url.clone()) else {
            let error = Error::usage("no AI is configured");
            return Err(
                error.hint("--ai-url URL, or `ai.api_url` of the config file: https://api.openai.com/v1/chat/completions")
            );
        };
        // Send the key from the config file only to the address from the config file.
        let foreign = set.key_from_file && set.url.as_ref().is_some_and(|own| *own != url);
        let (address, model) = (
            address(&url, "ai.api_url")?,
            self.ai_model.clone().unwrap_or(set.model),
        );
        Ok(Some(AiPlan {
            ai: Ai {
                address,
                model,
                key: set.key.filter(|_| !foreign),
            },
            threshold: set.threshold,
            language: self.ai_language.clone().unwrap_or(set.language),
            most: self.ai_max.unwrap_or(set.max_devices),
            timeout: set.timeout,
            retries: set.retries,
            redact: self.ai_redact || set.redact,
        }))
    }

    fn notify(&self, config: &Config) -> Result<Option<NotifyPlan>, Error> {
        let set = NotifySettings::read(config).map_err(Error::usage)?;
        if self.notify.is_none() && !set.enabled {
            return Ok(None);
        }
        let Some(url) = self.notify.clone().flatten().or(set.url) else {
            return Err(Error::usage("no webhook is configured")
                .hint("--notify URL, or `notify.url` of the config file"));
        };
        let format = self
            .notify_format
            .and_then(|name| Some(name.to_possible_value()?.get_name().to_owned()));
        Ok(Some(NotifyPlan {
            address: address(&url, "notify.url")?,
            format: format.unwrap_or(set.format),
            secret: set.secret,
            quiet_hours: self.notify_quiet_hours.or(set.quiet_hours),
            repeat: self.notify_repeat.unwrap_or(set.repeat),
            timeout: set.timeout,
        }))
    }

    fn control(&self, config: &Config) -> Result<Option<ControlPlan>, Error> {
        let set = ControlSettings::read(config).map_err(Error::usage)?;
        let wanted = self.control_api.is_some() || set.enabled;
        let url = self.control_api.clone().or(set.url);
        let Some(url) = url.filter(|_| wanted) else {
            if wanted || self.execute {
                return Err(Error::usage("no control system is configured")
                    .hint("--control-api URL, or `control.enabled` and `control.api_url` of the config file"));
            }
            return Ok(None);
        };
        Ok(Some(ControlPlan {
            address: address(&url, "control.api_url")?,
            // Send credentials from the config file only to the address configured there.
            headers: if self.control_api.is_none() {
                set.headers
            } else {
                Vec::new()
            },
            idle_alone: self
                .control_status
                .map_or(set.idle_alone, |status| status == ControlStatus::Idle),
            with_serving: self.control_serving,
            timeout: set.timeout,
            execute: self.execute,
        }))
    }
}
