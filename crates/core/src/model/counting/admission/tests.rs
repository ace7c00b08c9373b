//! Tests the simulation with numbers small enough to check by hand. Each test writes out its
//! calculation. Amounts are GPUs.

mod cohorts;
mod flavors;
mod preemption;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const GPU: &str = "nvidia.com/gpu";

fn of(flavor: &str) -> FlavorResource {
    FlavorResource::new(flavor, GPU)
}

fn gpus(flavor: &str, count: i128) -> FlavorAmounts {
    FlavorAmounts::from([(of(flavor), count * 1000)])
}

fn quota(nominal: i128) -> FlavorQuota {
    FlavorQuota {
        nominal: nominal * 1000,
        ..FlavorQuota::default()
    }
}

fn limits(nominal: i128, borrowing: Option<i128>, lending: Option<i128>) -> FlavorQuota {
    FlavorQuota {
        nominal: nominal * 1000,
        borrowing_limit: borrowing.map(|limit| limit * 1000),
        lending_limit: lending.map(|limit| limit * 1000),
    }
}

/// A ClusterQueue with GPUs in these flavors: name, quota, and used GPUs.
fn cluster_queue(flavors: &[(&str, FlavorQuota, i128)]) -> ClusterQueue {
    ClusterQueue {
        groups: vec![ResourceGroup {
            resources: BTreeSet::from([GPU.to_owned()]),
            flavors: flavors
                .iter()
                .map(|(name, ..)| (*name).to_owned())
                .collect(),
        }],
        quotas: flavors
            .iter()
            .map(|(name, quota, _)| (of(name), *quota))
            .collect(),
        usage: Some(
            flavors
                .iter()
                .map(|(name, _, used)| (of(name), used * 1000))
                .collect(),
        ),
        waiting: Some(0),
        ..ClusterQueue::default()
    }
}

fn in_cohort(cohort: &str, queue: ClusterQueue) -> ClusterQueue {
    ClusterQueue {
        cohort: Some(cohort.to_owned()),
        ..queue
    }
}

/// An open queue, whose own ClusterQueue is `own`.
fn open(queues: &[(&str, ClusterQueue)]) -> OpenQueue {
    let names = queues.iter().flat_map(|(_, queue)| &queue.groups);
    let names = names.flat_map(|group| group.flavors.clone());
    OpenQueue {
        cluster_queues: queues
            .iter()
            .map(|(name, queue)| ((*name).to_owned(), queue.clone()))
            .collect(),
        cohorts: Some(BTreeMap::new()),
        flavors: Some(
            names
                .map(|name| (name, ResourceFlavor::default()))
                .collect(),
        ),
        accepts_namespace: Some(true),
        reserved: Some(Vec::new()),
        ..OpenQueue::default()
    }
}

fn pods(pods: u64, gpus: i128) -> PodSetRequest {
    PodSetRequest {
        pods,
        requests: BTreeMap::from([(GPU.to_owned(), gpus * 1000)]),
        exclusions: BTreeMap::new(),
    }
}

fn facts(open: OpenQueue) -> QueueFacts {
    QueueFacts {
        name: "research".to_owned(),
        cluster_queue: Some("own".to_owned()),
        state: QueueState::Open(Box::new(open)),
    }
}

fn simulate(open: OpenQueue, priority: i64, workloads: &[&[PodSetRequest]]) -> QueueAdmission {
    let request = AdmissionRequest {
        workloads: workloads.iter().map(|sets| sets.to_vec()).collect(),
        priority: Some(priority),
    };
    admission(&facts(open), &request)
}

/// Simulates a job with one pod set and priority 0.
fn job(open: OpenQueue, set: PodSetRequest) -> QueueAdmission {
    simulate(open, 0, &[&[set]])
}

fn causes(answer: &QueueAdmission) -> Vec<&str> {
    answer
        .reasons
        .iter()
        .map(|reason| reason.cause.as_ref())
        .collect()
}

fn reserved(name: &str, queue: &str, priority: i64, usage: FlavorAmounts) -> ReservedJob {
    ReservedJob {
        name: name.to_owned(),
        uid: name.to_owned(),
        cluster_queue: queue.to_owned(),
        priority,
        usage,
        ..ReservedJob::default()
    }
}
