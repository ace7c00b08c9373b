//! Lists the checks of a document that do not need a cluster. Each check has an id and a reason,
//! and a comment in the file can silence most of them.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Document, JobDocument};
use super::semantics::{self, Finding};
use super::tree::{self, YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem, Problems, Severity};

/// A validation rule.
#[derive(Debug)]
pub struct Check {
    /// The id in `# gpuctl: ignore ID`.
    pub id: &'static str,
    /// A check with severity `Error` fails validation.
    pub severity: Severity,
    /// A short description of the problem.
    pub title: &'static str,
    /// Why it matters, and how to fix it.
    pub why: &'static str,
    /// `None` for checks made elsewhere: while parsing the file, or against the cluster.
    find: Option<fn(&JobDocument) -> Option<Finding>>,
}

const fn check(
    id: &'static str,
    severity: Severity,
    title: &'static str,
    why: &'static str,
    find: fn(&JobDocument) -> Option<Finding>,
) -> Check {
    Check {
        id,
        severity,
        title,
        why,
        find: Some(find),
    }
}

const fn elsewhere(
    id: &'static str,
    severity: Severity,
    title: &'static str,
    why: &'static str,
) -> Check {
    Check {
        id,
        severity,
        title,
        why,
        find: None,
    }
}

use Severity::{Error, Warning};

/// Every check, in the order of the documentation.
pub const CHECKS: [Check; 20] = [
    elsewhere(
        "form",
        Error,
        "a field that is unknown, missing, or of another type",
        "What is not understood is not guessed: a misspelt field would silently do nothing. The message names the nearest field.",
    ),
    elsewhere(
        "version",
        Warning,
        "`version` is missing",
        "Without it v0.1 is taken. Say which version a file is written for, so that a later gpuctl reads it the same way.",
    ),
    elsewhere(
        "unit",
        Error,
        "an amount of bytes without a unit",
        "128 would be 128 bytes. Write 128Gi for gibibytes.",
    ),
    elsewhere(
        "replica-range",
        Error,
        "`minReplicas` above `maxReplicas`",
        "No number of replicas satisfies both.",
    ),
    elsewhere(
        "duplicate-mount",
        Error,
        "two workdirs at one path",
        "One would hide the other.",
    ),
    elsewhere(
        "name-length",
        Error,
        "a name too long for what gets appended",
        "Pods of a training get `-` and their rank, a notebook's get a hash: Kubernetes accepts the longer object and never makes its pods.",
    ),
    check(
        "nproc-per-node",
        Error,
        "`--nproc_per_node` other than `resources.gpu`",
        "torchrun starts one process per GPU of a pod. More processes than GPUs fail at once with an invalid device; fewer leave GPUs idle.",
        semantics::nproc,
    ),
    check(
        "num-processes",
        Error,
        "`--num_processes` other than all GPUs",
        "accelerate counts processes over all nodes: GPUs per pod times `node_count`. Leave the flag out and gpuctl adds it.",
        semantics::num_processes,
    ),
    check(
        "tensor-parallel",
        Error,
        "a tensor-parallel size other than `resources.gpu`",
        "A server splits its model over as many GPUs as it is told. With more than the pod has it does not start; with fewer the rest is idle.",
        semantics::tensor_parallel,
    ),
    check(
        "port",
        Warning,
        "a port in the command other than `service.port`",
        "The Service would send requests to a port on which nothing listens. Say `targetPort` if the difference is meant.",
        semantics::port,
    ),
    check(
        "file-as-directory",
        Warning,
        "a path that looks like a file and is mounted as a folder",
        "A host path that does not exist is made as a folder, so the program finds an empty folder where it wants a file. Say `type: file` or `type: directory`.",
        semantics::file_as_directory,
    ),
    check(
        "request-limit",
        Warning,
        "`request_limit` that nothing enforces",
        "Only an ingress can limit requests; without `service.host` there is none.",
        semantics::request_limit,
    ),
    check(
        "image-tag",
        Warning,
        "an image without a fixed tag on several pods",
        "Pods that start at different times may run different images, and their ranks disagree. Name a version or a digest.",
        semantics::image_tag,
    ),
    check(
        "deprecated-launcher",
        Warning,
        "a launcher that is no longer developed",
        "`torch.distributed.launch` is torchrun with old defaults and will go. `torchrun` takes the same script.",
        semantics::deprecated_launcher,
    ),
    check(
        "plain-secret",
        Warning,
        "a token or password in plain sight",
        "It is readable by everybody who may read jobs. `gpuctl create secret` keeps it apart, and `env` takes it by `{name, secret, key}`.",
        semantics::plain_secret,
    ),
    check(
        "memory-target",
        Warning,
        "`targetMemoryUtilization` on a server that takes all memory at once",
        "vLLM and its like take 90 % of the GPU memory when they start, and the autoscaler follows its highest metric: it would stay at the most replicas for ever.",
        semantics::memory_target,
    ),
    check(
        "health-check",
        Warning,
        "an inference service without `health_check`",
        "A port that accepts connections is not a model that is loaded: requests would reach it too early.",
        semantics::health_check,
    ),
    elsewhere(
        "unfit",
        Error,
        "what cannot be made into objects",
        "A launcher that cannot meet its peers, a folder of the node that may not be mounted, a queue that nobody serves: the message says what to write.",
    ),
    elsewhere(
        "cluster",
        Error,
        "what the cluster refuses (`--server`)",
        "A dry run of every object and of a pod, the pool and its quota, the GPU type: what `create` would be told.",
    ),
    elsewhere(
        "cluster-note",
        Warning,
        "what the cluster remarks (`--server`)",
        "Image pull secrets that are missing, priorities that may not be used, sharing that nobody provides.",
    ),
];

