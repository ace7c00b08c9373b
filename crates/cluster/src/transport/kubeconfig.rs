//! Reads and merges the files of a kubeconfig, which may be pipes.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use kube::config::{Cluster, Context, Kubeconfig, KubeconfigError};

use super::failure::Failure;
use gpuctl_core::model::secrets::shown_error;

/// Maximum size of a kubeconfig in bytes.
const LARGEST: u64 = 16 << 20;

/// Reads one file with a size limit. kube has no limit, and would read an endless device into
/// memory.
fn read_file(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let failed = |source| KubeconfigError::ReadConfig(source, path.to_path_buf());
    let too_large = || {
        failed(io::Error::new(
            ErrorKind::FileTooLarge,
            "it is larger than 16 MiB",
        ))
    };
    let data = std::fs::metadata(path).map_err(failed)?;
    if data.is_file() {
        return if data.len() > LARGEST {
            Err(too_large())
        } else {
            Kubeconfig::read_from(path)
        };
    }
    // Use kube's reader for files, because it resolves relative paths against the file's folder. A
    // pipe has no folder.
    let text = piped_text(path).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        Err(too_large())
    } else {
        Kubeconfig::from_yaml(&text)
    }
}

/// Reads a pipe once and caches its text, because a command reads the kubeconfig several times.
#[expect(
    clippy::disallowed_methods,
    reason = "kube reads kubeconfigs from files only"
)]
fn piped_text(path: &Path) -> io::Result<String> {
    static TEXTS: std::sync::Mutex<BTreeMap<PathBuf, String>> =
        std::sync::Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = texts.get(path) {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(LARGEST + 1)
        .read_to_string(&mut text)?;
    texts.insert(path.to_path_buf(), text.clone());
    Ok(text)
}

/// Reads and merges the files. Returns `None` if there are none.
pub(super) fn read(files: &[PathBuf]) -> Result<Option<Kubeconfig>, Failure> {
    let mut merged: Option<Kubeconfig> = None;
    for path in files {
        let next = read_file(path).map_err(|error| match error {
            KubeconfigError::ReadConfig(cause, path) => Failure::Kubeconfig {
                cause: format!("{}: {cause}", path.display()),
            },
            // Do not quote the parser's error, which contains parts of the file and so possibly
            // tokens.
            KubeconfigError::Parse(error) => {
                let position = error.location().map_or(String::new(), |location| {
                    format!(":{}:{}", location.line(), location.column())
                });
                Failure::Kubeconfig {
                    cause: format!("{}{position}: it is not a kubeconfig", path.display()),
                }
            }
            other => Failure::Kubeconfig {
                cause: shown_error(&other.to_string()),
            },
        })?;
        // As in kubectl, the first file that sets a value wins.
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next).map_err(|error| Failure::Kubeconfig {
                cause: shown_error(&error.to_string()),
            })?,
        });
    }
    Ok(merged)
}

/// Finds a context by name. Defaults to the kubeconfig's current context.
pub(super) fn find_context<'k>(
    kubeconfig: &'k Kubeconfig,
    name: Option<&String>,
) -> Option<&'k Context> {
    let name = name.or(kubeconfig.current_context.as_ref())?;
    kubeconfig
        .contexts
        .iter()
        .find(|context| &context.name == name)?
        .context
        .as_ref()
}

/// Returns the user name and cluster of a context.
pub(super) fn user_and_cluster(
    kubeconfig: &Kubeconfig,
    context: Option<&Context>,
) -> (Option<String>, Option<Cluster>) {
    let user = context.and_then(|context| context.user.clone());
    let cluster = context.and_then(|context| {
        kubeconfig
            .clusters
            .iter()
            .find(|entry| entry.name == context.cluster)?
            .cluster
            .clone()
    });
    (user, cluster)
}

/// Builds the failure for a kubeconfig that kube rejects.
pub(super) fn unusable(error: &KubeconfigError, contexts: &[String]) -> Failure {
    match error {
        KubeconfigError::CurrentContextNotSet => Failure::NoKubeconfig,
        KubeconfigError::LoadContext(name) => {
            let cause = format!(
                "context `{name}` does not exist; available contexts: {}",
                contexts.join(", ")
            );
            Failure::Kubeconfig { cause }
        }
        other => Failure::Kubeconfig {
            cause: shown_error(&other.to_string()),
        },
    }
}
