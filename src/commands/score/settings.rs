//! Resolves the settings of `gpuctl score`: flags override the environment, and the environment
//! overrides the config file. Also checks combinations of settings.

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

/// An AI and the use of its opinions.
#[derive(Clone, Debug)]
pub(crate) struct AiPlan {
    pub ai: Ai,
    pub threshold: f64,
    pub language: String,
    pub max_devices: usize,
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

/// A control system that receives low-scoring devices.
#[derive(Clone, Debug)]
pub(crate) struct ControlPlan {
    pub address: OutboundUrl,
    pub headers: Vec<(String, String)>,
    pub only_idle: bool,
    /// Whether to include devices of serving pods.
    pub with_serving: bool,
    /// Whether to include low devices of pods that also use other devices.
    pub with_partial: bool,
    pub timeout: Duration,
    pub execute: bool,
}

impl ControlPlan {
    /// Returns the score below which a device may be posted.
    pub(crate) fn limit(&self, thresholds: &Thresholds) -> f64 {
        if self.only_idle {
            thresholds.idle
        } else {
            thresholds.low
        }
    }
}

/// Settings from flags, environment and config file.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Length of the window in seconds.
    pub window: i64,
    /// Resolution in seconds.
    pub step: i64,
    pub weights: Weights,
    pub thresholds: Thresholds,
    /// Interval between the starts of two analyses.
    pub interval: Duration,
    /// Maximum number of concurrent calls.
    pub workers: usize,
    pub ai: Option<AiPlan>,
    pub notify: Option<NotifyPlan>,
    pub control: Option<ControlPlan>,
    /// Listen address from the config file.
    pub listen: Option<String>,
    /// Allowed `Host` headers from the config file.
    pub hosts: Vec<String>,
    /// The label `cluster` of exported scores.
    pub cluster: Option<String>,
    pub verbosity: Verbosity,
}

/// Minimum interval, which limits the load on Prometheus.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

impl Settings {
    pub(crate) fn resolve(
        scoring: &ScoringArgs,
        outbound: &OutboundArgs,
        watch: Option<Duration>,
        config: &Config,
    ) -> Result<Self, Error> {
        let defaults = ScoreSettings::read(config).map_err(Error::usage)?;
        let (window, step) = window_and_step(scoring, &defaults)?;
        let (weights, thresholds) = (
            weights(scoring, &defaults)?,
            thresholds(scoring, &defaults)?,
        );
        let interval = watch.unwrap_or(defaults.interval).max(MIN_INTERVAL);
        let verbosity = match defaults.level.as_str() {
            "debug" => Verbosity::Details,
            "info" => Verbosity::Notes,
            "warning" => Verbosity::Warnings,
            _ => Verbosity::Errors,
        };
        let (ai, notify) = (outbound.ai(config)?, outbound.notify(config)?);
        let control = outbound.control(config)?;
        Ok(Self {
            window,
            step,
            weights,
            thresholds,
            interval,
            workers: defaults.workers,
            ai,
            notify,
            control,
            listen: defaults.listen,
            hosts: defaults.hosts,
            cluster: defaults.cluster,
            verbosity,
        })
    }
}

fn window_and_step(scoring: &ScoringArgs, defaults: &ScoreSettings) -> Result<(i64, i64), Error> {
    let seconds = |flag: Option<Duration>, default: f64| {
        let value = flag.map_or(default, |span| span.as_secs_f64());
        #[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
        if (1.0..=31_536_000.0).contains(&value) {
            Ok(value as i64)
        } else {
            Err(Error::usage("window and step must be at least one second"))
        }
    };
    let (window, step) = (
        seconds(scoring.window, defaults.window_seconds)?,
        seconds(scoring.step, defaults.step_seconds)?,
    );
    if step > window {
        return Err(Error::usage("the step cannot be longer than the window"));
    }
    Ok((window, step))
}

fn weights(scoring: &ScoringArgs, defaults: &ScoreSettings) -> Result<Weights, Error> {
    let values = scoring.weights.unwrap_or(defaults.weights);
    let weight = |index: usize| values[index];
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
            "weights cannot be negative, and the utilization weight must be above 0",
        ));
    }
    Ok(weights)
}

