//! kubectl's policy for credential plugins, from its preferences file, kuberc. A kubeconfig can
//! name any program as a plugin, and the policy limits which ones run.
//!
//! The rules are those of `k8s.io/client-go/plugin/pkg/client/auth/exec` and of the documentation
//! of `kubectl.config.k8s.io/v1beta1`. A file that gpuctl cannot parse permits no plugin, because
//! it may contain a policy. kubectl is less strict: unless `KUBERC` names the file, it only warns.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::files::{FileError, read_text};
use crate::platform;

/// Location of the kuberc file, and the folders to search for plugins.
#[derive(Clone, Debug, Default)]
pub struct Kuberc {
    /// Path of the kuberc file; `None` if the user has turned kuberc off.
    pub file: Option<PathBuf>,
    /// True if `KUBERC` names the file. It must then exist.
    pub is_explicit: bool,
    /// The folders of `PATH`.
    pub search_path: Vec<PathBuf>,
}

/// Reason why a credential plugin must not run.
#[derive(Debug, thiserror::Error)]
pub enum PluginRefusal {
    #[error("is not checked against its policy: {0}")]
    Unreadable(FileError),
    #[error("is not checked against its policy: {}: {reason}", file.display())]
    Invalid { file: PathBuf, reason: String },
    #[error("is not allowed: {} sets `credentialPluginPolicy: DenyAll`", file.display())]
    Denied { file: PathBuf },
    #[error("is not allowed: it is not in `credentialPluginAllowlist` of {}", file.display())]
    NotListed { file: PathBuf },
    #[error("is not found in PATH, so {} cannot allow it", file.display())]
    NotFound { file: PathBuf },
}

/// The set of credential plugins that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PluginPolicy {
    AllowAll,
    DenyAll,
    /// Names or paths of the programs that may run.
    Allowlist(Vec<String>),
}

/// The fields of a kuberc document that gpuctl reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreferenceDocument {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    credential_plugin_policy: Option<String>,
    credential_plugin_allowlist: Option<Vec<AllowlistEntry>>,
}

/// An entry of the allowlist. `name` is the deprecated name of `command`.
#[derive(Debug, Deserialize)]
struct AllowlistEntry {
    command: Option<String>,
    name: Option<String>,
}

