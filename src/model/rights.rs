//! Lists the rights that commands need in the cluster, and what is lost without the optional ones. `auth check` and the
//! roles it prints are made from this.

use std::collections::{BTreeMap, BTreeSet};

/// Where a right must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightScope {
    /// In the namespace of the job.
    Namespace,
    /// In the whole cluster.
    Cluster,
    /// In the namespace where pools are defined.
    Home,
}

/// A right to some verbs on one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub place: RightScope,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// With the subresource: `pods/log`.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    /// What a command without the right does without; `None` when it fails.
    pub lost: Option<&'static str>,
}

/// One verb on one resource, with the group where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub place: RightScope,
    pub group: &'static str,
    pub resource: &'static str,
    pub verb: &'static str,
}

impl Right {
    /// Formats as `list jobs.batch`.
    #[must_use]
    pub fn text(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{} {}{dot}{}", self.verb, self.resource, self.group)
    }
}

impl Rule {
    /// Returns the rights one by one.
    pub(crate) fn rights(self) -> impl Iterator<Item = Right> {
        let Self { place, group, resource, verbs, .. } = self;
        verbs.iter().map(move |verb| Right { place, group, resource, verb })
    }
}

/// What a command of gpuctl needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// The words of `auth check`, as they are typed: `create jobs`, `logs`. `jobs` are trainings where the kinds differ.
    pub words: &'static str,
    rules: &'static [&'static [Rule]],
}

impl Task {
    #[must_use]
    pub(crate) const fn new(words: &'static str, rules: &'static [&'static [Rule]]) -> Self {
        Self { words, rules }
    }

    /// As it is typed: `create`.
    #[must_use]
    pub(crate) fn verb(&self) -> &'static str {
        self.words.split_once(' ').map_or(self.words, |(verb, _)| verb)
    }

    /// Returns what it is done to: `jobs`.
    #[must_use]
    pub(crate) fn resource(&self) -> &'static str {
        self.words.split_once(' ').map_or("", |(_, resource)| resource)
    }

    /// Returns true for a command that has no answer without Prometheus.
    #[must_use]
    pub(crate) fn needs_prometheus(&self) -> bool {
        self.rights(true).contains(&PROXY)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = Rule> {
        self.rules.iter().flat_map(|rules| rules.iter().copied())
    }

    /// Rights without which it fails, or with `needed` false those that it can do without.
    #[must_use]
    pub(crate) fn rights(&self, needed: bool) -> BTreeSet<Right> {
        self.rules().filter(|rule| rule.lost.is_none() == needed).flat_map(Rule::rights).collect()
    }

    /// Returns the command that creates a document of this kind, or applies it again.
    #[must_use]
    pub(crate) fn writing(kind: &str, again: bool) -> &'static str {
        match (kind, again) {
            ("inference" | "compute", false) => "create services",
            ("inference" | "compute", true) => "apply services",
            ("notebook", false) => "create notebooks",
            ("notebook", true) => "apply notebooks",
            ("resource" | "pool", false) => "create pools",
            ("resource" | "pool", true) => "apply pools",
            ("quota", false) => "create quotas",
            ("quota", true) => "apply quotas",
            ("defaults", false) => "create defaults",
            ("defaults", true) => "apply defaults",
            (_, false) => "create jobs",
            (_, true) => "apply jobs",
        }
    }
}

