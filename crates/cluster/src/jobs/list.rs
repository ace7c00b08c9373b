//! Lists jobs and their pods by label: one list per kind of owner and one of pods, in parallel,
//! however many jobs there are.

use std::collections::{BTreeMap, HashMap};

use futures::future::{join, join_all};
use jiff::Timestamp;
use serde::Deserialize;

use super::leftovers::{Leftover, left_over};
use super::owner::{HOSTNAME, OwnerKind, PodOwner};
use crate::transport::decode::{Condition, ListPage, ObjectMetadata, PodSpec, WirePod};
use crate::transport::lenient;
use crate::{Connection, Failure};
use gpuctl_core::model::contract::labels::{
    DESCRIPTION, GPU_TYPE, JOB, KIND, KUEUE_QUEUE, MANAGED_BY, MANAGED_BY_US, NAME, PAUSED,
    POOL_LABEL, REPLICAS, RETRIES, SOURCE, USER, VERSION, VOLCANO_QUEUE,
};
use gpuctl_core::model::{Event, GpuCount, Job, JobKind, Pod, PodPhase, is_starting};
use gpuctl_manifest::render::label_value;

/// Which jobs are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `None` means every namespace that the user may read.
    pub namespace: Option<String>,
    /// Empty means all.
    pub names: Vec<String>,
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
    /// Kinds of objects that the user may not list, so that jobs of that kind are missing here.
    pub unreadable: Vec<&'static str>,
}

impl Selection {
    /// Returns which of the jobs that were asked for may not be seen; `None` when all of them are
    /// here.
    pub fn unseen(&self) -> Option<String> {
        match (&self.narrowed_to, &self.unreadable[..]) {
            (Some(namespace), _) => {
                Some(format!("you may list jobs of namespace `{namespace}` only"))
            }
            (None, []) => None,
            (None, kinds) => Some(format!("you may not list {}s", kinds.join("s and "))),
        }
    }
}

/// Limit on the pods that the annotation of a paused service or notebook can request.
const MOST_RESUMED: u32 = 10_000;
/// Owners whose missing pods are looked into, per command.
const LOOKED_INTO: usize = 20;

#[derive(Deserialize)]
pub(crate) struct WireOwner<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: OwnerSpec<'a>,
    #[serde(borrow, default)]
    status: OwnerStatus<'a>,
}

/// Fields of Jobs, of Deployments and StatefulSets, and of LeaderWorkerSets.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnerSpec<'a> {
    parallelism: u32,
    completions: Option<u32>,
    suspend: bool,
    replicas: Option<u32>,
    #[serde(borrow)]
    template: JobTemplate<'a>,
    #[serde(borrow)]
    leader_worker_template: Option<GroupTemplate<'a>>,
}

/// The pods of one replica, of which the first answers requests.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupTemplate<'a> {
    size: Option<u32>,
    #[serde(borrow)]
    leader_template: JobTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobTemplate<'a> {
    #[serde(borrow)]
    spec: PodSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnerStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    #[serde(deserialize_with = "lenient::time")]
    completion_time: Option<Timestamp>,
    succeeded: u32,
    observed_generation: u64,
    /// All pods of a Deployment or StatefulSet.
    replicas: u32,
    /// Those of the newest specification.
    updated_replicas: u32,
}

impl Wanted {
    /// Returns the job of this name in this namespace.
    pub fn one(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            names: vec![name.to_owned()],
            ..Self::default()
        }
    }

    fn selector(&self) -> String {
        let mut terms = vec![format!("{MANAGED_BY}={MANAGED_BY_US}")];
        let mut add = |key: &str, value: Option<String>| {
            terms.extend(value.map(|value| format!("{key}={value}")));
        };
        add(KIND, self.kind.map(|kind| kind.to_string()));
        add(POOL_LABEL, self.pool.clone());
        add(USER, self.user.as_deref().map(label_value));
        match &self.names[..] {
            [] => {}
            [name] => terms.push(format!("{JOB}={name}")),
            names => terms.push(format!("{JOB} in ({})", names.join(","))),
        }
        terms.join(",")
    }

    fn owners(&self) -> Vec<OwnerKind> {
        self.kind.map_or_else(
            || OwnerKind::ALL.to_vec(),
            |kind| OwnerKind::of_kind(kind).to_vec(),
        )
    }
}

