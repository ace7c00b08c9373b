//! Predicts what the storage classes do with the claims of a job: a claim that nobody provisions
//! waits forever, and so does a second pod on a volume for one node.

use serde_json::Value;

use gpuctl_manifest::render::{Object, Rendered};

use crate::{Failure, handles::StorageApi};

/// Provisioners of block devices, which one node at a time can mount. From their projects' own
/// documentation.
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
    /// Returns the storage class of a claim; `None` when there is no such claim or it may not be
    /// seen.
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

    /// Checks the storage classes of the claims that a job makes; nothing is found for users who
    /// may not list storage classes.
    pub async fn storage_classes(self, rendered: &Rendered) -> ClassFindings {
        let mut found = ClassFindings::default();
        let claims: Vec<&Object> = rendered
            .objects
            .iter()
            .filter(|object| object.kept)
            .collect();
        if claims.is_empty() {
            return found;
        }
        let Ok(list) = self
            .0
            .get::<Value>("/apis/storage.k8s.io/v1/storageclasses")
            .await
        else {
            return found;
        };
        let classes: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
        claims
            .into_iter()
            .for_each(|claim| judge(claim, &classes, &mut found));
        if !found.missing.is_empty() {
            self.without_class(rendered, &mut found).await;
        }
        found
    }

    /// Drops findings that stop no pod: the claim exists already, or an administrator made a volume
    /// with the name of the class.
    async fn without_class(self, rendered: &Rendered, found: &mut ClassFindings) {
        let mut there = Vec::new();
        for claim in rendered.objects.iter().filter(|object| object.kept) {
            if matches!(self.0.writes().live(claim).await, Ok(Some(_))) {
                there.push(claim.name().to_owned());
            }
        }
        found.missing.retain(|one| !there.contains(&one.claim));
        match self.0.get::<Value>("/api/v1/persistentvolumes").await {
            Ok(list) => {
                let volumes = list["items"].as_array().cloned().unwrap_or_default();
                let made = |class: &str| {
                    volumes
                        .iter()
                        .any(|volume| volume["spec"]["storageClassName"] == class)
                };
                found.missing.retain(|one| !made(&one.class));
            }
            // Such a volume may exist; this user may not list volumes.
            Err(_) => found
                .warnings
                .extend(found.missing.drain(..).map(|one| one.message)),
        }
    }
}

/// What is wrong with the storage classes of claims.
#[derive(Debug, Default)]
pub struct ClassFindings {
    /// No volume is provisioned for their claims.
    pub missing: Vec<MissingClass>,
    pub warnings: Vec<String>,
}

/// A class that a claim names and that does not exist.
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
    let asked = Some(claim.text("/spec/storageClassName")).filter(|asked| !asked.is_empty());
    let is_default = |class: &&&Value| class["metadata"]["annotations"][DEFAULT] == "true";
    let found = match asked {
        Some(asked) => classes.iter().find(|class| name(class) == asked),
        None => classes.iter().find(is_default),
    };
    let Some(class) = found else {
        let names: Vec<String> = classes.iter().map(|class| name(class)).collect();
        let there = if names.is_empty() {
            "there is none".to_owned()
        } else {
            format!("available: {}", names.join(", "))
        };
        match asked {
            Some(asked) => {
                let message = format!("there is no storage class `{asked}` for claim {}; {there}", claim.name());
                findings.missing.push(MissingClass { claim: claim.name().to_owned(), class: asked.to_owned(), message });
            }
            None => findings.warnings.push(format!(
                "no storage class is the default, so claim {} waits for a volume that fits; say `storageClass:` ({there})",
                claim.name()
            )),
        }
        return;
    };
    let provisioner = class["provisioner"].as_str().unwrap_or_default();
    let many = claim.text("/spec/accessModes/0") == "ReadWriteMany"
        || claim.text("/spec/accessModes/0") == "ReadOnlyMany";
    if many && ONE_NODE.contains(&provisioner) {
        findings.warnings.push(format!(
            "claim {} asks for {}, and storage class `{}` ({provisioner}) serves one node at a time; say another `storageClass:`",
            claim.name(),
            claim.text("/spec/accessModes/0"),
            name(class),
        ));
    }
}