const fn rule(place: RightScope, group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Rule {
    Rule { place, group, resource, verbs, lost: None }
}

impl Rule {
    const fn or(self, lost: &'static str) -> Self {
        Self { lost: Some(lost), ..self }
    }
}

use RightScope::{Cluster, Home, Namespace};

const LIST: &[&str] = &["list"];
const WATCH: &[&str] = &["watch"];
const NEWS: &str = "news without delay in `-w`";
const MAKE: &[&str] = &["get", "create", "patch"];
const CALL: &[&str] = &["get", "create"];

/// What LeaderWorkerSets are for.
const SPANNING: &str = "services on several nodes";

/// Finding jobs: what every command about a job begins with.
pub(crate) const FIND: &[Rule] = &[
    rule(Namespace, "batch", "jobs", LIST),
    rule(Namespace, "", "pods", LIST),
    rule(Namespace, "apps", "deployments", LIST).or("services"),
    rule(Namespace, "leaderworkerset.x-k8s.io", "leaderworkersets", LIST).or(SPANNING),
    rule(Namespace, "apps", "statefulsets", LIST).or("notebooks"),
    rule(Namespace, "", "events", LIST).or("why pods are missing"),
    rule(Namespace, "", "pods", WATCH).or(NEWS),
    rule(Namespace, "kueue.x-k8s.io", "workloads", LIST).or("why a queue of Kueue's holds jobs back"),
    rule(Namespace, "visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", &["get"])
        .or("where jobs stand in a queue of Kueue's"),
];

/// Placing a job.
pub(crate) const PLACE: &[Rule] = &[
    rule(Namespace, "", "services", MAKE),
    rule(Namespace, "", "pods", &["create"]).or("the check of pods beforehand"),
    rule(Namespace, "", "pods", &["watch"]).or("news without delay in `--wait`"),
    rule(Cluster, "", "nodes", LIST).or("the check of pool and GPU type"),
    rule(Home, "", "configmaps", &["get"]).or("the check of the pool's quota, and the site's defaults"),
    rule(Cluster, "scheduling.k8s.io", "priorityclasses", MAKE).or("`job.priority`, unless the class is there"),
    rule(Namespace, "", "persistentvolumeclaims", MAKE).or("`size:` workdirs"),
    rule(Namespace, "", "configmaps", MAKE).or("`files:`, and ranks that restart together (`job.restart: rank` does without)"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("GPUs of dynamic resource allocation"),
    rule(Namespace, "resource.k8s.io", "resourceclaimtemplates", MAKE).or("GPUs of dynamic resource allocation"),
    rule(Namespace, "kueue.x-k8s.io", "localqueues", LIST).or("the check of `job.queue`"),
    rule(Namespace, "kueue.x-k8s.io", "localqueues", &["get"]).or("`job.topology` in a queue of Kueue's"),
    rule(Cluster, "kueue.x-k8s.io", "clusterqueues", &["get"]).or("`job.topology` in a queue of Kueue's"),
    rule(Cluster, "kueue.x-k8s.io", "resourceflavors", &["get"]).or("`job.topology` in a queue of Kueue's"),
    rule(Cluster, "kueue.x-k8s.io", "topologies", &["get"]).or("`job.topology` in a queue of Kueue's"),
    rule(Cluster, "scheduling.volcano.sh", "queues", LIST).or("the check of `job.queue`"),
    rule(Namespace, "scheduling.k8s.io", "podgroups", MAKE).or("gangs of Kubernetes itself"),
    rule(Namespace, "scheduling.x-k8s.io", "podgroups", MAKE).or("`job.gang: coscheduling`"),
];

/// What a service has beside its Service.
pub(crate) const SERVE: &[Rule] = &[
    rule(Namespace, "autoscaling", "horizontalpodautoscalers", MAKE).or("`autoscaling`"),
    rule(Namespace, "networking.k8s.io", "ingresses", MAKE).or("`service.host`"),
];

const REMOVE: &[&str] = &["list", "delete"];
const OLD: &str = "taking away what the file no longer describes";

/// Taking away what a file describes no more.
pub(crate) const STALE: &[Rule] = &[
    rule(Namespace, "", "services", REMOVE).or(OLD),
    rule(Namespace, "", "configmaps", REMOVE).or(OLD),
    rule(Namespace, "autoscaling", "horizontalpodautoscalers", REMOVE).or(OLD),
    rule(Namespace, "networking.k8s.io", "ingresses", REMOVE).or(OLD),
];

pub(crate) const QUOTA: &[Rule] = &[
    rule(Namespace, "", "namespaces", &["get"]),
    rule(Namespace, "", "resourcequotas", MAKE),
    rule(Namespace, "", "limitranges", MAKE),
    rule(Cluster, "", "namespaces", &["create", "patch"]).or("namespaces that are missing"),
    rule(Cluster, "", "nodes", LIST).or("GPUs of other vendors than NVIDIA"),
];

pub(crate) const SWITCH: &[Rule] = &[
    rule(Namespace, "batch", "jobs", &["patch"]),
    rule(Namespace, "apps", "deployments", &["patch"]).or("services"),
    rule(Namespace, "leaderworkerset.x-k8s.io", "leaderworkersets", &["patch"]).or(SPANNING),
    rule(Namespace, "apps", "statefulsets", &["patch"]).or("notebooks"),
    rule(Namespace, "kueue.x-k8s.io", "workloads", LIST).or("jobs in a queue of Kueue's"),
];

/// Taking pods away so that new ones are made.
pub(crate) const RENEW: &[Rule] = &[
    rule(Namespace, "", "pods/eviction", &["create"]),
    rule(Namespace, "", "pods", &["get", "delete", "patch"]).or("pods on nodes that do not answer"),
    rule(Namespace, "apps", "deployments", &["patch"]).or("services"),
    rule(Namespace, "leaderworkerset.x-k8s.io", "leaderworkersets", &["patch"]).or(SPANNING),
];

/// What is free, which is not known without all pods.
pub(crate) const FREE: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices of dynamic allocation"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices of dynamic allocation"),
];

