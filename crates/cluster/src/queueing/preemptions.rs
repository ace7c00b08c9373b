//! Reads past preemptions and their causes. Kueue keeps the last preemption of each job in the
//! conditions of its Workload. The scheduler records its preemptions in events, which the API
//! server deletes after an hour (`--event-ttl`).

use std::collections::HashMap;

use futures::future::join;
use jiff::Timestamp;

use super::kueue_wire::WireWorkload;
use crate::transport::decode::ListPage;
use crate::{Failure, handles::QueuesApi};
use gpuctl_core::model::{Job, Preemption};

/// Preemptions, and how far back the sources reach.
#[derive(Debug, Default)]
pub struct Preemptions {
    /// The preemptions, newest first.
    pub items: Vec<Preemption>,
    /// Number of Workloads examined, or `None` if the cluster has no Kueue or the user cannot read
    /// them.
    pub workloads: Option<usize>,
    /// Time of the oldest remaining event, or `None` if there are no events or the user cannot read
    /// them.
    pub events_since: Option<Timestamp>,
    /// Kinds that the user cannot read.
    pub unreadable: Vec<&'static str>,
}

impl WireWorkload<'_> {
    /// Returns the workload's last preemption. Once the job runs again, the message has the prefix
    /// `Previously: `.
    fn preemption(&self) -> Option<Preemption> {
        let condition = self.status.condition("Preempted")?;
        let is_over = !condition.holds();
        let earlier_message = condition.message.strip_prefix("Previously: ");
        if is_over && earlier_message.is_none() {
            return None;
        }
        Some(Preemption {
            // Once the job runs again, the transition time is the end of the preemption, not its
            // start.
            at: condition.last_transition_time.filter(|_| !is_over),
            namespace: self.metadata.namespace.to_string(),
            job: self.metadata.controller().map_or_else(
                || self.metadata.name.to_string(),
                |owner| owner.name.clone(),
            ),
            by: None,
            queue: self.spec.queue_name.clone(),
            times: Some(self.status.preemptions()).filter(|times| *times > 0),
            admitted_again: Some(is_over),
            message: earlier_message
                .unwrap_or(&condition.message)
                .trim_end_matches('.')
                .to_owned(),
        })
    }
}

impl QueuesApi<'_> {
    /// Lists the preemptions in one namespace or in every namespace. UIDs are replaced with the
    /// names of `jobs`, which holds gpuctl's jobs.
    pub async fn preemptions(
        self,
        namespace: Option<&str>,
        jobs: &[Job],
    ) -> Result<Preemptions, Failure> {
        let (queued, scheduled) = join(
            self.kueue_preemptions(namespace),
            self.scheduler_preemptions(namespace, jobs),
        )
        .await;
        let mut unreadable = Vec::new();
        let (mut preemptions, workloads) = readable(queued, "Kueue Workloads", &mut unreadable)?;
        let (by_scheduler, events_since) = readable(scheduled, "events", &mut unreadable)?;
        preemptions.extend(by_scheduler);
        preemptions.sort_by_key(|preemption| std::cmp::Reverse(preemption.at));
        Ok(Preemptions {
            items: preemptions,
            workloads,
            events_since,
            unreadable,
        })
    }

    async fn kueue_preemptions(
        self,
        namespace: Option<&str>,
    ) -> Result<(Vec<Preemption>, Option<usize>), Failure> {
        let Some(version) = self.kueue_version().await? else {
            return Ok((Vec::new(), None));
        };
        let path = match namespace {
            Some(namespace) => format!("/apis/{version}/namespaces/{namespace}/workloads"),
            None => format!("/apis/{version}/workloads"),
        };
        let (mut preemptions, mut names, mut count) = (Vec::new(), HashMap::new(), 0);
        self.0
            .list(&path, &[], |page| {
                let page: ListPage<WireWorkload<'_>> = page.objects()?;
                count += page.items.len();
                for workload in &page.items {
                    if let Some(owner) = workload.metadata.controller() {
                        let name = format!("{}/{}", workload.metadata.namespace, owner.name);
                        names.insert(owner.uid.clone(), name.clone());
                        names.insert(workload.metadata.uid.to_string(), name);
                    }
                    preemptions.extend(workload.preemption());
                }
                Ok(())
            })
            .await?;
        for preemption in &mut preemptions {
            preemption.by = ["JobUID: ", "UID: "].iter().find_map(|prefix| {
                names
                    .get(token_after(&preemption.message, prefix)?)
                    .cloned()
            });
        }
        Ok((preemptions, Some(count)))
    }

    /// Lists kube-scheduler's preemptions of pods of these jobs, from its events `Preempted`.
    /// Source: pkg/scheduler/framework/preemption/executor.go.
    async fn scheduler_preemptions(
        self,
        namespace: Option<&str>,
        jobs: &[Job],
    ) -> Result<(Vec<Preemption>, Option<Timestamp>), Failure> {
        let events = self.0.events().with_reason(namespace, "Preempted").await?;
        let oldest = events.iter().filter_map(|(_, event)| event.at).min();
        let pods: HashMap<&str, &Job> = jobs
            .iter()
            .flat_map(|job| job.pods.iter().map(move |pod| (pod.uid.as_str(), job)))
            .collect();
        let preemptions = events.into_iter().filter_map(|(namespace, event)| {
            let pod = event.object.strip_prefix("Pod/")?;
            // Find the job by the pod's name, because the pod may no longer exist. Controllers name
            // pods after their owner and add a suffix.
            let owns_pod = |job: &&Job| job.namespace == namespace && is_pod_of(job, pod);
            let job = jobs
                .iter()
                .filter(owns_pod)
                .max_by_key(|job| job.name.len());
            let preemptor = token_after(&event.message, "by pod ").and_then(|uid| pods.get(uid));
            Some(Preemption {
                at: event.at,
                namespace,
                job: job.map_or(pod, |job| &job.name).to_owned(),
                by: preemptor.map(|job| format!("{}/{}", job.namespace, job.name)),
                queue: None,
                times: None,
                admitted_again: None,
                message: event.message,
            })
        });
        Ok((preemptions.collect(), oldest))
    }
}

