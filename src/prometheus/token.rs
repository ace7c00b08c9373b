//! Gets a short-lived token from a command of the user's, as managed services of clouds want them. Nothing that it prints is ever
//! shown, for it may be the token.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::QueryError;

/// Time that the command gets.
const LONGEST: Duration = Duration::from_secs(30);
/// Bytes of a token.
const LARGEST: usize = 64 * 1024;

/// Returns what the command prints, without white space around it.
pub(crate) async fn from_command(command: &str) -> Result<String, QueryError> {
    let failed = |cause: String| QueryError::TokenCommand { cause };
    let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut program = Command::new(shell);
    program.args([option, command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(LONGEST, program.output())
        .await
        .map_err(|_| failed(format!("it did not end within {} s", LONGEST.as_secs())))?
        .map_err(|error| failed(format!("it cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("it failed ({}); run it by hand to see why", output.status)));
    }
    let token = String::from_utf8(output.stdout).unwrap_or_default().trim().to_owned();
    if token.is_empty() || token.len() > LARGEST || token.contains(char::is_whitespace) {
        return Err(failed("it printed no token: one word is expected".to_owned()));
    }
    Ok(token)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_token() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let of = |command: &str| runtime.block_on(from_command(command));
        assert_eq!(of("printf 'abc.def\\n'"), Ok("abc.def".to_owned()));
        for command in ["true", "echo two words", "echo secret; exit 3"] {
            let error = of(command).unwrap_err();
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
