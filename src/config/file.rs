//! The config file: found, read, and asked by section and key. What keys mean is not known here.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What the file says; nothing where there is none.
#[derive(Default)]
pub struct ConfigFile {
    content: Value,
    folder: PathBuf,
}

impl ConfigFile {
    /// The file that was named, which has to be there, or the one in the user's folder, which need not.
    pub fn read(named: Option<&Path>) -> Result<Self, String> {
        let usual = || Some(dirs::config_dir()?.join("gpuctl/config.yaml")).filter(|path| path.exists());
        let Some(path) = named.map(Path::to_path_buf).or_else(usual) else { return Ok(Self::default()) };
        let text = text_of(&path)?;
        let content: Option<Value> = serde_saphyr::from_str(&text).map_err(|error| {
            // The library's words quote the file, which may hold a secret.
            let place = error.location().map_or(String::new(), |at| format!(":{}:{}", at.line(), at.column()));
            format!("{}{place} is no valid YAML", path.display())
        })?;
        let mut content = content.unwrap_or_default();
        if let Some(url) = content["prometheus"].as_str().map(ToOwned::to_owned) {
            content["prometheus"] = serde_json::json!({ "url": url });
        }
        Ok(Self { content, folder: path.parent().map(Path::to_path_buf).unwrap_or_default() })
    }

    /// A text that is not empty.
    pub fn text(&self, section: &str, key: &str) -> Option<String> {
        self.content[section][key].as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    }

    /// A number; an error says which key has something else.
    pub fn number(&self, section: &str, key: &str) -> Result<Option<f64>, String> {
        match &self.content[section][key] {
            Value::Null => Ok(None),
            value => value.as_f64().map(Some).ok_or_else(|| format!("`{section}.{key}` of the config file is no number")),
        }
    }

    /// A path, meant from where the file is.
    pub fn path(&self, section: &str, key: &str) -> Option<PathBuf> {
        self.text(section, key).map(|path| self.folder.join(path))
    }

    /// Names and texts below a key.
    pub fn map(&self, section: &str, key: &str) -> Vec<(String, String)> {
        let map = self.content[section][key].as_object().into_iter().flatten();
        map.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge that reads the configuration")]
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

pub fn text_of(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes_of(path)?).map_err(|_| format!("{} is no text", path.display()))
}
