//! Arguments and help for `gpuctl auth check`.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::cli::args::list::PrintArgs;
use crate::cli::args::value::{self, Expected, object_name};
use crate::cli::candidates;
use crate::verbs::tasks;

/// Check which commands you are allowed to use, in this namespace and in all namespaces
///
/// Without arguments, checks every command. With commands, exits with 0 if all of them are allowed,
/// and with 5 otherwise. A verb without a noun includes all its nouns. The exceptions are `create`,
/// `apply` and `delete`, which include only jobs, services and notebooks.
///
/// `--emit-role` prints RBAC roles and bindings for kubectl without applying them, so that you can
/// send them to an administrator. The bindings grant the roles to the users, groups and service
/// accounts in the options, or to you. If a role includes Prometheus and gpuctl does not find its
/// Service, set `--prometheus-service`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl auth check
  gpuctl auth check create jobs --pool training-pool
  gpuctl auth check create logs why -n team-a --emit-role > role.yaml
  gpuctl auth check -n team-a --emit-role=researcher --user alice@example.com | kubectl apply -f -
  gpuctl auth check --emit-role=operator --group platform-team
  gpuctl auth check top -A --emit-role=full --serviceaccount monitoring:reporter \\
    --prometheus-service monitoring/prometheus-operated:9090")]
pub(crate) struct AuthCheck {
    /// Commands, such as create jobs, logs, get nodes, report [default: all commands]
    #[arg(value_name = "COMMAND", num_args = 0.., add = ArgValueCandidates::new(words))]
    pub words: Vec<String>,
    /// Also check that this pool exists and accepts another job
    #[arg(long, value_name = "NAME", requires = "words", value_parser = object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: Option<String>,
    /// Print RBAC roles and bindings for the commands, or for a kind of user
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "minimal", conflicts_with = "pool")]
    pub emit_role: Option<RoleExtent>,
    /// User to bind the roles to; may be repeated [default: yourself]
    #[arg(long = "user", value_name = "NAME", requires = "emit_role", value_parser = subject_name)]
    pub users: Vec<String>,
    /// Group to bind the roles to; may be repeated
    #[arg(long = "group", value_name = "NAME", requires = "emit_role", value_parser = subject_name)]
    pub groups: Vec<String>,
    /// Service account to bind the roles to; may be repeated
    #[arg(long = "serviceaccount", value_name = "NAMESPACE:NAME", requires = "emit_role", value_parser = service_account)]
    pub service_accounts: Vec<(String, String)>,
    /// Prometheus Service to grant access to, instead of the discovered one
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", requires = "emit_role", value_parser = named_service)]
    pub prometheus_service: Option<NamedService>,
    #[command(flatten)]
    pub print: PrintArgs,
}

/// What the printed roles allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleExtent {
    /// Permissions the commands always need, whatever their arguments
    Minimal,
    /// Also the permissions needed for complete output
    Full,
    /// A user with read access to all views of a namespace, and to nodes and pools
    Viewer,
    /// A viewer who can also submit, watch and delete jobs in the namespace
    Researcher,
    /// A viewer of all namespaces who can also manage nodes, pools, quotas and defaults
    Operator,
}

/// Value of `--prometheus-service`: a Service with an optional port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedService {
    pub namespace: String,
    pub name: String,
    pub port: Option<u16>,
}

/// Accepts the names of all identity providers. The API server has no rule for names, but a control
/// character could hide a part of the printed role from its reader.
fn subject_name(text: &str) -> Result<String, Expected> {
    let is_valid = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(Expected("a name without control characters"))
    }
}

fn service_account(text: &str) -> Result<(String, String), Expected> {
    let expected = || Expected("NAMESPACE:NAME, such as team-a:reporter");
    let (namespace, name) = text.split_once(':').ok_or_else(expected)?;
    Ok((
        value::namespace(namespace).map_err(|_| expected())?,
        object_name(name).map_err(|_| expected())?,
    ))
}

fn named_service(text: &str) -> Result<NamedService, Expected> {
    let expected = || {
        Expected(
            "NAMESPACE/NAME or NAMESPACE/NAME:PORT, such as monitoring/prometheus-operated:9090",
        )
    };
    let (namespace, service) = text.split_once('/').ok_or_else(expected)?;
    let (name, port) = match service.split_once(':') {
        Some((name, port)) => (name, Some(port.parse().map_err(|_| expected())?)),
        None => (service, None),
    };
    let valid = |name: &str| object_name(name).map_err(|_| expected());
    Ok(NamedService {
        namespace: value::namespace(namespace).map_err(|_| expected())?,
        name: valid(name)?,
        port,
    })
}

/// Completes the words of all commands in `auth check`.
fn words() -> Vec<CompletionCandidate> {
    let words: BTreeSet<&str> = tasks().flat_map(|task| task.words.split(' ')).collect();
    words.into_iter().map(CompletionCandidate::new).collect()
}
