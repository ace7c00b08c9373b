//! Plans a drain: lists the pods of a node, what each would lose, and which node could take it,
//! largest pods first. It changes nothing.

use crate::concurrent::SideBySide;
use crate::lookup::missing_node;
use gpuctl_cluster::{Connection, LogQuery, PodOnNode, Wanted};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::drain::DrainedPod;
use gpuctl_core::model::{Job, JobKind, Node, Nodes, Pod};
use gpuctl_core::stats::logs::first_error::LogScan;
use gpuctl_diagnosis::keeps_off;
use gpuctl_manifest::render::PodRules;

/// Maximum number of concurrent log reads, and of lines read from each log.
const AT_ONCE: usize = 16;
const LINES: u32 = 5000;

/// Lists the pods that draining the node would end, those with the most GPUs first.
pub(crate) async fn plan(connection: &Connection, name: &str) -> Result<Vec<DrainedPod>, Error> {
    let nodes = match connection.nodes().list().await? {
        // If the user may not list nodes, listing the node's pods fails too, and that error names
        // the reason.
        Nodes::Listed(nodes) | Nodes::Published(nodes) => nodes,
        Nodes::Hidden => Vec::new(),
    };
    // Without the right to list nodes, it is unknown whether the node exists.
    if !nodes.iter().any(|node| node.name == name) && !nodes.is_empty() {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        return Err(missing_node(name, &names));
    }
    let mut pods = connection.nodes().pods_on(name).await?;
    let jobs = connection
        .jobs()
        .list(&Wanted::default())
        .await
        .map(|selection| selection.jobs)
        .unwrap_or_default();
    let room = connection.inventory().room(&nodes).await?;
    // The largest pods are the hardest to place, so they choose their nodes first.
    pods.sort_by(|a, b| {
        b.gpus
            .cmp(&a.gpus)
            .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    });
    let mut free = room.map(|room| room.free).unwrap_or_default();
    let mut found = Vec::new();
    for pod in &pods {
        let rules = PodRules::from_spec(&pod.spec);
        let takes = |node: &&Node| {
            node.name != name
                && free
                    .get(&node.name)
                    .is_some_and(|free| keeps_off(&rules, &pod.requests, node, free).is_empty())
        };
        let to = nodes.iter().find(takes).map(|node| node.name.clone());
        if let Some(left) = to.as_ref().and_then(|to| free.get_mut(to)) {
            // Reserve the capacity, so that the next pod is not placed on the same free GPUs.
            for (resource, amount) in &pod.requests {
                *left.entry(resource.clone()).or_default() -= amount;
            }
        }
        found.push(drained(pod, to, &jobs));
    }
    let read = found.iter().map(|one| checkpoint(connection, one, &jobs));
    let checkpoints = SideBySide::new(read, AT_ONCE).all().await;
    for (one, at) in found.iter_mut().zip(checkpoints) {
        one.checkpoint = at;
    }
    Ok(found)
}

fn own<'j>(jobs: &'j [Job], namespace: &str, pod: &str) -> Option<(&'j Job, &'j Pod)> {
    let in_namespace = jobs.iter().filter(|job| job.namespace == namespace);
    in_namespace
        .into_iter()
        .find_map(|job| Some((job, job.pods.iter().find(|one| one.name == pod)?)))
}

fn drained(pod: &PodOnNode, to: Option<String>, jobs: &[Job]) -> DrainedPod {
    let own = own(jobs, &pod.namespace, &pod.name);
    // Ranks of a training depend on each other, so the other pods of the job end as well.
    let gang = own.filter(|(job, _)| job.kind == JobKind::Training);
    DrainedPod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        job: own.map(|(job, _)| job.name.clone()),
        rank: own.and_then(|(_, pod)| pod.rank),
        gpus: pod.gpus,
        since: pod.since,
        checkpoint: None,
        moves_to: to,
        peers: gang.map_or(0, |(job, _)| job.pods_wanted.saturating_sub(1)),
    }
}

/// Reads when a training last logged that it saved a checkpoint.
async fn checkpoint(
    connection: &Connection,
    one: &DrainedPod,
    jobs: &[Job],
) -> Option<jiff::Timestamp> {
    let (job, pod) = own(jobs, &one.namespace, &one.name)?;
    if job.kind != JobKind::Training {
        return None;
    }
    let query = LogQuery {
        container: pod.own_container().to_owned(),
        tail: Some(LINES),
        ..LogQuery::default()
    };
    let lines = connection
        .logs()
        .read(&one.namespace, &one.name, &query)
        .await
        .ok()?
        .lines;
    let mut scan = LogScan::default();
    lines.iter().for_each(|line| scan.take(line.at, &line.text));
    scan.finish().checkpoint
}
