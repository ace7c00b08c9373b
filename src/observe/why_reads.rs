//! Reads a job's data from the API server for `why`.

use futures::future::join5;

use crate::observe::node_capacity::NodeCapacity;
use gpuctl_cluster::{Connection, UnplacedPod, requests, unless_forbidden};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::device_claims::DeviceClaims;
use gpuctl_core::model::{Event, Job, JobKind, Nodes, Pod, QuotaUse, State, Status};
use gpuctl_diagnosis::PendingPod;
use gpuctl_manifest::render::PodRules;

/// Exit code of a container that SIGKILL ended (128 + 9).
const SIGKILL_EXIT_CODE: i32 = 137;

/// Returns true if a pod of the job is not scheduled yet.
pub(crate) fn has_unscheduled_pod(job: &Job) -> bool {
    job.pods
        .iter()
        .any(|pod| pod.node.is_none() && !pod.ended())
}

/// A job's data from the API server.
pub(crate) struct ApiReads {
    /// `None` if the user may not list events.
    pub events: Option<Vec<Event>>,
    pub unplaced: Option<UnplacedPod>,
    /// `None` if the caller has already read the nodes.
    pub capacity: Option<NodeCapacity>,
    pub quotas: Vec<QuotaUse>,
    /// False if the user may not read the namespace.
    pub namespace_terminating: bool,
}

impl ApiReads {
    /// Reads all data concurrently, but the nodes only if `with_nodes` is true.
    pub(crate) async fn read(
        connection: &Connection,
        job: &Job,
        with_nodes: bool,
    ) -> Result<Self, Error> {
        let has_living_pods = !job.pods.iter().all(Pod::ended);
        let capacity = async {
            Ok::<_, Error>(match (with_nodes, has_unscheduled_pod(job)) {
                (false, _) => None,
                (true, true) => Some(NodeCapacity::read(connection).await?),
                // A scheduled pod may be waiting for its node, or its node may be deleted.
                (true, false) if has_living_pods => {
                    Some(NodeCapacity::read_nodes(connection).await?)
                }
                (true, false) => Some(NodeCapacity::hidden()),
            })
        };
        // If every pod has ended, a quota may prevent the creation of new ones.
        let needs_quotas =
            job.pods.iter().all(Pod::ended) && job.create_failure.is_none() && !job.suspended;
        let quotas = async {
            if needs_quotas {
                let quotas = connection.quotas().list(Some(&job.namespace)).await;
                quotas.unwrap_or_default()
            } else {
                Vec::new()
            }
        };
        // Namespaces are readable for few users, and only missing pods depend on their state.
        let is_steady = State::from_job(job).status == Status::Running && !has_unscheduled_pod(job);
        let namespace_terminating = async {
            let namespaces = connection.namespaces();
            !is_steady
                && namespaces
                    .is_terminating(&job.namespace)
                    .await
                    .unwrap_or(false)
        };
        let (events, unplaced, capacity, quotas, namespace_terminating) = join5(
            connection.events().for_job(job),
            connection.jobs().unplaced(job),
            capacity,
            quotas,
            namespace_terminating,
        )
        .await;
        let mut events = unless_forbidden(events)?;
        if let (Some(events), Some(node)) = (&mut events, node_of_killed_container(job)) {
            events.extend(connection.events().for_node(node).await.unwrap_or_default());
        }
        Ok(Self {
            events,
            capacity: capacity?,
            unplaced: unplaced?,
            quotas,
            namespace_terminating,
        })
    }
}

/// Reads the devices that the unscheduled pod claims.
pub(crate) async fn device_claims(
    connection: &Connection,
    job: &Job,
    pod: Option<&UnplacedPod>,
    nodes: &Nodes,
) -> DeviceClaims {
    let spec = pod.and_then(|pod| pod.spec.as_ref());
    let Some(spec) = spec else {
        return DeviceClaims::None;
    };
    let Nodes::Listed(nodes) = nodes else {
        if !spec["resourceClaims"].is_array() {
            return DeviceClaims::None;
        }
        return DeviceClaims::NotEvaluated(
            "device claims: you are not allowed to list nodes".to_owned(),
        );
    };
    match connection
        .devices()
        .device_claims(&job.namespace, spec, &[], nodes)
        .await
    {
        // Once the claim exists, its template is no longer needed.
        Ok(DeviceClaims::TemplateMissing(_)) if pod.is_some_and(|pod| pod.claims_made) => {
            DeviceClaims::NotEvaluated("device claims whose template was deleted".to_owned())
        }
        Ok(devices) => devices,
        Err(failure) => DeviceClaims::NotEvaluated(format!("device claims: {failure}")),
    }
}

/// Builds the facts about the unscheduled pod from its spec.
pub(crate) fn pending_pod(pod: UnplacedPod, job: &Job) -> PendingPod {
    let model_pod = job.pods.iter().find(|model_pod| model_pod.name == pod.name);
    let spec = pod.spec.unwrap_or_default();
    let pod_manifest = serde_json::json!({"spec": spec});
    // The Kubernetes scheduler places the pods of a scheduling group as a gang.
    let is_gang = spec["schedulingGroup"].is_object() && job.kind == JobKind::Training;
    // Volcano creates a PodGroup for every Job, and places `members` of its pods together.
    let members = pod.group.as_ref().and_then(|group| group.members);
    PendingPod {
        created_at: pod.created_at,
        rules: PodRules::from_spec(&spec),
        requests: requests(&pod_manifest),
        nominated: pod.nominated,
        unscheduled: model_pod.and_then(|model_pod| model_pod.unscheduled.clone()),
        together: if is_gang {
            u64::from(job.pods_wanted)
        } else {
            members.unwrap_or(1)
        },
        name: pod.name,
        group: pod.group,
    }
}

/// Returns the node of a container that was killed without exceeding its own memory limit: the node
/// may have run out of memory.
fn node_of_killed_container(job: &Job) -> Option<&str> {
    let killed = |pod: &&Pod| {
        pod.containers
            .iter()
            .filter_map(|container| container.terminated.as_ref())
            .any(|end| end.code == SIGKILL_EXIT_CODE && end.reason != "OOMKilled")
    };
    job.pods.iter().find(killed)?.node.as_deref()
}
