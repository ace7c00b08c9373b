//! Formats words and numbers, and replaces control characters in text from the cluster.

use std::borrow::Cow;

use colored::{Color, Colorize};
use jiff::{SignedDuration, Timestamp};

use crate::model::{Percent, State, Status};

use super::TextStyle;

/// Makes text from outside safe to show: control characters, bidirectional marks, line separators and invisible tags become visible escapes.
#[must_use]
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut result = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => result.push(' '),
            c if is_unsafe(c) => result.extend(c.escape_unicode()),
            c => result.push(c),
        }
    }
    Cow::Owned(result)
}

/// Replaces characters that no name in Kubernetes has, because people paste names into shells.
/// Kubernetes checks the names of objects, but not those in owner references and ConfigMaps.
#[must_use]
pub(crate) fn plain_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '@' | '/');
    if name.chars().all(is_plain) && !name.starts_with('-') {
        return Cow::Borrowed(name);
    }
    let replaced: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    Cow::Owned(if replaced.starts_with('-') { format!("_{}", &replaced[1..]) } else { replaced })
}

/// Makes whole output safe that may have lines, tabs and, where `color` is on, colors: the last look at what a view has put together,
/// should it have left a text of the cluster as it was.
#[must_use]
pub(crate) fn harmless(output: &str, color: bool) -> Cow<'_, str> {
    let is_fine = |c: char| !is_unsafe(c) || matches!(c, '\n' | '\t');
    if output.chars().all(is_fine) {
        return Cow::Borrowed(output);
    }
    let (mut result, mut rest) = (String::with_capacity(output.len() + 64), output);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\u{1b}' if color => of_color(rest),
            _ => None,
        };
        let (taken, after) = rest.split_at(length.unwrap_or(c.len_utf8()));
        match length.is_some() || is_fine(c) {
            true => result.push_str(taken),
            false => result.extend(c.escape_unicode()),
        }
        rest = after;
    }
    Cow::Owned(result)
}

/// Returns the length of the sequence that sets colors, where the text begins with one.
fn of_color(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'))?;
    codes[end..].starts_with('m').then_some(end + 3)
}

/// Escapes in JSON what its grammar allows and a terminal may obey: C1, marks of direction, tags. The values stay what they are.
#[must_use]
pub(crate) fn escaped(json: String) -> String {
    with_escapes(json, |c, result| {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| result.push_str(&format!("\\u{unit:04x}")));
    })
}

/// The same for JSON that is read as YAML, which knows no pairs of surrogates.
#[must_use]
pub(crate) fn escaped_in_yaml(json: String) -> String {
    with_escapes(json, |c, result| result.push_str(&format!("\\U{:08x}", u32::from(c))))
}

/// Returns true when a text has something that a terminal may obey, apart from ends of lines.
#[must_use]
pub(crate) fn is_escaped_in(text: &str) -> bool {
    !text.bytes().all(|byte| byte < 0x7f) && text.contains(is_escaped)
}

fn with_escapes(json: String, write: impl Fn(char, &mut String)) -> String {
    if !is_escaped_in(&json) {
        return json;
    }
    let mut result = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match is_escaped(c) {
            true => write(c, &mut result),
            false => result.push(c),
        }
    }
    result
}

/// Returns true for what is unsafe and not part of the grammar of JSON, as line ends are.
fn is_escaped(c: char) -> bool {
    is_unsafe(c) && c >= '\u{7f}'
}

/// Returns true for what a terminal may obey, and for what it hides.
#[must_use]
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns a span of time as `45s`, `12m`, `3h`, `2d`. Clocks differ: a negative one is `0s`.
#[must_use]
pub(crate) fn age(from: Option<Timestamp>, now: Timestamp) -> String {
    from.map_or_else(|| "-".to_owned(), |from| span(now.duration_since(from)))
}

