//! The pager that a user asked for: a program of theirs that shows data a screen at a time. It gets what would go to stdout, and the terminal is
//! its own until it ends.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::platform::Endings;

/// What shows text where the user names nothing.
const USUAL: &str = "less";

/// A pager that runs; dropped, it has shown all and its user has left it.
#[derive(Debug)]
pub(super) struct Pager {
    child: Child,
    input: Option<ChildStdin>,
    /// Ctrl-C is a key of the pager while it runs, and no end of this program.
    _interrupts: Vec<Endings>,
}

impl Pager {
    /// Starts a command line of the user's shell. `less` ends by itself where everything fits a screen, keeps colors and leaves the
    /// screen as it is, as under git, unless `LESS` says otherwise.
    pub(super) fn start(command: Option<&str>) -> io::Result<Self> {
        let line = format!("export LESS=\"${{LESS-FRX}}\"; {}", command.unwrap_or(USUAL));
        let mut child = Command::new("sh").args(["-c", &line]).stdin(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        Ok(Self { child, input, _interrupts: Endings::all() })
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input.as_mut().map_or(Ok(bytes.len()), |input| input.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), ChildStdin::flush)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // The end of its input is what lets a pager end.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
