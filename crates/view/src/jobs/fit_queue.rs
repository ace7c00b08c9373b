//! Renders the simulated admission of a job by its Kueue queue, a part of `fit`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::{clean, count};
use gpuctl_core::model::counting::admission::{
    Admits, FlavorShare, MissingQuota, QueueAdmission, quota_amount,
};

/// Maximum number of waiting jobs that are named.
const SHOWN: usize = 4;

/// Whether a Kueue queue admits the job. Amounts are Kubernetes quantities, such as `8`, `500m` and
/// `64Gi`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionItem<'a> {
    name: &'a str,
    /// `null` if the queue does not exist or cannot be read.
    cluster_queue: Option<&'a str>,
    /// `null` if the ClusterQueue is in no cohort or cannot be read.
    cohort: Option<&'a str>,
    /// One of `now`, `borrowing` (now, with quota of the cohort), `preempting` (after other jobs
    /// are preempted), `later` (when quota is free or the queue is started), `never` and `unknown`.
    admits: &'static str,
    /// Quota that the job gets, by flavor and resource. Empty if it gets none.
    flavors: Vec<QuotaShareItem<'a>>,
    /// Quota that the job lacks in each flavor that Kueue tries. Empty if it lacks none.
    missing: Vec<QuotaLackItem<'a>>,
    /// Jobs that Kueue would preempt, as NAMESPACE/NAME.
    preempts: &'a [String],
    /// Jobs that wait before it in the ClusterQueue, as NAMESPACE/NAME, first to last. Only those
    /// that you can list.
    ahead: &'a [String],
    /// Conditions of Kueue that were not checked.
    not_evaluated: Vec<&'a str>,
}

#[derive(JsonSchema, Serialize)]
struct QuotaShareItem<'a> {
    flavor: &'a str,
    resource: &'a str,
    /// Request of all pods.
    requested: String,
    /// Quota of the ClusterQueue without borrowing.
    nominal: String,
    /// Quota in use before this job.
    used: String,
    /// Part of the request that is borrowed from the cohort.
    borrowed: String,
}

#[derive(JsonSchema, Serialize)]
struct QuotaLackItem<'a> {
    resource: &'a str,
    /// `null` if no flavor of the ClusterQueue has the resource.
    flavor: Option<&'a str>,
    /// Amount that must become free, or that exceeds the maximum if the job never fits.
    amount: String,
    /// Maximum that the ClusterQueue can use if nothing else runs.
    most: String,
}

pub(super) fn admission_item(queue: &QueueAdmission) -> AdmissionItem<'_> {
    AdmissionItem {
        name: &queue.queue,
        cluster_queue: queue.cluster_queue.as_deref(),
        cohort: queue.cohort.as_deref(),
        admits: queue.admits.word(),
        flavors: queue.flavors.iter().map(flavor_item).collect(),
        missing: queue.missing.iter().map(missing_item).collect(),
        preempts: &queue.preempts,
        ahead: &queue.ahead,
        not_evaluated: queue
            .not_evaluated
            .iter()
            .map(|reason| reason.text.as_str())
            .collect(),
    }
}

fn flavor_item(share: &FlavorShare) -> QuotaShareItem<'_> {
    let resource = share.quota.resource.as_str();
    let amount = |milli| quota_amount(resource, milli);
    QuotaShareItem {
        flavor: &share.quota.flavor,
        resource,
        requested: amount(share.requested),
        nominal: amount(share.nominal),
        used: amount(share.used),
        borrowed: amount(share.borrowed),
    }
}

fn missing_item(missing: &MissingQuota) -> QuotaLackItem<'_> {
    let resource = missing.resource.as_str();
    QuotaLackItem {
        resource,
        flavor: missing.flavor.as_deref(),
        amount: quota_amount(resource, missing.amount),
        most: quota_amount(resource, missing.most),
    }
}

