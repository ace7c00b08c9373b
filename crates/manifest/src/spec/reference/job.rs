//! Reference table of the `job:` and `checkpoint:` blocks.

use super::super::shape::Shape::{
    AbsolutePath, Duration, Label, LabelKey, Labels, ObjectName, OneOrMany, Text, TextMap, Whole,
    Word,
};
use super::super::shape::{Field, FieldScope, field};
use super::super::values::Restart;
use gpuctl_core::model::{GangMode, QueueSystem};

pub(in crate::spec) const JOB: &[Field] = &[
    field(
        &["name"],
        Label,
        "Name of the job and its objects: a DNS label; pod names add a suffix.",
        "NAME",
    )
    .needed(),
    field(&["namespace"], ObjectName, "Namespace; defaults to that of -n, or else of the current context.", "team-a"),
    field(&["description"], Text, "Free-form description, shown by `describe job`.", "what it is for"),
    field(&["priority"], Text, "high, medium, low, or the name of an existing PriorityClass.", "medium"),
    field(&["labels"], Labels, "Labels of every object and pod; `report --by label=KEY` groups by them.", "{team: research}"),
    field(&["annotations"], TextMap, "Annotations of every object and pod.", "{cost-center: '42'}"),
    field(&["queue"], Text, "Kueue or Volcano queue, if the cluster has one of these systems.", "research"),
    field(
        &["queue_system", "queueSystem", "queue-system"],
        Word(&QueueSystem::WORDS),
        "Queueing system of `job.queue`; needed only if Kueue and Volcano both have a queue with that name.",
        "kueue",
    ),
    field(
        &["grace_period", "gracePeriod", "grace-period"],
        Duration,
        "Time for containers to stop after SIGTERM, for example to save a checkpoint.",
        "2m",
    ),
    field(&["epochs"], Whole(1, u32::MAX), "Number of epochs, set as EPOCHS for the program.", "3").in_scope(FieldScope::Training),
    field(
        &["batch_size", "batchSize", "batch-size"],
        Whole(1, u32::MAX),
        "Batch size per GPU, set as BATCH_SIZE; GLOBAL_BATCH_SIZE is the total for all GPUs.",
        "8",
    )
    .in_scope(FieldScope::Training),
    field(&["retries"], Whole(0, 100), "Number of retries after failures; default 3.", "3")
        .in_scope(FieldScope::Training),
    field(
        &["restart"],
        Word(&Restart::WORDS),
        "Pods to restart after a rank fails. all: all ranks together, at the cost of one retry (the default on several nodes); rank: only that rank, with its own retries; never: none.",
        "all",
    )
    .in_scope(FieldScope::Training),
    field(
        &["hang_timeout", "hangTimeout", "hang-timeout"],
        Duration,
        "Restart the training when no rank has logged anything for this long.",
        "30m",
    )
    .in_scope(FieldScope::Training),
    field(
        &["max_runtime", "maxRuntime", "max-runtime"],
        Duration,
        "Maximum run time, excluding waiting time; the total of all attempts if all ranks restart together.",
        "12h",
    )
    .in_scope(FieldScope::Training),
    field(
        &["gang"],
        Word(&GangMode::WORDS),
        "System that places either all pods of a training or none: auto uses the queue's system, or else the Kubernetes PodGroup (native).",
        "auto",
    )
    .in_scope(FieldScope::Training),
    field(
        &["topology"],
        LabelKey,
        "Prefer nearby nodes for the ranks: in one `rack`, in one `block`, or with the same value of a node label.",
        "rack",
    )
    .in_scope(FieldScope::Training),
    field(
        &["gang_timeout", "gangTimeout", "gang-timeout"],
        Duration,
        "Time after which placed pods release their GPUs if other pods are still waiting.",
        "10m",
    )
    .in_scope(FieldScope::Training),
    field(&["keep_for", "keepFor", "keep-for"], Duration, "Time after which the finished job is deleted.", "7d")
        .in_scope(FieldScope::Training),
];

pub(in crate::spec) const CHECKPOINT: &[Field] = &[
    field(
        &["path"],
        AbsolutePath,
        "Checkpoint directory, set as CHECKPOINT_PATH; preferably on a workdir that all ranks share.",
        "/out/checkpoints",
    )
    .needed(),
    field(
        &["resume"],
        OneOrMany(&Text),
        "Arguments appended to the command if the directory is not empty; `$CHECKPOINT_PATH` and `$CHECKPOINT_LATEST` (the newest entry) are expanded.",
        "[--resume_from_checkpoint, $CHECKPOINT_LATEST]",
    ),
];