/// Names in one selector at most: servers and what is before them may refuse a longer request line.
pub const NAMES_AT_ONCE: usize = 50;

impl Connection {
    /// Returns the jobs that `wanted` describes, with their pods, by namespace and name.
    pub async fn jobs(&self, wanted: &Wanted) -> Result<Selection, Failure> {
        let namespace = wanted.namespace.as_deref();
        match self.jobs_in(wanted, namespace).await {
            Ok((jobs, unreadable)) => Ok(Selection {
                jobs,
                narrowed_to: None,
                unreadable,
            }),
            Err(failure) if namespace.is_some() || !failure.is_forbidden() => Err(failure),
            Err(_) => {
                let (jobs, unreadable) = self.jobs_in(wanted, Some(&self.namespace)).await?;
                Ok(Selection {
                    jobs,
                    narrowed_to: Some(self.namespace.clone()),
                    unreadable,
                })
            }
        }
    }

    /// Returns the jobs, and the kinds of objects that may not be listed. It fails when none may,
    /// or when pods may not.
    async fn jobs_in(
        &self,
        wanted: &Wanted,
        namespace: Option<&str>,
    ) -> Result<(Vec<Job>, Vec<&'static str>), Failure> {
        let selector = wanted.selector();
        let parameters = [("labelSelector", selector.as_str())];
        let parameters = &parameters;
        let owners = join_all(wanted.owners().into_iter().map(|owner| async move {
            let mut jobs = Vec::new();
            let path = owner.collection(namespace);
            let listed = self.list(&path, parameters, |page| {
                let page: ListPage<WireOwner<'_>> = page.objects()?;
                jobs.extend(page.items.iter().map(|found| found.job(owner)));
                Ok(())
            });
            listed
                .await
                .map(|()| jobs)
                .map_err(|failure| (owner, failure))
        }));
        let (mut pods, mut leftovers) = (HashMap::<PodOwner, Vec<Pod>>::new(), Vec::new());
        let pods_path = namespace.map_or_else(
            || "/api/v1/pods".to_owned(),
            |space| format!("/api/v1/namespaces/{space}/pods"),
        );
        let members = self.list(&pods_path, parameters, |page| {
            let page: ListPage<WirePod<'_>> = page.objects()?;
            for pod in &page.items {
                let read = pod.pod();
                if read.deleting {
                    leftovers.push(Leftover::of(pod, read.clone()));
                }
                pods.entry(PodOwner::of(&pod.metadata))
                    .or_default()
                    .push(read);
            }
            Ok(())
        });
        let (owners, members) = join(owners, members).await;
        let (mut jobs, mut unreadable, mut refused) = (Vec::new(), Vec::new(), None);
        let mut asked = owners.len();
        for answer in owners {
            match answer {
                Ok(found) => jobs.extend(found),
                Err((owner, failure))
                    if owner.is_optional()
                        && (failure.is_forbidden() || failure.is_not_found()) =>
                {
                    asked -= 1;
                    // Pods of services that may not be seen are no remains of deleted ones.
                    leftovers.retain(|left| left.pod.group.is_none());
                }
                Err((owner, failure)) if failure.is_forbidden() => {
                    unreadable.push(owner.word());
                    refused.get_or_insert(failure);
                }
                Err((_, failure)) => return Err(failure),
            }
        }
        match refused {
            Some(failure) if unreadable.len() == asked => return Err(failure),
            _ => members?,
        }
        for job in &mut jobs {
            job.pods = pods.remove(&PodOwner::of_job(job)).unwrap_or_default();
        }
        // Where a kind of owner may not be listed, a pod without one proves nothing.
        if unreadable.is_empty() {
            let there = |left: &Job| {
                jobs.iter()
                    .any(|job| (&job.namespace, &job.name) == (&left.namespace, &left.name))
            };
            let left: Vec<Job> = left_over(leftovers)
                .into_iter()
                .filter(|left| !there(left))
                .collect();
            jobs.extend(left);
        }
        jobs.sort_by(|a: &Job, b: &Job| {
            (&a.namespace, &a.name, a.kind).cmp(&(&b.namespace, &b.name, b.kind))
        });
        self.explain_missing_pods(&mut jobs).await;
        self.explain_stuck_pods(&mut jobs).await;
        self.explain_queues(&mut jobs).await;
        Ok((jobs, unreadable))
    }

