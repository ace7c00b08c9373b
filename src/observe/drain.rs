//! Plans a drain without changing anything. For each pod on a node, estimates what the drain would
//! cost and finds a node with capacity for the pod.

use crate::concurrent::OrderedConcurrent;
use crate::lookup::missing_node;
use gpuctl_cluster::{Connection, JobFilter, LogQuery, PodOnNode};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::drain::DrainedPod;
use gpuctl_core::model::values::natural::full_name;
use gpuctl_core::model::{Job, JobKind, Node, Nodes, Pod};
use gpuctl_core::stats::logs::first_error::LogScan;
use gpuctl_diagnosis::node_obstacles;
use gpuctl_manifest::render::PodRules;

/// Number of logs to read concurrently, and the maximum number of lines per log.
const MAX_CONCURRENT: usize = 16;
const MAX_LINES: u32 = 5000;

/// Lists the pods that a drain would terminate, largest first.
pub(crate) async fn plan(connection: &Connection, name: &str) -> Result<Vec<DrainedPod>, Error> {
    let nodes = match connection.nodes().list().await? {
        // Continue: listing the node's pods will fail too, with an error that states the missing
        // permission.
        Nodes::Listed(nodes) | Nodes::Published(nodes) => nodes,
        Nodes::Hidden => Vec::new(),
    };
    // Without permission to list nodes, it is unknown whether the node exists.
    if !nodes.iter().any(|node| node.name == name) && !nodes.is_empty() {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        return Err(missing_node(name, &names));
    }
    let mut pods = connection.nodes().pods_on(name).await?;
    let jobs = connection
        .jobs()
        .list(&JobFilter::default())
        .await
        .map(|selection| selection.jobs)
        .unwrap_or_default();
    let capacity = connection.inventory().capacity(&nodes).await?;
    // Place the largest pods first, because they fit on the fewest nodes.
    pods.sort_by(|a, b| {
        b.gpus
            .cmp(&a.gpus)
            .then_with(|| full_name(&a.namespace, &a.name).cmp(&full_name(&b.namespace, &b.name)))
    });
    let mut free = capacity.map(|capacity| capacity.free).unwrap_or_default();
    let mut drained = Vec::new();
    for pod in &pods {
        let rules = PodRules::from_spec(&pod.spec);
        let accepts = |node: &&Node| {
            node.name != name
                && free.get(&node.name).is_some_and(|free| {
                    node_obstacles(&rules, &pod.requests, node, free).is_empty()
                })
        };
        let target = nodes.iter().find(accepts).map(|node| node.name.clone());
        if let Some(remaining) = target.as_ref().and_then(|target| free.get_mut(target)) {
            // Reserve the capacity, so that the next pod is not placed on the same GPUs.
            for (resource, amount) in &pod.requests {
                *remaining.entry(resource.clone()).or_default() -= amount;
            }
        }
        drained.push(drained_pod(pod, target, &jobs));
    }
    let reads = drained
        .iter()
        .map(|drained_pod| checkpoint(connection, drained_pod, &jobs));
    let checkpoints = OrderedConcurrent::new(reads, MAX_CONCURRENT).all().await;
    for (drained_pod, checkpoint) in drained.iter_mut().zip(checkpoints) {
        drained_pod.checkpoint = checkpoint;
    }
    Ok(drained)
}

fn find_pod<'j>(jobs: &'j [Job], namespace: &str, pod: &str) -> Option<(&'j Job, &'j Pod)> {
    let in_namespace = jobs.iter().filter(|job| job.namespace == namespace);
    in_namespace.into_iter().find_map(|job| {
        Some((
            job,
            job.pods.iter().find(|candidate| candidate.name == pod)?,
        ))
    })
}

fn drained_pod(pod: &PodOnNode, target: Option<String>, jobs: &[Job]) -> DrainedPod {
    let owner = find_pod(jobs, &pod.namespace, &pod.name);
    // Ranks of a training depend on each other, so draining one pod ends the whole job.
    let gang = owner.filter(|(job, _)| job.kind == JobKind::Training);
    DrainedPod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        job: owner.map(|(job, _)| job.name.clone()),
        rank: owner.and_then(|(_, pod)| pod.rank),
        gpus: pod.gpus,
        since: pod.since,
        checkpoint: None,
        moves_to: target,
        peers: gang.map_or(0, |(job, _)| job.pods_wanted.saturating_sub(1)),
    }
}

/// Returns when a training last logged a saved checkpoint.
async fn checkpoint(
    connection: &Connection,
    drained_pod: &DrainedPod,
    jobs: &[Job],
) -> Option<jiff::Timestamp> {
    let (job, pod) = find_pod(jobs, &drained_pod.namespace, &drained_pod.name)?;
    if job.kind != JobKind::Training {
        return None;
    }
    let query = LogQuery {
        container: pod.own_container().to_owned(),
        tail: Some(MAX_LINES),
        ..LogQuery::default()
    };
    let lines = connection
        .logs()
        .read(&drained_pod.namespace, &drained_pod.name, &query)
        .await
        .ok()?
        .lines;
    let mut scan = LogScan::default();
    lines.iter().for_each(|line| scan.take(line.at, &line.text));
    scan.finish().checkpoint
}
