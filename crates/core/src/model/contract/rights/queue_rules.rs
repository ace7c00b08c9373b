//! Permissions for commands that work on queues and quotas.

use super::RightScope::{Cluster, Namespace};
use super::Rule;
use super::rules::{LIST, PRUNING, rule};

pub const QUEUES: &[Rule] = &[
    rule(Namespace, "kueue.x-k8s.io", "localqueues", LIST),
    rule(Namespace, "kueue.x-k8s.io", "workloads", LIST).or("`--preemptions`"),
    rule(Namespace, "", "events", LIST).or("`--preemptions`"),
    // Without these permissions, a list of queues lacks only the GPU usage.
    rule(Namespace, "batch", "jobs", LIST).when("`--preemptions`"),
    rule(Namespace, "", "pods", LIST).when("`--preemptions`"),
    rule(Cluster, "kueue.x-k8s.io", "clusterqueues", LIST).or("quotas of Kueue queues"),
    rule(Cluster, "scheduling.volcano.sh", "queues", LIST).or("queues of Volcano"),
];
pub const QUOTAS: &[Rule] = &[rule(Namespace, "", "resourcequotas", LIST)];
pub const STALE_QUOTA: &[Rule] = &[
    rule(Cluster, "", "resourcequotas", LIST).or("other namespaces where it applies"),
    rule(Namespace, "", "limitranges", &["delete"]).or(PRUNING),
];
pub const DELETE_QUOTA: &[Rule] = &[
    rule(Namespace, "", "resourcequotas", &["list", "get", "delete"]),
    rule(Namespace, "", "limitranges", &["get", "delete"]),
];
