//! Reference table of the `job:` and `checkpoint:` blocks.

use super::super::shape::Shape::{
    AbsolutePath, Duration, Label, LabelKey, Labels, ObjectName, OneOrMany, Text, TextMap, Whole,
    Word,
};
use super::super::shape::{Field, FieldScope, field};
use super::super::values::Restart;
use gpuctl_core::model::{GangWish, QueueSystem};

pub(in crate::spec) const JOB: &[Field] = &[
    field(
        &["name"],
        Label,
        "Name of everything that is made, and the id of the job. A DNS label; its pods get something appended.",
        "NAME",
    )
    .needed(),
    field(&["namespace"], ObjectName, "Namespace; without it -n, else that of the context.", "team-a"),
    field(&["description"], Text, "A sentence for people; shown by `describe job`.", "what it is for"),
    field(&["priority"], Text, "high, medium or low; any other word is the name of an existing PriorityClass.", "medium"),
    field(&["labels"], Labels, "Labels of every object and pod: what `report --by label=KEY` groups by.", "{team: research}"),
    field(&["annotations"], TextMap, "Annotations of every object and pod.", "{cost-center: '42'}"),
    field(&["queue"], Text, "Queue of Kueue or Volcano, where the cluster has one.", "research"),
    field(
        &["queue_system", "queueSystem", "queue-system"],
        Word(&QueueSystem::WORDS),
        "System that `job.queue` belongs to; needed only where Kueue and Volcano both have a queue of that name.",
        "kueue",
    ),
    field(
        &["grace_period", "gracePeriod", "grace-period"],
        Duration,
        "Time that containers get to end, to save a checkpoint.",
        "2m",
    ),
    field(&["epochs"], Whole(1, u32::MAX), "Set as EPOCHS for the program.", "3").of(FieldScope::Training),
    field(
        &["batch_size", "batchSize", "batch-size"],
        Whole(1, u32::MAX),
        "Per GPU; set as BATCH_SIZE, and GLOBAL_BATCH_SIZE for all GPUs.",
        "8",
    )
    .of(FieldScope::Training),
    field(&["retries"], Whole(0, 100), "How often it is tried again after a failure; 3 without it.", "3")
        .of(FieldScope::Training),
    field(
        &["restart"],
        Word(&Restart::WORDS),
        "What a failed rank restarts: all ranks together for one retry, which is the default over several nodes; its own rank, with retries for each; or never anything.",
        "all",
    )
    .of(FieldScope::Training),
    field(
        &["hang_timeout", "hangTimeout", "hang-timeout"],
        Duration,
        "A training whose ranks print no line for so long has failed, and is restarted.",
        "30m",
    )
    .of(FieldScope::Training),
    field(
        &["max_runtime", "maxRuntime", "max-runtime"],
        Duration,
        "Longest time that it may run, waiting not counted; of all attempts together where all ranks restart together.",
        "12h",
    )
    .of(FieldScope::Training),
    field(
        &["gang"],
        Word(&GangWish::WORDS),
        "What places all pods of a training over several nodes together, or none: auto takes the queue's system, else the PodGroup of Kubernetes (native).",
        "auto",
    )
    .of(FieldScope::Training),
    field(
        &["topology"],
        LabelKey,
        "Place the ranks near each other as far as there is room: in one `rack`, one `block`, or where nodes share the value of a label.",
        "rack",
    )
    .of(FieldScope::Training),
    field(
        &["gang_timeout", "gangTimeout", "gang-timeout"],
        Duration,
        "How long some pods hold their GPUs while others wait, before all give them back.",
        "10m",
    )
    .of(FieldScope::Training),
    field(&["keep_for", "keepFor", "keep-for"], Duration, "How long the job is kept after its end.", "7d")
        .of(FieldScope::Training),
];

pub(in crate::spec) const CHECKPOINT: &[Field] = &[
    field(
        &["path"],
        AbsolutePath,
        "Folder of the checkpoints; set as CHECKPOINT_PATH. Best on a workdir that all ranks share.",
        "/out/checkpoints",
    )
    .needed(),
    field(
        &["resume"],
        OneOrMany(&Text),
        "Arguments that the command gets when the folder is not empty; `$CHECKPOINT_PATH` and `$CHECKPOINT_LATEST`, the newest entry, stand for themselves.",
        "[--resume_from_checkpoint, $CHECKPOINT_LATEST]",
    ),
];
