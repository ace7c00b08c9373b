//! Simulates the admission of a job by its Kueue queue, and adds the rules of the assigned flavors
//! to its pods, as Kueue does.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join3;
use serde_json::{Value, json};

use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Connection, PriorityValue, requests, unless_forbidden};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::admission::{
    AdmissionRequest, OpenQueue, PodSetRequest, QueueAdmission, QueueFacts, QueueState, admission,
};
use gpuctl_core::model::counting::fit_reason::FitReason;
use gpuctl_core::model::{JobKind, QueueSystem};
use gpuctl_manifest::render::{flavor_exclusions, pods_in_all, with_flavors};

/// Label of a job with a priority for Kueue alone.
const QUEUE_PRIORITY: &str = "kueue.x-k8s.io/priority-class";

/// The simulated admission, and its effect on the pods.
pub(super) struct AdmissionPrediction {
    pub admission: QueueAdmission,
    /// The spec of the pods after admission.
    pub spec: Value,
}

/// Simulates the admission of a job with a Kueue queue. Returns `None` for other jobs.
pub(super) async fn predict_admission(
    plan: &Plan,
    connection: &Connection,
) -> Result<Option<AdmissionPrediction>, Error> {
    let document = job(&plan.input).filter(|_| plan.target.queueing == Some(QueueSystem::Kueue));
    let Some((document, queue)) = document.and_then(|job| Some((job, job.queue.as_ref()?))) else {
        return Ok(None);
    };
    let namespace = &plan.target.namespace;
    let (facts, defaults, classes) = try_join3(
        connection.queues().admission_facts(namespace, queue),
        connection.queues().default_requests(namespace),
        async { unless_forbidden(connection.inventory().priority_values().await) },
    )
    .await?;
    let pod = with_default_requests(&plan.rendered.probe.body, defaults.as_ref());
    let mut set = PodSetRequest {
        pods: u64::from(pods_in_all(document)),
        requests: requests(&pod),
        exclusions: BTreeMap::new(),
    };
    let rules = open_queue(&facts).and_then(|open| {
        let own = open.cluster_queues.get(facts.cluster_queue.as_deref()?)?;
        Some((&own.groups, open.flavors.as_ref()?))
    });
    if let Some((groups, flavors)) = rules {
        set.exclusions = flavor_exclusions(&pod["spec"], groups, flavors);
    }
    let mut answer = admission(
        &facts,
        &AdmissionRequest {
            workloads: workloads(document.kind, set),
            priority: priority(plan, classes.as_deref()),
        },
    );
    let unknown = unknown_conditions(plan, document.kind, defaults.is_none());
    answer.not_evaluated.extend(unknown);
    let spec = placed_spec(&pod["spec"], &facts, &mut answer);
    Ok(Some(AdmissionPrediction {
        admission: answer,
        spec,
    }))
}

fn open_queue(facts: &QueueFacts) -> Option<&OpenQueue> {
    match &facts.state {
        QueueState::Open(open) => Some(open),
        QueueState::Missing(_) | QueueState::Inactive(_) | QueueState::Unreadable(_) => None,
    }
}

/// Kueue admits a Job as a whole, but each pod of a Deployment separately.
fn workloads(kind: JobKind, set: PodSetRequest) -> Vec<Vec<PodSetRequest>> {
    match kind {
        JobKind::Training | JobKind::Notebook => vec![vec![set]],
        JobKind::Inference | JobKind::Compute => {
            let pods = usize::try_from(set.pods).unwrap_or(usize::MAX);
            vec![vec![PodSetRequest { pods: 1, ..set }]; pods]
        }
    }
}

/// Adds the requests that LimitRanges give to containers without requests, as Kueue does.
fn with_default_requests(pod: &Value, defaults: Option<&BTreeMap<String, String>>) -> Value {
    let mut pod = pod.clone();
    for list in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for (resource, amount) in defaults.into_iter().flatten() {
                let has = |kind: &str| {
                    let amounts = container.get("resources").and_then(|all| all.get(kind));
                    amounts.and_then(|amounts| amounts.get(resource)).is_some()
                };
                if !has("requests") && !has("limits") {
                    container["resources"]["requests"][resource] = json!(amount);
                }
            }
        }
    }
    pod
}

