//! Lists persistent volume claims and the pods that mount them.

use std::collections::BTreeMap;

use futures::future::join3;
use serde::Deserialize;

use crate::transport::decode::{ContainerResources, ListPage, ObjectMetadata, WirePod};
use crate::{Failure, JobFilter, handles::StorageApi, unless_forbidden};
use gpuctl_core::model::contract::labels::{JOB, MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::values::natural::full_name;
use gpuctl_core::model::{Claim, Job, PodPhase};

#[derive(Deserialize)]
struct WireClaim<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(default)]
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    access_modes: Vec<String>,
    storage_class_name: Option<String>,
    resources: ContainerResources,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
    capacity: BTreeMap<String, String>,
}

impl WireClaim<'_> {
    fn claim(&self) -> Claim {
        let meta = &self.metadata;
        let is_managed = meta
            .labels
            .get(MANAGED_BY)
            .is_some_and(|manager| manager == MANAGED_BY_US);
        // Show the provisioned size, which may exceed the request.
        let size = self
            .status
            .capacity
            .get("storage")
            .or_else(|| self.spec.resources.requests.get("storage"));
        Claim {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            is_managed,
            job: meta.labels.get(JOB).filter(|_| is_managed).cloned(),
            size: size.cloned(),
            // A deleted claim exists until no pod uses it, because of the finalizer
            // `kubernetes.io/pvc-protection`. Its phase does not change.
            status: if meta.deletion_timestamp.is_some() {
                "Terminating".to_owned()
            } else {
                self.status.phase.clone()
            },
            storage_class: self.spec.storage_class_name.clone(),
            access_modes: self.spec.access_modes.clone(),
            labels: Some(meta.labels.clone()),
            created_at: meta.creation_timestamp,
            ..Claim::default()
        }
    }
}

impl StorageApi<'_> {
    /// Lists the claims of one namespace, or of all namespaces, by namespace and name. Includes
    /// claims that gpuctl did not create.
    pub async fn claims(self, namespace: Option<&str>) -> Result<Vec<Claim>, Failure> {
        let path = |plural: &str| match namespace {
            None => format!("/api/v1/{plural}"),
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{plural}"),
        };
        let (mut claims, mut uses) = (Vec::new(), Uses::default());
        let (claims_path, pods_path) = (path("persistentvolumeclaims"), path("pods"));
        let filter = JobFilter {
            namespace: namespace.map(ToOwned::to_owned),
            ..JobFilter::default()
        };
        let (claims_result, pods, jobs) = join3(
            self.0.list(&claims_path, &[], |page| {
                let page: ListPage<WireClaim<'_>> = page.objects()?;
                claims.extend(page.items.iter().map(WireClaim::claim));
                Ok(())
            }),
            // List all pods, because pods that gpuctl did not create can mount a claim too.
            self.0.list(&pods_path, &[], |page| {
                let page: ListPage<WirePod<'_>> = page.objects()?;
                page.items.iter().for_each(|pod| uses.add(pod));
                Ok(())
            }),
            self.0.jobs().list(&filter),
        )
        .await;
        claims_result?;
        let can_list_pods = unless_forbidden(pods)?.is_some();
        let jobs = unless_forbidden(jobs)?.filter(|selection| selection.unseen().is_none());
        for claim in &mut claims {
            let usage = uses
                .0
                .remove(&(claim.namespace.clone(), claim.name.clone()))
                .unwrap_or_default();
            claim.pods = can_list_pods.then_some(usage.pods);
            claim.last_used = usage.last_ended;
            claim.job_exists = claim
                .job
                .as_ref()
                .zip(jobs.as_ref())
                .map(|(name, selection)| {
                    let owns = |job: &&Job| job.name == *name && job.namespace == claim.namespace;
                    selection
                        .jobs
                        .iter()
                        .find(owns)
                        .is_some_and(|job| !job.owner_is_gone)
                });
        }
        claims.sort_by(|a, b| {
            full_name(&a.namespace, &a.name).cmp(&full_name(&b.namespace, &b.name))
        });
        Ok(claims)
    }
}

/// The pods that mount each claim, keyed by the claim's namespace and name.
#[derive(Default)]
struct Uses(BTreeMap<(String, String), ClaimUse>);

#[derive(Default)]
struct ClaimUse {
    pods: Vec<String>,
    last_ended: Option<jiff::Timestamp>,
}

impl Uses {
    fn add(&mut self, pod: &WirePod<'_>) {
        let names = pod
            .spec
            .volumes
            .iter()
            .filter_map(|volume| volume.persistent_volume_claim.as_ref());
        for claim in names {
            let usage = self
                .0
                .entry((pod.metadata.namespace.to_string(), claim.claim_name.clone()))
                .or_default();
            match pod.status.phase() {
                PodPhase::Succeeded | PodPhase::Failed => {
                    usage.last_ended = usage.last_ended.max(pod.pod().ended_at);
                }
                _ => usage.pods.push(pod.metadata.name.to_string()),
            }
        }
    }
}
