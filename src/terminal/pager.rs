//! The pager that a user asked for: a program of theirs that shows data a screen at a time. It gets
//! all that a command printed once the command has ended, so that nobody who leaves the pager stops
//! what is being done.

use std::io::Write;
use std::process::{Command, Stdio};

use gpuctl_local::platform::Endings;

/// What shows text where the user names nothing.
const USUAL: &str = "less";

/// Data that waits for the end of its command.
#[derive(Debug)]
pub(super) struct Paged {
    /// A command line of the user's shell; `None` for the usual pager.
    command: Option<String>,
    pub(super) text: String,
}

impl Paged {
    pub(super) fn with(command: Option<String>) -> Self {
        Self {
            command,
            text: String::new(),
        }
    }

    /// Shows the data and waits until its user has left it. False where there is no such program,
    /// so that nobody has seen anything. `less` ends by itself where everything fits a screen,
    /// keeps colors and leaves the screen as it is, as under git, unless `LESS` says otherwise.
    pub(super) fn is_shown(&self) -> bool {
        let line = format!(
            "export LESS=\"${{LESS-FRX}}\"; {}",
            self.command.as_deref().unwrap_or(USUAL)
        );
        // Ctrl-C is a key of the pager, and no end of this program.
        let _held = Endings::interrupt();
        let Ok(mut child) = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .spawn()
        else {
            return false;
        };
        if let Some(mut input) = child.stdin.take() {
            // Whoever leaves early has seen enough.
            let _ = input.write_all(self.text.as_bytes());
        }
        let code = child.wait().ok().and_then(|status| status.code());
        // What a shell says of a program that it cannot run or find.
        !matches!(code, Some(126 | 127))
    }
}