pub(crate) const HOLDERS: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST),
    rule(Cluster, "", "pods", LIST).or("how many GPUs are held"),
    rule(Cluster, "resource.k8s.io", "resourceslices", LIST).or("devices of dynamic allocation"),
    rule(Cluster, "resource.k8s.io", "resourceclaims", LIST).or("devices of dynamic allocation"),
    rule(Cluster, "", "nodes", WATCH).or(NEWS),
    rule(Cluster, "", "pods", WATCH).or(NEWS),
];

/// Finding Prometheus and asking it through the API server.
pub(crate) const METRICS: &[Rule] = &[
    rule(Cluster, "", "services", LIST).or("a Prometheus under another name than the usual ones"),
    rule(Cluster, "", "services/proxy", &["get"]).or("utilization, unless `--prometheus` names a server"),
];

/// The right to ask a Prometheus in the cluster through the API server.
pub(crate) const PROXY: Right = Right { place: Cluster, group: "", resource: "services/proxy", verb: "get" };

/// Access to Prometheus, for commands that have no answer without it.
pub(crate) const ROAD: &[Rule] = &[
    rule(PROXY.place, PROXY.group, PROXY.resource, &["get"]),
    rule(Cluster, "", "services", LIST).or("a Prometheus under another name than the usual ones"),
];

/// Owners of everybody's pods.
pub(crate) const OWNERS: &[Rule] = &[
    rule(Cluster, "", "pods", LIST),
    rule(Cluster, "apps", "replicasets", LIST).or("what Deployments own"),
    rule(Cluster, "apps", "deployments", LIST).or("Deployments at the top of a chain"),
    rule(Cluster, "apps", "statefulsets", LIST).or("StatefulSets without pods"),
    rule(Cluster, "apps", "daemonsets", LIST).or("DaemonSets without pods"),
    rule(Cluster, "batch", "jobs", LIST).or("Jobs without pods"),
    rule(Cluster, "batch", "cronjobs", LIST).or("CronJobs at the top of a chain"),
    rule(Cluster, "", "nodes", LIST).or("how many GPUs are held"),
];

pub(crate) const LABELS: &[Rule] = &[rule(Cluster, "", "nodes", &["get", "patch"])];

pub(crate) const PUBLISH: &[Rule] = &[
    rule(Cluster, "", "nodes", LIST).or("users who may not list nodes see the change later"),
    rule(Home, "", "configmaps", MAKE).or("users who may not list nodes see the change later"),
];

pub(crate) const DEFINITION: &[Rule] = &[
    rule(Cluster, "", "nodes", &["list", "get", "patch"]),
    rule(Home, "", "configmaps", &["get", "create", "patch"]),
    rule(Cluster, "", "pods", LIST).or("how many GPUs are held"),
];

/// The first pool makes the namespace of all, with the right of everybody to read it.
pub(crate) const FIRST: &[Rule] = &[
    rule(Cluster, "", "namespaces", MAKE).or("the first pool"),
    // Nobody may grant what they may not do themselves.
    rule(Home, "", "configmaps", &["list", "watch"]).or("opening the definitions of pools to all users"),
    rule(Home, "rbac.authorization.k8s.io", "roles", MAKE).or("opening the definitions of pools to all users"),
    rule(Home, "rbac.authorization.k8s.io", "rolebindings", MAKE).or("opening the definitions of pools to all users"),
    rule(Home, "", "configmaps", &["delete"]).or("taking back what failed part way"),
];

