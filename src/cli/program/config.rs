//! Arguments and help for `gpuctl config`.

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates::context_names;
use crate::config::{KEYS, SettingKey, SettingPath};

/// Show the current settings (precedence: flags, environment, config file, defaults)
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl config view
  gpuctl config view --show-origin
  gpuctl config view -o json --config monitor.yaml")]
pub(crate) struct View {
    /// Show the origin of each value
    #[arg(long)]
    pub show_origin: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

/// Write a setting to the config file, preserving comments
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl config set prometheus.url http://prometheus.example.com:9090
  gpuctl config set thresholds.low_utilization 25
  gpuctl config set contexts.lab.prometheus.url http://lab.example.com:9090
  pass show ai-key | gpuctl config set ai.api_key -")]
pub(crate) struct Set {
    /// Setting, such as prometheus.url
    #[arg(value_name = "KEY", add = ArgValueCandidates::new(keys))]
    pub key: String,
    /// Value; - reads it from stdin, which keeps secrets out of the shell history
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

/// Print the value of one setting
///
/// Prints an empty line if the setting has no value, and ******** instead of a secret.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl config get prometheus.url
  gpuctl config get thresholds.idle -o json")]
pub(crate) struct GetSetting {
    /// Setting, such as prometheus.url
    #[arg(value_name = "KEY", add = ArgValueCandidates::new(keys))]
    pub key: String,
    /// Output format; json and yaml include the origin of the value
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

/// Remove a setting from the config file, preserving comments
///
/// The setting then has its default, or the value from the environment.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl config unset prometheus.url")]
pub(crate) struct UnsetSetting {
    /// Setting, such as prometheus.url
    #[arg(value_name = "KEY", add = ArgValueCandidates::new(keys))]
    pub key: String,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}

/// Completes settings, and settings of the contexts of the kubeconfig.
pub(crate) fn keys() -> Vec<CompletionCandidate> {
    let candidate = |name: String, key: &SettingKey| {
        CompletionCandidate::new(name).help(Some(key.description.into()))
    };
    let mut candidates: Vec<CompletionCandidate> = KEYS
        .iter()
        .map(|key| candidate(key.name.to_owned(), key))
        .collect();
    for context in context_names() {
        let context = context.get_value().to_string_lossy().into_owned();
        let keys = SettingPath::keys_of_contexts();
        candidates
            .extend(keys.map(|key| candidate(SettingPath::name_in_context(key, &context), key)));
    }
    candidates
}
