//! The table of all fields: spellings, accepted values, kinds and meaning. `explain`, `init` and
//! the JSON Schema are made from it, and a test holds it against the readers.

mod defaults;
mod job;

use super::shape::Shape::{
    AbsolutePath, Block, Boolean, ByName, Bytes, Command, Cpu, Duration, Files, GpuType,
    HealthCheck, Image, Label, ModelPath, ObjectName, OneOrMany, Overlay, PoolNodes, Rdma,
    Security, Share, ShortDuration, Text, UrlPath, Variables, Whole, Word, Workdirs,
};
use super::shape::{Field, FieldScope, field};

pub use defaults::{DEFAULTS, scope_names};
pub(super) use defaults::{ENFORCEABLE, KIND_SCOPES, SCOPE, SITE_LIMITS, TOLERATION};
pub(super) use job::{CHECKPOINT, JOB};

/// The list form of a variable.
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

/// The block form of a health check.
pub const HEALTH_CHECK: &[Field] = &[
    field(
        &["path"],
        UrlPath,
        "Path that answers when the service is up.",
        "/health",
    )
    .needed(),
    field(
        &["port"],
        Whole(1, 65_535),
        "Port of the check, where it is another.",
        "9090",
    ),
    field(
        &["initial_delay", "initialDelay"],
        Duration,
        "Time before the first try.",
        "30s",
    ),
    field(&["period"], Duration, "Time between two tries.", "10s"),
];

pub(super) const SERVICE: &[Field] = &[
    field(
        &["replicas"],
        Whole(0, 10_000),
        "Pods that serve; 0 makes it paused. A notebook is one.",
        "1",
    ),
    field(
        &["port"],
        Whole(1, 65_535),
        "Port of the service, and of the program unless targetPort says otherwise.",
        "8000",
    )
    .needed_to_serve(),
    field(
        &["targetPort", "target_port"],
        Whole(1, 65_535),
        "Port on which the program listens, where it is another.",
        "8080",
    ),
    field(
        &["protocol"],
        Word(&["TCP", "UDP", "SCTP"]),
        "Protocol of the port.",
        "TCP",
    ),
    field(
        &["type"],
        Word(&["ClusterIP", "NodePort", "LoadBalancer"]),
        "How it is reached from outside.",
        "ClusterIP",
    ),
    field(
        &["host"],
        Text,
        "Host name of an Ingress.",
        "model.example.com",
    ),
    field(
        &["health_check", "healthCheck", "health-check"],
        HealthCheck,
        "Path that answers when the service is up, or {path, port, initial_delay, period}.",
        "/health",
    ),
    field(&["timeout"], Duration, "Longest time of a request.", "60s"),
    field(
        &["request_limit", "requestLimit", "request-limit"],
        Whole(1, u32::MAX),
        "Requests per second, enforced by an Ingress where `host` asks for one.",
        "100",
    ),
];

/// The only level that asks something of a pod; every pod of ours without folders of the node fits
/// the others.
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

