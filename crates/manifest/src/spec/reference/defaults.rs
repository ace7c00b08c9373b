//! Reference table of `kind: defaults`: the values that a site sets for all jobs, and its limits.

use super::super::shape::Shape::{
    Block, ByName, Bytes, Cpu, Duration, LabelKey, Labels, ListOf, NodeLabels, ObjectName,
    OneOrMany, Security, Text, TextMap, Variables, Whole, Word,
};
use super::super::shape::{Field, field};
use super::VERSION;

/// Fields of a toleration, as in a pod spec.
pub(in super::super) const TOLERATION: &[Field] = &[
    field(&["key"], LabelKey, "Taint key.", "example.com/reserved").needed(),
    field(
        &["operator"],
        Word(&["Exists", "Equal"]),
        "Operator: Exists (the default without a value) or Equal (with a value).",
        "Equal",
    ),
    field(&["value"], Text, "Taint value.", "research"),
    field(
        &["effect"],
        Word(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        "Taint effect; defaults to NoSchedule, so taints that evict pods are tolerated only on request.",
        "NoSchedule",
    ),
];

pub(in super::super) const SITE_LIMITS: &[Field] = &[
    field(
        &["gpu"],
        Whole(0, u32::MAX),
        "Maximum number of GPUs across all pods of a job.",
        "64",
    ),
    field(
        &["node_count", "nodeCount", "node-count"],
        Whole(1, u32::MAX),
        "Maximum number of pods of a training.",
        "16",
    ),
    field(
        &["replicas"],
        Whole(0, u32::MAX),
        "Maximum number of replicas of a service, including those that an autoscaler may add.",
        "8",
    ),
    field(&["cpu"], Cpu, "Maximum CPUs per pod.", "128"),
    field(&["memory"], Bytes, "Maximum memory per pod.", "1Ti"),
    field(
        &["max_runtime", "maxRuntime", "max-runtime"],
        Duration,
        "Maximum `job.max_runtime`, which is also the default for trainings that do not set one.",
        "7d",
    ),
];

/// Fields that a site can enforce.
pub(in super::super) const ENFORCEABLE: [&str; 16] = [
    "pool",
    "queue",
    "priority",
    "grace_period",
    "max_runtime",
    "keep_for",
    "labels",
    "annotations",
    "imagePullSecret",
    "imagePullPolicy",
    "env",
    "shm",
    "security",
    "storage_class",
    "tolerations",
    "node_selector",
];

/// Fields of one scope: all jobs, the jobs of one kind, or the jobs of one pool.
pub(in super::super) const SCOPE: &[Field] = &[
    field(
        &["pool"],
        ObjectName,
        "`resources.pool` of jobs that do not set it; not allowed under `pools`.",
        "shared",
    ),
    field(&["queue"], Text, "`job.queue`.", "research"),
    field(&["priority"], Text, "`job.priority`.", "medium"),
    field(
        &["grace_period", "gracePeriod", "grace-period"],
        Duration,
        "`job.grace_period`.",
        "2m",
    ),
    field(
        &["max_runtime", "maxRuntime", "max-runtime"],
        Duration,
        "`job.max_runtime` of trainings.",
        "24h",
    ),
    field(
        &["keep_for", "keepFor", "keep-for"],
        Duration,
        "`job.keep_for` of trainings.",
        "7d",
    ),
    field(
        &["labels"],
        Labels,
        "`job.labels`, merged by key.",
        "{site: berlin}",
    ),
    field(
        &["annotations"],
        TextMap,
        "`job.annotations`, merged by key.",
        "{cost-center: '42'}",
    ),
    field(
        &[
            "imagePullSecret",
            "image_pull_secret",
            "imagePullSecrets",
            "image_pull_secrets",
        ],
        OneOrMany(&ObjectName),
        "`environment.imagePullSecret`.",
        "registry",
    ),
    field(
        &["imagePullPolicy", "image_pull_policy"],
        Word(&["Always", "IfNotPresent", "Never"]),
        "`environment.imagePullPolicy`.",
        "IfNotPresent",
    ),
    field(
        &["env"],
        Variables,
        "`environment.env`, merged by name; for example for NCCL or proxies.",
        "{NCCL_IB_HCA: mlx5_0}",
    ),
    field(
        &["shm", "shm_size", "shmSize"],
        Bytes,
        "`resources.shm` of jobs with shared memory.",
        "32Gi",
    ),
    field(&["security"], Security, "`security`.", "restricted"),
    field(
        &["storage_class", "storageClass", "storageClassName"],
        Text,
        "`storageClass` of workdirs with `size:`.",
        "fast",
    ),
    field(
        &["tolerations"],
        ListOf(TOLERATION),
        "Taints that jobs tolerate, in addition to those that dedicate nodes to GPUs.",
        "[{key: example.com/reserved, value: research}]",
    ),
    field(
        &["node_selector", "nodeSelector"],
        NodeLabels,
        "Labels that nodes must have.",
        "{topology.kubernetes.io/zone: a}",
    ),
    field(
        &["limits"],
        Block(SITE_LIMITS),
        "Upper limits for a job.",
        "{gpu: 64}",
    ),
    field(
        &["enforced"],
        OneOrMany(&Word(&ENFORCEABLE)),
        "Fields in this scope that a file must not override. `pod:` still can, except for tolerations and node_selector.",
        "[queue]",
    ),
];

/// Returns the spellings of a field of a scope.
pub fn scope_names(field: &str) -> &'static [&'static str] {
    SCOPE
        .iter()
        .find(|spec| spec.name() == field)
        .map_or(&[], |spec| spec.names)
}

pub(in super::super) const KIND_SCOPES: &[Field] = &[
    field(&["training"], Block(SCOPE), "Defaults for trainings.", ""),
    field(
        &["inference"],
        Block(SCOPE),
        "Defaults for inference services.",
        "",
    ),
    field(&["notebook"], Block(SCOPE), "Defaults for notebooks.", ""),
    field(
        &["compute"],
        Block(SCOPE),
        "Defaults for services without GPUs.",
        "",
    ),
];

/// Fields of `kind: defaults`.
pub const DEFAULTS: &[Field] = &[
    VERSION,
    field(&["all"], Block(SCOPE), "Defaults for all jobs.", ""),
    field(
        &["kinds"],
        Block(KIND_SCOPES),
        "Defaults for jobs of one kind; override `all`.",
        "",
    ),
    field(
        &["pools"],
        ByName(SCOPE),
        "Defaults for jobs in one pool; override `kinds` and `all`.",
        "{infer-pool: {priority: high}}",
    ),
    field(
        &["allow_env", "allowEnv"],
        OneOrMany(&Text),
        "Variables in `env` that can change which programs run (LD_PRELOAD, PATH, PYTHONPATH, BASH_ENV, …) and that jobs may set: \
         exact names, or prefixes followed by `*`.",
        "[PYTHONPATH, LD_*]",
    ),
    field(
        &["gpu_type_labels", "gpuTypeLabels"],
        OneOrMany(&LabelKey),
        "Node labels that contain the GPU type on this cluster; checked before the built-in ones.",
        "[example.com/accelerator]",
    ),
];
