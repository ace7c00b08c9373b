//! Runs gpuctl commands for the cockpit, either with their output in a pane or on the whole
//! terminal.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::config::TOKEN;
use gpuctl_cluster::AccessToken;

/// Maximum number of lines that wait to be displayed. Beyond this, the command blocks.
const MAX_WAITING_LINES: usize = 1000;

/// Path and global options of this program.
pub(super) struct CurrentProgram {
    path: PathBuf,
    options: Vec<OsString>,
    /// Token for the API server. Passed through the environment, because other users can read
    /// arguments.
    token: Option<AccessToken>,
}

impl CurrentProgram {
    /// Resolves the path at startup, because an upgrade may remove the file while the cockpit runs.
    pub(super) fn find(options: Vec<OsString>, token: Option<AccessToken>) -> io::Result<Self> {
        Ok(Self {
            path: std::env::current_exe()?,
            options,
            token,
        })
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&self.path);
        // Kill the command when the cockpit closes the pane.
        command.args(&self.options).args(words).kill_on_drop(true);
        if let Some(token) = &self.token {
            command.env(TOKEN, token.secret());
        }
        command
    }

    /// Starts a command whose output goes to the pane.
    pub(super) fn answer(&self, words: &[String]) -> io::Result<CommandOutput> {
        let mut command = self.command(words);
        command
            // The pane displays text without styles.
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (sender, lines) = channel(MAX_WAITING_LINES);
        child
            .stderr
            .take()
            .into_iter()
            .for_each(|stream| read(stream, sender.clone()));
        child
            .stdout
            .take()
            .into_iter()
            .for_each(|stream| read(stream, sender.clone()));
        Ok(CommandOutput { child, lines })
    }

    /// Runs a command on the terminal. Returns its exit code, or `None` after a signal.
    pub(super) async fn run_in_terminal(&self, words: &[String]) -> io::Result<Option<i32>> {
        Ok(self.command(words).status().await?.code())
    }
}

/// A running command with output for the pane.
pub(super) struct CommandOutput {
    child: Child,
    lines: Receiver<String>,
}

/// The pane's message about a command's end.
pub(super) struct CommandEnd {
    pub text: String,
}

impl CommandOutput {
    /// Waits for output lines or the end of the command.
    pub(super) async fn next(&mut self) -> Result<Vec<String>, CommandEnd> {
        if let Some(line) = self.lines.recv().await {
            let mut lines = vec![line];
            while let Some(line) = self
                .lines
                .try_recv()
                .ok()
                .filter(|_| lines.len() < MAX_WAITING_LINES)
            {
                lines.push(line);
            }
            return Ok(lines);
        }
        let code = self
            .child
            .wait()
            .await
            .ok()
            .and_then(|status| status.code());
        Err(CommandEnd {
            text: match code {
                Some(0) => "done".to_owned(),
                Some(code) => format!("exit code {code}"),
                None => "terminated by a signal".to_owned(),
            },
        })
    }
}

/// Forwards lines as they arrive, until the receiver is dropped.
fn read(stream: impl AsyncRead + Unpin + 'static, sender: Sender<String>) {
    tokio::task::spawn_local(async move {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if sender.send(line).await.is_err() {
                return;
            }
        }
    });
}
