//! Permissions for commands that work on nodes, pools, quotas, defaults and Prometheus.

use super::RightScope::{Cluster, Home, Namespace};
use super::rules::{DEVICE_CLASSES, LIST, LIVE_UPDATES, MAKE, WATCH, rule};
use super::{Right, Rule};

pub const QUOTA: &[Rule] = &[
    rule(Namespace, "", "namespaces", &["get"]),
    rule(Namespace, "", "resourcequotas", MAKE),
    rule(Namespace, "", "limitranges", MAKE),
    rule(Cluster, "", "namespaces", &["create", "patch"]).when("missing namespaces"),
    rule(Cluster, "", "nodes", LIST).or("GPUs from vendors other than NVIDIA"),
];

/// Permissions to compute free capacity, which depends on all pods.
pub const FREE: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "devicetaintrules", LIST).or("taints of devices"),
];

/// Permissions to simulate the drain of a node.
pub const DRAIN: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST),
    rule(Cluster, "batch", "jobs", LIST).or("the jobs of the pods"),
    rule(Cluster, "", "pods/log", &["get"]).or("when trainings saved their last checkpoint"),
];

const VOLUMES_OF_JOBS: &str = "which nodes the job's volumes allow";

const SPACE_OF_VOLUMES: &str = "which nodes have space for the job's volumes";

const ADMISSION: &str = "whether a Kueue queue admits the job";

const WAITING_IN_QUEUES: &str = "which jobs wait in a Kueue queue, and which it would preempt";

/// Checking whether a job fits.
pub const FIT: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST),
    rule(Namespace, "", "resourcequotas", LIST).or("quotas"),
    rule(Namespace, "", "persistentvolumeclaims", &["get"]).or(VOLUMES_OF_JOBS),
    rule(Cluster, "", "persistentvolumes", &["get", "list"]).or(VOLUMES_OF_JOBS),
    rule(Cluster, "storage.k8s.io", "storageclasses", LIST).or(VOLUMES_OF_JOBS),
    rule(Cluster, "storage.k8s.io", "csinodes", LIST).or(VOLUMES_OF_JOBS),
    rule(Cluster, "storage.k8s.io", "csidrivers", &["get"]).or(SPACE_OF_VOLUMES),
    rule(Cluster, "storage.k8s.io", "csistoragecapacities", LIST).or(SPACE_OF_VOLUMES),
    rule(Home, "", "configmaps", &["get"]).or("the pool's quota, and the site's defaults"),
    rule(Cluster, "", "namespaces", &["get"]).or("variables in the site's defaults"),
    rule(
        Cluster,
        "rbac.authorization.k8s.io",
        "clusterroles",
        &["get"],
    )
    .or("variables in the site's defaults"),
    rule(Namespace, "kueue.x-k8s.io", "localqueues", LIST).or("checking `job.queue`"),
    rule(Cluster, "kueue.x-k8s.io", "localqueues", LIST).or(WAITING_IN_QUEUES),
    rule(Cluster, "kueue.x-k8s.io", "workloads", LIST).or(WAITING_IN_QUEUES),
    rule(Cluster, "kueue.x-k8s.io", "clusterqueues", LIST).or(ADMISSION),
    rule(Cluster, "kueue.x-k8s.io", "cohorts", LIST).or(ADMISSION),
    rule(Cluster, "kueue.x-k8s.io", "resourceflavors", LIST).or(ADMISSION),
    rule(Namespace, "", "limitranges", LIST).or(ADMISSION),
    rule(Cluster, "scheduling.volcano.sh", "queues", LIST).or("checking `job.queue`"),
    rule(
        Cluster,
        "scheduling.k8s.io",
        "priorityclasses",
        &["get", "list"],
    )
    .or("which pods would be preempted"),
    rule(Namespace, "batch", "jobs", &["get"]).or("deadlines of jobs that hold GPUs"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "devicetaintrules", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "deviceclasses", DEVICE_CLASSES)
        .or("devices claimed through DRA"),
];

pub const HOLDERS: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST).or("the number of GPUs in use"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "devicetaintrules", LIST).or("taints of devices"),
    rule(Cluster, "", "nodes", WATCH).or(LIVE_UPDATES),
    rule(Cluster, "", "pods", WATCH).or(LIVE_UPDATES),
];

pub const NODES: &[Rule] = &[rule(Cluster, "", "nodes", LIST)];

/// Permissions to be notified when nodes or pods change.
pub const LIVE: &[Rule] = &[
    rule(Cluster, "", "nodes", WATCH).or(LIVE_UPDATES),
    rule(Cluster, "", "pods", WATCH).or(LIVE_UPDATES),
];

/// Permissions to find which pod holds each GPU, and since when.
pub const SCORED: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST).or("scores of pods in other namespaces"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "devicetaintrules", LIST).or("taints of devices"),
];

/// Permissions to discover Prometheus and query it through the API server.
pub const METRICS: &[Rule] = &[
    rule(Cluster, "", "services", LIST).or("a Prometheus with an unusual Service name"),
    rule(Cluster, "", "services/proxy", &["get"])
        .or("utilization, unless `--prometheus` names a server"),
];

/// Permission to query a Prometheus in the cluster through the API server.
pub const PROXY: Right = Right {
    scope: Cluster,
    group: "",
    resource: "services/proxy",
    verb: "get",
};

