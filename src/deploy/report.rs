//! Describes what a command has done or would do with a job.

use jiff::Timestamp;
use serde_json::Value;

use crate::deploy::comparison::masks;
use crate::deploy::defaults::inherited_values;
use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Effect, Effects, label};
use gpuctl_core::model::contract::submission::Created;
use gpuctl_core::model::{GpuCount, Status};
use gpuctl_manifest::compare::changes;
use gpuctl_manifest::render::pods_in_all;

/// Lists the changed fields of each object.
pub(crate) fn changed_fields(plan: &Plan, live: &Value, effects: &Effects) -> Vec<String> {
    let masks = masks(&plan.rendered, live);
    let mut lines = Vec::new();
    for (object, effect) in &effects.objects {
        match effect {
            Effect::Created => lines.push(format!("{} is new", label(object))),
            Effect::Changed { live, desired } => {
                lines.extend(
                    changes(live, desired, &masks)
                        .into_iter()
                        .map(|line| format!("{} {line}", label(object))),
                );
            }
            Effect::Repaired(repair) => lines.extend(
                repair
                    .changes
                    .iter()
                    .map(|change| format!("{} {change}", label(object))),
            ),
            Effect::Unchanged | Effect::Immutable { .. } | Effect::Conflict(_) => {}
        }
    }
    lines.extend(
        effects
            .stale
            .iter()
            .map(|part| format!("{} is deleted", part.label())),
    );
    lines
}

/// Returns the status after the action: an existing job keeps its status until its pods change, and
/// a new job has no pods yet.
fn status_after(plan: &Plan, action: &str) -> Status {
    match (action, plan.existing_status) {
        ("unchanged" | "updated", Some(status)) => status,
        _ => Status::Pending,
    }
}

/// Describes a submitted job. `action` is the action of `apply`, although `create` does not print
/// it.
pub(crate) fn outcome(plan: &Plan, live: &Value, dry_run: bool, action: &str) -> Created {
    let job = job(&plan.input).expect("only jobs are rendered");
    let pool = job.resources.pool.as_ref().map(|pool| pool.value.clone());
    let destination = pool
        .clone()
        .unwrap_or_else(|| plan.target.namespace.clone());
    let creation_time = live
        .pointer("/metadata/creationTimestamp")
        .and_then(Value::as_str);
    Created {
        job_id: job.id().to_owned(),
        name: job.name.value.clone(),
        kind: job.kind.word(),
        status: status_after(plan, action).word().to_owned(),
        created_at: creation_time.and_then(|text| text.parse::<Timestamp>().ok()),
        message: match (action, dry_run) {
            ("unchanged", _) => "unchanged".to_owned(),
            ("updated", true) => "would be updated".to_owned(),
            ("updated", false) => "updated".to_owned(),
            (_, true) => format!("would be submitted to {destination}"),
            (_, false) => format!("submitted to {destination}"),
        },
        namespace: plan.target.namespace.clone(),
        pods: pods_in_all(job).into(),
        group_size: if job.kind.serves() {
            job.resources.node_count.into()
        } else {
            1
        },
        gpus_per_pod: GpuCount(job.resources.gpu.into()),
        gpu_type: plan
            .rendered
            .choice
            .gpu_type
            .as_ref()
            .map(ToString::to_string),
        pool,
        objects: plan.rendered.objects.iter().map(label).collect(),
        defaults: inherited_values(job),
        local_files: plan.input.attached.files.clone(),
        dry_run,
        action: None,
        changes: Vec::new(),
    }
}
