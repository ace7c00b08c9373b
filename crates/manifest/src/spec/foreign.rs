//! Recognizes files for other programs: scripts, and YAML of other tools.

use super::KINDS;
use super::fields::nearest;
use super::tree::{Entry, YamlNode};
use gpuctl_core::error::{FilePosition, Problem};

/// Returns true if a text is a shell script, including batch scripts for Slurm.
pub(super) fn is_script(text: &str) -> bool {
    let is_manifest = text.lines().any(|line| line.starts_with("kind:"));
    !is_manifest && (text.starts_with("#!") || has_slurm_options(text))
}

fn has_slurm_options(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with("#SBATCH"))
}

/// Builds the problem for a file that is a script. No other problem of the file is reported.
pub(super) fn script(file: &str, text: &str) -> Problem {
    let at = FilePosition {
        line: 1,
        column: 1,
        width: 1,
    };
    if has_slurm_options(text) {
        let file = if file == "stdin" { "-" } else { file };
        Problem::error(
            at,
            "this is a Slurm script, not a job file",
            format!("convert it: `gpuctl convert {file} --image IMAGE > job.yaml`"),
        )
    } else {
        Problem::error(
            at,
            "this is a script, not a job file",
            "`gpuctl run --file SCRIPT` runs one, or list it in `files:` of a job file",
        )
    }
}

/// Builds the problem for a document without `kind`.
pub(super) fn missing_kind(root: &YamlNode, entries: &[Entry]) -> Problem {
    let misspelled = entries
        .iter()
        .find(|entry| nearest(&entry.key, &["kind"]).is_some());
    if let Some(entry) = misspelled {
        let message = format!("unknown field `{}`", entry.key);
        return Problem::error(entry.key_at, message, "did you mean `kind`?");
    }
    let at = FilePosition {
        width: 1,
        ..root.at
    };
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let note = if has("apiVersion") || has("run") || has("commands") || has("type") {
        "if another tool uses this file, convert it: `gpuctl convert FILE`".to_owned()
    } else {
        format!("one of {}", KINDS.join(", "))
    };
    Problem::error(at, "`kind` is missing", note)
}
