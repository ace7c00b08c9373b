//! Arguments and help for `gpuctl completion`.

use clap::{Args, ValueEnum};

/// Print a shell's completion script, which completes names from the cluster
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  source <(gpuctl completion bash)
  mkdir -p ~/.config/fish/completions
  gpuctl completion fish > ~/.config/fish/completions/gpuctl.fish")]
pub(crate) struct Completion {
    /// Shell
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    #[value(name = "powershell")]
    Pwsh,
    Zsh,
}