/// Returns the job's priority, or `None` if it depends on an object that cannot be read. `classes`
/// is `None` if the user cannot list PriorityClasses.
fn priority(plan: &Plan, classes: Option<&[PriorityValue]>) -> Option<i64> {
    let owner = plan.rendered.objects.last()?;
    if owner.body["metadata"]["labels"]
        .get(QUEUE_PRIORITY)
        .is_some()
    {
        return None;
    }
    let name = plan.rendered.probe.body["spec"]["priorityClassName"].as_str();
    let Some(name) = name else {
        let default = classes?.iter().find(|class| class.is_default);
        return Some(default.map_or(0, |class| class.value));
    };
    let has_name = |class: &&PriorityValue| class.name == name;
    let existing = classes.and_then(|classes| classes.iter().find(has_name));
    // The class may be created together with the job.
    let created = || {
        let mut bodies = plan.rendered.objects.iter().map(|object| &object.body);
        let class = bodies
            .find(|body| body["kind"] == "PriorityClass" && body["metadata"]["name"] == name)?;
        class["value"].as_i64()
    };
    existing.map(|class| class.value).or_else(created)
}

/// Lists conditions of Kueue that depend on its configuration.
fn unknown_conditions(plan: &Plan, kind: JobKind, without_defaults: bool) -> Vec<FitReason> {
    let integration = match kind {
        JobKind::Training => None,
        JobKind::Inference | JobKind::Compute => Some("deployments"),
        JobKind::Notebook => Some("statefulsets"),
    };
    let integration =
        integration.map(|kind| format!("whether Kueue manages {kind} on this cluster"));
    let claims = plan.rendered.probe.body["spec"]["resourceClaims"].as_array();
    let claims = claims.filter(|claims| !claims.is_empty());
    let claims = claims.map(|_| "quota of claimed devices in Kueue".to_owned());
    let defaults = without_defaults.then(|| {
        "default requests of containers: you are not allowed to list limitranges".to_owned()
    });
    let texts = integration.into_iter().chain(claims).chain(defaults);
    texts.map(|text| FitReason::new("queue", text)).collect()
}

/// Returns the pod spec with the rules of the assigned flavors. Pods of one job can get different
/// flavors, for which one comparison with the nodes does not suffice.
fn placed_spec(spec: &Value, facts: &QueueFacts, answer: &mut QueueAdmission) -> Value {
    let resources: BTreeSet<&str> = answer
        .flavors
        .iter()
        .map(|share| share.quota.resource.as_str())
        .collect();
    if resources.len() < answer.flavors.len() {
        let text = "nodes, because pods of the job get different flavors".to_owned();
        answer.not_evaluated.push(FitReason::new("queue", text));
        return spec.clone();
    }
    let flavors = open_queue(facts).and_then(|open| open.flavors.as_ref());
    let names = answer.flavor_names().into_iter();
    with_flavors(spec, names.filter_map(|name| flavors?.get(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_ranges_give_requests_to_containers_without_any() {
        let containers = json!([
            {"name": "a", "resources": {"limits": {"cpu": "4"}}},
            {"name": "b", "resources": {"requests": {"cpu": "1"}}},
            {"name": "c"},
        ]);
        let defaults = BTreeMap::from([("cpu".to_owned(), "500m".to_owned())]);
        let pod = json!({"spec": {"containers": containers}});
        // 4 + 1 + 0.5 = 5.5 CPUs.
        let requests = requests(&with_default_requests(&pod, Some(&defaults)));
        assert_eq!(requests["cpu"], 5500);
    }

    #[test]
    fn pods_of_services_are_admitted_one_by_one() {
        let set = PodSetRequest {
            pods: 3,
            ..PodSetRequest::default()
        };
        assert_eq!(workloads(JobKind::Training, set.clone()).len(), 1);
        let of_service = workloads(JobKind::Inference, set);
        assert_eq!((of_service.len(), of_service[0][0].pods), (3, 1));
    }
}