pub(crate) const WRITE_DEFAULTS: &[Rule] = &[rule(Home, "", "configmaps", MAKE)];
pub(crate) const READ_DEFAULTS: &[Rule] = &[rule(Home, "", "configmaps", &["get"])];
pub(crate) const DELETE_DEFAULTS: &[Rule] = &[rule(Home, "", "configmaps", &["delete"])];

pub(crate) const MAKE_JOB: &[Rule] = &[rule(Namespace, "batch", "jobs", MAKE)];
pub(crate) const MAKE_SERVICE: &[Rule] = &[
    rule(Namespace, "apps", "deployments", MAKE),
    rule(Namespace, "leaderworkerset.x-k8s.io", "leaderworkersets", MAKE).or(SPANNING),
];
pub(crate) const MAKE_NOTEBOOK: &[Rule] = &[rule(Namespace, "apps", "statefulsets", MAKE)];
pub(crate) const REPLACE_JOB: &[Rule] = &[rule(Namespace, "batch", "jobs", &["delete"]).or("`--replace`")];
pub(crate) const REPLACE_SERVICE: &[Rule] = &[rule(Namespace, "apps", "deployments", &["delete"]).or("`--replace`")];
pub(crate) const REPLACE_NOTEBOOK: &[Rule] = &[rule(Namespace, "apps", "statefulsets", &["delete"]).or("`--replace`")];
pub(crate) const REPAIR_NOTEBOOK: &[Rule] =
    &[rule(Namespace, "", "pods", &["get", "delete"]).or("the replacement of a pod that was never ready")];
pub(crate) const SECRET: &[Rule] = &[rule(Namespace, "", "secrets", MAKE)];

