//! Lists the checks of a running job that were not possible. Without them, the situation is not
//! `fine`.

use super::facts::{Facts, RunningFacts};
use gpuctl_core::model::{GpuCount, JobKind, Nodes, State, Status};

/// Returns the missing checks of a running job, each with the reason.
pub(super) fn gaps(facts: &Facts<'_>, state: &State) -> Vec<String> {
    if state.status != Status::Running {
        return Vec::new();
    }
    let running = facts.running.as_ref();
    let mut gaps: Vec<String> = devices(facts, running).into_iter().collect();
    if running.is_some_and(|running| running.bottlenecks.is_none() && !running.traces.is_empty()) {
        let gap = "links, network ports and CPU limits (Prometheus did not answer)";
        gaps.push(gap.to_owned());
    }
    let is_steps_logged = running.is_some_and(|running| running.cadence.is_some());
    if facts.job.kind == JobKind::Training && !is_steps_logged {
        let gap = match running.and_then(|running| running.log.as_ref()) {
            None => "its log (it cannot be read)",
            Some(_) => "training steps (its log shows none)",
        };
        gaps.push(gap.to_owned());
    }
    match facts.nodes {
        Nodes::Listed(_) => {}
        Nodes::Published(_) | Nodes::Hidden => {
            gaps.push("its nodes (you are not allowed to list nodes)".to_owned());
        }
    }
    gaps.extend(exited(facts));
    gaps
}

/// Describes missing metrics of the job's devices.
fn devices(facts: &Facts<'_>, running: Option<&RunningFacts>) -> Option<String> {
    let held = facts.job.gpus_held();
    let measured = running.filter(|running| !running.traces.is_empty());
    let Some(running) = measured else {
        return (held > GpuCount::ZERO).then(|| "activity of its GPUs (no metrics)".to_owned());
    };
    let sampled = running.report.sampled as u64;
    // Pods can hold several shares of one device.
    let shared = facts.nodes.all().iter().any(|node| {
        let is_used = facts
            .job
            .pods
            .iter()
            .any(|pod| pod.node.as_ref() == Some(&node.name));
        is_used && node.offers_parts_as_gpus()
    });
    (sampled < held.0 && !shared || sampled == 0).then(|| {
        let missing = held.0.saturating_sub(sampled);
        format!("activity of {missing} of its {held} GPUs (no recent metrics)")
    })
}

/// Names a container that has ended well while others of its pod run. It may be the main one of a
/// pod that gpuctl did not create.
fn exited(facts: &Facts<'_>) -> Option<String> {
    facts.job.current_pods().into_iter().find_map(|pod| {
        let is_running = pod.containers.iter().any(|container| container.running);
        let ended = pod
            .containers
            .iter()
            .find(|container| container.terminated.is_some())?;
        (is_running && !pod.ended()).then(|| {
            format!(
                "whether {}, which has exited with code 0, was the main container of {}",
                ended.name, pod.name
            )
        })
    })
}
