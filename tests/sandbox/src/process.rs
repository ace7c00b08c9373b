//! Children that die with their parent, however it ends. The parent-death signal of Linux follows
//! the spawning thread, so a process group is used instead: a small shell leads it, holds a pipe
//! from us, and kills the whole group when the pipe closes.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A process group that ends when this value is dropped or this process dies.
pub struct Group {
    leader: Child,
}

impl Group {
    /// `leftover` is removed when the group ends.
    pub fn new(leftover: Option<&Path>) -> Result<Self> {
        let leader = Command::new("sh")
            .args([
                "-c",
                "read _; [ -z \"$1\" ] || rm -rf \"$1\"; kill -KILL 0",
                "sh",
            ])
            .args(leftover)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start `sh`")?;
        Ok(Self { leader })
    }

    /// Starts `command` in the group, with both output streams in `log`.
    pub fn spawn(&self, mut command: Command, log: &Path) -> Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone().context("cannot share a log file")?;
        command
            // Nearly a third of a control plane's time is garbage collection, and memory is cheap.
            .env("GOGC", "400")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(self.leader.id().cast_signed())
            .spawn()
            .with_context(|| format!("cannot start {name}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(self.leader.stdin.take());
        // The leader kills itself with the rest; its exit status says nothing.
        let _ = self.leader.wait();
    }
}