/// Progress, read from the newest lines of a log.
pub(crate) const PROGRESS: &[Rule] = &[rule(Namespace, "", "pods/log", &["get"]).or("progress")];
pub(crate) const THROUGHPUT: &[Rule] = &[rule(Namespace, "", "pods/log", &["get"]).or("throughput")];
pub(crate) const LOGS: &[Rule] = &[rule(Namespace, "", "pods/log", &["get"])];
pub(crate) const ALL_LOGS: &[Rule] = &[rule(Cluster, "", "pods/log", &["get"]).or("what logs tell")];
pub(crate) const EVENTS: &[Rule] = &[
    rule(Namespace, "batch", "jobs", LIST),
    rule(Namespace, "", "pods", LIST),
    rule(Namespace, "", "events", LIST),
    rule(Namespace, "", "pods", WATCH).or(NEWS),
    rule(Namespace, "", "events", WATCH).or(NEWS),
];
pub(crate) const EXEC: &[Rule] = &[rule(Namespace, "", "pods/exec", CALL)];
pub(crate) const ATTACH: &[Rule] = &[rule(Namespace, "", "pods/attach", CALL)];
pub(crate) const FORWARD: &[Rule] = &[rule(Namespace, "", "pods/portforward", CALL)];
pub(crate) const SCALE: &[Rule] = &[
    rule(Namespace, "apps", "deployments", &["list", "patch"]),
    rule(Namespace, "leaderworkerset.x-k8s.io", "leaderworkersets", &["list", "patch"]).or(SPANNING),
    rule(Namespace, "", "pods", LIST),
];
pub(crate) const DELETE_JOB: &[Rule] = &[
    rule(Namespace, "batch", "jobs", &["delete"]),
    rule(Namespace, "apps", "deployments", &["delete"]).or("services"),
    rule(Namespace, "leaderworkerset.x-k8s.io", "leaderworkersets", &["delete"]).or(SPANNING),
    rule(Namespace, "apps", "statefulsets", &["delete"]).or("notebooks"),
    rule(Namespace, "", "persistentvolumeclaims", &["list", "delete"]).or("`--purge`"),
    rule(Namespace, "", "pods", &["watch"]).or("news of the end without delay"),
];
pub(crate) const READ_LABELS: &[Rule] = &[rule(Cluster, "", "nodes", &["get", "list"])];
pub(crate) const POOLS: &[Rule] = &[rule(Home, "", "configmaps", LIST).or("descriptions and quotas")];
pub(crate) const DELETE_POOL: &[Rule] = &[
    rule(Home, "", "configmaps", &["get", "delete"]),
    rule(Cluster, "batch", "jobs", LIST),
    rule(Cluster, "apps", "deployments", LIST),
    rule(Cluster, "apps", "statefulsets", LIST),
    rule(Cluster, "", "pods", LIST),
];
pub(crate) const CLAIMS: &[Rule] = &[
    rule(Namespace, "", "persistentvolumeclaims", LIST),
    rule(Namespace, "", "pods", LIST).or("who uses claims"),
    rule(Namespace, "batch", "jobs", LIST).or("whether jobs are still there"),
];
/// Lookups of the objects that jobs name, before they are submitted.
pub(crate) const LOOK: &[Rule] = &[
    rule(Namespace, "", "resourcequotas", LIST).or("the check of quotas"),
    rule(Namespace, "", "persistentvolumeclaims", &["get"]).or("the check of claims"),
    rule(Namespace, "", "secrets", &["get"]).or("the check of secrets"),
    rule(Namespace, "", "configmaps", &["get"]).or("the check of ConfigMaps"),
    rule(Namespace, "", "serviceaccounts", &["get"]).or("the check of service accounts"),
    rule(Cluster, "storage.k8s.io", "storageclasses", LIST).or("the check of storage classes"),
    rule(Cluster, "", "persistentvolumes", LIST).or("the check of storage classes"),
    rule(Cluster, "", "pods", LIST).or("who holds the GPUs that a job waits for"),
];
pub(crate) const QUEUES: &[Rule] = &[
    rule(Namespace, "kueue.x-k8s.io", "localqueues", LIST),
    rule(Namespace, "kueue.x-k8s.io", "workloads", LIST).or("`--preemptions`"),
    rule(Namespace, "", "events", LIST).or("`--preemptions`"),
    rule(Namespace, "batch", "jobs", LIST).or("how busy the GPUs of the jobs are"),
    rule(Namespace, "", "pods", LIST).or("how busy the GPUs of the jobs are"),
    rule(Cluster, "kueue.x-k8s.io", "clusterqueues", LIST).or("quotas of Kueue's queues"),
    rule(Cluster, "scheduling.volcano.sh", "queues", LIST).or("queues of Volcano"),
];
pub(crate) const QUOTAS: &[Rule] = &[rule(Namespace, "", "resourcequotas", LIST)];
pub(crate) const STALE_QUOTA: &[Rule] = &[
    rule(Cluster, "", "resourcequotas", LIST).or("where else it binds"),
    rule(Namespace, "", "limitranges", &["delete"]).or(OLD),
];
pub(crate) const DELETE_QUOTA: &[Rule] =
    &[rule(Namespace, "", "resourcequotas", &["list", "get", "delete"]), rule(Namespace, "", "limitranges", &["get", "delete"])];

/// Rights as people say them: `create, get and patch services`.
#[must_use]
pub(crate) fn said<'r>(rights: impl Iterator<Item = &'r Right>) -> Vec<String> {
    let mut grouped: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for right in rights {
        grouped.entry((right.group, right.resource)).or_default().insert(right.verb);
    }
    let one = |((group, resource), verbs): ((&str, &str), BTreeSet<&str>)| {
        let verbs: Vec<&str> = verbs.into_iter().collect();
        let verbs = match verbs.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => verbs.concat(),
        };
        let dot = if group.is_empty() { "" } else { "." };
        format!("{verbs} {resource}{dot}{group}")
    };
    grouped.into_iter().map(one).collect()
}

/// Verbs by group and resource, in one place: a role's rules.
#[must_use]
pub(crate) fn merged(
    rights: impl Iterator<Item = Right>,
) -> BTreeMap<RightScope, BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>>> {
    let mut places: BTreeMap<RightScope, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
    for right in rights {
        places.entry(right.place).or_default().entry((right.group, right.resource)).or_default().insert(right.verb);
    }
    places
}
