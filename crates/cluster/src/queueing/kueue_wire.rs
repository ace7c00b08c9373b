//! Decodes Kueue's Workloads and reads their conditions. Source: kueue.x-k8s.io/v1beta2
//! (apis/kueue/v1beta2/workload_types.go).

use serde::Deserialize;

use crate::transport::decode::{Condition, ObjectMetadata};
use gpuctl_core::model::{QueueCheck, QueueVerdict};

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
    priority_class_ref: Option<PriorityClassRef>,
    /// The two fields of v1beta1 that `priorityClassRef` replaces.
    priority_class_name: Option<String>,
    priority_class_source: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PriorityClassRef {
    kind: String,
    name: String,
}

impl WorkloadSpec {
    /// Returns the WorkloadPriorityClass. A PriorityClass is a property of the pods instead.
    pub(super) fn queue_priority(&self) -> Option<String> {
        let reference = self
            .priority_class_ref
            .as_ref()
            .filter(|class| class.kind == "WorkloadPriorityClass")
            .map(|class| class.name.clone());
        let is_queue_class =
            self.priority_class_source.as_deref() == Some("kueue.x-k8s.io/workloadpriorityclass");
        let name = self.priority_class_name.clone();
        reference
            .or_else(|| name.filter(|_| is_queue_class))
            .filter(|name| !name.is_empty())
    }
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            // Kueue's CRD has the same default.
            active: true,
            queue_name: None,
            priority_class_ref: None,
            priority_class_name: None,
            priority_class_source: None,
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
    /// The cluster that MultiKueue chose for the job, and before that the candidates.
    pub(super) cluster_name: Option<String>,
    pub(super) nominated_cluster_names: Vec<String>,
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

    /// Returns the admission checks that are not ready.
    fn open_checks(&self) -> Vec<QueueCheck> {
        self.admission_checks
            .iter()
            .filter(|check| check.state != "Ready")
            .map(|check| QueueCheck {
                name: check.name.clone(),
                state: check.state.clone(),
                message: check.message.to_string(),
            })
            .collect()
    }

    /// Returns why the job does not run, or `None` if Kueue has admitted it. `active` is false for
    /// a paused job.
    pub(super) fn verdict(&self, active: bool) -> Option<QueueVerdict> {
        let holds = |kind: &str| self.condition(kind).filter(|condition| condition.holds());
        if holds("Admitted").is_some() {
            return None;
        }
        if holds("QuotaReserved").is_some() {
            let checks = self.open_checks();
            let message = format!("quota is reserved; {}", next_step(&checks));
            return Some(QueueVerdict {
                checks,
                ..verdict("AdmissionChecks", message)
            });
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
        let current = pending.map(|condition| {
            let message = condition.message.trim_end_matches('.').to_owned();
            (condition.reason.to_string(), message)
        });
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
        Some(match (evicted, current) {
            (Some((reason, evicted)), current) => {
                let now = current
                    .as_ref()
                    .map_or(String::new(), |(_, message)| format!("; now {message}"));
                let message = format!("{}{now}", evicted.message.trim_end_matches('.'));
                QueueVerdict {
                    current,
                    checks: self.open_checks(),
                    ..verdict(reason, message)
                }
            }
            (None, Some((reason, message))) => verdict(&reason, message),
            (None, None) => verdict("Pending", "Kueue has not processed it yet".to_owned()),
        })
    }
}

fn verdict(reason: &str, message: String) -> QueueVerdict {
    QueueVerdict {
        reason: reason.to_owned(),
        message,
        ..QueueVerdict::default()
    }
}

/// Describes the steps that remain after Kueue has reserved the quota.
fn next_step(checks: &[QueueCheck]) -> String {
    let describe = |check: &QueueCheck| {
        let detail = if check.message.is_empty() {
            String::new()
        } else {
            format!(": {}", check.message)
        };
        format!("{} is {}{detail}", check.name, check.state.to_lowercase())
    };
    let checks: Vec<String> = checks.iter().map(describe).collect();
    if checks.is_empty() {
        "admission follows".to_owned()
    } else {
        format!("waiting for checks: {}", checks.join(", "))
    }
}
