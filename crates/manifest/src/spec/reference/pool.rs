//! Reference tables of `kind: pool` and `kind: quota`.

use super::super::shape::Shape::{
    Block, Boolean, ByName, Bytes, Cpu, GpuType, Label, ObjectName, OneOrMany, PoolNodes, Text,
    Whole,
};
use super::super::shape::{Field, field};
use super::VERSION;

/// Spellings of the field for the GPU type of a pool or node.
pub(super) const GPU_TYPE: [&str; 3] = ["gpu-type", "gpu_type", "gpuType"];

pub(in crate::spec) const POOL_LIMITS: &[Field] = &[
    field(
        &["maxJobs", "max_jobs"],
        Whole(0, u32::MAX),
        "Maximum number of unfinished jobs in the pool.",
        "100",
    ),
    field(
        &["maxGpuPerJob", "max_gpu_per_job"],
        Whole(0, u32::MAX),
        "Maximum number of GPUs for one job, across all its pods.",
        "8",
    ),
];

pub(in crate::spec) const OF_POOL: &[Field] = &[
    field(
        &["name"],
        ObjectName,
        "Name by which jobs request the pool.",
        "NAME",
    )
    .needed(),
    field(
        &["description"],
        Text,
        "Free-form description.",
        "what it is for",
    ),
    field(
        &GPU_TYPE,
        OneOrMany(&GpuType),
        "Allowed GPU types; default any.",
        "[a100-80g]",
    ),
    field(
        &["quota"],
        Block(POOL_LIMITS),
        "Limits for one job and for all jobs in the pool.",
        "",
    ),
    field(
        &["exclusive"],
        Boolean,
        "Taint the nodes to keep out jobs of other pools and jobs without a pool; running pods stay.",
        "true",
    ),
];

/// Fields of a node in a pool's map of nodes.
pub(in crate::spec) const POOL_NODE: &[Field] = &[field(
    &GPU_TYPE,
    GpuType,
    "GPU type of the node.",
    "a100-80g",
)];

/// Fields of `kind: pool`.
pub const POOL: &[Field] = &[
    VERSION,
    field(&["pool"], Block(OF_POOL), "The pool.", "").needed(),
    field(
        &["nodes"],
        PoolNodes,
        "Nodes in the pool: a list of names, or a map such as name: {gpu-type: …}.",
        "[gpu-node-1]",
    ),
];

pub(in crate::spec) const LIMITS: &[Field] = &[
    field(&["cpu"], Cpu, "Maximum CPUs that pods may request.", "20"),
    field(
        &["memory"],
        Bytes,
        "Maximum memory that pods may request, with a unit.",
        "40Gi",
    ),
    field(
        &["gpu"],
        Whole(0, u32::MAX),
        "Maximum number of GPUs that pods may request.",
        "4",
    ),
    field(
        &["pods"],
        Whole(0, u32::MAX),
        "Maximum number of pods.",
        "50",
    ),
    field(
        &["storage"],
        Bytes,
        "Maximum storage that all PersistentVolumeClaims may request.",
        "1Ti",
    ),
];

pub(in crate::spec) const OF_QUOTA: &[Field] = &[
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
        "Free-form description.",
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
        "Limits by namespace; gpuctl creates missing namespaces.",
        "{team-a: {gpu: 4}}",
    ),
    field(
        &["default"],
        Block(LIMITS),
        "Limits for the namespace `default`.",
        "{gpu: 2}",
    ),
];
