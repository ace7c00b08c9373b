//! Renders log lines of several pods with a rank prefix and colors. Removes escape sequences that
//! move the cursor.

use std::collections::BTreeSet;

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::State;

use crate::TextStyle;
use crate::format::text::{clean, is_unsafe, paint};

/// A log line and its pod.
#[derive(Clone, Debug)]
pub struct PodLogLine {
    pub namespace: String,
    pub job: String,
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
    pub namespace: &'a str,
    pub job: &'a str,
    pub pod: &'a str,
    pub rank: Option<u32>,
    pub container: &'a str,
    pub timestamp: Option<Timestamp>,
    pub line: &'a str,
}

impl<'a> From<&'a PodLogLine> for JsonLine<'a> {
    fn from(line: &'a PodLogLine) -> Self {
        Self {
            namespace: &line.namespace,
            job: &line.job,
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
    pub job: JobPrefix,
    /// Whether to print the rank or replica, for jobs with several.
    pub rank: bool,
    pub timestamps: bool,
}

/// How a line names its job, which is useful when there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPrefix {
    #[default]
    None,
    Name,
    /// For jobs in several namespaces.
    FullName,
}

impl JobPrefix {
    /// Chooses the shortest prefix that tells jobs apart, from their namespaces and names.
    pub fn for_jobs<'j>(jobs: impl Iterator<Item = (&'j str, &'j str)>) -> Self {
        let jobs: BTreeSet<(&str, &str)> = jobs.collect();
        let names: BTreeSet<&str> = jobs.iter().map(|(_, name)| *name).collect();
        match jobs.len() {
            0 | 1 => Self::None,
            several if names.len() == several => Self::Name,
            _ => Self::FullName,
        }
    }
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
    if let Some((name, color)) = origin(line, prefix) {
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

/// What precedes a line: its job, or its rank or replica, or both. `None` if there is only one pod.
fn origin(line: &PodLogLine, prefix: Prefix) -> Option<(String, Color)> {
    // A replica or job gets the same color in every run.
    let color = |name: &str| COLORS[name.bytes().map(usize::from).sum::<usize>() % COLORS.len()];
    let pod = prefix.rank.then(|| match line.rank {
        Some(rank) => (format!("{rank:>2}"), COLORS[rank as usize % COLORS.len()]),
        // Use the last part of the pod's name, which differs between replicas.
        None => {
            let name = line.pod.rsplit('-').next().unwrap_or(&line.pod);
            (name.to_owned(), color(name))
        }
    });
    let job = match prefix.job {
        JobPrefix::None => return pod,
        JobPrefix::Name => clean(&line.job).into_owned(),
        JobPrefix::FullName => format!("{}/{}", clean(&line.namespace), clean(&line.job)),
    };
    let job_color = color(&job);
    Some(match pod {
        Some((pod, color)) => (format!("{job} {pod}"), color),
        None => (job, job_color),
    })
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

    #[test]
    fn lines_of_several_jobs_begin_with_the_job() {
        let line = |job: &str, rank| PodLogLine {
            namespace: "team".to_owned(),
            job: job.to_owned(),
            pod: format!("{job}-x7k"),
            rank,
            container: "main".to_owned(),
            at: None,
            text: "step 1".to_owned(),
        };
        let shown = |job: JobPrefix, rank: bool, line: &PodLogLine| {
            let prefix = Prefix {
                job,
                rank,
                timestamps: false,
            };
            let style = TextStyle {
                width: None,
                color: false,
                plain: false,
            };
            text(line, prefix, style, false)
        };
        let (ranked, replica) = (line("sft", Some(1)), line("web", None));
        assert_eq!(shown(JobPrefix::None, false, &ranked), "step 1\n");
        assert_eq!(shown(JobPrefix::Name, false, &ranked), "sft │ step 1\n");
        assert_eq!(shown(JobPrefix::Name, true, &ranked), "sft  1 │ step 1\n");
        assert_eq!(
            shown(JobPrefix::FullName, true, &replica),
            "team/web x7k │ step 1\n"
        );
        let chosen =
            |jobs: &[(&'static str, &'static str)]| JobPrefix::for_jobs(jobs.iter().copied());
        assert_eq!(chosen(&[("x", "a")]), JobPrefix::None);
        assert_eq!(chosen(&[("x", "a"), ("y", "b")]), JobPrefix::Name);
        assert_eq!(chosen(&[("x", "a"), ("y", "a")]), JobPrefix::FullName);
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
