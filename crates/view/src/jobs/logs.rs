//! Renders log lines of several pods with a rank prefix and colors. Removes escape sequences that
//! move the cursor.

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::State;

use crate::TextStyle;
use crate::format::text::{is_unsafe, paint};

/// A log line and its pod.
#[derive(Clone, Debug)]
pub struct PodLogLine {
    pub pod: String,
    pub rank: Option<u32>,
    pub container: String,
    pub at: Option<Timestamp>,
    pub text: String,
}

/// The JSON output of `logs`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogDocument<'a> {
    pub logs: Vec<&'a str>,
    pub last_timestamp: Option<Timestamp>,
    pub lines: Vec<JsonLine<'a>>,
}

/// A log line with its origin; with `--follow`, one per line of output.
#[derive(JsonSchema, Serialize)]
pub struct JsonLine<'a> {
    pub pod: &'a str,
    pub rank: Option<u32>,
    pub container: &'a str,
    pub timestamp: Option<Timestamp>,
    pub line: &'a str,
}

impl<'a> From<&'a PodLogLine> for JsonLine<'a> {
    fn from(line: &'a PodLogLine) -> Self {
        Self {
            pod: &line.pod,
            rank: line.rank,
            container: &line.container,
            timestamp: line.at,
            line: &line.text,
        }
    }
}

pub fn document(lines: &[PodLogLine]) -> LogDocument<'_> {
    LogDocument {
        logs: lines.iter().map(|line| line.text.as_str()).collect(),
        last_timestamp: lines.iter().filter_map(|line| line.at).max(),
        lines: lines.iter().map(JsonLine::from).collect(),
    }
}

/// What to print before each line.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// Whether to print the rank or replica, for jobs with several.
    pub rank: bool,
    pub timestamps: bool,
}

const COLORS: [Color; 6] = [
    Color::Cyan,
    Color::Magenta,
    Color::Yellow,
    Color::Green,
    Color::Blue,
    Color::BrightRed,
];

/// Renders a line as text. `raw` keeps all bytes that the program wrote. Without colors, the
/// program's colors are removed too.
pub fn text(line: &PodLogLine, prefix: Prefix, style: TextStyle, raw: bool) -> String {
    let mut result = String::new();
    if prefix.rank {
        let (name, color) = match line.rank {
            Some(rank) => (format!("{rank:>2}"), COLORS[rank as usize % COLORS.len()]),
            // Use the last part of the pod's name, which differs between replicas.
            None => {
                let name = line.pod.rsplit('-').next().unwrap_or(&line.pod);
                (
                    name.to_owned(),
                    // Derive the color from the name, so that a replica has the same color in every
                    // run.
                    COLORS[name.bytes().map(usize::from).sum::<usize>() % COLORS.len()],
                )
            }
        };
        result.push_str(&paint(&format!("{name} │ "), Some(color), style));
    }
    if prefix.timestamps {
        result.push_str(
            &line
                .at
                .map_or_else(|| "-".to_owned(), |time| format!("{time:.3}")),
        );
        result.push(' ');
    }
    let text = if raw {
        line.text.clone()
    } else {
        visible(&line.text, style.color)
    };
    result.push_str(&text);
    // Reset colors, which the program may not have done at the end of the line.
    if !raw && style.color && text.contains('\u{1b}') {
        result.push_str("\u{1b}[0m");
    }
    result.push('\n');
    result
}

/// Formats a remark that is printed between log lines.
pub fn remark(text: &str) -> String {
    format!("── {text} ──")
}

/// Formats the remark that follows the last line of an ended job.
pub fn ending(job: &str, state: &State) -> String {
    let message = state
        .message
        .as_deref()
        .map_or(String::new(), |message| format!(": {message}"));
    remark(&format!("{job} {state}{message}"))
}

/// Removes escape sequences and control characters, except colors if `colors` is true.
///
/// Progress bars redraw their line with carriage returns, so only the text after the last one is
/// kept.
pub fn visible(text: &str, colors: bool) -> String {
    // A carriage return before the line feed does not redraw the line.
    let text = text.trim_end_matches('\r');
    let text = text.rsplit('\r').next().unwrap_or(text);
    let mut result = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\t' => result.push('\t'),
            '\u{1b}' => match chars.next() {
                Some('[') => result.push_str(&control_sequence(&mut chars, colors)),
                // A string follows OSC, DCS, APC, PM and SOS (ECMA-48).
                Some(']' | 'P' | '_' | '^' | 'X') => skip_string(&mut chars),
                _ => {}
            },
            // The 8-bit C1 controls are equivalent: CSI, then DCS, OSC, PM and APC.
            '\u{9b}' => result.push_str(&control_sequence(&mut chars, colors)),
            '\u{90}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
            c if is_unsafe(c) => {}
            c => result.push(c),
        }
    }
    result
}

/// Consumes a control sequence. Returns it if it sets colors and `keep` is true.
fn control_sequence(chars: &mut impl Iterator<Item = char>, keep: bool) -> String {
    let mut parameters = String::new();
    for c in chars {
        // The final byte ends a control sequence (ECMA-48, section 5.4).
        if ('\u{40}'..='\u{7e}').contains(&c) {
            let colors = keep
                && c == 'm'
                && parameters
                    .chars()
                    .all(|c| c.is_ascii_digit() || c == ';' || c == ':');
            return if colors {
                format!("\u{1b}[{parameters}m")
            } else {
                String::new()
            };
        }
        parameters.push(c);
    }
    String::new()
}

fn skip_string(chars: &mut std::iter::Peekable<impl Iterator<Item = char>>) {
    while let Some(c) = chars.next() {
        // xterm also ends the string at BEL. ECMA-48 defines only ST, which is U+009C or `ESC \`.
        if c == '\u{7}' || c == '\u{9c}' {
            return;
        }
        if c == '\u{1b}' {
            chars.next_if_eq(&'\\');
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_colors_survive() {
        assert_eq!(visible("\u{1b}[32mok\u{1b}[0m", false), "ok");
        assert_eq!(
            visible("\u{1b}[32mok\u{1b}[0m", true),
            "\u{1b}[32mok\u{1b}[0m"
        );
        assert_eq!(
            visible(
                "a\u{1b}[2Jb\u{1b}]52;c;aGk=\u{7}c\u{1b}P+q\u{1b}\\d\u{9b}Ke",
                true
            ),
            "abcde"
        );
        assert_eq!(
            visible(" 10%|█ | 1/10\r 20%|██ | 2/10\r", true),
            " 20%|██ | 2/10"
        );
    }

    proptest! {
        #[test]
        fn no_text_moves_the_cursor(text in "\\PC*|[\\x00-\\x9f]{0,80}") {
            let shown = visible(&text, true);
            let without_colors = regex::Regex::new("\u{1b}\\[[0-9;:]*m").unwrap().replace_all(&shown, "").into_owned();
            prop_assert!(without_colors.chars().all(|c| c == '\t' || !c.is_control()), "{:?}", shown);
        }
    }
}
