//! `gpuctl completion`: prints a shell's completion script.

use std::process::ExitCode;

use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::cli::program::completion::{Completion, Shell};
use crate::context::Context;
use gpuctl_core::error::{Error, ErrorName};

impl Shell {
    pub(crate) const ALL: [Self; 5] = [Self::Bash, Self::Elvish, Self::Fish, Self::Pwsh, Self::Zsh];

    /// File name under which the shell finds the script.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Bash => "gpuctl.bash",
            Self::Elvish => "gpuctl.elv",
            Self::Fish => "gpuctl.fish",
            Self::Pwsh => "_gpuctl.ps1",
            Self::Zsh => "_gpuctl",
        }
    }
}

/// Generates the completion script of `shell`. The script calls gpuctl for the candidates.
pub(crate) fn script(shell: Shell) -> std::io::Result<String> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Pwsh => &Powershell,
        Shell::Zsh => &Zsh,
    };
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "gpuctl", "gpuctl", "gpuctl", &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

pub(crate) async fn run(args: &Completion, context: &Context) -> Result<ExitCode, Error> {
    let script = script(args.shell)
        .map_err(|error| Error::new(ErrorName::CompletionFailed, error.to_string()))?;
    context.terminal.print(&script)?;
    Ok(ExitCode::SUCCESS)
}
