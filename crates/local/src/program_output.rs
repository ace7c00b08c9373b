//! Runs programs that print credentials and limits their output, because a faulty program may never
//! stop printing.

use std::io;
use std::process::{Output, Stdio};

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// Runs a program until it exits and returns its output. Kills the program and returns `None` if it
/// prints more than `limit` bytes.
pub async fn output_within(command: &mut Command, limit: usize) -> io::Result<Option<Output>> {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut stdout = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        // `kill` does not reach the program's children. They end when they write to the closed
        // pipe.
        pipe.take(limit as u64 + 1).read_to_end(&mut stdout).await?;
    }
    if stdout.len() > limit {
        child.kill().await?;
        return Ok(None);
    }
    Ok(Some(Output {
        status: child.wait().await?,
        stdout,
        stderr: Vec::new(),
    }))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    async fn shell(script: &str) -> Option<Output> {
        let mut command = Command::new("sh");
        output_within(command.args(["-c", script]).stdin(Stdio::null()), 1000)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn output_has_a_limit() {
        let complete = shell("yes | head -c 1000; exit 3").await.unwrap();
        assert_eq!(
            (complete.stdout.len(), complete.status.code()),
            (1000, Some(3))
        );
        for script in [
            "yes | head -c 1001",
            "yes",
            "yes & wait",
            "yes | cat; exit 3",
        ] {
            assert!(shell(script).await.is_none(), "{script}");
        }
    }
}
