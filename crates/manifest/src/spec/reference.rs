//! The table of all fields: spellings, accepted values, kinds and descriptions. `explain`, `init`,
//! `docs/yaml.md` and the JSON Schema are generated from this table. A test compares the table with
//! the code that reads manifests.

mod defaults;
mod job;
mod pool;
mod service;

use super::shape::Shape::{
    AbsolutePath, Block, Boolean, Bytes, Command, Cpu, Files, GpuType, Image, ModelPath,
    ObjectName, OneOrMany, Overlay, Rdma, Security, Share, Text, Variables, Whole, Word, Workdirs,
};
use super::shape::{Field, FieldScope, field};

pub use defaults::{DEFAULTS, scope_names};
pub(super) use defaults::{ENFORCEABLE, KIND_SCOPES, SCOPE, SITE_LIMITS, TOLERATION};
pub(super) use job::{CHECKPOINT, JOB};
use pool::GPU_TYPE;
pub(super) use pool::{LIMITS, OF_POOL, OF_QUOTA, POOL_LIMITS, POOL_NODE};
pub use pool::{POOL, QUOTA};
pub use service::HEALTH_CHECK;
pub(super) use service::{AUTOSCALING, SERVICE};

/// Fields of an item in a list of variables.
pub(super) const VARIABLE: &[Field] = &[
    field(&["name"], Text, "Variable name.", "LOG_LEVEL"),
    field(&["value"], Text, "Variable value.", "info"),
    field(
        &["secret"],
        Text,
        "Secret that contains the value.",
        "token",
    ),
    field(
        &["configmap", "configMap", "config_map"],
        Text,
        "ConfigMap that contains the value.",
        "settings",
    ),
    field(
        &["key"],
        Text,
        "Key in the Secret or ConfigMap; defaults to the variable name.",
        "token",
    ),
];

pub(super) const ENVIRONMENT: &[Field] = &[
    field(
        &["image"],
        Image,
        "Container image.",
        "pytorch/pytorch:2.9.0",
    )
    .needed(),
    field(
        &[
            "imagePullSecret",
            "image_pull_secret",
            "imagePullSecrets",
            "image_pull_secrets",
        ],
        OneOrMany(&ObjectName),
        "Secret with the credentials for a private registry; `gpuctl create secret` creates one.",
        "registry",
    ),
    field(
        &["imagePullPolicy", "image_pull_policy"],
        Word(&["Always", "IfNotPresent", "Never"]),
        "When to pull the image.",
        "IfNotPresent",
    ),
    field(
        &["command"],
        Command,
        "Command to run: a list of words, or one string for a shell; defaults to the image's command.",
        "[python, main.py]",
    ),
    field(
        &["args"],
        Command,
        "Arguments for the command.",
        "[--verbose]",
    ),
    field(
        &["env"],
        Variables,
        "Environment variables: a map, or a list of {name, value}, {name, secret, key} or {name, configmap, key}.",
        "{LOG_LEVEL: info}",
    ),
    field(
        &["workingDir", "working_dir"],
        Text,
        "Working directory of the command.",
        "/workspace",
    ),
];

pub(super) const MODEL: &[Field] = &[
    field(
        &["source"],
        Text,
        "Model source, set as MODEL_SOURCE.",
        "huggingface",
    ),
    field(
        &["name"],
        Text,
        "Model name, set as MODEL_NAME; `{{model.name}}` inserts it elsewhere in the file.",
        "Qwen/Qwen2-7B",
    ),
    field(
        &["version"],
        Text,
        "Model version, set as MODEL_VERSION.",
        "main",
    ),
    field(
        &["format"],
        Text,
        "Model format, set as MODEL_FORMAT.",
        "safetensors",
    ),
    field(
        &["path"],
        ModelPath,
        "Directory on the node that contains the model, mounted read-only, or any other text for the program. Set as MODEL_PATH.",
        "/models/qwen2-7b",
    ),
    field(
        &["cache"],
        Boolean,
        "Keep downloads in /cache/models on the node.",
        "true",
    ),
];