pub fn by_id(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}

/// Parses the ids that a comment such as `# gpuctl: ignore port, image-tag` silences.
/// `can_be_silenced` decides which checks a comment may silence.
pub fn silenced(text: &str) -> Vec<String> {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)(?:^|\s)#\s*gpuctl:\s*ignore\s+([\w, -]+)").expect("the pattern is tested")
    });
    let ids = COMMENT.captures_iter(text).flat_map(|found| {
        found[1]
            .split([',', ' '])
            .filter(|id| !id.is_empty())
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    });
    ids.collect()
}

/// Whether a comment may silence the check: every warning, and the semantic errors of this table.
/// Errors of parsing and of the cluster always count.
pub fn can_be_silenced(check: &Check) -> bool {
    check.find.is_some() || check.severity == Warning
}

/// Runs the checks on the documents of one file and skips silenced checks.
pub fn found(text: &str, documents: &[Document]) -> Vec<Problem> {
    let trees = tree::read(text, &mut Vec::new());
    let mut all = Vec::new();
    for (tree, document) in trees.iter().zip(documents) {
        let Document::Job(job) = document else {
            continue;
        };
        let silent = silenced(&tree.source);
        for check in CHECKS
            .iter()
            .filter(|check| !silent.iter().any(|id| id == check.id))
        {
            let Some(Finding {
                field,
                message,
                note,
            }) = check.find.and_then(|find| find(job))
            else {
                continue;
            };
            all.push(Problem {
                at: place(&tree.root, field),
                severity: check.severity,
                message,
                note,
                id: check.id,
            });
        }
    }
    all
}

/// Selects the warnings about plain-text secrets, which commands that write objects print too.
pub fn plain_secrets(file: &str, text: &str, documents: &[Document]) -> Option<Problems> {
    let list: Vec<Problem> = found(text, documents)
        .into_iter()
        .filter(|problem| problem.id == "plain-secret")
        .collect();
    (!list.is_empty()).then(|| Problems {
        file: file.to_owned(),
        text: text.to_owned(),
        list,
    })
}

/// Finds the position of a field, or of its nearest parent that the document has. Ignores case, `-`
/// and `_`, because keys may be written as `gpu-type`, `gpu_type` or `gpuType`.
fn place(root: &YamlNode, field: &str) -> FilePosition {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let mut at = FilePosition {
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
        at = entry.key_at;
        node = &entry.value;
    }
    at
}

#[cfg(test)]
mod tests;
