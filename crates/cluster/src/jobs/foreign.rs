//! Reads many workloads that gpuctl did not create as jobs, with one list of pods.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join;
use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::list::MAX_EXPLAINED;
use super::owner::OwnerKind;
use super::owner_object::WireOwner;
use super::subject::{apply_conditions, job_from_pods};
use crate::transport::decode::{ListPage, WirePod};
use crate::transport::list::Page;
use crate::{Failure, handles::JobsApi};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::facts::workload::OwnerObject;
use gpuctl_core::model::{GpuCount, Job, Pod, Workload};

/// Number of owners read concurrently.
const AT_ONCE: usize = 16;

/// GPUs requested by pods that gpuctl did not create and that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherUse {
    pub pods: usize,
    pub gpus: GpuCount,
    /// True if there are more pods than were read, so that both numbers are lower limits.
    pub has_more: bool,
}

impl OtherUse {
    /// Adds the pods of another cluster.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pods: self.pods + other.pods,
            gpus: self.gpus + other.gpus,
            has_more: self.has_more || other.has_more,
        }
    }
}

impl JobsApi<'_> {
    /// Reads these workloads as jobs, in the same order. The pods come from one list of
    /// `namespace`, or of all namespaces if it is `None`. A workload whose pods ended or were
    /// replaced in the meantime has fewer pods than `workloads` names.
    ///
    /// # Errors
    ///
    /// Fails if the pods cannot be listed. An owner that cannot be read is described by its pods.
    pub async fn workloads_as_jobs(
        self,
        namespace: Option<&str>,
        workloads: &[Workload],
    ) -> Result<Vec<Job>, Failure> {
        // Without workloads, a user who may only read one namespace must not list all pods.
        if workloads.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (index, workload) in workloads.iter().enumerate() {
            let newest = newest_run(workload);
            let pods = workload.pods.iter();
            let pods =
                pods.filter(|pod| newest.is_none_or(|run| pod.parent.as_deref() == Some(run)));
            wanted.extend(pods.map(|pod| ((&*pod.namespace, &*pod.name), index)));
        }
        let owners = stream::iter(
            workloads
                .iter()
                .map(|workload| self.owner_of(&workload.top)),
        )
        .buffered(AT_ONCE)
        .collect::<Vec<_>>();
        let pods = self.wanted_pods(namespace, &wanted, workloads.len());
        let (pods, owners) = join(pods, owners).await;
        let mut jobs: Vec<Job> = owners
            .into_iter()
            .zip(pods?)
            .zip(workloads)
            .map(|((object, pods), workload)| job(object.as_ref(), &workload.top, pods))
            .collect();
        self.explain_all(&mut jobs).await;
        Ok(jobs)
    }

    /// Adds why pods are missing or stuck to any number of jobs, and why queues do not admit them.
    pub async fn explain_all(self, jobs: &mut [Job]) {
        for chunk in jobs.chunks_mut(MAX_EXPLAINED) {
            self.explain_missing_pods(chunk).await;
            self.explain_stuck_pods(chunk).await;
        }
        self.0.queues().explain_queues(jobs).await;
    }

    /// Counts the GPUs of pods that gpuctl did not create, from one page of pods.
    ///
    /// # Errors
    ///
    /// Fails if the user cannot list pods.
    pub async fn use_of_others(self, namespace: Option<&str>) -> Result<OtherUse, Failure> {
        let collection = namespace.map_or_else(
            || "/api/v1/pods".to_owned(),
            |namespace| format!("/api/v1/namespaces/{namespace}/pods"),
        );
        let not_ours = format!("{MANAGED_BY}!={MANAGED_BY_US}");
        let parameters = [
            ("labelSelector", not_ours.as_str()),
            (
                "fieldSelector",
                "status.phase!=Succeeded,status.phase!=Failed",
            ),
        ];
        let mut other_use = OtherUse::default();
        let count = |page: Page<'_>| {
            let page: ListPage<WirePod<'_>> = page.objects()?;
            for pod in page.items.iter().map(WirePod::pod) {
                other_use.pods += usize::from(pod.gpus > GpuCount::ZERO);
                other_use.gpus += pod.gpus;
            }
            Ok(())
        };
        let has_more = self.0.first_page(&collection, &parameters, count).await?;
        Ok(OtherUse {
            has_more,
            ..other_use
        })
    }

    /// Reads the object at the top of a workload. Returns `None` for a pod without an owner and for
    /// an object that cannot be read.
    async fn owner_of(self, top: &OwnerObject) -> Option<Value> {
        match owner_kind(top) {
            Some(kind) => {
                let collection = kind.collection(Some(&top.namespace));
                self.0.find_in(&collection, &top.name).await.ok().flatten()
            }
            None if top.kind == "Pod" => None,
            None => self.0.workloads().owner_object(top).await,
        }
    }

    /// Lists pods, and returns those of each of `count` workloads.
    async fn wanted_pods(
        self,
        namespace: Option<&str>,
        wanted: &BTreeMap<(&str, &str), usize>,
        count: usize,
    ) -> Result<Vec<Vec<Pod>>, Failure> {
        let mut pods: Vec<Vec<Pod>> = vec![Vec::new(); count];
        let namespaces: BTreeSet<&str> = wanted.keys().map(|(namespace, _)| *namespace).collect();
        let only = (namespaces.len() == 1)
            .then(|| namespaces.first().copied())
            .flatten();
        let collection = namespace.or(only).map_or_else(
            || "/api/v1/pods".to_owned(),
            |namespace| format!("/api/v1/namespaces/{namespace}/pods"),
        );
        let take = |page: Page<'_>| {
            let page: ListPage<WirePod<'_>> = page.objects()?;
            for pod in &page.items {
                let key = (pod.metadata.namespace.as_ref(), pod.metadata.name.as_ref());
                if let Some(index) = wanted.get(&key) {
                    pods[*index].push(pod.pod());
                }
            }
            Ok(())
        };
        self.0.list(&collection, &[], take).await?;
        Ok(pods)
    }
}

/// The kind of an object whose status gpuctl can decode.
fn owner_kind(top: &OwnerObject) -> Option<OwnerKind> {
    let is_kind = |kind: &OwnerKind| {
        let group = kind.collection(None);
        kind.word().eq_ignore_ascii_case(&top.kind)
            && group.starts_with(&format!("/apis/{}/", top.api_version))
    };
    OwnerKind::ALL.into_iter().find(is_kind)
}

/// The UID of the newest Job of a CronJob. Earlier runs are history: a failed one says nothing
/// about the workload once a later run succeeded.
fn newest_run(workload: &Workload) -> Option<&str> {
    if workload.top.kind != "CronJob" {
        return None;
    }
    let newest = workload.pods.iter().max_by_key(|pod| pod.created_at)?;
    newest.parent.as_deref()
}

fn job(object: Option<&Value>, top: &OwnerObject, pods: Vec<Pod>) -> Job {
    if let (Some(object), Some(kind)) = (object, owner_kind(top)) {
        let text = object.to_string();
        if let Ok(owner) = serde_json::from_str::<WireOwner<'_>>(&text) {
            return Job {
                pods,
                ..owner.job(kind)
            };
        }
    }
    let mut job = job_from_pods(&top.namespace, &top.name, pods);
    if let Some(object) = object {
        apply_conditions(object, &mut job);
    }
    job
}
