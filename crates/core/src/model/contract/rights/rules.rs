//! Permissions for commands that work on jobs and their objects. Rows of the verb table refer to
//! these lists.

use super::RightScope::{Cluster, Home, Namespace};
use super::{Need, RightScope, Rule};

pub(super) const fn rule(
    scope: RightScope,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
) -> Rule {
    Rule {
        scope,
        group,
        resource,
        verbs,
        need: Need::Always,
    }
}

impl Rule {
    /// Makes the permission optional: without it, the command omits `lost`. Also used for APIs that
    /// few clusters serve, because the built-in role `edit` does not include them.
    pub(super) const fn or(self, lost: &'static str) -> Self {
        Self {
            need: Need::Optional(lost),
            ..self
        }
    }

    /// Makes the permission necessary only with the arguments or files that `used` describes.
    pub(super) const fn when(self, used: &'static str) -> Self {
        Self {
            need: Need::For(used),
            ..self
        }
    }
}

pub(super) const LIST: &[&str] = &["list"];
pub(super) const WATCH: &[&str] = &["watch"];
/// Claims name their classes, but extended resources are found in the list of classes.
pub(super) const DEVICE_CLASSES: &[&str] = &["get", "list"];
pub(super) const LIVE_UPDATES: &str = "immediate updates in `-w`";
pub(super) const MAKE: &[&str] = &["get", "create", "patch"];
/// Verbs on the supervisor's Secret of a multi-node training.
const TOKEN: &[&str] = &["get", "create", "patch", "delete"];
/// Verbs on NetworkPolicies for a multi-node training. `list` is included because the job's policy
/// depends on the others in the namespace.
const POLICY: &[&str] = &["get", "list", "create", "patch", "delete"];
const CALL: &[&str] = &["get", "create"];

/// The feature that requires LeaderWorkerSets.
const MULTI_NODE_SERVICES: &str = "multi-node services";

/// Permissions to find jobs, the first step of every job command.
pub const FIND: &[Rule] = &[
    rule(Namespace, "batch", "jobs", LIST),
    rule(Namespace, "", "pods", LIST),
    rule(Namespace, "apps", "deployments", LIST).or("services"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        LIST,
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "apps", "statefulsets", LIST).or("notebooks"),
    rule(Namespace, "", "events", LIST).or("why pods are missing"),
    rule(Namespace, "", "pods", WATCH).or(LIVE_UPDATES),
    rule(Namespace, "kueue.x-k8s.io", "workloads", LIST).or("why a Kueue queue holds jobs back"),
    rule(
        Namespace,
        "visibility.kueue.x-k8s.io",
        "localqueues/pendingworkloads",
        &["get"],
    )
    .or("job positions in a Kueue queue"),
];

/// Permissions to find a job of any kind by its name.
pub const ANY_KIND: &[Rule] = &[
    rule(Namespace, "apps", "deployments", LIST).when("services"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        LIST,
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "apps", "statefulsets", LIST).when("notebooks"),
];