pub(super) const RESOURCES: &[Field] = &[
    field(
        &["pool"],
        ObjectName,
        "Node pool to use (`gpuctl get pools` lists the pools); `default` means no restriction.",
        "train-pool",
    ),
    field(&["gpu"], Whole(0, 1024), "GPUs per pod.", "1"),
    field(&GPU_TYPE, GpuType, "GPU type, in any spelling; `gpuctl get gpu-type` lists the types in the cluster.", "a100-80g"),
    field(
        &["gpu_share", "gpu-share", "gpuShare"],
        Share,
        "Share of each GPU: an amount of memory, or a fraction up to 1. Without `gpu`, a share of one GPU.",
        "10Gi",
    ),
    field(&["cpu"], Cpu, "CPUs per pod.", "8"),
    field(&["memory"], Bytes, "Memory per pod, with a unit.", "64Gi"),
    field(
        &["qos"],
        Word(&["guaranteed"]),
        "`guaranteed` sets the CPU limit to the request, as CPU pinning and some quotas require; it needs `memory` and a whole number for `cpu`.",
        "guaranteed",
    ),
    field(
        &["shm", "shm_size", "shmSize"],
        Bytes,
        "Size limit of /dev/shm, which counts against the memory; defaults to half of `memory`, or 16Gi per GPU if `memory` is not set.",
        "16Gi",
    ),
    field(
        &["rdma"],
        Rdma,
        "RDMA devices per pod for traffic between nodes: `auto` (the nodes' devices, in proportion to the GPUs) or NAME:COUNT.",
        "auto",
    )
    .in_scope(FieldScope::Training),
    field(
        &["exclude_nodes", "excludeNodes", "exclude-nodes", "exclude"],
        OneOrMany(&ObjectName),
        "Nodes that the pods must not use, such as unhealthy ones from `gpuctl get health`.",
        "[gpu-a-07]",
    ),
    field(
        &["node_count", "nodeCount", "node-count", "nodes"],
        Whole(1, 10_000),
        "Number of pods, each with `gpu` GPUs. For an inference, the number of pods per replica (needs LeaderWorkerSet).",
        "1",
    )
    .in_scope(FieldScope::Distributed),
];

pub(super) const WORKDIR: &[Field] = &[
    field(
        &["path"],
        AbsolutePath,
        "Mount path in the container; without a source, also the path on the node.",
        "/data",
    )
    .needed(),
    field(
        &["host_path", "hostPath", "host-path"],
        AbsolutePath,
        "Directory or file on the node.",
        "/mnt/data",
    ),
    field(
        &["pvc", "claim"],
        Text,
        "Existing PersistentVolumeClaim.",
        "datasets",
    ),
    field(
        &["sub_path", "subPath"],
        Text,
        "Directory inside the claim.",
        "imagenet",
    ),
    field(
        &["size"],
        Bytes,
        "Size of a new PersistentVolumeClaim, which is kept when the job is deleted.",
        "100Gi",
    ),
    field(
        &["storageClass", "storage_class", "storageClassName"],
        Text,
        "Storage class of the new claim.",
        "fast",
    ),
    field(
        &["access_mode", "accessMode"],
        Word(&[
            "ReadWriteOnce",
            "ReadWriteMany",
            "ReadOnlyMany",
            "ReadWriteOncePod",
        ]),
        "Access mode of the new claim.",
        "ReadWriteMany",
    ),
    field(
        &["emptyDir", "empty_dir"],
        Boolean,
        "Empty directory that is deleted with the pod.",
        "true",
    ),
    field(
        &["configmap", "configMap"],
        Text,
        "Existing ConfigMap.",
        "settings",
    ),
    field(&["secret"], Text, "Existing Secret.", "credentials"),
    field(
        &["read_only", "readOnly"],
        Boolean,
        "Mount read-only.",
        "true",
    ),
    field(
        &["type"],
        Word(&["file", "directory"]),
        "Whether the path is a file or a directory, if the extension does not make it clear.",
        "directory",
    ),
];

