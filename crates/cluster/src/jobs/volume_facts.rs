//! Reads the facts that determine which nodes can use the volumes of a new job. Sends no request
//! for a job without claims, and otherwise only those that the claims require.

use std::collections::BTreeMap;

use futures::future::{join, join_all, join3};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use serde::de::DeserializeOwned;

use crate::transport::decode::{ListPage, WirePod};
use crate::{Failure, handles::StorageApi, unless_forbidden};
use gpuctl_manifest::render::{
    ClaimSource, JobClaim, Object, PodRules, Rendered, VolumeFacts, VolumeUser,
};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const CSI_DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const CAPACITIES: &str = "/apis/storage.k8s.io/v1/csistoragecapacities";
const VOLUMES: &str = "/api/v1/persistentvolumes";

impl StorageApi<'_> {
    /// Reads the facts about the claims of a new job with `pods` pods. Returns `None` if it has no
    /// claims.
    pub async fn volume_facts(
        self,
        namespace: &str,
        rendered: &Rendered,
        pods: u64,
    ) -> Result<Option<VolumeFacts>, Failure> {
        let rules = PodRules::from_spec(&rendered.probe.body["spec"]);
        let claims = self.job_claims(namespace, rendered, &rules).await?;
        if claims.is_empty() {
            return Ok(None);
        }
        let mut facts = VolumeFacts {
            namespace: namespace.to_owned(),
            claims,
            ..VolumeFacts::default()
        };
        let needs = facts.needs_of_claims();
        let (classes, volumes, users) = join3(
            self.all_if::<StorageClass>(needs.classes, CLASSES),
            join_all(needs.volumes.iter().map(|volume| self.volume(volume))),
            self.users(needs.users, namespace),
        )
        .await;
        facts.classes = classes?;
        facts.users = users?;
        // If the user may not read volumes, all volumes are unknown.
        let volumes: Vec<Option<Option<PersistentVolume>>> =
            volumes.into_iter().collect::<Result<_, _>>()?;
        let readable: Option<Vec<Option<PersistentVolume>>> = volumes.into_iter().collect();
        facts.volumes = readable.map(|volumes| volumes.into_iter().flatten().collect());
        let needs = facts.needs_of_classes(pods);
        let (all_volumes, csi_nodes, csi_drivers) = join3(
            self.all_if(needs.all_volumes, VOLUMES),
            self.all_if::<CSINode>(needs.csi_nodes, CSI_NODES),
            join_all(needs.csi_drivers.iter().map(|name| self.csi_driver(name))),
        )
        .await;
        facts.csi_nodes = csi_nodes?;
        if needs.all_volumes {
            facts.volumes = all_volumes?;
        }
        let csi_drivers: Vec<Option<Option<CSIDriver>>> =
            csi_drivers.into_iter().collect::<Result<_, _>>()?;
        let readable: Option<Vec<Option<CSIDriver>>> = csi_drivers.into_iter().collect();
        facts.csi_drivers = readable.map(|drivers| drivers.into_iter().flatten().collect());
        let has_all_volumes = needs.all_volumes;
        let needs = facts.needs_of_drivers();
        let (capacities, attachable) = join(
            self.all_if::<CSIStorageCapacity>(needs.storage_capacities, CAPACITIES),
            self.all_if(needs.attachable && !has_all_volumes, VOLUMES),
        )
        .await;
        facts.storage_capacities = capacities?;
        facts.attachable = match needs.attachable && has_all_volumes {
            true => facts.volumes.clone(),
            false => attachable?,
        };
        Ok(Some(facts))
    }

    /// Reads the claims that the pods mount, or takes them from the job if it will create them.
    async fn job_claims(
        self,
        namespace: &str,
        rendered: &Rendered,
        rules: &PodRules,
    ) -> Result<Vec<JobClaim>, Failure> {
        let mut names = rules.volume_claims();
        names.sort_unstable();
        names.dedup();
        let collection = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let lookups = names.into_iter().map(|name| {
            let collection = &collection;
            async move {
                let claim = self.0.find_in::<PersistentVolumeClaim>(collection, name);
                let source = match unless_forbidden(claim.await)? {
                    Some(Some(claim)) => ClaimSource::Existing(Box::new(claim)),
                    Some(None) => planned(rendered, name),
                    None => ClaimSource::Unreadable(format!(
                        "you are not allowed to read persistentvolumeclaims in namespace \
                         `{namespace}`"
                    )),
                };
                Ok(JobClaim {
                    name: name.to_owned(),
                    source,
                    per_pod: false,
                })
            }
        });
        let claims: Result<Vec<JobClaim>, Failure> = join_all(lookups).await.into_iter().collect();
        let per_pod = rules.ephemeral_claims().into_iter().map(|(name, claim)| {
            let invalid = || ClaimSource::Unreadable("its template is invalid".to_owned());
            JobClaim {
                name: name.to_owned(),
                source: claim.map_or_else(invalid, |claim| ClaimSource::New(Box::new(claim))),
                per_pod: true,
            }
        });
        Ok(claims?.into_iter().chain(per_pod).collect())
    }

    /// Reads one volume. The outer `None` means that the user may not read volumes.
    async fn volume(self, name: &str) -> Result<Option<Option<PersistentVolume>>, Failure> {
        unless_forbidden(self.0.find_in(VOLUMES, name).await)
    }

    /// Reads one driver; the outer `None` means that the user is not allowed to.
    async fn csi_driver(self, name: &str) -> Result<Option<Option<CSIDriver>>, Failure> {
        unless_forbidden(self.0.find_in(CSI_DRIVERS, name).await)
    }

    /// Lists a collection if it is needed; `None` if the user is not allowed to.
    async fn all_if<T: DeserializeOwned>(
        self,
        is_needed: bool,
        path: &str,
    ) -> Result<Option<Vec<T>>, Failure> {
        let mut objects = Vec::new();
        if !is_needed {
            return Ok(Some(objects));
        }
        let listed = self
            .0
            .list_whole(path, &[], |page| {
                let page: ListPage<T> = page.objects()?;
                objects.extend(page.items);
                Ok(())
            })
            .await;
        Ok(unless_forbidden(listed)?.map(|()| objects))
    }

    /// Lists the scheduled pods that mount each claim of a namespace.
    async fn users(
        self,
        is_needed: bool,
        namespace: &str,
    ) -> Result<Option<BTreeMap<String, Vec<VolumeUser>>>, Failure> {
        let mut users: BTreeMap<String, Vec<VolumeUser>> = BTreeMap::new();
        if !is_needed {
            return Ok(Some(users));
        }
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let listed = self
            .0
            .list(&path, &[], |page| {
                let page: ListPage<WirePod<'_>> = page.objects()?;
                // The scheduler ignores pods that have ended or have no node.
                let on_nodes = page.items.iter().filter(|pod| {
                    !pod.spec.node_name.is_empty() && !pod.status.phase().has_ended()
                });
                for pod in on_nodes {
                    for claim in pod.spec.claim_names() {
                        users.entry(claim).or_default().push(VolumeUser {
                            pod: pod.metadata.name.to_string(),
                            node: pod.spec.node_name.to_string(),
                        });
                    }
                }
                Ok(())
            })
            .await;
        Ok(unless_forbidden(listed)?.map(|()| users))
    }
}

/// Finds a claim among the objects that are created with the job.
fn planned(rendered: &Rendered, name: &str) -> ClaimSource {
    let is_planned =
        |object: &&Object| object.plural == "persistentvolumeclaims" && object.name() == name;
    let Some(object) = rendered.objects.iter().find(is_planned) else {
        return ClaimSource::Missing;
    };
    match serde_json::from_value(object.body.clone()) {
        Ok(claim) => ClaimSource::New(Box::new(claim)),
        Err(_) => ClaimSource::Unreadable("its specification is invalid".to_owned()),
    }
}
