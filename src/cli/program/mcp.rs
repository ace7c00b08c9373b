//! Arguments and help for `gpuctl mcp` and `gpuctl skill`.

use clap::{Args, ValueEnum};

/// Serve agents over the Model Context Protocol, on stdin and stdout
///
/// The tools answer common questions, such as why a job is waiting, what is free, and which pods
/// hold which GPUs. Text from the cluster is fenced by a random marker and split into pages of at
/// most 2 KB. Values of environment variables and credentials are masked. Manifests from an agent
/// cannot use local files.
///
/// Agents cannot change anything without --allow-writes. Even then, a tool first shows the change,
/// and the agent must confirm it in a second call with a word from that output.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  claude mcp add gpuctl -- gpuctl mcp
  gpuctl mcp --context lab -n team-a
  gpuctl mcp --allow-writes                   # also create, apply and delete jobs
  gpuctl mcp --allow-writes=jobs,pools        # also pools, with their own tools")]
pub(crate) struct Mcp {
    /// Also offer tools that change the cluster; without a value, only those that change jobs
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "jobs")]
    pub allow_writes: Vec<WriteScope>,
}

/// Kinds of objects that agents may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WriteScope {
    /// Training jobs, inference services, notebooks and compute services
    Jobs,
    /// Pools, which are node labels
    Pools,
    /// Namespace quotas
    Quotas,
    /// The site's defaults for the jobs of all users
    Defaults,
}

/// Print a short file that teaches an agent to use gpuctl
#[derive(Args, Debug)]
#[command(after_help = "Example:
  mkdir -p ~/.claude/skills/gpuctl && gpuctl skill > ~/.claude/skills/gpuctl/SKILL.md")]
pub(crate) struct Skill {}
