//! Parameters that several tools share, or that accept only certain values.

use super::tools::{ArgumentPlace, Parameter, one_of, optional, required};

pub(super) const NAMESPACE: Parameter = optional(
    "namespace",
    ArgumentPlace::Text("--namespace"),
    "Namespace; defaults to the one in the kubeconfig",
);
pub(super) const JOB: Parameter = required("job", ArgumentPlace::Word, "Job name");
pub(super) const MANIFEST: Parameter = required(
    "manifest",
    ArgumentPlace::Input,
    "The YAML manifest; it cannot use `files`",
);
pub(super) const START: Parameter = optional(
    "start",
    ArgumentPlace::Text("--start"),
    "Start: a duration before now, such as 7d, or an RFC 3339 time",
);
pub(super) const STATUS: Parameter = one_of(
    optional(
        "status",
        ArgumentPlace::Text("--status"),
        "Only jobs in this state",
    ),
    &[
        "pending",
        "running",
        "succeeded",
        "failed",
        "paused",
        "terminating",
        "unknown",
    ],
);
pub(super) const KIND: Parameter = one_of(
    required("kind", ArgumentPlace::Word, "The kind"),
    &[
        "training",
        "inference",
        "notebook",
        "compute",
        "pool",
        "quota",
        "defaults",
    ],
);
pub(super) const TAIL: Parameter = optional(
    "tail",
    ArgumentPlace::Number("--tail", 0, u32::MAX as u64),
    "Number of lines; defaults to 100",
);
pub(super) const RANK: Parameter = optional(
    "rank",
    ArgumentPlace::Number("--rank", 0, u32::MAX as u64),
    "Only this rank",
);
pub(super) const SLOTS: Parameter = optional(
    "slots",
    ArgumentPlace::Number("--slots", 1, 1_000_000),
    "Count how many jobs with this number of GPUs fit",
);
