//! Predicts which claims of a job will not work with their storage class. A claim without a
//! provisioner waits forever, and so does a second pod on a volume that only one node can mount.

use serde_json::Value;

use gpuctl_manifest::render::{Object, Rendered};

use crate::{Failure, handles::StorageApi};

/// Provisioners whose volumes only one node at a time can mount, according to the documentation of
/// each project.
const ONE_NODE: [&str; 12] = [
    "ebs.csi.aws.com",
    "kubernetes.io/aws-ebs",
    "pd.csi.storage.gke.io",
    "kubernetes.io/gce-pd",
    "disk.csi.azure.com",
    "kubernetes.io/azure-disk",
    "rancher.io/local-path",
    "openebs.io/local",
    "rbd.csi.ceph.com",
    "cinder.csi.openstack.org",
    "diskplugin.csi.alibabacloud.com",
    "kubernetes.io/no-provisioner",
];

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

impl StorageApi<'_> {
    /// Reads the storage class of a claim. Returns `None` if the claim does not exist or the user
    /// cannot read it.
    pub async fn class_of_claim(
        self,
        namespace: &str,
        claim: &str,
    ) -> Result<Option<Option<String>>, Failure> {
        let collection = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        match self.0.find_in::<Value>(&collection, claim).await {
            Err(failure) if failure.is_forbidden() => Ok(None),
            other => Ok(other?.map(|claim| {
                claim["spec"]["storageClassName"]
                    .as_str()
                    .map(ToOwned::to_owned)
            })),
        }
    }

    /// Checks the storage classes of the claims that a job creates. Returns no findings if the user
    /// cannot list storage classes.
    pub async fn storage_classes(self, rendered: &Rendered) -> ClassFindings {
        let mut findings = ClassFindings::default();
        let claims: Vec<&Object> = rendered
            .objects
            .iter()
            .filter(|object| object.kept)
            .collect();
        if claims.is_empty() {
            return findings;
        }
        let Ok(list) = self
            .0
            .get::<Value>("/apis/storage.k8s.io/v1/storageclasses")
            .await
        else {
            return findings;
        };
        let classes: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
        claims
            .into_iter()
            .for_each(|claim| judge(claim, &classes, &mut findings));
        if !findings.missing.is_empty() {
            self.without_class(rendered, &mut findings).await;
        }
        findings
    }

    /// Drops findings that cannot block a pod, because the claim or a volume with this class name
    /// already exists.
    async fn without_class(self, rendered: &Rendered, findings: &mut ClassFindings) {
        let mut existing = Vec::new();
        for claim in rendered.objects.iter().filter(|object| object.kept) {
            if matches!(self.0.writes().live(claim).await, Ok(Some(_))) {
                existing.push(claim.name().to_owned());
            }
        }
        findings
            .missing
            .retain(|missing| !existing.contains(&missing.claim));
        match self.0.get::<Value>("/api/v1/persistentvolumes").await {
            Ok(list) => {
                let volumes = list["items"].as_array().cloned().unwrap_or_default();
                let is_rendered = |class: &str| {
                    volumes
                        .iter()
                        .any(|volume| volume["spec"]["storageClassName"] == class)
                };
                findings
                    .missing
                    .retain(|missing| !is_rendered(&missing.class));
            }
            // If the user cannot list volumes, a volume with the class may exist, so a missing
            // class is only a warning.
            Err(_) => findings
                .warnings
                .extend(findings.missing.drain(..).map(|missing| missing.message)),
        }
    }
}

/// Problems with the storage classes of claims.
#[derive(Debug, Default)]
pub struct ClassFindings {
    /// Storage classes that claims name but that do not exist, so that no volume is provisioned.
    pub missing: Vec<MissingClass>,
    pub warnings: Vec<String>,
}

/// A storage class that does not exist although a claim names it.
#[derive(Debug)]
pub struct MissingClass {
    claim: String,
    class: String,
    pub message: String,
}

fn judge(claim: &Object, classes: &[&Value], findings: &mut ClassFindings) {
    let name = |class: &Value| {
        class["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let requested =
        Some(claim.text("/spec/storageClassName")).filter(|requested| !requested.is_empty());
    let is_default = |class: &&&Value| class["metadata"]["annotations"][DEFAULT] == "true";
    let class = match requested {
        Some(requested) => classes.iter().find(|class| name(class) == requested),
        None => classes.iter().find(is_default),
    };
    let Some(class) = class else {
        let names: Vec<String> = classes.iter().map(|class| name(class)).collect();
        let available = if names.is_empty() {
            "the cluster has none".to_owned()
        } else {
            format!("available: {}", names.join(", "))
        };
        match requested {
            Some(requested) => {
                let message = format!("storage class `{requested}` does not exist, but claim {} needs it; {available}", claim.name());
                findings.missing.push(MissingClass { claim: claim.name().to_owned(), class: requested.to_owned(), message });
            }
            None => findings.warnings.push(format!(
                "the cluster has no default storage class, so claim {} waits for a matching volume; set `storageClass:` ({available})",
                claim.name()
            )),
        }
        return;
    };
    let provisioner = class["provisioner"].as_str().unwrap_or_default();
    let is_shared = claim.text("/spec/accessModes/0") == "ReadWriteMany"
        || claim.text("/spec/accessModes/0") == "ReadOnlyMany";
    if is_shared && ONE_NODE.contains(&provisioner) {
        findings.warnings.push(format!(
            "claim {} requests {}, but storage class `{}` ({provisioner}) supports only one node at a time; set a different `storageClass:`",
            claim.name(),
            claim.text("/spec/accessModes/0"),
            name(class),
        ));
    }
}
