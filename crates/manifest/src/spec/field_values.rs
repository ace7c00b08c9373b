//! Reads single values of a YAML tree: text, numbers, quantities and names.

use std::time::Duration;

use super::fields::{Located, Reader, WrittenGpuType};
use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::Problem;
use gpuctl_core::model::GpuType;
use gpuctl_core::model::values::quantity;

fn scalar(node: &YamlNode) -> Option<Located<String>> {
    match &node.value {
        YamlValue::Scalar { text, .. } => Some(Located {
            value: text.clone(),
            at: node.at,
        }),
        _ => None,
    }
}

/// Explains why `text` is not a DNS label that starts with a letter, and suggests a valid one.
fn label_problem(text: &str, longest: usize) -> Option<(String, Option<String>)> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let message = if text.is_empty() {
        "a name must not be empty".to_owned()
    } else if text.chars().count() > longest {
        format!(
            "`{text}` has {} characters; the limit is {longest}",
            text.chars().count()
        )
    } else if let Some(invalid) = text.chars().find(|c| !plain(*c) && !c.is_ascii_uppercase()) {
        let capitals = if text.chars().any(|c| c.is_ascii_uppercase()) {
            " and capitals are"
        } else {
            " is"
        };
        format!("`{text}` is not a DNS label: `{invalid}`{capitals} not allowed")
    } else if text.chars().any(|c| c.is_ascii_uppercase()) {
        format!("`{text}` is not a DNS label: capitals are not allowed")
    } else if !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        format!("`{text}` is not a DNS label: it must begin with a letter")
    } else if text.ends_with('-') {
        format!("`{text}` is not a DNS label: it must not end with `-`")
    } else {
        return None;
    };
    let mut suggestion: String = text
        .to_ascii_lowercase()
        .chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    suggestion = suggestion
        .trim_start_matches(|c: char| !c.is_ascii_lowercase())
        .chars()
        .take(longest)
        .collect();
    let suggestion = suggestion.trim_end_matches('-').to_owned();
    Some((message, Some(suggestion).filter(|word| !word.is_empty())))
}

/// Abbreviates a duration such as `2 hours`.
fn short_duration(text: &str) -> Option<String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let short = match unit.trim().to_ascii_lowercase().as_str() {
        "second" | "seconds" | "sec" => "s",
        "minute" | "minutes" | "min" => "m",
        "hour" | "hours" | "hr" => "h",
        "day" | "days" => "d",
        _ => return None,
    };
    (!number.is_empty()).then(|| format!("{number}{short}"))
}

/// Converts a time in Slurm's form, such as `4:00:00` or `1-12`, to a duration. A bare number has
/// no unit, so its meaning is unclear.
fn slurm_duration(text: &str) -> Option<String> {
    let seconds =
        quantity::slurm_time(text).filter(|seconds| *seconds > 0 && text.contains([':', '-']))?;
    Some(quantity::duration_text(Duration::from_secs(seconds)))
}

impl Reader {
    /// Parses a GPU type in any spelling.
    pub(super) fn gpu_type(&mut self, node: &YamlNode) -> Option<Located<WrittenGpuType>> {
        let Located { value: text, at } = self.text(node, "gpu-type")?;
        let Some(kind) = GpuType::parse(&text) else {
            self.problems.push(Problem::error(
                at,
                format!("`{text}` is not a known GPU type"),
                "such as a100-80g",
            ));
            return None;
        };
        Some(Located {
            value: WrittenGpuType { text, kind },
            at,
        })
    }

    /// Reads text. Numbers and booleans are converted to text.
    pub(super) fn text(&mut self, node: &YamlNode, name: &str) -> Option<Located<String>> {
        let text = scalar(node);
        if text.is_none() {
            self.wrong_type(node, name, "text");
        }
        text
    }

    pub(super) fn boolean(&mut self, node: &YamlNode, name: &str) -> Option<bool> {
        let value = match &node.value {
            YamlValue::Scalar { text, .. } => text.to_ascii_lowercase().parse().ok(),
            _ => None,
        };
        if value.is_none() {
            self.wrong_type(node, name, "true or false");
        }
        value
    }

    /// Parses a whole number in `range`.
    pub(super) fn whole_number(
        &mut self,
        node: &YamlNode,
        name: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let parsed = match &node.value {
            YamlValue::Scalar { text, .. } => text
                .parse::<u32>()
                .ok()
                .filter(|number| range.contains(number)),
            _ => None,
        };
        if parsed.is_none() {
            let expected = match (*range.start(), *range.end()) {
                (min, u32::MAX) => format!("a whole number of at least {min}"),
                (min, max) => format!("a whole number from {min} to {max}"),
            };
            self.wrong_type(node, name, &expected);
        }
        parsed
    }

    /// Matches one of a few words, ignoring case.
    pub(super) fn word(
        &mut self,
        node: &YamlNode,
        name: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let text = match &node.value {
            YamlValue::Scalar { text, .. } => text.as_str(),
            _ => "",
        };
        let value = words
            .iter()
            .find(|word| word.eq_ignore_ascii_case(text))
            .copied();
        if value.is_none() {
            let expected = if words.len() == 1 {
                words[0].to_owned()
            } else {
                format!("one of {}", words.join(", "))
            };
            self.wrong_type(node, name, &expected);
        }
        value
    }

