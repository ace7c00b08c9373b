//! Formats words and numbers, and escapes unsafe text from the cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use colored::{Color, Colorize};
use jiff::{SignedDuration, Timestamp};

use gpuctl_core::model::values::text::{is_hidden, is_joiner};
use gpuctl_core::model::{Percent, Status};

use crate::TextStyle;
use gpuctl_core::model::values::whole;

pub(crate) use gpuctl_core::model::values::text::is_unsafe;
pub use gpuctl_core::model::values::text::{clean, count, plain_name};

/// Escapes unsafe characters in the output of a command, except line breaks, tabs and, with
/// `color`, color sequences.
///
/// This is a safety net for views that do not escape text from the cluster.
pub fn sanitized(output: &str, color: bool) -> Cow<'_, str> {
    let is_line = |c: char| matches!(c, '\n' | '\t');
    if output
        .chars()
        .all(|c| !is_unsafe(c) && !is_joiner(c) || is_line(c))
    {
        return Cow::Borrowed(output);
    }
    let (mut result, mut rest, mut previous) =
        (String::with_capacity(output.len() + 64), output, None);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\u{1b}' if color => color_sequence_length(rest),
            _ => None,
        };
        let (taken, after) = rest.split_at(length.unwrap_or(c.len_utf8()));
        match length.is_some() || is_line(c) || !is_hidden(previous, c, after) {
            true => result.push_str(taken),
            false => result.extend(c.escape_unicode()),
        }
        (rest, previous) = (after, Some(c));
    }
    Cow::Owned(result)
}

/// Renders one name per line, for `-o name`.
pub fn name_lines<N: AsRef<str>>(names: &[N]) -> String {
    let line = |name: &N| format!("{}\n", clean(name.as_ref()));
    names.iter().map(line).collect()
}

/// Escapes text for Markdown: the result has no markup, HTML, links, mentions or table separators.
pub(crate) fn in_markdown(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' | '<' | '>' | '@' => result.push_str(&format!("&#{};", u32::from(c))),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => result.extend(['\\', c]),
            c => result.push(c),
        }
    }
    // Markdown renderers convert these to links even without markup.
    result
        .replace("://", "&#58;//")
        .replace("www.", "www&#46;")
        .replace("WWW.", "WWW&#46;")
}

/// Escapes external text for a chat: one line without mentions, tags, markup or links.
pub(crate) fn in_chat(text: &str) -> String {
    let escape = |c: char| match c {
        '<' => '‹',
        '>' => '›',
        '@' => '＠',
        '[' => '［',
        ']' => '］',
        '`' | '*' | '~' | '|' => '·',
        c => c,
    };
    clean(text)
        .chars()
        .map(escape)
        .collect::<String>()
        .replace("://", ":/ /")
}

/// Returns the length of the color sequence at the start of a text, or `None` if there is none.
fn color_sequence_length(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'))?;
    codes[end..].starts_with('m').then_some(end + 3)
}

/// Escapes the characters that JSON allows but a terminal may interpret: C1 controls, direction
/// marks and tags. The values remain the same.
pub fn escaped(json: String) -> String {
    with_escapes(json, |c, result| {
        c.encode_utf16(&mut [0; 2])
            .iter()
            .for_each(|unit| result.push_str(&format!("\\u{unit:04x}")));
    })
}

/// Escapes JSON that is printed as YAML. YAML has no surrogate pairs, so it needs `\U` escapes.
pub(crate) fn escaped_in_yaml(json: String) -> String {
    with_escapes(json, |c, result| {
        result.push_str(&format!("\\U{:08x}", u32::from(c)));
    })
}

/// Returns true if `escaped` replaces characters of the text.
pub(crate) fn is_escaped_in(text: &str) -> bool {
    !text.bytes().all(|byte| byte < 0x7f) && text.contains(is_escaped)
}

fn with_escapes(json: String, write: impl Fn(char, &mut String)) -> String {
    if !is_escaped_in(&json) {
        return json;
    }
    let mut result = String::with_capacity(json.len() + 64);
    let mut previous = None;
    for (index, c) in json.char_indices() {
        match c >= '\u{7f}' && is_hidden(previous, c, &json[index + c.len_utf8()..]) {
            true => write(c, &mut result),
            false => result.push(c),
        }
        previous = Some(c);
    }
    result
}