/// Renders an admission, and the jobs that wait before this one. The reasons of other verdicts are
/// lines of `fit`.
pub(super) fn queue_lines(queue: &QueueAdmission) -> Vec<String> {
    let name = clean(&queue.queue);
    let mut lines = Vec::new();
    match queue.admits {
        Admits::Now => {
            let flavors = queue.flavor_names().join(", ");
            let flavors = match flavors.as_str() {
                "" => String::new(),
                flavors => format!(", flavor {}", clean(flavors)),
            };
            lines.push(format!("queue {name}: admits it now{flavors}"));
        }
        Admits::Borrowing => {
            let borrowed = queue.flavors.iter().filter(|share| share.borrowed > 0);
            let part = |share: &FlavorShare| {
                let resource = &share.quota.resource;
                let amount = quota_amount(resource, share.borrowed);
                format!(
                    "{amount} {} of flavor {}",
                    clean(resource),
                    clean(&share.quota.flavor)
                )
            };
            let parts: Vec<String> = borrowed.map(part).collect();
            let cohort = queue.cohort.as_deref().map(clean).unwrap_or_default();
            let parts = parts.join(", ");
            lines.push(format!(
                "queue {name}: admits it now, borrowing {parts} from cohort {cohort}"
            ));
        }
        Admits::Preempting | Admits::Later | Admits::Unknown | Admits::Never => {}
    }
    if !queue.ahead.is_empty() && queue.admits != Admits::Never {
        let mut names: Vec<String> = queue
            .ahead
            .iter()
            .take(SHOWN)
            .map(|job| clean(job).into_owned())
            .collect();
        let more = queue.ahead.len().saturating_sub(SHOWN);
        names.extend((more > 0).then(|| format!("{more} more")));
        let jobs = count(queue.ahead.len() as u64, "job");
        lines.push(format!(
            "queue {name}: {jobs} before it ({})",
            names.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use gpuctl_core::model::counting::admission::FlavorResource;

    use super::*;

    fn admission(admits: Admits, borrowed: i128) -> QueueAdmission {
        QueueAdmission {
            queue: "research".to_owned(),
            cluster_queue: Some("science".to_owned()),
            cohort: Some("all".to_owned()),
            admits,
            flavors: vec![FlavorShare {
                quota: FlavorResource::new("gpus", "nvidia.com/gpu"),
                requested: 8000,
                nominal: 8000,
                used: 4000,
                borrowed,
            }],
            missing: Vec::new(),
            preempts: Vec::new(),
            ahead: Vec::new(),
            reasons: Vec::new(),
            not_evaluated: Vec::new(),
        }
    }

    #[test]
    fn an_admission_names_flavors_and_borrowed_quota() {
        let now = queue_lines(&admission(Admits::Now, 0));
        assert_eq!(now, ["queue research: admits it now, flavor gpus"]);
        let borrowing = queue_lines(&admission(Admits::Borrowing, 4000));
        let expected = "queue research: admits it now, borrowing 4 nvidia.com/gpu of flavor gpus from cohort all";
        assert_eq!(borrowing, [expected]);
    }

    #[test]
    fn waiting_jobs_are_named_up_to_a_limit() {
        let mut later = admission(Admits::Later, 0);
        later.ahead = (0..6).map(|index| format!("n/job-{index}")).collect();
        let expected =
            "queue research: 6 jobs before it (n/job-0, n/job-1, n/job-2, n/job-3, 2 more)";
        assert_eq!(queue_lines(&later), [expected]);
    }

    #[test]
    fn json_has_quantities() {
        let admission = admission(Admits::Borrowing, 4000);
        let item = serde_json::to_value(admission_item(&admission)).unwrap();
        assert_eq!(item["admits"], "borrowing");
        let expected = serde_json::json!({"flavor": "gpus", "resource": "nvidia.com/gpu", "requested": "8",
            "nominal": "8", "used": "4", "borrowed": "4"});
        assert_eq!(item["flavors"][0], expected);
    }
}