fn thresholds(scoring: &ScoringArgs, defaults: &ScoreSettings) -> Result<Thresholds, Error> {
    let thresholds = Thresholds {
        idle: scoring.idle.unwrap_or(defaults.idle),
        low: scoring.threshold.unwrap_or(defaults.low),
        high: scoring.high.unwrap_or(defaults.high),
    };
    if thresholds.idle > thresholds.low || thresholds.low > thresholds.high {
        return Err(Error::usage("thresholds must satisfy idle ≤ low ≤ high"));
    }
    Ok(thresholds)
}

fn address(url: &str, key: &str) -> Result<OutboundUrl, Error> {
    OutboundUrl::parse(url).map_err(|error| Error::usage(format!("`{key}` is {error}")))
}

impl OutboundArgs {
    fn ai(&self, config: &Config) -> Result<Option<AiPlan>, Error> {
        let configured = AiSettings::read(config).map_err(Error::usage)?;
        if !self.ai.unwrap_or(configured.enabled) {
            return Ok(None);
        }
        let Some(url) = self.ai_url.clone().or(configured.url.clone()) else {
            let error = Error::usage("no AI is configured");
            return Err(
                error.hint("use --ai-url URL, or set `ai.api_url` in the config file, for example to https://api.openai.com/v1/chat/completions")
            );
        };
        // A key from the config file may be sent only to the address in the config file.
        let is_foreign = configured.key_from_file
            && configured
                .url
                .as_ref()
                .is_some_and(|configured_url| *configured_url != url);
        let (address, model) = (
            address(&url, "ai.api_url")?,
            self.ai_model.clone().unwrap_or(configured.model),
        );
        Ok(Some(AiPlan {
            ai: Ai {
                address,
                model,
                key: configured.key.filter(|_| !is_foreign),
            },
            threshold: configured.threshold,
            language: self.ai_language.clone().unwrap_or(configured.language),
            max_devices: self.ai_max.unwrap_or(configured.max_devices),
            timeout: configured.timeout,
            retries: configured.retries,
            redact: self.ai_redact || configured.redact,
        }))
    }

    fn notify(&self, config: &Config) -> Result<Option<NotifyPlan>, Error> {
        let configured = NotifySettings::read(config).map_err(Error::usage)?;
        if self.notify.is_none() && !configured.enabled {
            return Ok(None);
        }
        let Some(url) = self.notify.clone().flatten().or(configured.url) else {
            return Err(Error::usage("no webhook is configured")
                .hint("use --notify URL, or set `notify.url` in the config file"));
        };
        let format = self
            .notify_format
            .and_then(|name| Some(name.to_possible_value()?.get_name().to_owned()));
        Ok(Some(NotifyPlan {
            address: address(&url, "notify.url")?,
            format: format.unwrap_or(configured.format),
            secret: configured.secret,
            quiet_hours: self.notify_quiet_hours.or(configured.quiet_hours),
            repeat: self.notify_repeat.unwrap_or(configured.repeat),
            timeout: configured.timeout,
        }))
    }

    fn control(&self, config: &Config) -> Result<Option<ControlPlan>, Error> {
        let configured = ControlSettings::read(config).map_err(Error::usage)?;
        let is_enabled = self.control_api.is_some() || configured.enabled;
        let url = self.control_api.clone().or(configured.url);
        let Some(url) = url.filter(|_| is_enabled) else {
            if is_enabled || self.execute {
                return Err(Error::usage("no control system is configured")
                    .hint("use --control-api URL, or set `control.enabled` and `control.api_url` in the config file"));
            }
            return Ok(None);
        };
        Ok(Some(ControlPlan {
            address: address(&url, "control.api_url")?,
            // Credentials from the config file may be sent only to the address in the config file.
            headers: if self.control_api.is_none() {
                configured.headers
            } else {
                Vec::new()
            },
            only_idle: self.control_status.map_or(configured.idle_alone, |status| {
                status == ControlStatus::Idle
            }),
            with_serving: self.control_serving,
            with_partial: self.control_partial,
            timeout: configured.timeout,
            execute: self.execute,
        }))
    }
}
