//! Explains which PersistentVolumeClaims and ResourceQuotas block a pod.

use super::answer::Cause;
use super::facts::{ClaimFact, Facts};
use gpuctl_core::model::ClaimState;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::facts::resource::is_device;
use gpuctl_core::model::values::quantity;

/// Explains why the pod's PersistentVolumeClaims cannot be mounted.
pub(super) fn claims(facts: &Facts<'_>) -> Vec<Cause> {
    let namespace = &facts.job.namespace;
    let cause = |claim: &ClaimFact| {
        let name = &claim.name;
        Some(match &claim.state {
            ClaimState::Missing => Cause::new(
                "claim-missing",
                format!("volume claim {name} does not exist in {namespace}"),
                "inventory",
            )
            .helps(
                "list the existing claims",
                Some(format!("gpuctl get claims --all -n {namespace}")),
            ),
            ClaimState::Unbound {
                class: Some(class),
                class_exists: Some(false),
                ..
            } => {
                let text = format!(
                    "volume claim {name} requests storage class {class}, which does not exist"
                );
                Cause::new("storage-class-missing", text, "inventory").helps(
                    "use an existing class",
                    Some("kubectl get storageclasses".to_owned()),
                )
            }
            ClaimState::Unbound {
                with_first_pod: true,
                ..
            }
            | ClaimState::Bound
            | ClaimState::Unreadable => return None,
            ClaimState::Unbound { class, .. } => {
                let class = class
                    .as_ref()
                    .map_or("no storage class".to_owned(), |class| {
                        format!("storage class {class}")
                    });
                let text = format!("volume claim {name} ({class}) has no volume yet");
                Cause::new("claim-pending", text, "inventory").helps(
                    "see its provisioner's messages",
                    Some(format!("kubectl describe pvc {name} -n {namespace}")),
                )
            }
        })
    };
    facts.claims.iter().filter_map(cause).collect()
}

/// Returns the cause for a quota without capacity for another pod. Used if no event reports a
/// rejection.
pub(super) fn by_quota(facts: &Facts<'_>) -> Option<Cause> {
    let job = facts.job;
    let requests: Amounts = [("cpu", &job.cpu), ("memory", &job.memory)]
        .into_iter()
        .filter_map(|(resource, text)| {
            Some((resource.to_owned(), quantity::milli(text.as_deref()?)?))
        })
        .collect();
    for quota in facts.quotas.iter().filter(|quota| !quota.scoped) {
        let devices = quota
            .hard
            .keys()
            .filter(|key| is_device(key.trim_start_matches("requests.")))
            .count();
        for (key, hard) in &quota.hard {
            // A ResourceQuota treats `cpu` as `requests.cpu`.
            let resource = key.strip_prefix("requests.").unwrap_or(key);
            let requested = match resource {
                "pods" => 1000,
                // Skip devices if the quota has several kinds, because it is unknown which kind the
                // job requests.
                resource if is_device(resource) && devices > 1 => {
                    continue;
                }
                resource if is_device(resource) => i128::from(job.gpus_per_pod.0) * 1000,
                resource => requests.get(resource).copied().unwrap_or(0),
            };
            let used = quota
                .used
                .get(key)
                .and_then(|used| quantity::milli(used))
                .unwrap_or(0);
            let Some(limit) = quantity::milli(hard) else {
                continue;
            };
            if requested > 0 && used + requested > limit {
                let evidence = format!(
                    "quota {} in {} is used up: {} of {hard} {key} used",
                    quota.name,
                    quota.namespace,
                    quota.used.get(key).map_or("0", String::as_str)
                );
                return Some(Cause::new("quota", evidence, "inventory"));
            }
        }
    }
    None
}
