//! Child processes that end with their parent, even if the parent is killed. Linux sends the
//! parent-death signal when the spawning thread ends, so this uses a process group instead: its
//! leader is a small shell that reads from a pipe held by the parent, and kills the group when the
//! pipe closes.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A process group. It ends when this value is dropped or this process dies.
pub struct Group {
    leader: Child,
}

impl Group {
    /// Removes the folder `leftover` when the group ends.
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

    /// Starts `command` in the group, with stdout and stderr redirected to `log`.
    pub fn spawn(&self, mut command: Command, log: &Path) -> Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone().context("cannot share a log file")?;
        command
            // With the default setting, garbage collection takes nearly a third of the control
            // plane's CPU time.
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
        // The leader kills itself with the group, so its exit status is meaningless.
        let _ = self.leader.wait();
    }
}
