//! Lists the checks of a document that need no cluster. Each check has an id and a reason. A
//! comment in the file can silence most checks.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Document, JobDocument};
use super::semantics::{self, Finding};
use super::tree::{self, YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem, Problems, Severity};

/// A validation rule.
#[derive(Debug)]
pub struct Check {
    /// The check's id, as used in `# gpuctl: ignore ID`.
    pub id: &'static str,
    /// Severity of its findings. An `Error` fails validation.
    pub severity: Severity,
    /// A short description of the problem.
    pub title: &'static str,
    /// Why it matters, and how to fix it.
    pub why: &'static str,
    /// The test, or `None` if other code performs the check while parsing or against the cluster.
    find: Option<fn(&JobDocument) -> Option<Finding>>,
}

const fn check(
    id: &'static str,
    severity: Severity,
    title: &'static str,
    reason: &'static str,
    find: fn(&JobDocument) -> Option<Finding>,
) -> Check {
    Check {
        id,
        severity,
        title,
        why: reason,
        find: Some(find),
    }
}

const fn external_check(
    id: &'static str,
    severity: Severity,
    title: &'static str,
    reason: &'static str,
) -> Check {
    Check {
        id,
        severity,
        title,
        why: reason,
        find: None,
    }
}

use Severity::{Error, Warning};

/// All checks, in the order of the documentation.
pub const CHECKS: [Check; 20] = [
    external_check(
        "form",
        Error,
        "a field that is unknown, missing or of the wrong type",
        "gpuctl does not guess: a misspelled field would silently do nothing. The message suggests the nearest field.",
    ),
    external_check(
        "version",
        Warning,
        "`version` is missing",
        "The default is v0.1. Set the version so that later versions of gpuctl read the file the same way.",
    ),
    external_check(
        "unit",
        Error,
        "an amount of memory or storage without a unit",
        "128 would be 128 bytes. Write 128Gi for gibibytes.",
    ),
    external_check(
        "replica-range",
        Error,
        "`minReplicas` above `maxReplicas`",
        "No number of replicas satisfies both.",
    ),
    external_check(
        "duplicate-mount",
        Error,
        "two workdirs with the same path",
        "One would hide the other.",
    ),
    external_check(
        "name-length",
        Error,
        "a name that is too long to add a suffix",
        "The names of a training's pods add `-` and the rank, and those of a notebook's pods add a hash. Kubernetes accepts objects with longer names, but never creates their pods.",
    ),
    check(
        "nproc-per-node",
        Error,
        "`--nproc_per_node` that differs from `resources.gpu`",
        "torchrun starts one process per GPU in a pod. With more processes than GPUs, it fails immediately with an invalid device; with fewer, some GPUs stay idle.",
        semantics::nproc,
    ),
    check(
        "num-processes",
        Error,
        "`--num_processes` that differs from the number of GPUs",
        "accelerate counts processes across all nodes: GPUs per pod times `node_count`. Omit the flag and gpuctl adds it.",
        semantics::num_processes,
    ),
    check(
        "tensor-parallel",
        Error,
        "a tensor-parallel size that differs from `resources.gpu`",
        "The server splits its model across this many GPUs. If the pod has fewer, the server does not start; if it has more, some stay idle.",
        semantics::tensor_parallel,
    ),
    check(
        "port",
        Warning,
        "a port in the command that differs from `service.port`",
        "The Service would send requests to a port that nothing listens on. Set `targetPort` if the difference is intended.",
        semantics::port,
    ),
    check(
        "file-as-directory",
        Warning,
        "a path that looks like a file, but is mounted as a directory",
        "A missing host path is created as a directory, so the program finds an empty directory instead of a file. Set `type: file` or `type: directory`.",
        semantics::file_as_directory,
    ),
    check(
        "request-limit",
        Warning,
        "a `request_limit` that nothing enforces",
        "Only an Ingress can limit requests, and without `service.host` there is none.",
        semantics::request_limit,
    ),
    check(
        "image-tag",
        Warning,
        "several pods that run an image without a fixed tag",
        "Pods that start at different times may run different versions of the image. Use a version tag or a digest.",
        semantics::image_tag,
    ),
    check(
        "deprecated-launcher",
        Warning,
        "a deprecated launcher",
        "`torch.distributed.launch` is torchrun with old defaults and will be removed. `torchrun` runs the same script.",
        semantics::deprecated_launcher,
    ),
    check(
        "plain-secret",
        Warning,
        "a token or password in plain text",
        "Everyone who can read jobs can read it. Store it with `gpuctl create secret`, and refer to it in `env` with `{name, secret, key}`.",
        semantics::plain_secret,
    ),
    check(
        "memory-target",
        Warning,
        "`targetMemoryUtilization` on a server that allocates all memory at startup",
        "vLLM and similar servers allocate 90 % of the GPU memory at startup, and the autoscaler follows its highest metric: it would stay at `maxReplicas` forever.",
        semantics::memory_target,
    ),
    check(
        "health-check",
        Warning,
        "an inference service without `health_check`",
        "An open port does not mean that the model is loaded: requests would arrive too early.",
        semantics::health_check,
    ),
    external_check(
        "unfit",
        Error,
        "a document that cannot be rendered",
        "For example, a launcher that cannot find its peers, a forbidden host path, or a queue that the cluster does not have. The message says what to change.",
    ),
    external_check(
        "cluster",
        Error,
        "an object that the cluster rejects (`--server`)",
        "Dry-runs every object and a pod, and checks the pool, its quota and the GPU type, as `create` does.",
    ),
    external_check(
        "cluster-note",
        Warning,
        "a warning from the cluster (`--server`)",
        "For example, missing image pull secrets, forbidden priorities, or GPU sharing that no node offers.",
    ),
];

