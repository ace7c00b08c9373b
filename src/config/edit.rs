//! Edits the config file without losing comments.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use serde_json::Value;
use yaml_edit::YamlFile;
use yaml_edit::path::YamlPath;

use super::file::{default_path, parsed};
use super::keys::SettingKey;
use gpuctl_local::files::trust::{config_text, exposure, is_closed, make_private};
use gpuctl_local::files::{Purpose, replace};

/// Writes a value to the given file, or else to the user's config file, which is created if
/// missing. Preserves comments and returns the path of the file.
pub(crate) fn set(
    given: Option<&Path>,
    key: &SettingKey,
    value: &Value,
) -> anyhow::Result<PathBuf> {
    let path = given
        .map(Path::to_path_buf)
        .or_else(default_path)
        .ok_or_else(|| anyhow!("no config folder found; specify a file with --config"))?;
    must_be_closed(&path, given.is_none())?;
    let old_text = if path.exists() {
        config_text(&path, given.is_some())?
    } else {
        String::new()
    };
    let old_value = parsed(&old_text, &path)?;
    let new = changed(&old_text, key, value).ok_or_else(|| {
        anyhow!(
            "{} cannot be edited automatically; edit it by hand",
            path.display()
        )
    })?;
    let mut expected = if old_value.is_object() {
        old_value
    } else {
        serde_json::json!({})
    };
    match key.path() {
        (Some(section), name) => {
            if !expected[section].is_object() {
                expected[section] = serde_json::json!({});
            }
            expected[section][name] = value.clone();
        }
        (None, name) => expected[name] = value.clone(),
    }
    // The edited text must parse to the old settings plus this change. Otherwise the editor misread
    // comments or anchors.
    if parsed(&new, &path).ok().as_ref() != Some(&expected) {
        return Err(anyhow!(
            "{} cannot be edited automatically; set `{}` by hand",
            path.display(),
            key.name
        ));
    }
    replace(&path, new.as_bytes(), Purpose::Config)?;
    Ok(path)
}

/// Removes other users' access to gpuctl's folder. Fails if other users can still change the file,
/// because gpuctl would write their settings back as the user's own.
fn must_be_closed(path: &Path, is_usual: bool) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| is_usual && folder.exists());
    if let Some(folder) = folder {
        if !is_closed(folder) {
            let problem = if folder.is_symlink() {
                "is a symbolic link"
            } else {
                "belongs to another user"
            };
            return Err(anyhow!(
                "{} {problem}; remove it, or specify the file with --config",
                folder.display()
            ));
        }
        make_private(folder);
    }
    match if path.exists() { exposure(path)? } else { None } {
        Some(exposure) => Err(anyhow!(
            "the config file may contain another user's settings: {}",
            exposure.message()
        )),
        None => Ok(()),
    }
}

fn changed(old_text: &str, key: &SettingKey, value: &Value) -> Option<String> {
    let new_lines = match key.path() {
        (Some(section), name) => format!("{section}:\n  {name}: {value}\n"),
        (None, name) => format!("{name}: {value}\n"),
    };
    if old_text.trim().is_empty() {
        return Some(format!("{old_text}{new_lines}"));
    }
    let file = YamlFile::from_str(old_text).ok()?;
    let Some(document) = file.document() else {
        // The file contains only comments.
        return Some(format!("{}\n{new_lines}", old_text.trim_end()));
    };
    match value {
        Value::Bool(switch) => document.try_set_path(key.name, *switch),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => document.try_set_path(key.name, integer),
            None => document.try_set_path(key.name, number.as_f64()?),
        },
        Value::String(text) => document.try_set_path(key.name, text.as_str()),
        _ => return None,
    }
    .ok()?;
    Some(file.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(old: &str, name: &str, value: &Value) -> String {
        changed(old, SettingKey::by_name(name), value).unwrap()
    }

    #[test]
    fn a_change_keeps_the_rest_of_the_file() {
        let old =
            "# ours\nprometheus:\n  url: http://a   # the address\n\nthresholds: {idle: 10}\n";
        let new = after(old, "thresholds.idle", &json!(12.5));
        assert_eq!(new, old.replace("10", "12.5"));
        assert_eq!(
            after(old, "prometheus.url", &json!("http://b")),
            old.replace("http://a", "http://b")
        );
        let new = after(old, "ai.enabled", &json!(true));
        assert!(
            new.starts_with(old.trim_end()) && new.ends_with("ai:\n  enabled: true\n"),
            "{new}"
        );
        assert_eq!(after("", "ai.max", &json!(3)), "ai:\n  max: 3\n");
        assert_eq!(after("", "namespace", &json!("a")), "namespace: \"a\"\n");
        let new = after(old, "namespace", &json!("team-a"));
        assert!(
            new.starts_with(old.trim_end()) && new.contains("\nnamespace: team-a"),
            "{new}"
        );
        assert_eq!(
            after("# only words\n", "ai.max", &json!(3)),
            "# only words\nai:\n  max: 3\n"
        );
    }
}