    /// Reads from events why a pod that has a node does not start: a kubelet that cannot mount a
    /// volume or make a sandbox says so nowhere else. And that its node evicts a pod which looks as
    /// if it ran: a kubelet whose disk is full cannot write down the pod's end.
    pub(crate) async fn explain_stuck_pods(&self, jobs: &mut [Job]) {
        const REFUSALS: [&str; 4] = [
            "FailedMount",
            "FailedAttachVolume",
            "FailedCreatePodSandBox",
            "FailedMapVolume",
        ];
        const PROGRESS: [&str; 5] = [
            "SuccessfulAttachVolume",
            "Pulling",
            "Pulled",
            "Created",
            "Started",
        ];
        let stuck = |pod: &&Pod| {
            let waits = pod.containers.iter().any(|one| {
                one.waiting
                    .as_ref()
                    .is_some_and(|(reason, _)| is_starting(reason))
            });
            let begins = pod.phase == PodPhase::Pending && waits;
            (begins || pod.phase == PodPhase::Running && pod.own_ended())
                && pod.node.is_some()
                && !pod.deleting
        };
        let stuck = jobs.iter_mut().filter_map(|job| {
            let pod = job.current_pods().into_iter().find(stuck)?;
            Some((pod.uid.clone(), pod.phase == PodPhase::Pending, job))
        });
        let stuck: Vec<(String, bool, &mut Job)> = stuck.take(LOOKED_INTO).collect();
        join_all(stuck.into_iter().map(|(pod, begins, job)| async move {
            let events = self.events(&job.namespace, &pod).await.unwrap_or_default();
            // An event after the refusal shows that the refusal is over.
            let since = events
                .into_iter()
                .rev()
                .take_while(|event| !PROGRESS.contains(&event.reason.as_str()));
            let told = |event: &Event| {
                if begins {
                    REFUSALS.contains(&event.reason.as_str())
                } else {
                    event.reason == "Evicted"
                }
            };
            let found = since.into_iter().find(|event| event.warning && told(event));
            match begins {
                true => job.start_failure = found.map(|event| (event.reason, event.message)),
                false => job.eviction = found.map(|event| event.message),
            }
        }))
        .await;
    }

    /// A controller that is refused pods says so in an event only; a Deployment in a condition too.
    /// Whoever may not read events sees `Creating`.
    pub(crate) async fn explain_missing_pods(&self, jobs: &mut [Job]) {
        let lacks = |job: &&mut Job| {
            let there = job
                .current_pods()
                .iter()
                .filter(|pod| pod.phase != PodPhase::Failed)
                .count();
            there < job.pods_wanted as usize
                && !job.suspended
                && !job.deleting
                && job.create_failure.is_none()
                && !job.conditions.contains_key("Complete")
                && !job.conditions.contains_key("Failed")
        };
        let lacking: Vec<&mut Job> = jobs.iter_mut().filter(lacks).take(LOOKED_INTO).collect();
        join_all(lacking.into_iter().map(|job| async {
            let events = match job.group_size {
                0 | 1 => self.events(&job.namespace, &job.uid).await,
                _ => self.events_of_groups(job).await,
            };
            // What was refused before pods were made is over.
            let made = ["FailedCreate", "SuccessfulCreate"];
            let newest = events
                .unwrap_or_default()
                .into_iter()
                .rev()
                .find(|event| made.contains(&event.reason.as_str()));
            job.create_failure = newest
                .filter(|event| event.warning)
                .map(|event| event.message);
        }))
        .await;
    }
}

