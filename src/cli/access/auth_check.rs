//! Arguments and help of `gpuctl auth check`.

use std::collections::BTreeSet;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::list::PrintArgs;
use crate::cli::candidates;
use crate::model::rights::Task;
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
  gpuctl auth check logs jobs -A --emit-role=full")]
pub(crate) struct AuthCheck {
    /// Verb, such as create, get, describe, logs, delete
    #[arg(value_parser = PossibleValuesParser::new(verbs()), hide_possible_values = true, requires = "resource")]
    pub verb: Option<String>,
    /// Resource, such as jobs, services, notebooks, secrets, nodes, pools, quotas
    #[arg(value_parser = PossibleValuesParser::new(resources()), hide_possible_values = true)]
    pub resource: Option<String>,
    /// Also check that this pool exists and accepts another job
    #[arg(long, value_name = "NAME", requires = "verb", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
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

pub(crate) fn verbs() -> Vec<&'static str> {
    tasks().map(Task::verb).collect::<BTreeSet<_>>().into_iter().collect()
}

pub(crate) fn resources() -> Vec<&'static str> {
    let plural = tasks().map(Task::resource).collect::<BTreeSet<_>>();
    plural.iter().flat_map(|word| [*word, word.strip_suffix('s').unwrap_or(word)]).collect()
}