    /// Checks an amount of CPU and returns it as written.
    pub(super) fn cpu(&mut self, node: &YamlNode, name: &str) -> Option<Located<String>> {
        let cpus = |text: &str| {
            text.strip_suffix('m')
                .unwrap_or(text)
                .ends_with(|c: char| c.is_ascii_digit() || c == '.')
        };
        let text =
            scalar(node).filter(|text| cpus(&text.value) && quantity::milli(&text.value).is_some());
        if text.is_none() {
            self.wrong_type(node, name, "a number of CPUs such as 32, 0.5 or 500m");
        }
        text
    }

    /// Checks an amount of bytes with a unit and returns it as written.
    pub(super) fn bytes(&mut self, node: &YamlNode, name: &str) -> Option<Located<String>> {
        let Some(text) = scalar(node) else {
            self.wrong_type(node, name, "a size such as 128Gi");
            return None;
        };
        if quantity::milli(&text.value).is_none() {
            let is_amount_without_i = ["GB", "MB", "TB", "GiB", "MiB"]
                .iter()
                .any(|unit| text.value.ends_with(unit));
            let unit = text
                .value
                .trim_end_matches(|c: char| c.is_ascii_alphabetic())
                .trim_end();
            let note = if is_amount_without_i {
                format!("write {unit}Gi for gibibytes, {unit}G for gigabytes")
            } else {
                String::new()
            };
            let message = format!(
                "`{name}` must be a size such as 128Gi, not `{}`",
                text.value
            );
            self.problems.push(Problem::error(node.at, message, note));
            return None;
        }
        // For Kubernetes, `400m` of memory is 0.4 bytes. Its documentation also warns of this
        // mistake.
        let fractions = [
            ('m', "thousandths", "Mi"),
            ('u', "millionths", "Mi"),
            ('n', "billionths", "Gi"),
        ];
        for (unit, parts, likely_unit) in fractions {
            let Some(number) = text.value.strip_suffix(unit) else {
                continue;
            };
            let message = format!("`{name}` {} means {parts} of a byte", text.value);
            let note = format!("did you mean {number}{likely_unit}?");
            self.problems.push(Problem::error(node.at, message, note));
            return None;
        }
        if !quantity::has_unit(&text.value) {
            let note = format!("write {}Gi for gibibytes", text.value);
            self.problems.push(
                Problem::error(node.at, format!("`{name}` needs a unit"), note).with_id("unit"),
            );
            return None;
        }
        Some(text)
    }

    pub(super) fn duration(&mut self, node: &YamlNode, name: &str) -> Option<Duration> {
        let duration = scalar(node).and_then(|text| quantity::duration(&text.value));
        if duration.is_none() {
            let note = scalar(node)
                .and_then(|text| {
                    short_duration(&text.value).or_else(|| slurm_duration(&text.value))
                })
                .map_or_else(String::new, |text| format!("write {text}"));
            let expected = "a duration such as 30s, 5m, 12h or 2d";
            self.wrong_type_with(node, name, expected, &note);
        }
        duration
    }

    /// Reads text that is a name. Rejects an unquoted `true` or `false`, which YAML parses as a
    /// boolean.
    fn name(&mut self, node: &YamlNode, name: &str) -> Option<Located<String>> {
        let text = self.text(node, name)?;
        let boolean = matches!(text.value.to_ascii_lowercase().as_str(), "true" | "false");
        if boolean && matches!(node.value, YamlValue::Scalar { plain: true, .. }) {
            let message = format!("`{name}` must be a name, but `{}` is a boolean", text.value);
            self.problems.push(Problem::error(
                node.at,
                message,
                format!("write '{}'", text.value),
            ));
            return None;
        }
        Some(text)
    }

    /// Reads the name of an existing object: DNS labels joined by dots. Each label may start with a
    /// digit.
    pub(super) fn object_name(&mut self, node: &YamlNode, name: &str) -> Option<Located<String>> {
        let text = self.name(node, name)?;
        let label = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        if text.value.len() > 253 || !text.value.split('.').all(label) {
            let note = "use lowercase letters, digits, `-` and `.`";
            self.problems.push(Problem::error(
                node.at,
                format!("`{}` is not a valid Kubernetes object name", text.value),
                note,
            ));
            return None;
        }
        Some(text)
    }

    /// Reads a DNS label of at most `longest` characters.
    pub(super) fn dns_label(
        &mut self,
        node: &YamlNode,
        name: &str,
        longest: usize,
    ) -> Option<Located<String>> {
        let text = self.name(node, name)?;
        if let Some((message, suggestion)) = label_problem(&text.value, longest) {
            let note = suggestion.map_or_else(String::new, |word| format!("try `{word}`"));
            self.problems.push(Problem::error(node.at, message, note));
            return None;
        }
        Some(text)
    }
}
