//! Parses `#SBATCH` lines, and Slurm's notations for amounts and times.

use std::sync::LazyLock;

use regex::Regex;

use gpuctl_core::model::GpuType;

/// Parses the options of all `#SBATCH` lines into names and values.
pub(super) fn options(text: &str) -> Vec<(String, String)> {
    const SHORT: [(&str, &str); 12] = [
        ("N", "nodes"),
        ("G", "gpus"),
        ("t", "time"),
        ("J", "job-name"),
        ("a", "array"),
        ("c", "cpus-per-task"),
        ("p", "partition"),
        ("A", "account"),
        ("n", "ntasks"),
        ("D", "chdir"),
        ("o", "output"),
        ("e", "error"),
    ];
    static OPTION: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?:^|\s)(?:--([a-z-]+)(?:[= ]("[^"]*"|'[^']*'|[^\s-]\S*))?|-([A-Za-z])[= ]?("[^"]*"|'[^']*'|[^\s-]\S*)?)"#)
            .expect("the pattern is tested")
    });
    let mut options = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("#SBATCH"))
    {
        // The rest of the line after another `#` is a comment.
        let line = line.split(" #").next().unwrap_or_default();
        for option in OPTION.captures_iter(line) {
            let text = |index: usize| {
                option
                    .get(index)
                    .map(|options| options.as_str().trim_matches(['"', '\'']).to_owned())
            };
            let long_name = |letter: String| {
                SHORT
                    .iter()
                    .find(|(long_name, _)| *long_name == letter)
                    .map_or(letter.clone(), |(_, long)| (*long).to_owned())
            };
            if let Some(name) = text(1).or_else(|| text(3).map(long_name)) {
                options.push((name, text(2).or_else(|| text(4)).unwrap_or_default()));
            }
        }
    }
    options
}

/// Parses `gpu:a100:4`, `a100:4` or `4`.
pub(super) fn gpus(text: &str) -> Option<(Option<String>, u64)> {
    let text = text.strip_prefix("gpu:").unwrap_or(text);
    match text.rsplit_once(':') {
        Some((kind, count)) => Some((
            GpuType::parse(kind).map(|kind| kind.to_string()),
            count.parse().ok()?,
        )),
        None if text == "gpu" => Some((None, 1)),
        None => Some((None, text.parse().ok()?)),
    }
}

/// Parses `64G` or `4096` (megabytes) into mebibytes.
pub(super) fn memory(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "M" | "MB" => Some(number),
        "K" | "KB" => Some(number / 1024),
        "G" | "GB" => number.checked_mul(1024),
        "T" | "TB" => number.checked_mul(1024 * 1024),
        _ => None,
    }
}
