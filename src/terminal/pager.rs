//! Pipes output to the user's pager after the command has finished, so that quitting the pager
//! cannot interrupt a write.

use std::io::Write;
use std::process::{Command, Stdio};

use gpuctl_local::platform::Endings;

const DEFAULT_PAGER: &str = "less";

/// Output that is collected until the command has ended.
#[derive(Debug)]
pub(super) struct PagerOutput {
    /// Command line for the user's shell, or `None` for the default pager.
    command: Option<String>,
    pub(super) text: String,
}

impl PagerOutput {
    pub(super) fn new(command: Option<String>) -> Self {
        Self {
            command,
            text: String::new(),
        }
    }

    /// Shows the output, and waits until the user leaves the pager. Returns false if the pager
    /// cannot run. `LESS` has the same default as in git: `less` keeps colors, leaves the text on
    /// the screen, and exits if the text fits on one screen.
    pub(super) fn show(&self) -> bool {
        let line = format!(
            "export LESS=\"${{LESS-FRX}}\"; {}",
            self.command.as_deref().unwrap_or(DEFAULT_PAGER)
        );
        // Ctrl-C is for the pager, and must not end this program.
        let _held = Endings::interrupt();
        let Ok(mut child) = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .spawn()
        else {
            return false;
        };
        if let Some(mut input) = child.stdin.take() {
            // The write fails if the user leaves the pager early, which is not an error.
            let _ = input.write_all(self.text.as_bytes());
        }
        let code = child.wait().ok().and_then(|status| status.code());
        // Exit codes of a POSIX shell that cannot execute (126) or find (127) the program.
        !matches!(code, Some(126 | 127))
    }
}