pub(super) const STORAGE: &[Field] = &[field(
    &["workdirs", "workdir"],
    Workdirs(WORKDIR),
    "Volumes to mount: paths on the node, PersistentVolumeClaims, empty directories, ConfigMaps and Secrets.",
    "[{path: /data, size: 100Gi}]",
)];

/// The only Pod Security level for which gpuctl changes its pods. Without changes, the pods meet
/// the other levels unless they mount host paths.
pub(super) const SECURITY_LEVELS: [&str; 1] = ["restricted"];

/// Fields of the map form of `security`.
pub const SECURITY: &[Field] = &[
    field(
        &["level"],
        Word(&SECURITY_LEVELS),
        "Pod Security level that the pods must meet.",
        "restricted",
    ),
    field(
        &["run_as", "runAs", "run-as"],
        Whole(0, u32::MAX),
        "User ID of the container; defaults to the image's user.",
        "1000",
    ),
    field(
        &["fs_group", "fsGroup", "fs-group"],
        Whole(0, u32::MAX),
        "Group ID that can write to volumes; defaults to `run_as`, or to 1000 if `size:` creates all volumes.",
        "1000",
    ),
];

const VERSION: Field = field(
    &["version"],
    Word(&["v0.1", "v1"]),
    "File format version.",
    "v0.1",
);

/// Fields of a job document.
pub const DOCUMENT: &[Field] = &[
    VERSION,
    field(
        &["job"],
        Block(JOB),
        "The job as a whole: name, owner, priority, retries.",
        "",
    )
    .needed(),
    field(
        &["environment"],
        Block(ENVIRONMENT),
        "The program: image, command, variables.",
        "",
    )
    .needed(),
    field(
        &["model"],
        Block(MODEL),
        "The model, for the program and for placeholders.",
        "",
    ),
    field(
        &["resources"],
        Block(RESOURCES),
        "Resources of each pod, and the nodes to use.",
        "",
    ),
    field(&["storage"], Block(STORAGE), "Volumes to mount.", ""),
    field(
        &["checkpoint"],
        Block(CHECKPOINT),
        "Where checkpoints are stored, and how to resume from them.",
        "",
    )
    .in_scope(FieldScope::Training),
    field(
        &["service"],
        Block(SERVICE),
        "How clients reach the service.",
        "",
    )
    .in_scope(FieldScope::Serving)
    .needed_to_serve(),
    field(
        &["autoscaling"],
        Block(AUTOSCALING),
        "Scaling of the replicas with the load.",
        "",
    )
    .in_scope(FieldScope::Service),
    field(
        &["security"],
        Security,
        "`restricted` creates pods that meet the restricted Pod Security level; or {level, run_as, fs_group}.",
        "restricted",
    ),
    field(
        &["files"],
        Files,
        "Small local files, relative to this file, that are copied to /workspace: a list, or a map path: file.",
        "[train.py]",
    ),
    field(
        &["pod"],
        Overlay,
        "Fields to merge into the pod spec, for settings that have no field here, such as the security context or the runtime class.",
        "{runtimeClassName: nvidia}",
    ),
];

/// All kinds as written in manifests, with descriptions.
pub const KINDS: [(&str, &str); 7] = [
    ("training", "a training job on one or more nodes"),
    ("inference", "a model served over the network"),
    ("notebook", "a notebook on a GPU"),
    ("compute", "a service without GPUs"),
    ("pool", "a named set of nodes"),
    ("quota", "namespace limits"),
    ("defaults", "the site's defaults for all jobs"),
];

pub fn fields_of_kind(kind: &str) -> &'static [Field] {
    match kind {
        "pool" | "resource" => POOL,
        "quota" => QUOTA,
        "defaults" => DEFAULTS,
        _ => DOCUMENT,
    }
}
