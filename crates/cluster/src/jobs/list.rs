//! Lists jobs and their pods by label: one list per kind of owner and one of pods, all in parallel,
//! regardless of the number of jobs.

use std::collections::HashMap;

use futures::future::{join, join_all};

use super::leftovers::{Leftover, left_over};
use super::owner::{OwnerKind, PodOwner};
use super::owner_object::WireOwner;
use crate::transport::decode::{ListPage, WirePod};
use crate::{Failure, handles::JobsApi};
use gpuctl_core::model::contract::labels::{
    JOB, KIND, MANAGED_BY, MANAGED_BY_US, POOL_LABEL, USER,
};
use gpuctl_core::model::values::natural::full_name;
use gpuctl_core::model::{Event, Job, JobKind, Pod, PodPhase, is_starting};
use gpuctl_manifest::render::label_value;

/// The jobs that a command selects.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// `None` selects all namespaces that the user can read.
    pub namespace: Option<String>,
    /// An empty list selects jobs with any name.
    pub names: Vec<String>,
    pub kind: Option<JobKind>,
    pub pool: Option<String>,
    /// The user's name according to the API server.
    pub user: Option<String>,
}

/// The selected jobs, and the namespaces and kinds that could not be searched.
#[derive(Debug)]
pub struct Selection {
    pub jobs: Vec<Job>,
    /// Set if the user cannot list all namespaces, so that only this one was searched.
    pub narrowed_to: Option<String>,
    /// Kinds of owners that the user cannot list. Jobs with such owners are missing.
    pub unreadable: Vec<&'static str>,
}

impl Selection {
    /// Describes the jobs that the user cannot see, or returns `None` if the selection is complete.
    pub fn unseen(&self) -> Option<String> {
        match (&self.narrowed_to, &self.unreadable[..]) {
            (Some(namespace), _) => {
                Some(format!("you may only list jobs in namespace `{namespace}`"))
            }
            (None, []) => None,
            (None, kinds) => Some(format!(
                "you are not allowed to list {}s",
                kinds.join("s and ")
            )),
        }
    }
}

/// Maximum number of jobs of a list for which events are read to explain missing or stuck pods.
pub const MAX_EXPLAINED: usize = 20;

impl JobFilter {
    /// Selects one job by namespace and name.
    pub fn by_name(namespace: &str, name: &str) -> Self {
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
            |kind| OwnerKind::for_job_kind(kind).to_vec(),
        )
    }
}

/// The pods of all jobs by their owner.
#[derive(Default)]
struct JobPods {
    pods: HashMap<PodOwner, Vec<Pod>>,
    /// Terminating pods, whose job may already be deleted.
    leftovers: Vec<Leftover>,
}

impl JobPods {
    fn add(&mut self, pod: &WirePod<'_>) {
        let summary = pod.pod();
        if summary.deleting {
            self.leftovers
                .push(Leftover::from_pod(pod, summary.clone()));
        }
        self.pods
            .entry(PodOwner::from_metadata(&pod.metadata))
            .or_default()
            .push(summary);
    }
}

/// Jobs without their pods, and the kinds of owners that the user cannot list.
struct ReadableOwners {
    jobs: Vec<Job>,
    unreadable: Vec<&'static str>,
    /// Set if LeaderWorkerSets are not served or the user cannot list them.
    hides_groups: bool,
}

impl ReadableOwners {
    /// Combines the lists of all kinds. Fails if the user cannot list any of them.
    fn new(lists: Vec<Result<Vec<Job>, (OwnerKind, Failure)>>) -> Result<Self, Failure> {
        let mut owners = Self {
            jobs: Vec::new(),
            unreadable: Vec::new(),
            hides_groups: false,
        };
        let (mut forbidden, mut attempted) = (None, lists.len());
        for list in lists {
            match list {
                Ok(jobs) => owners.jobs.extend(jobs),
                Err((kind, failure))
                    if kind.is_optional() && (failure.is_forbidden() || failure.is_not_found()) =>
                {
                    attempted -= 1;
                    owners.hides_groups = true;
                }
                Err((kind, failure)) if failure.is_forbidden() => {
                    owners.unreadable.push(kind.word());
                    forbidden.get_or_insert(failure);
                }
                Err((_, failure)) => return Err(failure),
            }
        }
        match forbidden {
            Some(failure) if owners.unreadable.len() == attempted => Err(failure),
            _ => Ok(owners),
        }
    }
}

