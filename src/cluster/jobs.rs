//! Jobs and their pods, read by our labels: two lists in parallel, whatever the number of jobs.

use std::collections::{BTreeMap, HashMap};

use futures::future::{join, join_all};
use jiff::Timestamp;
use serde::Deserialize;

use crate::model::{Job, JobKind, POOL_LABEL, Pod, PodPhase};
use crate::render::{GPU_TYPE, JOB, KIND, MANAGED_BY, MANAGED_BY_US, NAME, RETRIES, SOURCE, USER, VERSION, label_value};

use super::decode::{Condition, Metadata, Page, PodSpec, WirePod};
use super::{Connection, Failure};

/// Which jobs are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `None` means every namespace that the user may read.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub kind: Option<JobKind>,
    pub pool: Option<String>,
    /// As the API server names them.
    pub user: Option<String>,
}

/// Jobs that were found.
#[derive(Debug)]
pub struct Selection {
    pub jobs: Vec<Job>,
    /// Set when only this namespace could be read although all were wanted.
    pub narrowed_to: Option<String>,
}

/// Owners whose missing pods are looked into, per command.
const LOOKED_INTO: usize = 20;

#[derive(Deserialize)]
struct WireJob<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: JobSpec<'a>,
    #[serde(borrow, default)]
    status: JobStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobSpec<'a> {
    parallelism: u32,
    suspend: bool,
    #[serde(borrow)]
    template: Template<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template<'a> {
    #[serde(borrow)]
    spec: PodSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JobStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    completion_time: Option<Timestamp>,
    succeeded: u32,
}

impl Wanted {
    fn selector(&self) -> String {
        let mut terms = vec![format!("{MANAGED_BY}={MANAGED_BY_US}")];
        let mut add = |key: &str, value: Option<String>| terms.extend(value.map(|value| format!("{key}={value}")));
        add(JOB, self.name.clone());
        add(KIND, self.kind.map(|kind| kind.to_string()));
        add(POOL_LABEL, self.pool.clone());
        add(USER, self.user.as_deref().map(label_value));
        terms.join(",")
    }
}

impl Connection {
    /// The jobs that `wanted` describes, with their pods, by namespace and name.
    pub async fn jobs(&self, wanted: &Wanted) -> Result<Selection, Failure> {
        match self.jobs_in(wanted, wanted.namespace.as_deref()).await {
            Ok(jobs) => Ok(Selection { jobs, narrowed_to: None }),
            Err(failure) if failure.is_forbidden() && wanted.namespace.is_none() => {
                let jobs = self.jobs_in(wanted, Some(&self.namespace)).await?;
                Ok(Selection { jobs, narrowed_to: Some(self.namespace.clone()) })
            }
            Err(failure) => Err(failure),
        }
    }

    async fn jobs_in(&self, wanted: &Wanted, namespace: Option<&str>) -> Result<Vec<Job>, Failure> {
        let within = |group: &str, plural: &str| match namespace {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
            None => format!("{group}/{plural}"),
        };
        let selector = wanted.selector();
        let parameters = [("labelSelector", selector.as_str())];
        let (mut jobs, mut pods) = (Vec::new(), HashMap::<String, Vec<Pod>>::new());
        let (jobs_path, pods_path) = (within("/apis/batch/v1", "jobs"), within("/api/v1", "pods"));
        let owners = self.list(&jobs_path, &parameters, |page| {
            let page: Page<WireJob<'_>> = serde_json::from_slice(page)?;
            jobs.extend(page.items.iter().map(WireJob::job));
            Ok(())
        });
        let members = self.list(&pods_path, &parameters, |page| {
            let page: Page<WirePod<'_>> = serde_json::from_slice(page)?;
            for pod in &page.items {
                // Labels may be copied by hand; what belongs to a job is what its controller owns.
                let owner = pod.metadata.owner_references.first().map(|owner| owner.uid.clone()).unwrap_or_default();
                pods.entry(owner).or_default().push(pod.pod());
            }
            Ok(())
        });
        let (owners, members) = join(owners, members).await;
        owners.and(members)?;
        for job in &mut jobs {
            job.pods = pods.remove(&job.uid).unwrap_or_default();
        }
        jobs.sort_by(|a: &Job, b: &Job| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.explain_missing_pods(&mut jobs).await;
        Ok(jobs)
    }

    /// A controller that is refused pods says so in an event only. Whoever may not read events sees `Creating`.
    async fn explain_missing_pods(&self, jobs: &mut [Job]) {
        let lacks = |job: &&mut Job| {
            let there = job.current_pods().iter().filter(|pod| pod.phase != PodPhase::Failed).count();
            there < job.pods_wanted as usize
                && !job.suspended
                && !job.deleting
                && !job.conditions.contains_key("Complete")
                && !job.conditions.contains_key("Failed")
        };
        let lacking: Vec<&mut Job> = jobs.iter_mut().filter(lacks).take(LOOKED_INTO).collect();
        join_all(lacking.into_iter().map(|job| async {
            let events = self.events(&job.namespace, &job.uid).await.unwrap_or_default();
            let refused = events.into_iter().rev().find(|event| event.warning && event.reason == "FailedCreate");
            job.create_failure = refused.map(|event| event.message);
        }))
        .await;
    }
}

impl WireJob<'_> {
    fn job(&self) -> Job {
        let meta = &self.metadata;
        let label = |key: &str| meta.labels.get(key).cloned();
        let annotation = |key: &str| meta.annotations.get(key).cloned();
        let conditions: BTreeMap<String, (String, String)> = self
            .status
            .conditions
            .iter()
            .filter(|condition| condition.holds())
            .map(|condition| (condition.kind.to_string(), (condition.reason.to_string(), condition.message.to_string())))
            .collect();
        let ended = self.status.conditions.iter().find(|condition| condition.kind == "Failed" && condition.holds());
        let pod = &self.spec.template.spec;
        let requested = |name: &str| {
            let resources = pod.containers.first().map(|container| &container.resources)?;
            resources.requests.get(name).or_else(|| resources.limits.get(name)).cloned()
        };
        Job {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            display_name: annotation(NAME).unwrap_or_else(|| meta.name.to_string()),
            uid: meta.uid.to_string(),
            kind: label(KIND).and_then(|kind| kind.parse().ok()).unwrap_or(JobKind::Training),
            version: annotation(VERSION).unwrap_or_else(|| "v0.1".to_owned()),
            pool: label(POOL_LABEL),
            gpu_type: label(GPU_TYPE),
            user: annotation(USER).or_else(|| label(USER)),
            source: annotation(SOURCE),
            created_at: meta.creation_timestamp,
            finished_at: self.status.completion_time.or_else(|| ended.and_then(|condition| condition.last_transition_time)),
            deleting: meta.deletion_timestamp.is_some(),
            suspended: self.spec.suspend,
            queued: meta.labels.contains_key("kueue.x-k8s.io/queue-name"),
            pods_wanted: self.spec.parallelism,
            pods_done: self.status.succeeded,
            retries: annotation(RETRIES).and_then(|retries| retries.parse().ok()).unwrap_or(0),
            gpus_per_pod: pod.devices(),
            cpu: requested("cpu"),
            memory: requested("memory"),
            conditions,
            pods: Vec::new(),
            create_failure: None,
        }
    }
}
