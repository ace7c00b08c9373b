//! `completion`: the script that registers gpuctl with a shell, and the live names that it offers. Must be quick and silent,
//! for a person waits for the next keystroke.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::cluster::{Access, Connection, Wanted};
use crate::config::Environment;
use crate::error::{Error, Kind};
use crate::model::{Inventory, Job, Workload};

use super::World;

/// Print the completion script of a shell; it offers the names of live jobs
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  source <(gpuctl completion bash)
  gpuctl completion fish > ~/.config/fish/completions/gpuctl.fish")]
pub struct Completion {
    /// Shell to complete in
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
}

impl Shell {
    pub const ALL: [Self; 5] = [Self::Bash, Self::Elvish, Self::Fish, Self::PowerShell, Self::Zsh];

    /// The file that shells of this kind look for.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Bash => "gpuctl.bash",
            Self::Elvish => "gpuctl.elv",
            Self::Fish => "gpuctl.fish",
            Self::PowerShell => "_gpuctl.ps1",
            Self::Zsh => "_gpuctl",
        }
    }
}

/// The script that registers gpuctl with `shell`; the candidates come from the program itself.
pub fn script(shell: Shell) -> std::io::Result<String> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
    };
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "gpuctl", "gpuctl", "gpuctl", &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

pub fn run(args: &Completion, world: &World) -> Result<ExitCode, Error> {
    let script = script(args.shell).map_err(|error| Error::new(Kind::Request, "CompletionFailed", error.to_string()))?;
    world.terminal.print(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// A person waits for the next keystroke.
const WITHIN: Duration = Duration::from_millis(300);

/// Names of jobs, for the shell. Any trouble gives no candidates and no message.
#[must_use]
pub fn job_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let home = connection.namespace.clone();
        let jobs = connection.jobs(&Wanted::default()).await.ok()?.jobs;
        let name = |job: Job| if job.namespace == home { job.name } else { format!("{}/{}", job.namespace, job.name) };
        Some(jobs.into_iter().map(name).collect())
    })
}

/// Workloads by kind and name, for the shell.
#[must_use]
pub fn workload_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let owners = connection.owners(None).await.ok()?;
        let found = owners.forest.workloads(&Inventory::default());
        let name = |one: Workload| format!("{}/{}/{}", one.top.namespace, one.top.kind, one.top.name);
        Some(found.into_iter().map(name).collect())
    })
}

/// Names of nodes, for the shell.
#[must_use]
pub fn node_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| Some(connection.nodes().await.ok()?.all().iter().map(|node| node.name.clone()).collect()))
}

/// Names of pools, for the shell.
#[must_use]
pub fn pool_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let (nodes, defined) = futures::future::join(connection.nodes(), connection.pools()).await;
        let mut names: BTreeSet<String> = defined.unwrap_or_default().into_iter().map(|pool| pool.name).collect();
        names.extend(nodes.ok()?.all().iter().filter_map(|node| node.pool().map(ToOwned::to_owned)));
        Some(names.into_iter().collect())
    })
}

/// Names of gpuctl's quotas, for the shell.
#[must_use]
pub fn quota_names() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let found = connection.quotas(None).await.ok()?;
        let names: BTreeSet<String> = found.into_iter().filter_map(|quota| quota.quota).collect();
        Some(names.into_iter().collect())
    })
}

/// Namespaces that have a quota, for the shell.
#[must_use]
pub fn quota_namespaces() -> Vec<CompletionCandidate> {
    candidates(async |connection| {
        let found = connection.quotas(None).await.ok()?;
        let names: BTreeSet<String> = found.into_iter().map(|quota| quota.namespace).collect();
        Some(names.into_iter().collect())
    })
}

/// What `ask` finds in the cluster, in time for the next keystroke.
fn candidates(ask: impl AsyncFnOnce(Connection) -> Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let access = Access { kubeconfig: Environment::read().kubeconfig, request_timeout: WITHIN, ..Access::default() };
    let names = async { ask(Connection::open(&access).await.ok()?).await };
    let found = runtime.block_on(async { tokio::time::timeout(WITHIN, names).await.ok().flatten() });
    found.unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}
