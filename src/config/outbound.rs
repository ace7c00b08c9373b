//! Resolves the settings for services that receive scores: an AI, a chat and a control system. Only
//! `--execute` can make a control system act; no setting can.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;

use super::keys::SettingKey;
use super::resolve::{Config, Origin};

/// Settings of the AI that judges scores.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AiSettings {
    pub enabled: bool,
    pub url: Option<String>,
    pub key: Option<String>,
    /// Whether the key comes from the file. gpuctl then sends it only to the file's address.
    pub key_from_file: bool,
    pub model: String,
    /// Minimum confidence, from 0 to 1. A less certain verdict is shown, but changes nothing.
    pub threshold: f64,
    pub language: String,
    /// Maximum number of devices per analysis.
    pub max_devices: usize,
    pub timeout: Duration,
    pub retries: usize,
    pub redact: bool,
}

/// Settings for the control system that receives the devices with low scores.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControlSettings {
    pub enabled: bool,
    pub url: Option<String>,
    pub timeout: Duration,
    /// Whether gpuctl posts only idle devices.
    pub idle_alone: bool,
    pub headers: Vec<(String, String)>,
}

/// Settings for the chat that receives messages about devices with low scores.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NotifySettings {
    pub enabled: bool,
    pub url: Option<String>,
    pub format: String,
    pub secret: Option<String>,
    pub quiet_hours: Option<QuietHours>,
    pub repeat: Duration,
    pub timeout: Duration,
}

/// A half-open range `[from, to)` in minutes of the local day. gpuctl sends no messages in this
/// range, which spans midnight if `from` is later than `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuietHours {
    from: u16,
    to: u16,
}

impl QuietHours {
    /// Parses `22:00-08:00`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let minutes = |text: &str| {
            let (hours, minutes) = text.trim().split_once(':')?;
            let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60 || (hours, minutes) == (24, 0))
                .then_some(hours * 60 + minutes)
        };
        let (from, to) = text.split_once('-')?;
        Some(Self {
            from: minutes(from)?,
            to: minutes(to)?,
        })
    }

    /// Returns true if a minute of the day is in the range.
    pub(crate) fn contains(self, minute: u16) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl AiSettings {
    pub(crate) fn read(config: &Config) -> anyhow::Result<Self> {
        let origin = |name: &str| anyhow::Ok(config.find(SettingKey::by_name(name))?.1);
        if origin("ai.api_url")? == Origin::File
            && matches!(origin("ai.api_key")?, Origin::Environment(_))
        {
            // Do not send the user's key to an address that another user may have written.
            config.file.must_be_own("ai.api_url")?;
        }
        Ok(Self {
            enabled: config.switch("ai.enabled")?,
            url: config.text("ai.api_url")?,
            key: config.text("ai.api_key")?,
            key_from_file: config.find(SettingKey::by_name("ai.api_key"))?.1 == Origin::File,
            model: config.text("ai.model")?.unwrap_or_default(),
            threshold: config.number("ai.threshold")?,
            language: config.text("ai.language")?.unwrap_or_default(),
            max_devices: config.integer("ai.max")?,
            timeout: config.duration("ai.timeout")?,
            retries: config.integer("ai.retries")?,
            redact: config.switch("ai.redact")?,
        })
    }
}

impl ControlSettings {
    pub(crate) fn read(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            enabled: config.switch("control.enabled")?,
            url: config.text("control.api_url")?,
            timeout: config.duration("control.timeout")?,
            idle_alone: config.text("control.status")?.as_deref() == Some("idle"),
            headers: config.map("control.headers")?,
        })
    }
}

impl NotifySettings {
    pub(crate) fn read(config: &Config) -> anyhow::Result<Self> {
        let quiet_hours = match config.text("notify.quiet_hours")? {
            None => None,
            Some(text) => Some(QuietHours::parse(&text).ok_or_else(|| {
                anyhow!("`notify.quiet_hours` in the config file is not a time range such as 22:00-08:00")
            })?),
        };
        Ok(Self {
            enabled: config.switch("notify.enabled")?,
            url: config.text("notify.url")?,
            format: config.text("notify.format")?.unwrap_or_default(),
            secret: config.text("notify.secret")?,
            quiet_hours,
            repeat: config.duration("notify.repeat")?,
            timeout: config.duration("notify.timeout")?,
        })
    }
}

/// Returns the folder for state that persists between runs.
pub(crate) fn state_folder() -> Option<PathBuf> {
    Some(
        dirs::state_dir()
            .or_else(dirs::data_local_dir)?
            .join("gpuctl"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_may_cross_midnight() {
        let night = QuietHours::parse("22:00-08:30").unwrap();
        let quiet: Vec<u16> = (0..1440).filter(|minute| night.contains(*minute)).collect();
        assert_eq!(
            (
                quiet.len(),
                night.contains(22 * 60),
                night.contains(8 * 60 + 30),
                night.contains(12 * 60)
            ),
            (630, true, false, false)
        );
        let noon = QuietHours::parse("12:00-13:00").unwrap();
        assert!(noon.contains(720) && !noon.contains(780) && !noon.contains(0));
        assert!(QuietHours::parse("00:00-24:00").unwrap().contains(1439));
        for invalid in ["", "22:00", "22-8", "25:00-08:00", "22:60-08:00"] {
            assert!(QuietHours::parse(invalid).is_none(), "{invalid}");
        }
    }
}
