//! Edits the config file without losing comments.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::anyhow;
use serde_json::{Value, json};
use yaml_edit::YamlFile;
use yaml_edit::path::YamlPath;

use super::file::{default_path, parsed};
use super::setting_path::SettingPath;
use gpuctl_local::files::trust::{config_text, exposure, is_closed, make_private};
use gpuctl_local::files::{Purpose, replace};

/// Writes a value to the given file, or else to the user's config file, which is created if
/// missing. Preserves comments and returns the path of the file.
pub(crate) fn set(
    given: Option<&Path>,
    path: &SettingPath,
    value: &Value,
) -> anyhow::Result<PathBuf> {
    let file = EditedFile::open(given)?;
    let mut expected = file.settings.clone();
    insert(&mut expected, &path.segments(), value);
    file.write(changed(&file.text, path, value), &expected, path)
}

/// Sets a value in nested maps.
fn insert(settings: &mut Value, segments: &[&str], value: &Value) {
    let Some((first, rest)) = segments.split_first() else {
        settings.clone_from(value);
        return;
    };
    if !settings.is_object() {
        *settings = json!({});
    }
    insert(&mut settings[*first], rest, value);
}

/// Removes a key from the file that [`set`] would write, and its sections if they are then empty.
/// Preserves comments outside of them. Returns the path of the file, and whether it had the key.
pub(crate) fn unset(given: Option<&Path>, path: &SettingPath) -> anyhow::Result<(PathBuf, bool)> {
    let file = EditedFile::open(given)?;
    let segments = path.segments();
    let Some((expected, depth)) = without(&file.settings, &segments) else {
        return Ok((file.path, false));
    };
    let edited = removed(&file.text, &editor_path(&segments[..depth]));
    Ok((file.write(edited, &expected, path)?, true))
}

/// Returns a path in the syntax of the editor. Names of contexts may contain its separators.
fn editor_path(segments: &[&str]) -> String {
    let escaped = |segment: &&str| -> String {
        match segment.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            true => (*segment).to_owned(),
            false => segment.chars().flat_map(|c| ['\\', c]).collect(),
        }
    };
    let segments: Vec<String> = segments.iter().map(escaped).collect();
    segments.join(".")
}

/// The config file before an edit.
struct EditedFile {
    path: PathBuf,
    text: String,
    /// The settings in the text: an object, empty without a file.
    settings: Value,
}

impl EditedFile {
    fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        let path = given
            .map(Path::to_path_buf)
            .or_else(default_path)
            .ok_or_else(|| anyhow!("no config folder found; specify a file with --config"))?;
        must_be_closed(&path, given.is_none())?;
        let text = if path.exists() {
            config_text(&path, given.is_some())?
        } else {
            String::new()
        };
        let settings = object(parsed(&text, &path)?);
        Ok(Self {
            path,
            text,
            settings,
        })
    }

    /// Writes the edited text, which must parse to `expected`. Otherwise the editor misread
    /// comments or anchors.
    fn write(
        &self,
        edited: Option<String>,
        expected: &Value,
        path: &SettingPath,
    ) -> anyhow::Result<PathBuf> {
        let is_expected = |text: &String| {
            parsed(text, &self.path).is_ok_and(|settings| object(settings) == *expected)
        };
        let edited = edited.filter(is_expected).ok_or_else(|| {
            anyhow!(
                "{} cannot be edited automatically; change `{}` by hand",
                self.path.display(),
                path.name()
            )
        })?;
        replace(&self.path, edited.as_bytes(), Purpose::Config)?;
        Ok(self.path.clone())
    }
}

/// Replaces a document that is not an object, such as an empty one, by an empty object.
fn object(settings: Value) -> Value {
    if settings.is_object() {
        settings
    } else {
        json!({})
    }
}

/// Returns the settings without a key, and the number of segments of the path to remove from the
/// file: the key, or the outermost section that has no other keys. Returns `None` if the key is not
/// set.
fn without(settings: &Value, segments: &[&str]) -> Option<(Value, usize)> {
    let mut settings = settings.clone();
    let depth = remove(&mut settings, segments)?;
    Some((settings, depth))
}

/// Removes a key and the maps that are then empty. Returns the number of segments up to the
/// outermost key that was removed.
fn remove(settings: &mut Value, segments: &[&str]) -> Option<usize> {
    let (first, rest) = segments.split_first()?;
    let map = settings.as_object_mut()?;
    if rest.is_empty() {
        return map.remove(*first).map(|_| 1);
    }
    let depth = remove(map.get_mut(*first)?, rest)?;
    if map[*first].as_object().is_some_and(|keys| !keys.is_empty()) {
        return Some(depth + 1);
    }
    map.remove(*first).map(|_| 1)
}