/// Permissions to submit a job: check it and create its companion objects.
pub const PLACE: &[Rule] = &[
    rule(Namespace, "", "services", MAKE),
    rule(Namespace, "", "pods", &["create"]).or("validating pods in advance"),
    rule(Namespace, "", "pods", &["watch"]).or("immediate updates in `--wait`"),
    rule(Cluster, "", "nodes", LIST).or("checking the pool and GPU type"),
    rule(Home, "", "configmaps", &["get"]).or("checking the pool's quota, and the site's defaults"),
    rule(Cluster, "", "namespaces", &["get"]).or("variables in the site's defaults"),
    rule(
        Cluster,
        "rbac.authorization.k8s.io",
        "clusterroles",
        &["get"],
    )
    .or("variables in the site's defaults"),
    rule(Cluster, "scheduling.k8s.io", "priorityclasses", MAKE)
        .or("`job.priority`, unless the PriorityClass exists"),
    rule(Namespace, "", "persistentvolumeclaims", MAKE).when("`size:` workdirs"),
    rule(Namespace, "", "configmaps", MAKE).when("`files:` and multi-node trainings"),
    rule(Namespace, "", "secrets", TOKEN)
        .when("multi-node trainings (not needed with `job.restart: rank`)"),
    rule(Namespace, "networking.k8s.io", "networkpolicies", POLICY)
        .or("closing rank 0's port to other pods"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("GPUs claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "deviceclasses", LIST)
        .or("extended resources that DRA serves"),
    rule(Namespace, "resource.k8s.io", "resourceclaimtemplates", MAKE)
        .or("GPUs claimed through DRA"),
    rule(Namespace, "kueue.x-k8s.io", "localqueues", LIST).or("checking `job.queue`"),
    rule(Namespace, "kueue.x-k8s.io", "localqueues", &["get"])
        .or("`job.topology` in a Kueue queue"),
    rule(Cluster, "kueue.x-k8s.io", "clusterqueues", &["get"])
        .or("`job.topology` in a Kueue queue"),
    rule(Cluster, "kueue.x-k8s.io", "resourceflavors", &["get"])
        .or("`job.topology` in a Kueue queue"),
    rule(Cluster, "kueue.x-k8s.io", "topologies", &["get"]).or("`job.topology` in a Kueue queue"),
    rule(Cluster, "scheduling.volcano.sh", "queues", LIST).or("checking `job.queue`"),
    rule(Namespace, "scheduling.k8s.io", "podgroups", MAKE).or("native Kubernetes gangs"),
];

const WAITING: &str = "`--wait`, `--follow` and `create --from`";

/// Permissions to wait for a job that has just been submitted.
pub const AWAIT: &[Rule] = &[
    rule(Namespace, "batch", "jobs", LIST).when(WAITING),
    rule(Namespace, "", "pods", LIST).when(WAITING),
    rule(Namespace, "apps", "deployments", LIST).when(WAITING),
    rule(Namespace, "apps", "statefulsets", LIST).when(WAITING),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        LIST,
    )
    .or(WAITING),
    rule(Namespace, "", "pods/log", &["get"]).when("`--follow`"),
];

/// Permissions to manage the companion objects of a service, except its Service.
pub const SERVE: &[Rule] = &[
    rule(Namespace, "autoscaling", "horizontalpodautoscalers", MAKE).when("`autoscaling`"),
    rule(Namespace, "networking.k8s.io", "ingresses", MAKE).when("`service.host`"),
];

const REMOVE: &[&str] = &["list", "delete"];
pub(super) const PRUNING: &str = "pruning objects that the file no longer declares";

/// Permissions to prune objects that the file no longer declares.
pub const STALE: &[Rule] = &[
    rule(Namespace, "", "services", REMOVE).or(PRUNING),
    rule(Namespace, "", "configmaps", REMOVE).or(PRUNING),
    rule(Namespace, "autoscaling", "horizontalpodautoscalers", REMOVE).or(PRUNING),
    rule(Namespace, "networking.k8s.io", "ingresses", REMOVE).or(PRUNING),
    rule(Namespace, "networking.k8s.io", "networkpolicies", REMOVE).or(PRUNING),
];

pub const SWITCH: &[Rule] = &[
    rule(Namespace, "batch", "jobs", &["patch"]),
    rule(Namespace, "apps", "deployments", &["patch"]).when("services"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["patch"],
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "apps", "statefulsets", &["patch"]).when("notebooks"),
    rule(Namespace, "kueue.x-k8s.io", "workloads", LIST).or("jobs in a Kueue queue"),
];

/// Permissions to evict or delete pods, so that their controller replaces them.
pub const RENEW: &[Rule] = &[
    rule(Namespace, "", "pods/eviction", &["create"]),
    rule(Namespace, "", "pods", &["get", "delete", "patch"])
        .or("pods on nodes that do not respond"),
    rule(Namespace, "apps", "deployments", &["patch"]).when("services"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["patch"],
    )
    .or(MULTI_NODE_SERVICES),
];

/// Permissions to explain why a job waits or failed, in addition to finding it.
pub const EXPLAIN: &[Rule] = &[
    rule(Namespace, "", "pods", &["get"]).or("requests of unscheduled pods"),
    rule(Cluster, "", "nodes", LIST).or("which resources nodes lack"),
    rule(Cluster, "", "pods", LIST).or("free resources, and which pods hold the rest"),
    rule(Namespace, "", "resourcequotas", LIST).or("quotas that no event mentions"),
    rule(Namespace, "", "persistentvolumeclaims", &["get"]).or("volumes that do not exist yet"),
    rule(Cluster, "storage.k8s.io", "storageclasses", &["get"]).or("storage classes"),
    rule(Namespace, "batch", "jobs", &["get"]).or("deadlines of jobs that hold GPUs"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "devicetaintrules", LIST).or("devices claimed through DRA"),
    rule(Cluster, "resource.k8s.io", "deviceclasses", DEVICE_CLASSES)
        .or("devices claimed through DRA"),
    rule(
        Namespace,
        "resource.k8s.io",
        "resourceclaimtemplates",
        &["get"],
    )
    .or("devices claimed through DRA"),
    rule(Namespace, "scheduling.k8s.io", "podgroups", &["get"]).or("messages from gang schedulers"),
    rule(Namespace, "scheduling.volcano.sh", "podgroups", &["get"])
        .or("messages from gang schedulers"),
    rule(Namespace, "scheduling.run.ai", "podgroups", &["get"]).or("messages from gang schedulers"),
];

pub const MAKE_JOB: &[Rule] = &[rule(Namespace, "batch", "jobs", MAKE)];
pub const MAKE_SERVICE: &[Rule] = &[
    rule(Namespace, "apps", "deployments", MAKE),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        MAKE,
    )
    .or(MULTI_NODE_SERVICES),
];
/// Permissions to make the dry runs of `diff`, for documents other than trainings.
pub const COMPARE: &[Rule] = &[
    rule(Namespace, "apps", "deployments", MAKE).when("services"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        MAKE,
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "apps", "statefulsets", MAKE).when("notebooks"),
    rule(Namespace, "", "resourcequotas", MAKE).when("quotas"),
    rule(Namespace, "", "limitranges", MAKE).when("quotas"),
    rule(Home, "", "configmaps", &["get"]).when("pools and defaults"),
    rule(Cluster, "", "nodes", LIST).when("pools"),
];
pub const MAKE_NOTEBOOK: &[Rule] = &[rule(Namespace, "apps", "statefulsets", MAKE)];
pub const REPLACE_JOB: &[Rule] =
    &[rule(Namespace, "batch", "jobs", &["delete"]).when("`--replace`")];
