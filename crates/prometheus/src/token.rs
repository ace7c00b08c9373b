//! Gets a short-lived token from a command that the user configured. Managed cloud services require
//! such tokens. The command's output may contain the token, so it is never displayed.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::QueryError;
use gpuctl_local::program_output::output_within;

/// Time limit of the command.
const LONGEST: Duration = Duration::from_secs(30);
/// Maximum size of the command's output in bytes.
const LARGEST: usize = 64 * 1024;

/// Reason why a credential command failed. Messages never quote its output.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandFailure {
    #[error("it did not finish within {} s", LONGEST.as_secs())]
    TimedOut,
    #[error("it failed to start: {0}")]
    NotStarted(std::io::Error),
    #[error("it printed too much output")]
    TooMuch,
    #[error("it failed ({0}); run it by hand to see why")]
    Failed(ExitStatus),
}

/// Runs a command that prints a token, which must be a single word.
pub(crate) async fn from_command(command: &str) -> Result<String, QueryError> {
    let failed = |cause: CommandFailure| QueryError::TokenCommand {
        cause: cause.to_string(),
    };
    let token = output_of(command).await.map_err(failed)?;
    if token.is_empty() || token.contains(char::is_whitespace) {
        let cause = "it did not print a token, which must be a single word".to_owned();
        return Err(QueryError::TokenCommand { cause });
    }
    Ok(token)
}

/// Runs a command and returns its output without surrounding white space.
pub(super) async fn output_of(command: &str) -> Result<String, CommandFailure> {
    let (shell, option) = if cfg!(windows) {
        ("cmd", "/C")
    } else {
        ("sh", "-c")
    };
    let mut program = Command::new(shell);
    program
        .args([option, command])
        // A command that prompts for input then fails instead of waiting. Its errors may contain
        // the token, so discard them.
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = tokio::time::timeout(LONGEST, output_within(&mut program, LARGEST))
        .await
        .map_err(|_| CommandFailure::TimedOut)?
        .map_err(CommandFailure::NotStarted)?
        .ok_or(CommandFailure::TooMuch)?;
    if !output.status.success() {
        return Err(CommandFailure::Failed(output.status));
    }
    Ok(String::from_utf8(output.stdout)
        .unwrap_or_default()
        .trim()
        .to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn token_command_must_print_one_word() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let token_of = |command: &str| runtime.block_on(from_command(command));
        assert_eq!(token_of("printf 'abc.def\\n'"), Ok("abc.def".to_owned()));
        for command in ["true", "echo two words", "echo secret; exit 3"] {
            let error = token_of(command).unwrap_err();
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
        assert_eq!(
            token_of("yes secret"),
            Err(QueryError::TokenCommand {
                cause: "it printed too much output".to_owned()
            })
        );
    }
}
