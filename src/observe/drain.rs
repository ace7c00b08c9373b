//! Plans a drain. Lists the pods on a node, the largest first, with what each would lose and which
//! node could take it. Changes nothing.

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

/// Maximum number of logs to read concurrently, and of lines to read from each log.
const MAX_CONCURRENT: usize = 16;
const MAX_LINES: u32 = 5000;

/// Lists the pods that draining the node would terminate, largest first.
pub(crate) async fn plan(connection: &Connection, name: &str) -> Result<Vec<DrainedPod>, Error> {
    let nodes = match connection.nodes().list().await? {
        // If the user may not list nodes, listing the node's pods also fails, and that error states
        // the reason.
        Nodes::Listed(nodes) | Nodes::Published(nodes) => nodes,
        Nodes::Hidden => Vec::new(),
    };
    // If the user may not list nodes, it is unknown whether the node exists.
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
    // The largest pods are the hardest to place, so they are the first to choose a node.
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
            // Reserve the capacity, so that the next pod is not placed on the same free GPUs.
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
    // The ranks of a training depend on each other, so the job's other pods end as well.
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

/// Reads the time at which a training last logged that it had saved a checkpoint.
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