pub const REPLACE_SERVICE: &[Rule] =
    &[rule(Namespace, "apps", "deployments", &["delete"]).when("`--replace`")];
pub const REPLACE_NOTEBOOK: &[Rule] =
    &[rule(Namespace, "apps", "statefulsets", &["delete"]).when("`--replace`")];
pub const REPAIR_NOTEBOOK: &[Rule] =
    &[rule(Namespace, "", "pods", &["get", "delete"]).or("replacing a pod that was never ready")];
pub const SECRET: &[Rule] = &[rule(Namespace, "", "secrets", MAKE)];

/// Permissions to read the progress of a training from its newest log lines.
pub const PROGRESS: &[Rule] = &[rule(Namespace, "", "pods/log", &["get"]).or("progress")];
pub const THROUGHPUT: &[Rule] = &[rule(Namespace, "", "pods/log", &["get"]).or("throughput")];
pub const LOGS: &[Rule] = &[rule(Namespace, "", "pods/log", &["get"])];
pub const ALL_LOGS: &[Rule] = &[rule(Cluster, "", "pods/log", &["get"]).or("data from logs")];
pub const EVENTS: &[Rule] = &[
    rule(Namespace, "batch", "jobs", LIST),
    rule(Namespace, "", "pods", LIST),
    rule(Namespace, "", "events", LIST),
    rule(Namespace, "", "pods", WATCH).or(LIVE_UPDATES),
    rule(Namespace, "", "events", WATCH).or(LIVE_UPDATES),
];