pub(super) const AUTOSCALING: &[Field] = &[
    field(
        &["enabled"],
        Boolean,
        "Whether it scales; true without it.",
        "true",
    ),
    field(
        &["minReplicas", "min_replicas"],
        Whole(1, 10_000),
        "Fewest pods; 1 without it.",
        "1",
    ),
    field(
        &["maxReplicas", "max_replicas"],
        Whole(1, 10_000),
        "Most pods.",
        "4",
    ),
    field(
        &[
            "targetGPUUtilization",
            "target_gpu_utilization",
            "targetGpuUtilization",
        ],
        Whole(1, 100),
        "Percent of GPU utilization that is aimed at.",
        "70",
    ),
    field(
        &["targetMemoryUtilization", "target_memory_utilization"],
        Whole(1, 100),
        "Percent of GPU memory that is aimed at.",
        "80",
    ),
    field(
        &[
            "targetCPUUtilization",
            "target_cpu_utilization",
            "targetCpuUtilization",
        ],
        Whole(1, 100),
        "Percent of the requested CPU that is aimed at.",
        "60",
    ),
    field(
        &["targetQueueLength", "target_queue_length"],
        Whole(1, 10_000),
        "Requests that wait at each pod of an inference server (vLLM, SGLang, text-generation-inference) that is aimed at.",
        "4",
    ),
    field(
        &["scaleUpDelay", "scale_up_delay"],
        ShortDuration,
        "Time that load must last before pods are added.",
        "1m",
    ),
    field(
        &["scaleDownDelay", "scale_down_delay"],
        ShortDuration,
        "Time that quiet must last before pods are taken away.",
        "5m",
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

/// A type of GPU, of a pool and of its nodes.
const GPU_TYPE: [&str; 3] = ["gpu-type", "gpu_type", "gpuType"];

pub(super) const POOL_LIMITS: &[Field] = &[
    field(
        &["maxJobs", "max_jobs"],
        Whole(0, u32::MAX),
        "Jobs that may be in it at the same time.",
        "100",
    ),
    field(
        &["maxGpuPerJob", "max_gpu_per_job"],
        Whole(0, u32::MAX),
        "GPUs that one job may have in all.",
        "8",
    ),
];

pub(super) const OF_POOL: &[Field] = &[
    field(&["name"], ObjectName, "Name that jobs ask for.", "NAME").needed(),
    field(
        &["description"],
        Text,
        "A sentence for people.",
        "what it is for",
    ),
    field(
        &GPU_TYPE,
        OneOrMany(&GpuType),
        "Allowed types; any without it.",
        "[a100-80g]",
    ),
    field(
        &["quota"],
        Block(POOL_LIMITS),
        "What one job and all jobs may take.",
        "",
    ),
    field(
        &["exclusive"],
        Boolean,
        "Keep jobs of other pools, and of none, off its nodes by a taint; what runs there stays.",
        "true",
    ),
];

/// Fields of a node in a pool's map of nodes.
pub(super) const POOL_NODE: &[Field] =
    &[field(&GPU_TYPE, GpuType, "Type of its GPUs.", "a100-80g")];

/// Fields of `kind: pool`.
pub const POOL: &[Field] = &[
    VERSION,
    field(&["pool"], Block(OF_POOL), "The pool.", "").needed(),
    field(
        &["nodes"],
        PoolNodes,
        "Its nodes: a list of names, or a map name: {gpu-type: …}.",
        "[gpu-node-1]",
    ),
];

pub(super) const LIMITS: &[Field] = &[
    field(&["cpu"], Cpu, "CPUs.", "20"),
    field(&["memory"], Bytes, "Memory, with its unit.", "40Gi"),
    field(&["gpu"], Whole(0, u32::MAX), "Whole GPUs.", "4"),
    field(&["pods"], Whole(0, u32::MAX), "Pods.", "50"),
    field(&["storage"], Bytes, "Storage of all claims.", "1Ti"),
];

pub(super) const OF_QUOTA: &[Field] = &[
    field(
        &["name"],
        Label,
        "Name of the quota in each namespace.",
        "NAME",
    )
    .needed(),
    field(
        &["description"],
        Text,
        "A sentence for people.",
        "what it is for",
    ),
];

/// Fields of `kind: quota`.
pub const QUOTA: &[Field] = &[
    VERSION,
    field(&["quota"], Block(OF_QUOTA), "The quota.", "").needed(),
    field(
        &["namespace", "namespaces"],
        ByName(LIMITS),
        "What each namespace may request; one that is missing is made.",
        "{team-a: {gpu: 4}}",
    ),
    field(
        &["default"],
        Block(LIMITS),
        "What the namespace called default may request.",
        "{gpu: 2}",
    ),
];

/// Kinds as they are written, with what they are.
pub const KINDS: [(&str, &str); 7] = [
    ("training", "a training on one or many nodes"),
    ("inference", "a model behind a port"),
    ("notebook", "a notebook on a GPU"),
    ("compute", "a service without GPUs"),
    ("pool", "nodes under a name"),
    ("quota", "what namespaces may request"),
    ("defaults", "what the site sets for everybody's jobs"),
];

/// Fields of a document of this kind.
pub fn of_kind(kind: &str) -> &'static [Field] {
    match kind {
        "pool" | "resource" => POOL,
        "quota" => QUOTA,
        "defaults" => DEFAULTS,
        _ => DOCUMENT,
    }
}
