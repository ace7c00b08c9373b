//! Runs a program in a pseudo-terminal: sends keys as if a user had pressed them, and reads the
//! screen as text or as a picture.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::eventually;

/// A terminal that runs a program, which is killed when this value is dropped.
pub struct Tty {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Tty {
    /// Runs a shell command in a terminal of this size, with additional environment variables.
    ///
    /// # Panics
    /// If `script` (util-linux) is missing, or the size is zero.
    pub fn start(line: &str, (columns, rows): (u16, u16), environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new("script");
        // `script` copies the window size only from a terminal (`ul_pty_setup` in util-linux), and
        // its stdin is a pipe here.
        let line = format!("stty rows {rows} cols {columns}; {line}");
        command
            .args(["-qefc", &line, "/dev/null"])
            .envs(environment.iter().copied());
        command
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            rows.try_into().unwrap(),
            columns.try_into().unwrap(),
            0,
        )));
        let (mut out, display) = (child.stdout.take().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                display.lock().unwrap().process(&bytes[..count]);
            }
        });
        let keyboard = child.stdin.take().unwrap();
        Self {
            child,
            keyboard,
            screen,
        }
    }

    /// PID of the shell command; after `exec`, that of the program that replaced the shell.
    pub fn program(&self) -> Option<u32> {
        let script = self.child.id();
        let children =
            std::fs::read_to_string(format!("/proc/{script}/task/{script}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Sends keys as the bytes that a terminal would send for them.
    ///
    /// # Panics
    /// If the program has ended.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// The text on the screen.
    ///
    /// # Panics
    /// Never: the thread that reads the program's output does not panic.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Whether a program uses the alternate screen.
    ///
    /// # Panics
    /// Never: the thread that reads the program's output does not panic.
    pub fn is_taken(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    /// Waits until the text on the screen is as expected. `what` completes "timed out waiting until
    /// the screen shows ...".
    ///
    /// # Panics
    /// After a minute, with the last screen.
    #[track_caller]
    pub fn until(&self, what: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let what = format!("the screen shows {what}");
        eventually(&what, Duration::from_secs(60), || {
            let text = self.text();
            if is_expected(&text) {
                Ok(text)
            } else {
                // As a list of lines, the text stays readable in the message.
                Err(text.lines().map(ToOwned::to_owned).collect::<Vec<_>>())
            }
        })
    }

    /// Waits until the screen contains this text.
    ///
    /// # Panics
    /// After a minute, with the last screen.
    #[track_caller]
    pub fn sees(&self, expected: &str) -> String {
        self.until(expected, |text| text.contains(expected))
    }
}

impl Tty {
    /// Draws the screen as SVG.
    ///
    /// # Panics
    /// Never: the thread that reads the program's output does not panic.
    pub fn picture(&self) -> String {
        const COLUMN: u32 = 8;
        const ROW: u32 = 18;
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        let (rows, columns) = (screen.size().0.get(), screen.size().1.get());
        let (width, height) = (u32::from(columns) * COLUMN + 32, u32::from(rows) * ROW + 28);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#0d1117\"/>\n"
        );
        for row in 0..rows {
            let y = 12 + (u32::from(row) + 1) * ROW;
            let mut column = 0;
            while column < columns {
                let Some(first) = screen.cell(row, column) else {
                    break;
                };
                let style = |cell: &vt100::Cell| {
                    (
                        cell.fgcolor(),
                        cell.bold(),
                        cell.inverse(),
                        cell.dim(),
                        cell.underline(),
                    )
                };
                // Adjacent cells with the same style become one text element. Its explicit length
                // keeps the columns aligned in any font.
                let mut text = String::new();
                let from = column;
                while let Some(cell) = screen
                    .cell(row, column)
                    .filter(|cell| style(cell) == style(first))
                {
                    text.push_str(if cell.has_contents() {
                        cell.contents()
                    } else {
                        " "
                    });
                    column += 1;
                }
                if text.trim().is_empty() && !first.inverse() {
                    continue;
                }
                let (x, length) = (
                    16 + u32::from(from) * COLUMN,
                    u32::from(column - from) * COLUMN,
                );
                let color = if first.inverse() {
                    "#0d1117"
                } else {
                    hex(first.fgcolor(), first.dim())
                };
                if first.inverse() {
                    svg.push_str(&format!(
                        "<rect x=\"{x}\" y=\"{}\" width=\"{length}\" height=\"{ROW}\" fill=\"#c9d1d9\"/>\n",
                        y - 14
                    ));
                }
                let bold = if first.bold() {
                    " font-weight=\"bold\""
                } else {
                    ""
                };
                let line = if first.underline() {
                    " text-decoration=\"underline\""
                } else {
                    ""
                };
                let text = text
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;");
                svg.push_str(&format!(
                    "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" fill=\"{color}\"{bold}{line} xml:space=\"preserve\">{text}</text>\n"
                ));
            }
        }
        svg + "</svg>\n"
    }
}

/// Maps the terminal colors that gpuctl uses to RGB.
fn hex(color: vt100::Color, dim: bool) -> &'static str {
    match color {
        vt100::Color::Idx(1 | 9) => "#ff7b72",
        vt100::Color::Idx(2 | 10) => "#7ee787",
        vt100::Color::Idx(3 | 11) => "#e3b341",
        vt100::Color::Idx(8) => "#8b949e",
        _ if dim => "#8b949e",
        _ => "#c9d1d9",
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