impl WireOwner<'_> {
    pub(crate) fn job(&self, owner: OwnerKind) -> Job {
        let meta = &self.metadata;
        let label = |key: &str| meta.labels.get(key).cloned();
        let annotation = |key: &str| meta.annotations.get(key).cloned();
        let conditions: BTreeMap<String, (String, String)> = self
            .status
            .conditions
            .iter()
            .filter(|condition| condition.holds())
            .map(|condition| {
                (
                    condition.kind.to_string(),
                    (condition.reason.to_string(), condition.message.to_string()),
                )
            })
            .collect();
        let ended = self
            .status
            .conditions
            .iter()
            .find(|condition| condition.kind == "Failed" && condition.holds());
        let group = self.spec.leader_worker_template.as_ref();
        let pod = group.map_or(&self.spec.template.spec, |group| {
            &group.leader_template.spec
        });
        let group_size = group.and_then(|group| group.size).unwrap_or(1);
        let container = pod.containers.first();
        let requested = |name: &str| {
            let resources = container.map(|container| &container.resources)?;
            resources
                .requests
                .get(name)
                .or_else(|| resources.limits.get(name))
                .cloned()
        };
        let (pods_wanted, suspended) = match (owner, self.spec.replicas) {
            // A job that asks for no pods is one that a person paused in its queue.
            (OwnerKind::Job, _) => (
                self.spec.completions.unwrap_or(self.spec.parallelism),
                self.spec.suspend || self.spec.parallelism == 0,
            ),
            // What it would hold again: the size before the pause.
            (_, Some(0)) => {
                let before = annotation(REPLICAS).and_then(|size| size.parse().ok());
                // Without a limit, a user with write access to the annotation could make another
                // user's `resume` create any number of pods.
                let before = before
                    .filter(|size| (1..=MOST_RESUMED).contains(size))
                    .unwrap_or(1_u32);
                (before.saturating_mul(group_size), true)
            }
            (_, replicas) => (replicas.unwrap_or(1).saturating_mul(group_size), false),
        };
        Job {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            display_name: annotation(NAME).unwrap_or_else(|| meta.name.to_string()),
            uid: meta.uid.to_string(),
            kind: owner.job_kind(label(KIND).as_deref()),
            version: annotation(VERSION).unwrap_or_else(|| "v0.1".to_owned()),
            pool: label(POOL_LABEL),
            gpu_type: label(GPU_TYPE),
            user: annotation(USER).or_else(|| label(USER)),
            description: annotation(DESCRIPTION),
            labels: meta.labels.clone(),
            source: annotation(SOURCE),
            created_at: meta.creation_timestamp,
            // Jobs count no generations.
            rolling_out: match owner {
                OwnerKind::Job => false,
                OwnerKind::LeaderWorkerSet => conditions.contains_key("UpdateInProgress"),
                OwnerKind::Deployment | OwnerKind::StatefulSet => {
                    self.status.observed_generation < meta.generation
                        || self.status.updated_replicas < self.spec.replicas.unwrap_or(1)
                        || self.status.replicas > self.status.updated_replicas
                }
            },
            owner_is_gone: false,
            start_failure: None,
            eviction: None,
            finished_at: self
                .status
                .completion_time
                .or_else(|| ended.and_then(|condition| condition.last_transition_time)),
            deleting: meta.deletion_timestamp.is_some(),
            suspended,
            queue: label(KUEUE_QUEUE).or_else(|| annotation(VOLCANO_QUEUE)),
            queued: meta.labels.contains_key(KUEUE_QUEUE),
            queue_verdict: None,
            queue_position: None,
            held: meta.annotations.contains_key(PAUSED),
            pods_wanted,
            group_size,
            pods_done: self.status.succeeded,
            retries: annotation(RETRIES)
                .and_then(|retries| retries.parse().ok())
                .unwrap_or(0),
            gpus_per_pod: GpuCount(pod.devices()),
            cpu: requested("cpu"),
            memory: requested("memory"),
            port: container
                .and_then(|container| container.ports.first())
                .map(|port| port.container_port),
            checked: container.is_some_and(|container| {
                container.startup_probe.is_some()
                    || container
                        .readiness_probe
                        .as_ref()
                        .is_some_and(|probe| probe.http_get.is_some())
            }),
            claims: pod
                .volumes
                .iter()
                .filter_map(|volume| volume.persistent_volume_claim.as_ref())
                .map(|claim| claim.claim_name.clone())
                .collect(),
            pinned: pod
                .node_selector
                .get(HOSTNAME)
                .cloned()
                .filter(|_| owner == OwnerKind::StatefulSet),
            on_host: pod.volumes.iter().any(|volume| volume.host_path.is_some()),
            create_failure: conditions
                .get("ReplicaFailure")
                .map(|(_, message)| message.clone()),
            conditions,
            pods: Vec::new(),
        }
    }
}