/// Adds each pod to its job. Also adds the deleted jobs whose pods are still terminating.
fn with_members(owners: ReadableOwners, mut pods_by_owner: JobPods) -> Vec<Job> {
    let mut jobs = owners.jobs;
    for job in &mut jobs {
        job.pods = pods_by_owner
            .pods
            .remove(&PodOwner::from_job(job))
            .unwrap_or_default();
    }
    if owners.hides_groups {
        // Drop pods of LeaderWorkerSets, because their job may exist and be hidden from the user.
        pods_by_owner
            .leftovers
            .retain(|leftover| leftover.pod.group.is_none());
    }
    // If a kind of owner is hidden, a pod without a visible owner may still have one, so report no
    // deleted jobs.
    if owners.unreadable.is_empty() {
        let has_owner = |leftover: &Job| {
            jobs.iter()
                .any(|job| (&job.namespace, &job.name) == (&leftover.namespace, &leftover.name))
        };
        let leftover_jobs: Vec<Job> = left_over(pods_by_owner.leftovers)
            .into_iter()
            .filter(|leftover| !has_owner(leftover))
            .collect();
        jobs.extend(leftover_jobs);
    }
    jobs.sort_by(|a: &Job, b: &Job| {
        let names = full_name(&a.namespace, &a.name).cmp(&full_name(&b.namespace, &b.name));
        names.then_with(|| a.kind.cmp(&b.kind))
    });
    jobs
}

/// Maximum number of names in one selector. Servers and proxies may reject longer request lines.
pub const NAMES_AT_ONCE: usize = 50;

