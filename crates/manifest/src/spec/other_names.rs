//! Fields and kinds of other tools, with the corresponding fields and kinds of manifests.

/// Field names in lower case, without separators, that resemble no field of a manifest. Grouped by
/// the advice for them.
const FIELDS: &[(&[&str], &str)] = &[
    (
        &["cmd", "entrypoint", "run", "script"],
        "use `environment.command`",
    ),
    (
        &[
            "time",
            "timelimit",
            "walltime",
            "timeout",
            "activedeadlineseconds",
        ],
        "use `job.max_runtime`, such as `max_runtime: 12h`",
    ),
    (
        &["user", "owner", "team", "project"],
        "gpuctl records the user; use `job.labels` for teams and projects",
    ),
    (
        &["limits", "requests"],
        "use `resources.gpu`, `resources.cpu` and `resources.memory`",
    ),
    (
        &["mem", "ram"],
        "use `resources.memory`, such as `memory: 64Gi`",
    ),
    (
        &["accelerator", "accelerators", "gres", "nvidia.com/gpu"],
        "use `resources.gpu` and `resources.gpu-type`",
    ),
    (
        &["nodes", "numnodes", "nnodes", "workers"],
        "use `resources.node_count`",
    ),
    (&["partition"], "use `resources.pool`"),
    (
        &["volumes", "volumemounts", "mounts", "filemounts"],
        "use `storage.workdirs`",
    ),
    (&["ports"], "use `service.port`, for kinds that serve"),
    (
        &["backofflimit", "maxretries", "restarts"],
        "use `job.retries`",
    ),
    (
        &["schedule", "cron", "cronschedule"],
        "gpuctl cannot run jobs on a schedule: see `gpuctl help cron`",
    ),
    (
        &["nodeselector", "tolerations", "affinity"],
        "use `pod:`, whose fields are merged into the pod",
    ),
];

const KINDS: &[(&[&str], &str)] = &[
    (&["job", "train", "batch", "finetune"], "training"),
    (
        &["serve", "serving", "service", "deployment", "infer"],
        "inference",
    ),
    (&["jupyter", "workspace", "interactive"], "notebook"),
];

/// Returns advice for a field of another tool.
pub(super) fn field_advice(field: &str) -> Option<&'static str> {
    entry(FIELDS, field)
}

/// Returns the kind that corresponds to a kind of another tool.
pub(super) fn kind(word: &str) -> Option<&'static str> {
    entry(KINDS, word)
}

fn entry(table: &[(&[&str], &'static str)], word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase().replace(['-', '_'], "");
    let row = table
        .iter()
        .find(|(words, _)| words.contains(&word.as_str()));
    row.map(|(_, value)| *value)
}
