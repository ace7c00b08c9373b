//! Resolves settings once at startup: flags override the environment, which overrides the config
//! file, which overrides the defaults. No other module reads the environment.

mod edit;
mod file;
mod folders;
mod keys;
mod metrics;
mod outbound;
pub(crate) mod reference;
mod report;
mod resolve;
mod safety;
mod score;
mod setting_path;

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::terminal::TerminalOptions;
use gpuctl_cluster::AccessToken;
use gpuctl_local::kuberc::Kuberc;

pub(crate) use edit::{set, unset};
pub(crate) use file::{KubeContexts, default_path};
pub(crate) use folders::folder_warnings;
pub use keys::{KEYS, SettingKey, ValueKind};
pub(crate) use metrics::{MetricsFlags, MetricsSource};
pub(crate) use outbound::{AiSettings, ControlSettings, NotifySettings, QuietHours, state_folder};
pub(crate) use report::ReportSettings;
pub(crate) use resolve::{Config, Origin};
pub(crate) use score::ScoreSettings;
pub(crate) use setting_path::SettingPath;

/// The variable with a token for the API server.
pub(crate) const TOKEN: &str = "GPUCTL_TOKEN";

const READ_ONLY: &str = "GPUCTL_READ_ONLY";

/// Finds the known word that is most similar to `word`, within an edit distance of a third of its
/// length.
pub(crate) fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_close = |candidate: &&str| {
        strsim::damerau_levenshtein(word, candidate) <= (candidate.len() / 3).max(1)
    };
    among
        .filter(is_close)
        .min_by_key(|candidate| strsim::damerau_levenshtein(word, candidate))
}

/// Settings from environment variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// The existing files in `KUBECONFIG`, all of them if none exists, or else the default file if
    /// it exists.
    pub kubeconfig: Vec<PathBuf>,
    pub color: Option<bool>,
    pub plain: bool,
    pub columns: Option<usize>,
    /// gpuctl's pager, from `GPUCTL_PAGER`.
    pub pager: Option<String>,
    /// The filter for the request log, from `GPUCTL_LOG`.
    pub log: Option<String>,
    /// The pager for all programs, from `PAGER`.
    pub common_pager: Option<String>,
    /// Where kubectl's policy for credential plugins is, from `KUBERC`.
    pub kuberc: Kuberc,
    /// A token for the API server, from `GPUCTL_TOKEN`.
    pub token: Option<AccessToken>,
}

/// Finds kuberc as kubectl does. Both variables can turn it off.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the edge that reads the environment"
)]
fn kuberc(file: Option<String>, is_enabled: Option<String>) -> Kuberc {
    let is_off = file.as_deref() == Some("off")
        || is_enabled.is_some_and(|value| ValueKind::Switch.parse(&value) == Some(false.into()));
    let default = || dirs::home_dir().map(|home| home.join(".kube/kuberc"));
    Kuberc {
        is_explicit: file.is_some(),
        file: match is_off {
            true => None,
            false => file.map(PathBuf::from).or_else(default),
        },
        search_path: std::env::var_os("PATH")
            .map(|path| std::env::split_paths(&path).collect())
            .unwrap_or_default(),
    }
}

/// Selects the listed files that exist, like kubectl. If none exists, returns all of them, so that
/// the error of reading them names the path.
fn existing_files(listed: Vec<PathBuf>) -> Vec<PathBuf> {
    let existing: Vec<PathBuf> = listed
        .iter()
        .filter(|path| path.exists())
        .cloned()
        .collect();
    if existing.is_empty() {
        listed
    } else {
        existing
    }
}

impl Environment {
    /// Reads the environment variables of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the edge that reads the environment"
    )]
    pub(crate) fn read() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let kubeconfig = match std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
            Some(list) => existing_files(std::env::split_paths(&list).collect()),
            None => dirs::home_dir()
                .map(|home| home.join(".kube/config"))
                .filter(|path| path.exists())
                .into_iter()
                .collect(),
        };
        // The conventions of no-color.org and bixense.com/clicolors.
        let color = if text("NO_COLOR").is_some() {
            Some(false)
        } else if text("CLICOLOR_FORCE")
            .or_else(|| text("FORCE_COLOR"))
            .is_some_and(|value| value != "0")
        {
            Some(true)
        } else if text("CLICOLOR").as_deref() == Some("0")
            || text("TERM").as_deref() == Some("dumb")
        {
            Some(false)
        } else {
            None
        };
        // The order of precedence that POSIX defines for `LC_CTYPE`.
        let locale = text("LC_ALL")
            .or_else(|| text("LC_CTYPE"))
            .or_else(|| text("LANG"));
        Self {
            kubeconfig,
            color,
            plain: matches!(locale.as_deref(), Some("C" | "POSIX")),
            pager: text("GPUCTL_PAGER"),
            log: text("GPUCTL_LOG"),
            common_pager: text("PAGER"),
            kuberc: kuberc(text("KUBERC"), text("KUBECTL_KUBERC")),
            token: text(TOKEN).map(AccessToken::new),
            columns: text("COLUMNS")
                .and_then(|columns| columns.parse().ok())
                .filter(|columns| *columns >= 20),
        }
    }

    /// Reads a variable whose name the user gives, such as the token for a Secret.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the edge that reads the environment"
    )]
    pub(crate) fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// The name of a misspelled variable that was meant to forbid writing, such as
    /// `GPUCTL_READONLY`. This can also be the correct name, if its value is not UTF-8.
    pub(crate) fn misspelled_read_only() -> Option<String> {
        let is_off = |value: &OsStr| {
            let text = value.to_str().map(str::trim);
            text.is_some_and(|text| {
                text.is_empty() || ValueKind::Switch.parse(text) == Some(false.into())
            })
        };
        let mut variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let upper = name.to_ascii_uppercase();
            let suffix = ["GPUCTL_", "GPU_CTL_", "GPUCTRL_", "GPUCTL"]
                .iter()
                .find_map(|prefix| upper.strip_prefix(prefix))?;
            let is_right = name == READ_ONLY && value.to_str().is_some();
            (!is_right && (suffix == "RO" || safety::is_like_read_only(suffix)) && !is_off(&value))
                .then_some(name)
        });
        variables.next()
    }

    /// The terminal options that the environment sets, before any flags apply.
    pub(crate) fn terminal_options(&self) -> TerminalOptions {
        TerminalOptions {
            environment: self.color,
            plain: self.plain,
            columns: self.columns,
            ..TerminalOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_list_without_existing_files_stays_for_the_error() {
        let listed = |paths: &[&str]| existing_files(paths.iter().map(PathBuf::from).collect());
        assert_eq!(listed(&["/nosuch/a", "/"]), [PathBuf::from("/")]);
        assert_eq!(listed(&["/nosuch/a"]), [PathBuf::from("/nosuch/a")]);
        assert!(listed(&[]).is_empty());
    }

    #[test]
    fn a_misspelled_key_has_a_suggestion() {
        let nearest_section = |word| nearest(word, SettingKey::sections().into_iter());
        assert_eq!(nearest_section("promethues"), Some("prometheus"));
        assert_eq!(nearest_section("banana"), None);
    }
}