/// Returns true for unsafe characters that are not ASCII. JSON escapes control characters in
/// strings, and line breaks between values must remain.
fn is_escaped(c: char) -> bool {
    (is_unsafe(c) || is_joiner(c)) && c >= '\u{7f}'
}

/// Formats the time since `from`, such as `45s`, `12m`, `3h` or `2d`. A future time, from a clock
/// that is ahead, is `0s`.
pub fn age(from: Option<Timestamp>, now: Timestamp) -> String {
    from.map_or_else(|| "-".to_owned(), |from| span(now.duration_since(from)))
}

/// Formats a duration in one unit.
pub fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Colors a text if colors are enabled.
pub fn paint(text: &str, color: Option<Color>, style: TextStyle) -> String {
    match color.filter(|_| style.color) {
        Some(color) => text.color(color).to_string(),
        None => text.to_owned(),
    }
}

/// Returns the color of a status: red for failed, yellow for pending, green for running, and dim
/// for finished or paused.
pub(crate) fn status_color(status: Status) -> Option<Color> {
    match status {
        Status::Running => Some(Color::Green),
        Status::Failed => Some(Color::Red),
        Status::Pending => Some(Color::Yellow),
        Status::Succeeded | Status::Paused | Status::Terminating | Status::Unknown => {
            Some(Color::BrightBlack)
        }
    }
}

/// Formats one line of a description.
pub(crate) fn status_line(name: &str, value: &str) -> String {
    format!("  {name:<12} {value}\n")
}

/// Formats a value for a cell, or `-` if it is unknown.
pub(crate) fn or_dash(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Formats labels for a cell, such as `team=nlp,tier=gold`.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    let label = |(key, value): (&String, &String)| format!("{key}={value}");
    labels.iter().map(label).collect::<Vec<_>>().join(",")
}

/// Joins values for a cell, such as `a100-80g,h100-80g`.
pub fn joined(values: &[impl std::fmt::Display]) -> String {
    values
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// Draws a bar of `cells` characters and its number, such as `███▎ 65%`.
pub fn bar(percent: Percent, cells: usize, style: TextStyle) -> String {
    format!("{} {percent:.0}%", blocks(percent, cells, style))
}

/// Draws a bar of `cells` characters without its number.
pub fn blocks(percent: Percent, cells: usize, style: TextStyle) -> String {
    let eighths = whole::to_usize((percent.ratio().clamp(0.0, 1.0) * cells as f64 * 8.0).round());
    if style.plain {
        let full = (eighths / 8).min(cells);
        return format!("{}{}", "#".repeat(full), ".".repeat(cells - full));
    }
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let text = format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8]);
    let pad = cells - text.chars().count().min(cells);
    format!("{text}{}", " ".repeat(pad))
}

/// Wraps a long text at words, and indents continuation lines to its start. Without a terminal,
/// returns the text unchanged.
pub fn wrapped(text: &str, indent: usize, style: TextStyle) -> String {
    let Some(available) = style
        .width
        .and_then(|width| width.checked_sub(indent))
        .filter(|available| *available > 20)
    else {
        return text.to_owned();
    };
    // Do not break names of objects, so that users can copy them.
    let options = textwrap::Options::new(available)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace);
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).join(&format!("\n{}", " ".repeat(indent)))
}

/// Rewrites the commands in a text for users of the kubectl plugin, so that `gpuctl logs` becomes
/// `kubectl gpuctl logs`.
pub fn as_plugin(text: &str) -> String {
    const NAME: &str = "gpuctl ";
    let mut output = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(index) = rest.find(NAME) {
        let (before, behind) = rest.split_at(index);
        output.push_str(before);
        // Rewrite only at the start of a command, because `gpuctl` is also a name in sentences.
        let is_command = before.is_empty() && output.is_empty()
            // A reset sequence follows a colored `hint:`.
            || ["`", "\"", "(", "\n  ", "hint: ", "-- ", "&& ", "\u{1b}[0m "]
                .iter()
                .any(|sign| output.ends_with(sign));
        if is_command
            && behind[NAME.len()..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '-')
        {
            output.push_str("kubectl ");
        }
        output.push_str(NAME);
        rest = &behind[NAME.len()..];
    }
    output + rest
}

#[cfg(test)]
mod tests;
