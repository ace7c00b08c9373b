//! Runs this program itself for the cockpit: an answer line by line in the pane, or with the whole terminal.

use std::ffi::OsString;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Lines that wait to be shown; a command that says more waits, too.
const WAITING: usize = 1000;

/// Builds a command line of our own with the options that this one was started with.
fn command(own: &[OsString], words: &[String]) -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(own).args(words);
    Some(command)
}

/// A command whose answer is shown while it comes.
pub(super) struct Answer {
    child: Child,
    lines: Receiver<String>,
}

impl Answer {
    /// Begins one; `None` where the program cannot be run.
    pub(super) fn begin(own: &[OsString], words: &[String]) -> Option<Self> {
        let mut command = command(own, words)?;
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().ok()?;
        let (sender, lines) = channel(WAITING);
        read(child.stderr.take()?, sender.clone());
        read(child.stdout.take()?, sender);
        Some(Self { child, lines })
    }

    /// Returns the lines that came; `Err` has how it ended.
    pub(super) async fn next(&mut self) -> Result<Vec<String>, String> {
        if let Some(line) = self.lines.recv().await {
            let mut lines = vec![line];
            while let Some(line) = self.lines.try_recv().ok().filter(|_| lines.len() < WAITING) {
                lines.push(line);
            }
            return Ok(lines);
        }
        let code = self.child.wait().await.ok().and_then(|status| status.code());
        Err(match code {
            Some(0) => "done".to_owned(),
            Some(code) => format!("exit code {code}"),
            None => "ended by a signal".to_owned(),
        })
    }
}

/// Passes lines on as they come, until nobody wants them.
fn read(from: impl AsyncRead + Unpin + 'static, to: Sender<String>) {
    tokio::task::spawn_local(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if to.send(line).await.is_err() {
                return;
            }
        }
    });
}

/// Gives the terminal to a command until it ends. Returns its exit code; `None` where it has none.
pub(super) async fn hand_over(own: &[OsString], words: &[String]) -> Option<i32> {
    command(own, words)?.status().await.ok()?.code()
}