const SHARED: &str = "which nodes share their GPUs";

/// Permissions to compare past values with the current nodes and devices.
pub const PRESENT: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST).or(SHARED),
    rule(Cluster, "", "pods", LIST).or(SHARED),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "devicetaintrules", LIST).or("taints of devices"),
];

/// Permission to discover a Prometheus whose Service has an unusual name.
pub const fn service_list() -> Right {
    Right {
        scope: Cluster,
        group: "",
        resource: "services",
        verb: "list",
    }
}

/// Permissions to query Prometheus, for commands that do not work without it.
pub const PROMETHEUS_ACCESS: &[Rule] = &[
    rule(PROXY.scope, PROXY.group, PROXY.resource, &["get"]),
    rule(Cluster, "", "services", LIST).or("a Prometheus with an unusual Service name"),
];

/// Permissions to read the owners of all pods in the cluster.
pub const OWNERS: &[Rule] = &[
    rule(Cluster, "", "pods", LIST),
    rule(Cluster, "apps", "replicasets", LIST).or("pods owned by Deployments"),
    rule(Cluster, "apps", "deployments", LIST).or("Deployments at the top of an owner chain"),
    rule(Cluster, "apps", "statefulsets", LIST).or("StatefulSets without pods"),
    rule(Cluster, "apps", "daemonsets", LIST).or("DaemonSets without pods"),
    rule(Cluster, "batch", "jobs", LIST).or("Jobs without pods"),
    rule(Cluster, "batch", "cronjobs", LIST).or("CronJobs at the top of an owner chain"),
    rule(Cluster, "", "nodes", LIST).or("the number of GPUs in use"),
];

const INDIRECT_OWNERS: &str = "workloads that own pods through other objects";

/// Permissions to find a workload by the name of its top-level owner.
pub const OWNER_CHAIN: &[Rule] = &[
    rule(Cluster, "apps", "replicasets", LIST).when(INDIRECT_OWNERS),
    rule(Cluster, "apps", "deployments", LIST).when(INDIRECT_OWNERS),
    rule(Cluster, "apps", "statefulsets", LIST).when(INDIRECT_OWNERS),
    rule(Cluster, "apps", "daemonsets", LIST).when(INDIRECT_OWNERS),
    rule(Cluster, "batch", "jobs", LIST).when(INDIRECT_OWNERS),
    rule(Cluster, "batch", "cronjobs", LIST).when(INDIRECT_OWNERS),
];

pub const LABELS: &[Rule] = &[rule(Cluster, "", "nodes", &["get", "patch"])];

pub const PUBLISH: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST).or("immediate updates for users who cannot list nodes"),
    rule(Home, "", "configmaps", MAKE).or("immediate updates for users who cannot list nodes"),
];

pub const DEFINITION: &[Rule] = &[
    rule(Cluster, "", "nodes", &["list", "get", "patch"]),
    rule(Home, "", "configmaps", &["get", "create", "patch"]),
    rule(Home, "", "configmaps", LIST).or("publishing pools for users who cannot list nodes"),
    rule(Cluster, "", "pods", LIST).or("the number of GPUs in use"),
];

/// Permissions to create the first pool. This also creates the namespace for all pool definitions,
/// and lets all users read them.
pub const FIRST_POOL: &[Rule] = &[
    rule(Cluster, "", "namespaces", MAKE).or("the first pool"),
    // RBAC prevents privilege escalation: users can grant only permissions that they have.
    rule(Home, "", "configmaps", &["list", "watch"]).or("letting all users read pool definitions"),
    rule(Home, "rbac.authorization.k8s.io", "roles", MAKE)
        .or("letting all users read pool definitions"),
    rule(Home, "rbac.authorization.k8s.io", "rolebindings", MAKE)
        .or("letting all users read pool definitions"),
    rule(Home, "", "configmaps", &["delete"]).or("rolling back a partial failure"),
];

pub const WRITE_DEFAULTS: &[Rule] = &[rule(Home, "", "configmaps", MAKE)];
pub const READ_DEFAULTS: &[Rule] = &[rule(Home, "", "configmaps", &["get"])];
pub const DELETE_DEFAULTS: &[Rule] = &[rule(Home, "", "configmaps", &["delete"])];
pub const READ_LABELS: &[Rule] = &[rule(Cluster, "", "nodes", &["get", "list"])];
const IN_POOL: &str = "the number of jobs in a pool";

pub const POOLS: &[Rule] = &[
    rule(Home, "", "configmaps", LIST).or("descriptions and quotas"),
    rule(Cluster, "batch", "jobs", LIST).or(IN_POOL),
    rule(Cluster, "apps", "deployments", LIST).or(IN_POOL),
    rule(Cluster, "apps", "statefulsets", LIST).or(IN_POOL),
    rule(
        Cluster,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        LIST,
    )
    .or(IN_POOL),
];

pub const DELETE_POOL: &[Rule] = &[
    rule(Home, "", "configmaps", &["get", "delete"]),
    rule(Cluster, "batch", "jobs", LIST),
    rule(Cluster, "apps", "deployments", LIST),
    rule(Cluster, "apps", "statefulsets", LIST),
    rule(Cluster, "", "pods", LIST),
];