/// Treats a 403 as an empty result, and records the kind as unreadable.
fn readable<T: Default>(
    answer: Result<T, Failure>,
    kind: &'static str,
    unreadable: &mut Vec<&'static str>,
) -> Result<T, Failure> {
    match answer {
        Err(failure) if failure.is_forbidden() => {
            unreadable.push(kind);
            Ok(T::default())
        }
        Err(failure) if failure.is_not_found() => Ok(T::default()),
        other => other,
    }
}

/// Returns true if the pod's name is the job's name with one or two short words appended, as
/// controllers name pods.
fn is_pod_of(job: &Job, pod: &str) -> bool {
    let rest = pod
        .strip_prefix(job.name.as_str())
        .and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| {
        rest.split('-').count() <= 2
            && rest
                .split('-')
                .all(|segment| !segment.is_empty() && segment.len() <= 10)
    })
}

/// Returns the word after `prefix`.
fn token_after<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let rest = text.split_once(prefix)?.1;
    rest.split(|c: char| c != '-' && !c.is_ascii_alphanumeric())
        .next()
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conditions are as Kueue 0.18.3 writes them.
    #[test]
    fn the_last_preemption_is_reported_during_and_after_it() {
        let workload = |status: &str, message: &str| {
            let text = serde_json::json!({
                "metadata": {"name": "job-a-1", "namespace": "n", "uid": "w", "ownerReferences":
                    [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": true}]},
                "spec": {"queueName": "research"},
                "status": {"schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 2}]},
                    "conditions": [{"type": "Preempted", "status": status, "reason": "InClusterQueue", "message": message,
                        "lastTransitionTime": "2026-11-22T10:00:00Z"}]}})
            .to_string();
            serde_json::from_str::<WireWorkload<'_>>(&text)
                .unwrap()
                .preemption()
        };
        let message = "Preempted to accommodate a workload (UID: x-1, JobUID: y-2) due to prioritization in the ClusterQueue";
        let current = workload("True", message).unwrap();
        assert_eq!(
            (
                current.job.as_str(),
                current.times,
                current.admitted_again,
                current.at.is_some()
            ),
            ("a", Some(2), Some(false), true)
        );
        let past = workload("False", &format!("Previously: {message}")).unwrap();
        assert_eq!(
            (past.admitted_again, past.at, past.message.as_str()),
            (Some(true), None, message)
        );
        assert_eq!(workload("False", "QuotaReserved"), None);
        assert_eq!(
            (
                token_after(message, "JobUID: "),
                token_after(message, "UID: "),
                token_after(message, "none: ")
            ),
            (Some("y-2"), Some("x-1"), None)
        );
    }
}
