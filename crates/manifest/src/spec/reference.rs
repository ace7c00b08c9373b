//! The table of all fields: spellings, accepted values, kinds and descriptions. `explain`, `init`,
//! `docs/yaml.md` and the JSON Schema are generated from it, and a test compares it with the
//! readers.

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

/// The fields of a variable in a list.
pub(super) const VARIABLE: &[Field] = &[
    field(&["name"], Text, "Name of the variable.", "LOG_LEVEL"),
    field(&["value"], Text, "Its value.", "info"),
    field(
        &["secret"],
        Text,
        "The Secret that holds its value.",
        "token",
    ),
    field(
        &["configmap", "configMap", "config_map"],
        Text,
        "The ConfigMap that holds its value.",
        "settings",
    ),
    field(
        &["key"],
        Text,
        "The key of the Secret or ConfigMap, where it is not the name.",
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
        "Secret with the login to a private registry; `gpuctl create secret` makes one.",
        "registry",
    ),
    field(
        &["imagePullPolicy", "image_pull_policy"],
        Word(&["Always", "IfNotPresent", "Never"]),
        "When the image is pulled.",
        "IfNotPresent",
    ),
    field(
        &["command"],
        Command,
        "What runs: a list of words, or one string for a shell; the image's own without it.",
        "[python, main.py]",
    ),
    field(
        &["args"],
        Command,
        "Arguments behind the command.",
        "[--verbose]",
    ),
    field(
        &["env"],
        Variables,
        "Variables: a map, or a list of {name, value}, {name, secret, key} or {name, configmap, key}.",
        "{LOG_LEVEL: info}",
    ),
    field(
        &["workingDir", "working_dir"],
        Text,
        "Folder in which the command starts.",
        "/workspace",
    ),
];

pub(super) const MODEL: &[Field] = &[
    field(
        &["source"],
        Text,
        "Where the model comes from; set as MODEL_SOURCE.",
        "huggingface",
    ),
    field(
        &["name"],
        Text,
        "Set as MODEL_NAME; `{{model.name}}` stands for it elsewhere in the file.",
        "Qwen/Qwen2-7B",
    ),
    field(&["version"], Text, "Set as MODEL_VERSION.", "main"),
    field(&["format"], Text, "Set as MODEL_FORMAT.", "safetensors"),
    field(
        &["path"],
        ModelPath,
        "A folder of the node with the model, mounted read-only; or any other text for the program.",
        "/models/qwen2-7b",
    ),
    field(
        &["cache"],
        Boolean,
        "Keep downloads at /cache/models on the node.",
        "true",
    ),
];

pub(super) const RESOURCES: &[Field] = &[
    field(
        &["pool"],
        ObjectName,
        "Pool whose nodes it may use; `default` is no restriction. `gpuctl get pools` lists them.",
        "train-pool",
    ),
    field(&["gpu"], Whole(0, 1024), "GPUs per pod.", "1"),
    field(&GPU_TYPE, GpuType, "Type of GPU, in any spelling; `gpuctl get gpu-type` lists what there is.", "a100-80g"),
    field(
        &["gpu_share", "gpu-share", "gpuShare"],
        Share,
        "Part of a GPU: an amount of its memory, or a fraction up to 1. Without `gpu` it is a part of one.",
        "10Gi",
    ),
    field(&["cpu"], Cpu, "CPUs per pod.", "8"),
    field(&["memory"], Bytes, "Memory per pod, with its unit.", "64Gi"),
    field(
        &["qos"],
        Word(&["guaranteed"]),
        "`guaranteed` limits CPUs to what is requested, as pinned CPUs and some quotas need; with whole `cpu` and `memory`.",
        "guaranteed",
    ),
    field(
        &["shm", "shm_size", "shmSize"],
        Bytes,
        "Most that /dev/shm may hold, which counts against the memory; half of `memory`, else 16Gi per GPU.",
        "16Gi",
    ),
    field(
        &["rdma"],
        Rdma,
        "Devices of the network between nodes, per pod: `auto` takes what the nodes have, in proportion to the GPUs; or NAME:COUNT.",
        "auto",
    )
    .of(FieldScope::Training),
    field(
        &["exclude_nodes", "excludeNodes", "exclude-nodes", "exclude"],
        OneOrMany(&ObjectName),
        "Nodes that its pods must not use, such as one that `gpuctl get health` names.",
        "[gpu-a-07]",
    ),
    field(
        &["node_count", "nodeCount", "node-count", "nodes"],
        Whole(1, 10_000),
        "Pods, each on GPUs of its own: gpu is per pod. Of an inference the pods of each replica, by LeaderWorkerSet.",
        "1",
    )
    .of(FieldScope::Distributed),
];