impl Kuberc {
    /// Checks whether a kubeconfig's plugin may run, and returns the program to run. With an
    /// allowlist, this is the path that was checked, so that `PATH` is not searched again.
    pub fn permit(&self, command: &str) -> Result<PathBuf, PluginRefusal> {
        let Some(file) = &self.file else {
            return Ok(command.into());
        };
        let text = match read_text(file) {
            Ok(text) => text,
            Err(FileError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotFound && !self.is_explicit =>
            {
                return Ok(command.into());
            }
            Err(error) => return Err(PluginRefusal::Unreadable(error)),
        };
        let policy = policy(&text).map_err(|reason| PluginRefusal::Invalid {
            file: file.clone(),
            reason: reason.0,
        })?;
        match policy {
            PluginPolicy::AllowAll => Ok(command.into()),
            PluginPolicy::DenyAll => Err(PluginRefusal::Denied { file: file.clone() }),
            PluginPolicy::Allowlist(entries) => self.listed(command, &entries, file),
        }
    }

    fn listed(
        &self,
        command: &str,
        entries: &[String],
        file: &Path,
    ) -> Result<PathBuf, PluginRefusal> {
        let not_found = || PluginRefusal::NotFound {
            file: file.to_path_buf(),
        };
        let program = self.look_up(command).ok_or_else(not_found)?;
        let is_verbatim =
            |entry: &String| Path::new(entry) == cleaned(command) || Path::new(entry) == program;
        let is_same_program = |entry: &String| {
            Path::new(entry).file_name() == program.file_name()
                && self.look_up(entry).as_ref() == Some(&program)
        };
        if entries
            .iter()
            .any(|entry| is_verbatim(entry) || is_same_program(entry))
        {
            Ok(program)
        } else {
            Err(PluginRefusal::NotListed {
                file: file.to_path_buf(),
            })
        }
    }

    /// Finds a program as Go's `exec.LookPath` does: searches the folders of `PATH` for a name, and
    /// uses a path directly.
    fn look_up(&self, command: &str) -> Option<PathBuf> {
        const WINDOWS_ENDINGS: [&str; 4] = ["", ".exe", ".cmd", ".bat"];
        let endings = if cfg!(windows) {
            &WINDOWS_ENDINGS[..]
        } else {
            &[""]
        };
        let program = |path: &Path| {
            let candidates = endings.iter().map(|ending| {
                let mut path = path.as_os_str().to_owned();
                path.push(ending);
                PathBuf::from(path)
            });
            candidates
                .into_iter()
                .find(|path| platform::is_executable(path))
        };
        let path = cleaned(command);
        if path.components().count() != 1 || path.is_absolute() {
            return program(&path);
        }
        // Like Go, ignore relative entries of `PATH`, which depend on the current folder.
        let folders = self
            .search_path
            .iter()
            .filter(|folder| folder.is_absolute());
        folders
            .into_iter()
            .find_map(|folder| program(&folder.join(&path)))
    }
}

/// Normalizes a path like Go's `filepath.Clean`: removes `.` and redundant separators, and resolves
/// `..` without reading symlinks.
fn cleaned(path: &str) -> PathBuf {
    let mut result = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(result.components().next_back(), Some(Component::Normal(_))) =>
            {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// Reason why the policy in kuberc is invalid.
#[derive(Debug, PartialEq, Eq)]
struct PolicyProblem(String);

/// Reads the policy from the first Preference document of a kuberc file.
fn policy(text: &str) -> Result<PluginPolicy, PolicyProblem> {
    let documents: Vec<Option<PreferenceDocument>> = serde_saphyr::from_multiple(text)
        .map_err(|_| PolicyProblem("it is not valid YAML for kuberc".to_owned()))?;
    let documents: Vec<PreferenceDocument> = documents.into_iter().flatten().collect();
    let is_empty = documents.is_empty();
    let is_preference = |document: &PreferenceDocument| {
        document.kind == "Preference" && document.api_version.starts_with("kubectl.config.k8s.io/")
    };
    match documents.into_iter().find(is_preference) {
        Some(document) => document.policy(),
        None if is_empty => Ok(PluginPolicy::AllowAll),
        None => Err(PolicyProblem(
            "it has no document of the kind `Preference` of kubectl.config.k8s.io".to_owned(),
        )),
    }
}

impl PreferenceDocument {
    /// Validates the policy as client-go does, which rejects an allowlist under any other policy.
    fn policy(self) -> Result<PluginPolicy, PolicyProblem> {
        let policy = self.credential_plugin_policy.unwrap_or_default();
        match (policy.as_str(), self.credential_plugin_allowlist) {
            ("" | "AllowAll", None) => Ok(PluginPolicy::AllowAll),
            ("DenyAll", None) => Ok(PluginPolicy::DenyAll),
            ("" | "AllowAll" | "DenyAll", Some(_)) => Err(PolicyProblem(
                "`credentialPluginAllowlist` needs `credentialPluginPolicy: Allowlist`".to_owned(),
            )),
            ("Allowlist", None) => Err(PolicyProblem(
                "`credentialPluginPolicy: Allowlist` needs `credentialPluginAllowlist`".to_owned(),
            )),
            ("Allowlist", Some(entries)) if entries.is_empty() => Err(PolicyProblem(
                "`credentialPluginAllowlist` is empty; `DenyAll` allows no plugin".to_owned(),
            )),
            ("Allowlist", Some(entries)) => {
                let commands = entries.into_iter().enumerate();
                let commands = commands.map(|(index, entry)| entry.command(index + 1));
                commands
                    .collect::<Result<_, _>>()
                    .map(PluginPolicy::Allowlist)
            }
            (other, _) => Err(PolicyProblem(format!(
                "`credentialPluginPolicy: {other}` is not AllowAll, DenyAll or Allowlist"
            ))),
        }
    }
}

impl AllowlistEntry {
    /// Returns the command of the allowlist entry with this number, which error messages show.
    fn command(self, number: usize) -> Result<String, PolicyProblem> {
        let problem = |text: &str| {
            PolicyProblem(format!(
                "entry {number} of `credentialPluginAllowlist` {text}"
            ))
        };
        let values = (
            self.command.filter(|command| !command.is_empty()),
            self.name.filter(|name| !name.is_empty()),
        );
        let command = match values {
            (Some(command), Some(name)) if command != name => {
                return Err(problem("has different values in `command` and `name`"));
            }
            (Some(command), _) | (None, Some(command)) => command,
            (None, None) => return Err(problem("is empty")),
        };
        // Compare text, because `Path` treats paths with redundant separators as equal.
        if cleaned(&command).as_os_str() != command.as_str() {
            return Err(problem("is not a normalized path"));
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests;
