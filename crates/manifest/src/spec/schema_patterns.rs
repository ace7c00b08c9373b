//! Builds regular expressions for the JSON Schema, and schemas of single values.

use serde_json::{Value, json};

use gpuctl_core::model::facts::gpu;

pub(super) fn nullable(value: Value) -> Value {
    json!({"anyOf": [value, {"type": "null"}]})
}

pub(super) fn text() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

pub(super) fn pattern(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

/// Builds a schema for text that matches a pattern, or for a number of at least zero.
pub(super) fn number_or_pattern(pattern: &str) -> Value {
    json!({"anyOf": [{"type": "string", "pattern": pattern}, {"type": "number", "minimum": 0}]})
}

pub(super) const CONTROL: &str = r"\u0000-\u001f\u007f-\u009f";

/// A number without an exponent, because an exponent takes the place of the unit.
pub(super) const AMOUNT: &str = r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)";

pub(super) const EXPONENT: &str = "[eE][+-]?[0-9]{1,2}";

pub(super) const UNITS: &str = "(?:[KMGTPE]i|[kMGTPE])";

pub(super) const OBJECT: &str =
    r"^(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$";

const LABEL_VALUE: &str = "[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?";

/// Pattern for `resources.rdma`: `auto`, or an extended resource with an optional count.
pub(super) const RDMA: &str = "^(?:auto|[a-z0-9](?:[a-z0-9.-]{0,200}[a-z0-9])?/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?(?::[1-9][0-9]{0,3})?)$";

/// Builds a pattern for a word in any case, because JSON Schema patterns have no flag for that.
pub(super) fn ignore_case(word: &str) -> String {
    let class = |c: char| match c {
        '.' => r"\.".to_owned(),
        c if c.is_ascii_alphabetic() => {
            format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase())
        }
        c => c.to_string(),
    };
    word.chars().map(class).collect()
}

/// Builds a schema for an integer, as a number or as text with digits.
pub(super) fn whole_number(min: u32, max: u32) -> Value {
    let too_small = if min == 0 {
        String::new()
    } else {
        format!("(?!0*{}$)", up_to(min - 1))
    };
    json!({"anyOf": [{"type": "integer", "minimum": min, "maximum": max}, pattern(&format!(r"^\+?{too_small}0*{}$", up_to(max)))]})
}

/// Builds a pattern for the integers from 0 to `max` without leading zeros. JSON Schema can limit
/// numbers, but not numbers written as text.
pub(super) fn up_to(max: u32) -> String {
    let digits = max.to_string();
    let mut alternatives = vec![digits.clone()];
    for (index, digit) in digits.bytes().enumerate() {
        let (prefix, free_digits) = (&digits[..index], digits.len() - index - 1);
        let lowest = if index == 0 && free_digits > 0 {
            b'1'
        } else {
            b'0'
        };
        if digit > lowest {
            let class = format!("[{}-{}]", char::from(lowest), char::from(digit - 1));
            alternatives.push(format!("{prefix}{class}[0-9]{{{free_digits}}}"));
        }
    }
    if digits.len() > 1 {
        alternatives.push(format!("[0-9]{{1,{}}}", digits.len() - 1));
    }
    format!("(?:{})", alternatives.join("|"))
}

/// Builds a pattern for an absolute path without `..`.
pub(super) fn absolute_path() -> String {
    format!(r"^(?!(?:.*/)?\.\.(?:/|$))/[^:{CONTROL}]*$")
}

/// Builds a pattern for an absolute host path that does not give control of the node.
pub(super) fn host_path() -> String {
    // Separator between path components. Also matches redundant slashes and `.` components.
    const SEP: &str = r"/(?:\.?/)*";
    let protected = "etc|proc|sys|dev|root|boot|run";
    let protected_in_var = format!("run|lib{SEP}(?:kubelet|containerd|docker|crio|etcd)");
    let end = r"(?:/|$)";
    let forbidden = format!(
        r"{SEP}(?:\.$|$|(?:{protected}|var{SEP}(?:{protected_in_var})){end}|var(?:{SEP}lib)?(?:/(?:\.?/)*)?\.?$)"
    );
    format!(
        r"^(?!{forbidden})(?!.*\.sock(?:/(?:\.?/)*)?\.?$){}",
        absolute_path().trim_start_matches('^')
    )
}

/// Builds the schema of a GPU type, which needs at least one word that is not a vendor name or a
/// filler word.
pub(super) fn gpu_type() -> Value {
    let noise_words: Vec<String> = gpu::NOISE.iter().map(|word| ignore_case(word)).collect();
    let noise_words = noise_words.join("|");
    let only_noise = format!("(?:[^A-Za-z0-9/]*(?:{noise_words})(?![A-Za-z0-9]))*[^A-Za-z0-9/]*$");
    json!({"anyOf": [{"type": "number"}, {"type": "boolean"}, pattern(&format!("^(?:.*/)?(?!{only_noise})[^/]*$"))]})
}

pub(super) fn label_key() -> String {
    format!("^(?:[-.a-z0-9]{{1,253}}/)?{LABEL_VALUE}$")
}

pub(super) fn label_text() -> Value {
    json!({"anyOf": [pattern(&format!("^(?:{LABEL_VALUE})?$")), {"type": "number", "minimum": 0}, {"type": ["boolean", "null"]}]})
}
