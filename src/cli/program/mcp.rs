//! Arguments and help of `gpuctl mcp` and `gpuctl skill`.

use clap::Args;

/// Answer agents over the Model Context Protocol, on stdin and stdout
///
/// The tools ask what people ask: why a job waits, what is free, who holds what. Answers have pages of at most 2 KB, and what looks like a
/// secret is taken out. Nothing is changed without --allow-writes, and then only after the same call told what it would do.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  claude mcp add gpuctl -- gpuctl mcp
  gpuctl mcp --context lab -n team-a
  gpuctl mcp --allow-writes       # also create, apply and delete, each after a dry run")]
pub(crate) struct Mcp {
    /// Also offer the tools that create, change and delete jobs
    #[arg(long)]
    pub allow_writes: bool,
}

/// Print a short file that teaches an agent to use gpuctl
#[derive(Args, Debug)]
#[command(after_help = "Example:
  mkdir -p ~/.claude/skills/gpuctl && gpuctl skill > ~/.claude/skills/gpuctl/SKILL.md")]
pub(crate) struct Skill {}
