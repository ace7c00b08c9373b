//! Checks the `pod:` block against the rules of the other fields before it is merged into the pod.

use super::fields::Reader;
use super::storage;
use super::tree::{Entry, YamlNode, YamlValue};
use gpuctl_core::error::Problem;

/// Fields at any level that give a container control of its whole node.
const WHOLE_NODE: [&str; 3] = ["privileged", "hostPID", "hostIPC"];
/// Capabilities with the same effect as `WHOLE_NODE`.
const CAPABILITIES: [&str; 6] = [
    "ALL",
    "SYS_ADMIN",
    "SYS_MODULE",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "DAC_READ_SEARCH",
];

/// Refuses the host paths that `host_path` refuses, and fields that would bypass that check.
pub(super) fn check(reader: &mut Reader, node: &YamlNode) {
    match &node.value {
        YamlValue::List(items) => items.iter().for_each(|item| check(reader, item)),
        YamlValue::Map(entries) => entries.iter().for_each(|entry| check_entry(reader, entry)),
        YamlValue::Null | YamlValue::Scalar { .. } => {}
    }
}

fn check_entry(reader: &mut Reader, entry: &Entry) {
    let YamlNode { value, at, .. } = &entry.value;
    match value {
        YamlValue::Map(fields) if entry.key == "hostPath" => {
            for field in fields.iter().filter(|field| field.key == "path") {
                if let YamlValue::Scalar { text, .. } = &field.value.value
                    && let Some(path) = storage::absolute(reader, text, field.value.at)
                {
                    storage::host_path(reader, &path, field.value.at);
                }
            }
        }
        YamlValue::Scalar { text, .. }
            if WHOLE_NODE.contains(&entry.key.as_str()) && !text.eq_ignore_ascii_case("false") =>
        {
            refuse(reader, *at, &format!("`pod` must not set `{}`", entry.key));
        }
        YamlValue::List(names) if entry.key == "add" => {
            for name in names {
                if let YamlValue::Scalar { text, .. } = &name.value
                    // Kubernetes documents capability names without the prefix `CAP_`, but some
                    // files contain it.
                    && CAPABILITIES.contains(&text.trim_start_matches("CAP_"))
                {
                    refuse(
                        reader,
                        name.at,
                        &format!("`pod` must not add the capability `{text}`"),
                    );
                }
            }
        }
        _ => check(reader, &entry.value),
    }
}

fn refuse(reader: &mut Reader, at: gpuctl_core::error::FilePosition, message: &str) {
    reader.problems.push(Problem::error(
        at,
        message,
        "remove it: it gives the container access to the whole node",
    ));
}
