//! Reference tables of `kind: pool` and `kind: quota`.

use super::super::shape::Shape::{
    Block, Boolean, ByName, Bytes, Cpu, GpuType, Label, ObjectName, OneOrMany, PoolNodes, Text,
    Whole,
};
use super::super::shape::{Field, field};
use super::VERSION;

/// Spellings of the GPU type of a pool and its nodes.
pub(super) const GPU_TYPE: [&str; 3] = ["gpu-type", "gpu_type", "gpuType"];

pub(in crate::spec) const POOL_LIMITS: &[Field] = &[
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

pub(in crate::spec) const OF_POOL: &[Field] = &[
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
pub(in crate::spec) const POOL_NODE: &[Field] =
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

pub(in crate::spec) const LIMITS: &[Field] = &[
    field(&["cpu"], Cpu, "CPUs.", "20"),
    field(&["memory"], Bytes, "Memory, with its unit.", "40Gi"),
    field(&["gpu"], Whole(0, u32::MAX), "Whole GPUs.", "4"),
    field(&["pods"], Whole(0, u32::MAX), "Pods.", "50"),
    field(&["storage"], Bytes, "Storage of all claims.", "1Ti"),
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
