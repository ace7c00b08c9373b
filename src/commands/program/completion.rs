//! `gpuctl completion`: prints the script that registers completion with a shell.

use std::process::ExitCode;

use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::cli::program::completion::{Completion, Shell};
use crate::context::Context;
use gpuctl_core::error::{Error, ErrorName};

impl Shell {
    pub(crate) const ALL: [Self; 5] = [Self::Bash, Self::Elvish, Self::Fish, Self::Pwsh, Self::Zsh];

    /// The name under which the shell looks for the completion file.
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

/// Generates the script that registers gpuctl with `shell`. The candidates come from the program
/// itself.
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