fn removed(old_text: &str, path: &str) -> Option<String> {
    let file = YamlFile::from_str(old_text).ok()?;
    file.document()?.try_remove_path(path).ok()?;
    let text = file.to_string();
    // The editor leaves an empty map when it removes the last key.
    Some(match text.strip_suffix("{}\n") {
        Some(rest) if rest.is_empty() || rest.ends_with('\n') => rest.to_owned(),
        _ => text,
    })
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

/// Returns the lines of a file that has only one key.
fn new_lines(path: &SettingPath, value: &Value) -> String {
    let segments = path.segments();
    let last = segments.len() - 1;
    let line = |(depth, segment): (usize, &&str)| {
        let key = match path.context.as_deref() {
            // Names of contexts may need quotes. A JSON string is valid YAML.
            Some(context) if context == *segment && depth == 1 => json!(context).to_string(),
            _ => (*segment).to_owned(),
        };
        let value = match depth == last {
            true => format!(" {value}"),
            false => String::new(),
        };
        format!("{}{key}:{value}\n", "  ".repeat(depth))
    };
    segments.iter().enumerate().map(line).collect()
}

fn changed(old_text: &str, path: &SettingPath, value: &Value) -> Option<String> {
    let new_lines = new_lines(path, value);
    let editor_path = editor_path(&path.segments());
    if old_text.trim().is_empty() {
        return Some(format!("{old_text}{new_lines}"));
    }
    let file = YamlFile::from_str(old_text).ok()?;
    let Some(document) = file.document() else {
        // The file contains only comments.
        return Some(format!("{}\n{new_lines}", old_text.trim_end()));
    };
    match value {
        Value::Bool(switch) => document.try_set_path(&editor_path, *switch),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => document.try_set_path(&editor_path, integer),
            None => document.try_set_path(&editor_path, number.as_f64()?),
        },
        Value::String(text) => document.try_set_path(&editor_path, text.as_str()),
        _ => return None,
    }
    .ok()?;
    Some(file.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(old: &str, name: &str, value: &Value) -> String {
        changed(old, &SettingPath::find(name).unwrap(), value).unwrap()
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

    #[test]
    fn a_removal_keeps_the_rest_of_the_file() {
        let old = "# ours\nprometheus:\n  url: http://a   # the address\n  timeout: 5s\n\n\
                   thresholds: {idle: 10}\nnamespace: team-a\n";
        let settings: Value = json!({
            "prometheus": {"url": "http://a", "timeout": "5s"},
            "thresholds": {"idle": 10},
            "namespace": "team-a",
        });
        let after = |name: &str| {
            let path = SettingPath::find(name).unwrap();
            let segments = path.segments();
            let (rest, depth) = without(&settings, &segments).unwrap();
            let text = removed(old, &editor_path(&segments[..depth])).unwrap();
            assert_eq!(
                object(parsed(&text, Path::new("f")).unwrap()),
                rest,
                "{text}"
            );
            text
        };
        assert!(after("prometheus.url").starts_with("# ours\nprometheus:\n  timeout: 5s\n"));
        assert!(!after("thresholds.idle").contains("thresholds"));
        assert!(!after("namespace").contains("namespace"));
        assert_eq!(
            removed("# ours\nnamespace: a\n", "namespace").unwrap(),
            "# ours\n"
        );
        assert_eq!(without(&settings, &["ai", "max"]), None);
        assert_eq!(without(&json!({}), &["prometheus", "url"]), None);
    }
    #[test]
    fn settings_of_contexts_are_written_and_removed() {
        let name = "arn:aws:eks:eu-west-1:1:cluster/a.b";
        for context in ["lab", name, "1", "yes"] {
            let key = format!("contexts.{context}.prometheus.url");
            let path = SettingPath::find(&key).unwrap();
            let segments = path.segments();
            for old in [
                "",
                "# ours\n",
                "# ours\nprometheus:\n  url: http://a\n",
                "contexts:\n  prod:\n    prometheus: {url: http://p}\n",
            ] {
                let settings = object(parsed(old, Path::new("f")).unwrap());
                let mut expected = settings.clone();
                insert(&mut expected, &segments, &json!("http://b"));
                let new = after(old, &key, &json!("http://b"));
                let read = object(parsed(&new, Path::new("f")).unwrap());
                assert_eq!(read, expected, "{context} {new}");
                assert!(new.starts_with(old.lines().next().unwrap_or_default()));
                let (rest, depth) = without(&read, &segments).unwrap();
                assert_eq!(rest, settings, "{context}");
                let text = removed(&new, &editor_path(&segments[..depth])).unwrap();
                assert_eq!(
                    object(parsed(&text, Path::new("f")).unwrap()),
                    rest,
                    "{text}"
                );
            }
        }
    }
}