/// Permissions to copy from an ended job, through a pod that mounts its claims.
pub const COPY: &[Rule] = &[
    rule(Namespace, "", "pods", &["get", "create", "delete"]).when(ENDED_JOBS),
    rule(Namespace, "batch", "jobs", &["get"]).when(ENDED_JOBS),
    rule(Namespace, "apps", "deployments", &["get"]).when("paused services"),
    rule(Namespace, "apps", "statefulsets", &["get"]).when("paused notebooks"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["get"],
    )
    .or(MULTI_NODE_SERVICES),
];
const ENDED_JOBS: &str = "jobs that have ended";
pub const EXEC: &[Rule] = &[rule(Namespace, "", "pods/exec", CALL)];
pub const ATTACH: &[Rule] = &[rule(Namespace, "", "pods/attach", CALL)];
pub const FORWARD: &[Rule] = &[rule(Namespace, "", "pods/portforward", CALL)];
pub const SCALE: &[Rule] = &[
    rule(Namespace, "apps", "deployments", &["list", "patch"]),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["list", "patch"],
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "", "pods", LIST),
];
pub const DELETE_JOB: &[Rule] = &[
    rule(Namespace, "batch", "jobs", &["delete"]),
    rule(Namespace, "apps", "deployments", &["delete"]).when("services"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["delete"],
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "apps", "statefulsets", &["delete"]).when("notebooks"),
    rule(Namespace, "", "persistentvolumeclaims", &["list", "delete"]).when("`--purge`"),
    rule(Namespace, "", "secrets", &["get", "delete"])
        .or("the token that an interrupted `create` left behind"),
    rule(Namespace, "networking.k8s.io", "networkpolicies", REMOVE)
        .or("the policy that an interrupted `create` left behind"),
    rule(Namespace, "apps", "replicasets", &["list", "delete"]).when("services with `--force`"),
    rule(Namespace, "", "pods", &["delete"]).when("`--force`, and pods that outlived their job"),
    // `delete` also checks for objects of this name that gpuctl did not create.
    rule(Namespace, "batch", "jobs", &["get"]),
    rule(Namespace, "apps", "deployments", &["get"]).when("services"),
    rule(Namespace, "apps", "statefulsets", &["get"]).when("notebooks"),
    rule(
        Namespace,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["get"],
    )
    .or(MULTI_NODE_SERVICES),
    rule(Namespace, "", "pods", &["watch"]).or("immediate notification of completion"),
    rule(Cluster, "", "nodes", LIST).or("whether `--force` has freed the job's GPUs"),
];
pub const CLAIMS: &[Rule] = &[
    rule(Namespace, "", "persistentvolumeclaims", LIST),
    rule(Namespace, "", "pods", LIST).or("which pods use claims"),
    rule(Namespace, "batch", "jobs", LIST).or("whether jobs still exist"),
];
/// Permissions to check before a submission that the objects that a job refers to exist.
pub const REFERENCES: &[Rule] = &[
    rule(Namespace, "", "resourcequotas", LIST).or("checking quotas"),
    rule(Namespace, "", "persistentvolumeclaims", &["get"]).or("checking claims"),
    rule(Namespace, "", "secrets", &["get"]).or("checking secrets"),
    rule(Namespace, "", "configmaps", &["get"]).or("checking ConfigMaps"),
    rule(Namespace, "", "serviceaccounts", &["get"]).or("checking service accounts"),
    rule(Cluster, "storage.k8s.io", "storageclasses", LIST).or("checking storage classes"),
    rule(Cluster, "", "persistentvolumes", LIST).or("checking storage classes"),
    rule(Cluster, "", "pods", LIST).or("which pods hold the GPUs that a job waits for"),
];
