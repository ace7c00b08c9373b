//! Resolves where reports are sent, and with which credentials. Only `--execute` sends anything.

use std::path::PathBuf;
use std::time::Duration;

use super::keys::SettingKey;
use super::resolve::{Config, Origin};
use gpuctl_local::files::{bytes_of, read_text};

/// Settings for sending reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReportSettings {
    /// The receiver that `--send` uses without a value.
    pub receiver: Option<String>,
    /// Headers for the webhook in `report.send`.
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    /// The secret that signs messages to some chats.
    pub chat_secret: Option<String>,
    pub mail: MailSettings,
}

/// Credentials for a mail server.
#[derive(Clone, PartialEq)]
pub(crate) struct MailSettings {
    pub user: Option<String>,
    pub password: Option<String>,
    /// Whether the password comes from the file, so that it is sent only to the file's address.
    pub is_of_file: bool,
    /// PEM certificates that verify the server, in addition to those of the system.
    pub authority: Option<Vec<u8>>,
}

impl std::fmt::Debug for MailSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MailSettings")
    }
}

impl ReportSettings {
    pub(crate) fn read(config: &Config) -> anyhow::Result<Self> {
        let receiver = config.text("report.send")?;
        let receiver_origin = config.find(SettingKey::by_name("report.send"))?.1;
        let mail = MailSettings::read(config)?;
        if receiver_origin == Origin::File && mail.password.is_some() && !mail.is_of_file {
            // Do not send the user's password to an address that another user wrote.
            config.file.must_be_own("report.send")?;
        }
        Ok(Self {
            receiver,
            headers: match receiver_origin {
                Origin::File => config.map("report.headers")?,
                _ => Vec::new(),
            },
            timeout: config.duration("report.timeout")?,
            chat_secret: config.text("notify.secret")?,
            mail,
        })
    }
}

impl MailSettings {
    fn read(config: &Config) -> anyhow::Result<Self> {
        let key = SettingKey::by_name("smtp.password_file");
        let (password, is_of_file) = match config.find(key)? {
            (_, Origin::File) => {
                config.file.must_be_own(key.name)?;
                let path = config.file.file("smtp", "password_file");
                let text = path.map(|path: PathBuf| read_text(&path)).transpose()?;
                (text.map(|text| text.trim().to_owned()), true)
            }
            _ => (config.text(key.name)?, false),
        };
        let authority = config.file.file("smtp", "ca_file");
        Ok(Self {
            user: config.text("smtp.user")?,
            password,
            is_of_file,
            authority: authority.map(|path| bytes_of(&path)).transpose()?,
        })
    }
}
