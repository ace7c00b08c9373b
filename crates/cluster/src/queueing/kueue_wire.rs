//! Decodes Kueue's Workloads and reads their conditions. Source: kueue.x-k8s.io/v1beta2
//! (apis/kueue/v1beta2/workload_types.go).

use serde::Deserialize;

use crate::transport::decode::{Condition, ObjectMetadata};
use gpuctl_core::model::QueueVerdict;

#[derive(Deserialize)]
pub(super) struct WireWorkload<'a> {
    #[serde(borrow, default)]
    pub(super) metadata: ObjectMetadata<'a>,
    #[serde(default)]
    pub(super) spec: WorkloadSpec,
    #[serde(borrow, default)]
    pub(super) status: WorkloadStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WorkloadSpec {
    pub(super) active: bool,
    pub(super) queue_name: Option<String>,
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            // Kueue's CRD has the same default.
            active: true,
            queue_name: None,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WorkloadStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow)]
    admission_checks: Vec<AdmissionCheck<'a>>,
    scheduling_stats: SchedulingStats,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AdmissionCheck<'a> {
    name: String,
    state: String,
    #[serde(borrow)]
    message: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SchedulingStats {
    evictions: Vec<Evictions>,
}

#[derive(Deserialize)]
struct Evictions {
    reason: String,
    count: u64,
}

impl WorkloadStatus<'_> {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition<'_>> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    /// Returns how many times Kueue preempted the workload.
    pub(super) fn preemptions(&self) -> u64 {
        let evictions = self.scheduling_stats.evictions.iter();
        evictions
            .filter(|eviction| eviction.reason == "Preempted")
            .fold(0, |sum: u64, eviction| sum.saturating_add(eviction.count))
    }

    /// Describes the steps that remain after Kueue has reserved the quota.
    fn next_step(&self) -> String {
        let is_pending = |check: &&AdmissionCheck<'_>| check.state != "Ready";
        let describe = |check: &AdmissionCheck<'_>| {
            let detail = if check.message.is_empty() {
                String::new()
            } else {
                format!(": {}", check.message)
            };
            format!("{} is {}{detail}", check.name, check.state.to_lowercase())
        };
        let checks: Vec<String> = self
            .admission_checks
            .iter()
            .filter(is_pending)
            .map(describe)
            .collect();
        if checks.is_empty() {
            "admission follows".to_owned()
        } else {
            format!("waiting for checks: {}", checks.join(", "))
        }
    }

    /// Returns why the job does not run, or `None` if Kueue has admitted it. `active` is false for
    /// a paused job.
    pub(super) fn verdict(&self, active: bool) -> Option<QueueVerdict> {
        let holds = |kind: &str| self.condition(kind).filter(|condition| condition.holds());
        let verdict = |reason: &str, message: String| {
            Some(QueueVerdict {
                reason: reason.to_owned(),
                message,
            })
        };
        if holds("Admitted").is_some() {
            return None;
        }
        if holds("QuotaReserved").is_some() {
            let next = self.next_step();
            return verdict("AdmissionChecks", format!("quota is reserved; {next}"));
        }
        let pending = self
            .condition("QuotaReserved")
            .filter(|condition| !condition.message.is_empty());
        // When Kueue evicts a workload, it writes the same message to `Evicted` and `QuotaReserved`
        // (pkg/controller/jobframework/reconciler.go).
        let repeats = |condition: &&Condition<'_>| {
            holds("Evicted").is_some_and(|evicted| evicted.message == condition.message)
        };
        let pending = pending.filter(|condition| !repeats(condition));
        let current = pending.map(|condition| condition.message.trim_end_matches('.').to_owned());
        // Prefer `Preempted`, which names the preemptor, to `Evicted`. Ignore a `Deactivated`
        // eviction of an active workload: the reason remains after a paused job is resumed.
        let evicted = holds("Evicted")
            .filter(|evicted| !(active && evicted.reason.starts_with("Deactivated")));
        let evicted = evicted.map(|evicted| {
            (
                evicted.reason.as_ref(),
                holds("Preempted").unwrap_or(evicted),
            )
        });
        match (evicted, current) {
            (Some((reason, evicted)), current) => {
                let current = current.map_or(String::new(), |current| format!("; now {current}"));
                verdict(
                    reason,
                    format!("{}{current}", evicted.message.trim_end_matches('.')),
                )
            }
            (None, Some(current)) => verdict(
                pending.map_or("Pending", |condition| condition.reason.as_ref()),
                current,
            ),
            (None, None) => verdict("Pending", "Kueue has not processed it yet".to_owned()),
        }
    }
}