impl JobsApi<'_> {
    /// Lists the jobs that `filter` selects with their pods, sorted by namespace and name.
    pub async fn list(self, filter: &JobFilter) -> Result<Selection, Failure> {
        let namespace = filter.namespace.as_deref();
        match self.jobs_in(filter, namespace).await {
            Ok((jobs, unreadable)) => Ok(Selection {
                jobs,
                narrowed_to: None,
                unreadable,
            }),
            Err(failure) if namespace.is_some() || !failure.is_forbidden() => Err(failure),
            Err(_) => {
                let (jobs, unreadable) = self.jobs_in(filter, Some(&self.0.namespace)).await?;
                Ok(Selection {
                    jobs,
                    narrowed_to: Some(self.0.namespace.clone()),
                    unreadable,
                })
            }
        }
    }

    /// Lists the jobs of one namespace or of all, and the kinds that the user cannot list. Fails if
    /// the user cannot list any kind of owner, or cannot list pods.
    async fn jobs_in(
        self,
        filter: &JobFilter,
        namespace: Option<&str>,
    ) -> Result<(Vec<Job>, Vec<&'static str>), Failure> {
        let selector = filter.selector();
        let parameters = [("labelSelector", selector.as_str())];
        let kinds = filter.owners().into_iter();
        let owners = join_all(kinds.map(|kind| self.jobs_of_owners(kind, namespace, &parameters)));
        let (owners, job_pods) = join(owners, self.members(namespace, &parameters)).await;
        let owners = ReadableOwners::new(owners)?;
        let unreadable = owners.unreadable.clone();
        let mut jobs = with_members(owners, job_pods?);
        self.explain_missing_pods(&mut jobs).await;
        self.explain_stuck_pods(&mut jobs).await;
        self.0.queues().explain_queues(&mut jobs).await;
        Ok((jobs, unreadable))
    }

    /// Lists the owners of one kind as jobs without pods.
    async fn jobs_of_owners(
        self,
        kind: OwnerKind,
        namespace: Option<&str>,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<Job>, (OwnerKind, Failure)> {
        let mut jobs = Vec::new();
        let path = kind.collection(namespace);
        let result = self.0.list(&path, parameters, |page| {
            let page: ListPage<WireOwner<'_>> = page.objects()?;
            jobs.extend(page.items.iter().map(|owner| owner.job(kind)));
            Ok(())
        });
        result
            .await
            .map(|()| jobs)
            .map_err(|failure| (kind, failure))
    }

    async fn members(
        self,
        namespace: Option<&str>,
        parameters: &[(&str, &str)],
    ) -> Result<JobPods, Failure> {
        let mut job_pods = JobPods::default();
        let path = namespace.map_or_else(
            || "/api/v1/pods".to_owned(),
            |space| format!("/api/v1/namespaces/{space}/pods"),
        );
        self.0
            .list(&path, parameters, |page| {
                let page: ListPage<WirePod<'_>> = page.objects()?;
                page.items.iter().for_each(|pod| job_pods.add(pod));
                Ok(())
            })
            .await?;
        Ok(job_pods)
    }

    /// Explains from events why a pod that has a node does not start: kubelets report volumes that
    /// cannot be mounted and sandboxes that cannot be created only there. Also finds evicted pods
    /// that still seem to run, because a kubelet with a full disk cannot update the pod's status.
    pub(crate) async fn explain_stuck_pods(self, jobs: &mut [Job]) {
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
        let is_suspect = |pod: &&Pod| {
            let has_waiting_container = pod.containers.iter().any(|container| {
                container
                    .waiting
                    .as_ref()
                    .is_some_and(|(reason, _)| is_starting(reason))
            });
            let is_starting = pod.phase == PodPhase::Pending && has_waiting_container;
            (is_starting || pod.phase == PodPhase::Running && pod.own_end().is_some())
                && pod.node.is_some()
                && !pod.deleting
        };
        let stuck = jobs.iter_mut().filter_map(|job| {
            let pod = job.current_pods().into_iter().find(is_suspect)?;
            Some((pod.uid.clone(), pod.phase == PodPhase::Pending, job))
        });
        let stuck: Vec<(String, bool, &mut Job)> = stuck.take(MAX_EXPLAINED).collect();
        join_all(stuck.into_iter().map(|(pod, starting, job)| async move {
            let events = self
                .0
                .events()
                .for_object(&job.namespace, &pod)
                .await
                .unwrap_or_default();
            // An event of `PROGRESS` after the failure shows that the problem is over.
            let recent = events
                .into_iter()
                .rev()
                .take_while(|event| !PROGRESS.contains(&event.reason.as_str()));
            let explains = |event: &Event| {
                if starting {
                    REFUSALS.contains(&event.reason.as_str())
                } else {
                    event.reason == "Evicted"
                }
            };
            let cause = recent
                .into_iter()
                .find(|event| event.warning && explains(event));
            match starting {
                true => job.start_failure = cause.map(|event| (event.reason, event.message)),
                false => job.eviction = cause.map(|event| event.message),
            }
        }))
        .await;
    }

    /// Explains from events why pods are missing. A controller that may not create pods reports
    /// this only in events, except that a Deployment also sets a condition. If the user cannot read
    /// events, the job remains `Creating`.
    pub(crate) async fn explain_missing_pods(self, jobs: &mut [Job]) {
        let lacks_pods = |job: &&mut Job| {
            let current = job
                .current_pods()
                .iter()
                .filter(|pod| pod.phase != PodPhase::Failed)
                .count();
            current < job.pods_wanted as usize
                && !job.suspended
                && !job.deleting
                && job.create_failure.is_none()
                && !job.conditions.contains_key("Complete")
                && !job.conditions.contains_key("Failed")
        };
        let incomplete: Vec<&mut Job> = jobs
            .iter_mut()
            .filter(lacks_pods)
            .take(MAX_EXPLAINED)
            .collect();
        join_all(incomplete.into_iter().map(|job| async {
            let events = match job.group_size {
                0 | 1 => self.0.events().for_object(&job.namespace, &job.uid).await,
                _ => self.0.events().for_groups(job).await,
            };
            // A `SuccessfulCreate` after the failure shows that the problem is over.
            let reasons = ["FailedCreate", "SuccessfulCreate"];
            let newest = events
                .unwrap_or_default()
                .into_iter()
                .rev()
                .find(|event| reasons.contains(&event.reason.as_str()));
            job.create_failure = newest
                .filter(|event| event.warning)
                .map(|event| event.message);
        }))
        .await;
    }
}