pub fn by_id(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}

/// Parses the ids in comments such as `# gpuctl: ignore port, image-tag`. Also returns ids of
/// checks that cannot be silenced.
pub fn ignored_ids(text: &str) -> Vec<String> {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)(?:^|\s)#\s*gpuctl:\s*ignore\s+([\w, -]+)").expect("the pattern is tested")
    });
    let ids = COMMENT.captures_iter(text).flat_map(|captures| {
        captures[1]
            .split([',', ' '])
            .filter(|id| !id.is_empty())
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    });
    ids.collect()
}

/// Returns true if a comment may silence the check: every warning, and the semantic errors of this
/// table. Errors of parsing and of the cluster cannot be silenced.
pub fn can_be_silenced(check: &Check) -> bool {
    check.find.is_some() || check.severity == Warning
}

/// Runs the checks on the documents of one file, except those that the file silences.
pub fn run(text: &str, documents: &[Document]) -> Vec<Problem> {
    let trees = tree::read(text, &mut Vec::new());
    let mut problems = Vec::new();
    for (tree, document) in trees.iter().zip(documents) {
        let Document::Job(job) = document else {
            continue;
        };
        let ignored_ids = ignored_ids(&tree.source);
        for check in CHECKS
            .iter()
            .filter(|check| !ignored_ids.iter().any(|id| id == check.id))
        {
            let Some(Finding {
                field,
                message,
                note,
            }) = check.find.and_then(|find| find(job))
            else {
                continue;
            };
            problems.push(Problem {
                at: position_of(&tree.root, field),
                severity: check.severity,
                message,
                note,
                id: check.id,
            });
        }
    }
    problems
}

/// Selects the warnings about plain-text secrets, which commands that write objects print too.
pub fn plain_secrets(file: &str, text: &str, documents: &[Document]) -> Option<Problems> {
    let list: Vec<Problem> = run(text, documents)
        .into_iter()
        .filter(|problem| problem.id == "plain-secret")
        .collect();
    (!list.is_empty()).then(|| Problems {
        file: file.to_owned(),
        text: text.to_owned(),
        list,
    })
}

/// Finds the position of a field, or of its nearest parent in the document. Ignores case, `-` and
/// `_`, because a key may be written as `gpu-type`, `gpu_type` or `gpuType`.
fn position_of(root: &YamlNode, field: &str) -> FilePosition {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let mut position = FilePosition {
        width: 1,
        ..root.at
    };
    let mut node = root;
    for part in field.split('.') {
        let YamlValue::Map(entries) = &node.value else {
            break;
        };
        let Some(entry) = entries
            .iter()
            .find(|entry| plain(&entry.key) == plain(part))
        else {
            break;
        };
        position = entry.key_at;
        node = &entry.value;
    }
    position
}

#[cfg(test)]
mod tests;