pub(super) const WORKDIR: &[Field] = &[
    field(
        &["path"],
        AbsolutePath,
        "Where it appears in the container; without a source also the folder of the node.",
        "/data",
    )
    .needed(),
    field(
        &["host_path", "hostPath", "host-path"],
        AbsolutePath,
        "Folder or file of the node.",
        "/mnt/data",
    ),
    field(&["pvc", "claim"], Text, "An existing claim.", "datasets"),
    field(
        &["sub_path", "subPath"],
        Text,
        "Folder inside the claim.",
        "imagenet",
    ),
    field(
        &["size"],
        Bytes,
        "A claim of this size is made; it is kept when the job is deleted.",
        "100Gi",
    ),
    field(
        &["storageClass", "storage_class", "storageClassName"],
        Text,
        "Storage class of a claim that is made.",
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
        "Access mode of a claim that is made.",
        "ReadWriteMany",
    ),
    field(
        &["emptyDir", "empty_dir"],
        Boolean,
        "An empty folder that goes with the pod.",
        "true",
    ),
    field(
        &["configmap", "configMap"],
        Text,
        "An existing ConfigMap.",
        "settings",
    ),
    field(&["secret"], Text, "An existing Secret.", "credentials"),
    field(
        &["read_only", "readOnly"],
        Boolean,
        "Mounted for reading only.",
        "true",
    ),
    field(
        &["type"],
        Word(&["file", "directory"]),
        "What the path is, where its ending does not tell.",
        "directory",
    ),
];

pub(super) const STORAGE: &[Field] = &[field(
    &["workdirs", "workdir"],
    Workdirs(WORKDIR),
    "What is mounted: paths of the node, claims, empty folders, ConfigMaps, Secrets.",
    "[{path: /data, size: 100Gi}]",
)];

/// The only Pod Security level that requires changes to a pod. Pods that gpuctl creates meet the
/// other levels unless they mount host paths.
pub(super) const SECURITY_LEVELS: [&str; 1] = ["restricted"];

/// The map form of `security`.
pub const SECURITY: &[Field] = &[
    field(
        &["level"],
        Word(&SECURITY_LEVELS),
        "Pod Security level that the pods must fit.",
        "restricted",
    ),
    field(
        &["run_as", "runAs", "run-as"],
        Whole(0, u32::MAX),
        "User that the container runs as; the image's own without it.",
        "1000",
    ),
    field(
        &["fs_group", "fsGroup", "fs-group"],
        Whole(0, u32::MAX),
        "Group that may write to the claims; that of `run_as`, and 1000 where all claims are made by `size:`.",
        "1000",
    ),
];

const VERSION: Field = field(
    &["version"],
    Word(&["v0.1", "v1"]),
    "Version of the file's form.",
    "v0.1",
);

/// Fields of a job document.
pub const DOCUMENT: &[Field] = &[
    VERSION,
    field(
        &["job"],
        Block(JOB),
        "The job as a whole: its name, whom it belongs to, how it is tried.",
        "",
    )
    .needed(),
    field(
        &["environment"],
        Block(ENVIRONMENT),
        "What runs: image, command, variables.",
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
        "What each pod gets, and where.",
        "",
    ),
    field(&["storage"], Block(STORAGE), "What is mounted.", ""),
    field(
        &["checkpoint"],
        Block(CHECKPOINT),
        "Where checkpoints lie, and how to go on from them.",
        "",
    )
    .of(FieldScope::Training),
    field(&["service"], Block(SERVICE), "How it is reached.", "")
        .of(FieldScope::Serving)
        .needed_to_serve(),
    field(
        &["autoscaling"],
        Block(AUTOSCALING),
        "How many pods, by what they do.",
        "",
    )
    .of(FieldScope::Service),
    field(
        &["security"],
        Security,
        "`restricted` makes pods that the restricted Pod Security level admits; or {level, run_as, fs_group}.",
        "restricted",
    ),
    field(
        &["files"],
        Files,
        "Small files of this file's folder that appear in /workspace: a list, or a map path: file.",
        "[train.py]",
    ),
    field(
        &["pod"],
        Overlay,
        "Merged into the pod spec as it stands, for what has no field here: tolerations, security context, runtime class.",
        "{runtimeClassName: nvidia}",
    ),
];

/// The kinds in their written form, with descriptions.
pub const KINDS: [(&str, &str); 7] = [
    ("training", "a training on one or many nodes"),
    ("inference", "a model behind a port"),
    ("notebook", "a notebook on a GPU"),
    ("compute", "a service without GPUs"),
    ("pool", "nodes under a name"),
    ("quota", "what namespaces may request"),
    ("defaults", "what the site sets for everybody's jobs"),
];

pub fn of_kind(kind: &str) -> &'static [Field] {
    match kind {
        "pool" | "resource" => POOL,
        "quota" => QUOTA,
        "defaults" => DEFAULTS,
        _ => DOCUMENT,
    }
}
