//! Arguments and help of `gpuctl auth check`.

use std::collections::BTreeSet;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;
use crate::verbs::tasks;

/// Check your permissions
#[derive(Debug, Subcommand)]
pub(crate) enum Auth {
    Check(AuthCheck),
}

/// Check which commands you may use, in this namespace and in all
///
/// Without a verb: every command. With one: exit code 0 when it is allowed, 5 when it is not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl auth check
  gpuctl auth check create jobs --pool training-pool
  gpuctl auth check -n team-a --emit-role > role.yaml
  gpuctl auth check logs -A --emit-role=full")]
pub(crate) struct AuthCheck {
    /// Command, such as create jobs, logs, get nodes, report [default: all commands]
    #[arg(value_name = "COMMAND", num_args = 0..=3, add = ArgValueCandidates::new(words))]
    pub words: Vec<String>,
    /// Also check that this pool exists and accepts another job
    #[arg(long, value_name = "NAME", requires = "words", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: Option<String>,
    /// Print RBAC roles that allow it: minimal, or full for complete answers
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "minimal", conflicts_with = "pool")]
    pub emit_role: Option<RoleExtent>,
    #[command(flatten)]
    pub print: PrintArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleExtent {
    Minimal,
    Full,
}

/// Words of all commands, for the shell.
fn words() -> Vec<CompletionCandidate> {
    let words: BTreeSet<&str> = tasks().flat_map(|task| task.words.split(' ')).collect();
    words.into_iter().map(CompletionCandidate::new).collect()
}