/// Returns a duration in one unit.
#[must_use]
pub(crate) fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats as `1 pod`, `2 pods`.
#[must_use]
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Writes `text` in a color, where colors are wanted.
#[must_use]
pub(crate) fn paint(text: &str, color: Option<Color>, look: TextStyle) -> String {
    match color.filter(|_| look.color) {
        Some(color) => text.color(color).to_string(),
        None => text.to_owned(),
    }
}

/// Returns red for broken, yellow for waiting, green for running; what is over or paused is dim.
#[must_use]
pub(crate) fn status_color(status: Status) -> Option<Color> {
    match status {
        Status::Running => Some(Color::Green),
        Status::Failed => Some(Color::Red),
        Status::Pending => Some(Color::Yellow),
        Status::Succeeded | Status::Paused | Status::Terminating | Status::Unknown => Some(Color::BrightBlack),
    }
}

/// Formats as `pending ImagePullBackOff`, `running 2/2`.
#[must_use]
pub(crate) fn state(state: &State) -> String {
    let mut text = state.status.to_string();
    if state.counted && state.status == Status::Running {
        text.push_str(&format!(" {}/{}", state.running, state.wanted));
    }
    if let Some(reason) = &state.reason {
        text.push_str(&format!(" {}", clean(reason)));
    }
    text
}

/// Returns a line of a description: its name and what it says.
#[must_use]
pub(crate) fn status_line(name: &str, value: &str) -> String {
    format!("  {name:<12} {value}\n")
}

/// Formats a value for a cell; `-` when it is unknown.
#[must_use]
pub(crate) fn or_dash(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Formats several values for a cell: `a100-80g,h100-80g`.
#[must_use]
pub(crate) fn joined(values: &[impl std::fmt::Display]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns a bar with its number: `███▎ 65%`. `cells` wide; a part is at least visible.
#[must_use]
pub(crate) fn bar(percent: Percent, cells: usize, look: TextStyle) -> String {
    format!("{} {percent:.0}%", blocks(percent, cells, look))
}

/// Returns a bar of `cells` for whoever writes its number beside it.
#[must_use]
pub(crate) fn blocks(percent: Percent, cells: usize, look: TextStyle) -> String {
    let eighths = (percent.ratio().clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    if look.plain {
        let full = (eighths / 8).min(cells);
        return format!("{}{}", "#".repeat(full), ".".repeat(cells - full));
    }
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let text = format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8]);
    let pad = cells - text.chars().count().min(cells);
    format!("{text}{}", " ".repeat(pad))
}

/// Breaks a long text at words, so that it stays beside its title on a terminal.
#[must_use]
pub(crate) fn wrapped(text: &str, indent: usize, look: TextStyle) -> String {
    let Some(room) = look.width.and_then(|width| width.checked_sub(indent)).filter(|room| *room > 20) else {
        return text.to_owned();
    };
    // A name of an object is never cut: it is there to be copied.
    let options = textwrap::Options::new(room).break_words(false).word_separator(textwrap::WordSeparator::AsciiSpace);
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).join(&format!("\n{}", " ".repeat(indent)))
}

