//! Arguments and help for `gpuctl create secret`.

use clap::Args;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::dry_run;
use crate::cli::args::value::object_name;
use gpuctl_cluster::DryRun;

/// Store tokens or a registry login in a Secret
///
/// With --from-env and --from-file, a job reads the keys as `env: [{name: HF_TOKEN, secret:
/// NAME}]`. With --registry, it pulls private images with `imagePullSecret: NAME`. No value is ever
/// printed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl create secret hub --from-env HF_TOKEN --from-env WANDB_API_KEY
  gpuctl create secret pull --registry registry.example.com --username alice --password-stdin < token.txt")]
pub(crate) struct CreateSecret {
    /// Name of the secret
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Key to set from the environment variable with the same name, or KEY=VARIABLE; may be
    /// repeated
    #[arg(long, value_name = "VARIABLE", required_unless_present_any = ["from_file", "registry"])]
    pub from_env: Vec<String>,
    /// Key to set from a file, as PATH or KEY=PATH; may be repeated
    #[arg(long, value_name = "PATH")]
    pub from_file: Vec<String>,
    /// Log in to this image registry
    #[arg(long, value_name = "HOST", requires = "username", conflicts_with_all = ["from_env", "from_file"])]
    pub registry: Option<String>,
    /// User name for the registry
    #[arg(long, value_name = "NAME", requires = "registry")]
    pub username: Option<String>,
    /// Read the registry's password from stdin
    #[arg(long, requires = "registry")]
    pub password_stdin: bool,
    /// Environment variable that holds the registry's password
    #[arg(
        long,
        value_name = "VARIABLE",
        requires = "registry",
        conflicts_with = "password_stdin"
    )]
    pub password_env: Option<String>,
    /// Overwrite an existing secret
    #[arg(long)]
    pub replace: bool,
    /// Show the result without changing anything; `server` also lets the API server check it
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
