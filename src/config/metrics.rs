//! Resolves the address of Prometheus and its credentials. Flags override the environment, which
//! overrides the file.

use std::path::PathBuf;

use anyhow::anyhow;

use super::keys::SettingKey;
use super::resolve::{Config, Origin};
use super::{Environment, KubeContexts};
use gpuctl_local::files::{bytes_of, read_text};
use gpuctl_prometheus::{AwsKeys, Credentials, Matchers};

/// Section of the config file with settings about metrics.
const SECTION: &str = "prometheus";

/// Keys that run a program, or name a file whose content gpuctl sends or trusts.
const OF_OTHERS: [&str; 7] = [
    "token_command",
    "token_file",
    "password_file",
    "cert_file",
    "key_file",
    "ca_file",
    "aws_region",
];

/// Command-line flags about metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricsFlags {
    pub config: Option<PathBuf>,
    pub url: Option<String>,
    pub token_file: Option<PathBuf>,
    pub authority_file: Option<PathBuf>,
    /// Headers in the form `NAME: VALUE`.
    pub headers: Vec<String>,
    /// Label matchers in the form `LABEL=VALUE`.
    pub matchers: Vec<String>,
}

impl MetricsFlags {
    /// Returns the value that the flags set for a key. Omits the values of headers, which may be
    /// secret.
    pub(crate) fn value(&self, key: &str) -> Option<serde_json::Value> {
        let path =
            |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string().into());
        let header = |text: &String| Some((text.split_once(':')?.0.trim().to_owned(), "".into()));
        match key {
            "prometheus.url" => self.url.clone().map(Into::into),
            "prometheus.token_file" => path(&self.token_file),
            "prometheus.ca_file" => path(&self.authority_file),
            "prometheus.headers" if !self.headers.is_empty() => Some(serde_json::Value::Object(
                self.headers.iter().filter_map(header).collect(),
            )),
            "prometheus.matchers" if !self.matchers.is_empty() => {
                let pair = |text: &String| {
                    text.split_once('=')
                        .map(|(label, value)| (label.to_owned(), value.into()))
                };
                Some(serde_json::Value::Object(
                    self.matchers.iter().filter_map(pair).collect(),
                ))
            }
            _ => None,
        }
    }
}

/// The address of Prometheus and the credentials for it.
#[derive(Clone, Default)]
pub(crate) struct MetricsSource {
    /// The address, or the word `none` to disable metrics. If `None`, gpuctl searches the cluster
    /// for Prometheus.
    pub url: Option<(String, Origin)>,
    pub credentials: Credentials,
    /// Label matchers that restrict every query to one cluster.
    pub matchers: Matchers,
    /// Whether the store does not support patterns for `__name__`.
    pub exact_names: bool,
}

impl MetricsSource {
    /// Returns true if metrics are disabled.
    pub(crate) fn is_off(&self) -> bool {
        self.url.as_ref().is_some_and(|(url, _)| url == "none")
    }

    /// Resolves the settings. Errors name the invalid file or value.
    ///
    /// Credentials are sent only to the address that they belong to: those in the file to the
    /// file's address, those in the environment to an address that the user sets, and those in
    /// flags to any address. `contexts` reads the kubeconfig's contexts, because the file can have
    /// settings for each.
    pub(crate) fn resolve(
        flags: &MetricsFlags,
        contexts: impl FnOnce() -> KubeContexts,
    ) -> anyhow::Result<Self> {
        let config = Config::read(flags.config.as_deref(), contexts)?;
        let (address, origin) = config.find(SettingKey::by_name("prometheus.url"))?;
        let url = flags
            .url
            .clone()
            .map(|url| (url, Origin::Flag))
            .or_else(|| Some((address.as_str()?.to_owned(), origin)));
        let credentials = credentials(flags, &config, url.as_ref().map(|(_, origin)| *origin))?;
        let matchers = match flags.matchers.is_empty() {
            true => {
                let pairs = config.map("prometheus.matchers")?;
                pairs
                    .iter()
                    .map(|(label, value)| format!("{label}={value}").parse())
                    .collect::<Result<Matchers, _>>()?
            }
            false => flags
                .matchers
                .iter()
                .map(|text| text.parse())
                .collect::<Result<Matchers, _>>()?,
        };
        let exact_names = config
            .find(SettingKey::by_name("prometheus.exact_names"))?
            .0
            == true;
        Ok(Self {
            url,
            credentials,
            matchers,
            exact_names,
        })
    }
}