/// Returns a text whose commands are those that a user of kubectl types: `gpuctl logs` is `kubectl gpuctl logs` there.
#[must_use]
pub(crate) fn as_plugin(text: &str) -> String {
    const NAME: &str = "gpuctl ";
    let mut told = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find(NAME) {
        let (before, behind) = rest.split_at(at);
        told.push_str(before);
        let is_command = before.is_empty() && told.is_empty()
            || ["`", "\"", "(", "\n  ", "hint: ", "-- ", "&& ", "\u{1b}[0m "].iter().any(|sign| told.ends_with(sign));
        if is_command && behind[NAME.len()..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '-') {
            told.push_str("kubectl ");
        }
        told.push_str(NAME);
        rest = &behind[NAME.len()..];
    }
    told + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: TextStyle = TextStyle { width: None, color: false, plain: false };

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(clean("train\u{1b}[31m"), "train\\u{1b}[31m");
        assert_eq!(clean("a\u{202e}b\u{9b}c\nd"), "a\\u{202e}b\\u{9b}c d");
        assert!(matches!(clean("模型 qwen2"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_shown_name_can_be_pasted_into_a_shell() {
        assert_eq!(plain_name("$(touch${IFS}x)"), "__touch__IFS_x_");
        assert_eq!(plain_name("--all;rm -rf ~"), "_-all_rm_-rf__");
        for name in ["bert-large", "system:node-reader", "a.b_c", "set/x", "user@site"] {
            assert!(matches!(plain_name(name), Cow::Borrowed(_)), "{name}");
        }
    }

    #[test]
    fn of_a_whole_output_lines_and_colors_stay() {
        let output = "a\tb\n\u{1b}[31mred\u{1b}[0m\u{1b}[38:5:1m \u{1b}[2J\u{1b}]0;x\u{7}\u{202e}\r模\u{1b}";
        let told = "\\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{202e}\\u{d}模\\u{1b}";
        assert_eq!(harmless(output, true), format!("a\tb\n\u{1b}[31mred\u{1b}[0m\u{1b}[38:5:1m {told}"));
        assert_eq!(harmless(output, false), format!("a\tb\n\\u{{1b}}[31mred\\u{{1b}}[0m\\u{{1b}}[38:5:1m {told}"));
        assert!(matches!(harmless("a\n模型\t", false), Cow::Borrowed(_)));
    }

    #[test]
    fn json_is_the_same_value_without_what_steers() {
        let value = serde_json::json!({"a\u{9b}": "b\u{202e}\u{7f}\u{e0041}模型\u{1b}", "n": [1.5, null]});
        let text = escaped(serde_json::to_string_pretty(&value).unwrap());
        assert!(text.contains("a\\u009b") && text.contains("\\u202e\\u007f\\udb40\\udc41模型\\u001b"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        let yaml = crate::view::yaml(&value);
        assert!(!yaml.contains(['\u{9b}', '\u{202e}', '\u{7f}', '\u{e0041}']), "{yaml}");
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), value);
    }

    #[test]
    fn ages() {
        let at = |seconds| Some(Timestamp::from_second(seconds).unwrap());
        let now = at(1_000_000).unwrap();
        for (seconds, text) in [(45, "45s"), (720, "12m"), (10_800, "3h"), (172_800, "2d"), (-5, "0s"), (7199, "119m")] {
            assert_eq!(age(at(1_000_000 - seconds), now), text);
        }
        assert_eq!(age(None, now), "-");
    }

    #[test]
    fn bars_never_stand_without_their_number() {
        assert_eq!(bar(Percent(65.0), 5, LOOK), "███▎  65%");
        assert_eq!(bar(Percent(0.0), 3, LOOK), "    0%");
        assert_eq!(bar(Percent(100.0), 3, LOOK), "███ 100%");
        assert_eq!(bar(Percent(50.0), 4, TextStyle { plain: true, ..LOOK }), "##.. 50%");
    }

    #[test]
    fn long_texts_stay_beside_their_title_on_a_terminal() {
        let look = |width| TextStyle { width, color: false, plain: false };
        let text = "0/12 nodes are available: 2 Insufficient nvidia.com/gpu";
        assert_eq!(wrapped(text, 4, look(None)), text);
        assert_eq!(wrapped(text, 4, look(Some(40))), "0/12 nodes are available: 2\n    Insufficient nvidia.com/gpu");
        assert_eq!(wrapped("模型".repeat(8).as_str(), 4, look(Some(30))), "模型".repeat(8), "a name is not cut");
        assert_eq!(
            wrapped("模型模型 模型模型 模型模型 模型", 4, look(Some(29))),
            "模型模型 模型模型\n    模型模型 模型",
            "two columns each"
        );
    }
}
