//! Where metrics come from: flags over environment over file. Whether somebody answers there is not known here.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::prometheus::Credentials;

use super::Environment;

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct MetricsFlags {
    pub config: Option<PathBuf>,
    pub url: Option<String>,
    pub token_file: Option<PathBuf>,
    pub authority_file: Option<PathBuf>,
    /// `NAME: VALUE` each.
    pub headers: Vec<String>,
}

/// Who named the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Environment,
    File,
}

impl Origin {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Flag => "`--prometheus`",
            Self::Environment => "the environment",
            Self::File => "the config file",
        }
    }
}

/// Where to ask, and how to be let in.
#[derive(Clone, Default)]
pub struct MetricsSource {
    /// `None`: to be found in the cluster. The word `none`: nowhere.
    pub url: Option<(String, Origin)>,
    pub credentials: Credentials,
}

impl MetricsSource {
    /// True when nobody shall be asked.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.url.as_ref().is_some_and(|(url, _)| url == "none")
    }

    /// Resolves; an error says which file or value is wrong. What lets us in goes to the address that it was given for: the
    /// file's with the file's address, the environment's with one that is named, the flags' with any.
    pub fn resolve(flags: &MetricsFlags) -> Result<Self, String> {
        let file = ConfigFile::read(flags.config.as_deref())?;
        let variable = |name: &str| Environment::variable(name).filter(|value| !value.is_empty());
        let url = flags
            .url
            .clone()
            .map(|url| (url, Origin::Flag))
            .or_else(|| Some((variable("GPUCTL_PROMETHEUS").or_else(|| variable("PROM_URL"))?, Origin::Environment)))
            .or_else(|| Some((file.text("url")?, Origin::File)));
        let of_file = file_credentials(&file, url.as_ref().is_some_and(|(_, origin)| *origin == Origin::File))?;
        let named = url.is_some();
        let flag_token = flags.token_file.as_ref().map(|path| text_of(path)).transpose()?;
        let own_token =
            flag_token.map(|text| text.trim().to_owned()).or_else(|| variable("GPUCTL_PROMETHEUS_TOKEN").filter(|_| named));
        let own_user = variable("GPUCTL_PROMETHEUS_USER").zip(variable("GPUCTL_PROMETHEUS_PASSWORD")).filter(|_| named);
        let own_authority = flags.authority_file.as_ref().map(|path| bytes_of(path)).transpose()?;
        let mut headers = of_file.headers;
        for header in &flags.headers {
            let (name, value) = header.split_once(':').ok_or_else(|| "a header is NAME: VALUE".to_owned())?;
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let (user, token) = match (own_user, own_token) {
            (None, None) => (of_file.user, of_file.token),
            own => own,
        };
        let authority = own_authority.or(of_file.authority);
        Ok(Self { url, credentials: Credentials { user, token, authority, headers } })
    }
}

/// What the file has to let us in, when its address is the one that is asked.
fn file_credentials(file: &ConfigFile, asked: bool) -> Result<Credentials, String> {
    if !asked {
        return Ok(Credentials::default());
    }
    let read = |key: &str| file.path(key).map(|path| text_of(&path).map(|text| text.trim().to_owned())).transpose();
    Ok(Credentials {
        user: file.text("user").zip(read("password_file")?),
        token: read("token_file")?,
        authority: file.path("ca_file").map(|path| bytes_of(&path)).transpose()?,
        headers: file.headers(),
    })
}

/// The part of the config file that is about metrics.
#[derive(Default)]
struct ConfigFile {
    prometheus: Value,
    folder: PathBuf,
}

impl ConfigFile {
    /// The file that was named, which has to be there, or the one in the user's folder, which need not.
    fn read(named: Option<&Path>) -> Result<Self, String> {
        let usual = || Some(dirs::config_dir()?.join("gpuctl/config.yaml")).filter(|path| path.exists());
        let Some(path) = named.map(Path::to_path_buf).or_else(usual) else { return Ok(Self::default()) };
        let text = text_of(&path)?;
        let content: Option<Value> = serde_saphyr::from_str(&text).map_err(|error| {
            // The library's words quote the file, which may hold a secret.
            let place = error.location().map_or(String::new(), |at| format!(":{}:{}", at.line(), at.column()));
            format!("{}{place} is no valid YAML", path.display())
        })?;
        let prometheus = match content.unwrap_or_default()["prometheus"].take() {
            Value::String(url) => serde_json::json!({ "url": url }),
            other => other,
        };
        Ok(Self { prometheus, folder: path.parent().map(Path::to_path_buf).unwrap_or_default() })
    }

    fn text(&self, key: &str) -> Option<String> {
        self.prometheus[key].as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    }

    /// A path of the file is meant from where the file is.
    fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(|path| self.folder.join(path))
    }

    fn headers(&self) -> Vec<(String, String)> {
        let headers = self.prometheus["headers"].as_object().into_iter().flatten();
        headers.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge that reads the configuration")]
fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn text_of(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes_of(path)?).map_err(|_| format!("{} is no text", path.display()))
}