/// Collects the credentials for an address with this origin. The origin is `None` if gpuctl found
/// the address in the cluster.
fn credentials(
    flags: &MetricsFlags,
    config: &Config,
    origin: Option<Origin>,
) -> anyhow::Result<Credentials> {
    let variable = |name: &str| Environment::variable(name).filter(|value| !value.is_empty());
    let is_of_file = origin == Some(Origin::File);
    let file = file_credentials(config, is_of_file)?;
    let is_configured = origin.is_some();
    let flag_token = flags
        .token_file
        .as_ref()
        .map(|path| read_text(path))
        .transpose()?;
    let given_token = flag_token
        .map(|text| text.trim().to_owned())
        .or_else(|| variable("GPUCTL_PROMETHEUS_TOKEN").filter(|_| is_configured));
    let given_user = variable("GPUCTL_PROMETHEUS_USER")
        .zip(variable("GPUCTL_PROMETHEUS_PASSWORD"))
        .filter(|_| is_configured);
    if is_of_file && (given_token.is_some() || given_user.is_some() || !flags.headers.is_empty()) {
        // Do not send the user's credentials to an address that another user may have written.
        config.file.must_be_own("prometheus.url")?;
    }
    let flag_authority = flags
        .authority_file
        .as_ref()
        .map(|path| bytes_of(path))
        .transpose()?;
    let mut headers = file.headers;
    for header in &flags.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| anyhow!("a header must have the form NAME: VALUE"))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let (user, token) = match (given_user, given_token) {
        (None, None) => (file.user, file.token),
        given => given,
    };
    let aws_keys = variable("AWS_ACCESS_KEY_ID")
        .zip(variable("AWS_SECRET_ACCESS_KEY"))
        .map(|(id, secret)| AwsKeys {
            access_key_id: id,
            secret_access_key: secret,
            session_token: variable("AWS_SESSION_TOKEN"),
        });
    Ok(Credentials {
        user,
        token,
        authority: flag_authority.or(file.authority),
        headers,
        aws_keys,
        ..file
    })
}

/// Reads the credentials in the file. Returns none unless the address is also from the file.
fn file_credentials(config: &Config, is_needed: bool) -> anyhow::Result<Credentials> {
    let file = &config.file;
    if !is_needed {
        return Ok(Credentials::default());
    }
    for key in OF_OTHERS {
        if file.text(SECTION, key).is_some() {
            file.must_be_own(&format!("{SECTION}.{key}"))?;
        }
    }
    let read = |key: &str| {
        file.file(SECTION, key)
            .map(|path| read_text(&path).map(|text| text.trim().to_owned()))
            .transpose()
    };
    let bytes = |key: &str| {
        file.file(SECTION, key)
            .map(|path| bytes_of(&path))
            .transpose()
    };
    let identity = match (bytes("cert_file")?, bytes("key_file")?) {
        (Some(certificate), Some(key)) => Some([key, b"\n".to_vec(), certificate].concat()),
        (None, None) => None,
        _ => {
            return Err(anyhow!(
                "`prometheus.cert_file` and `prometheus.key_file` must be set together"
            ));
        }
    };
    Ok(Credentials {
        token_command: file.text(SECTION, "token_command"),
        identity,
        user: file.text(SECTION, "user").zip(read("password_file")?),
        token: read("token_file")?,
        authority: bytes("ca_file")?,
        headers: config.map("prometheus.headers")?,
        aws_region: file.text(SECTION, "aws_region"),
        aws_keys: None,
    })
}
