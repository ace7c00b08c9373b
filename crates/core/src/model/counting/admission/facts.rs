//! Facts about a Kueue queue, and the request of a job for its quota. All amounts are thousandths
//! of the resource's unit, as in `Amounts`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::model::counting::capacity::Amounts;
use crate::model::facts::node::Taint;

/// One resource of one flavor, the unit in which Kueue counts quota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlavorResource {
    pub flavor: String,
    pub resource: String,
}

impl FlavorResource {
    pub fn new(flavor: &str, resource: &str) -> Self {
        Self {
            flavor: flavor.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

pub type FlavorAmounts = BTreeMap<FlavorResource, i128>;
pub type FlavorQuotas = BTreeMap<FlavorResource, FlavorQuota>;

/// The quota of a ClusterQueue or Cohort for one resource of one flavor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlavorQuota {
    pub nominal: i128,
    /// Maximum amount beyond `nominal`, or `None` if only the cohort limits it.
    pub borrowing_limit: Option<i128>,
    /// Maximum amount that others can use, or `None` for all of it.
    pub lending_limit: Option<i128>,
}

/// Resources that get the same flavor, and the flavors in the order in which Kueue tries them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceGroup {
    pub resources: BTreeSet<String>,
    pub flavors: Vec<String>,
}

/// Which admitted jobs a new job can preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreemptionPolicy {
    #[default]
    Never,
    /// Jobs with a lower priority. Includes `LowerOrNewerEqualPriority`, because no admitted job is
    /// newer than a new one.
    LowerPriority,
    Any,
}

/// `spec.preemption` of a ClusterQueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreemptionRules {
    pub within_queue: PreemptionPolicy,
    pub within_cohort: PreemptionPolicy,
    /// Whether the job can preempt jobs of the cohort although it borrows.
    pub while_borrowing: bool,
    /// Highest priority of jobs that are preempted while borrowing.
    pub borrowing_threshold: Option<i64>,
}

/// `spec.flavorFungibility` of a ClusterQueue. The default is Kueue's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlavorFungibility {
    /// Tries the next flavor before it borrows in the current one.
    pub next_before_borrowing: bool,
    /// Tries the next flavor before it preempts in the current one.
    pub next_before_preempting: bool,
    /// Prefers a flavor with preemption to a flavor with borrowing.
    pub prefers_preemption: bool,
}

impl Default for FlavorFungibility {
    fn default() -> Self {
        Self {
            next_before_borrowing: false,
            next_before_preempting: true,
            prefers_preemption: false,
        }
    }
}

/// An admission check of a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredCheck {
    pub name: String,
    /// Flavors that need the check. Empty means all.
    pub flavors: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterQueue {
    pub cohort: Option<String>,
    pub groups: Vec<ResourceGroup>,
    pub quotas: FlavorQuotas,
    /// Reserved quota, or `None` if Kueue has not reported it yet.
    pub usage: Option<FlavorAmounts>,
    /// Whether a waiting job blocks all jobs after it (`StrictFIFO`).
    pub is_strict: bool,
    pub preemption: PreemptionRules,
    pub fungibility: FlavorFungibility,
    pub checks: Vec<RequiredCheck>,
    /// Number of waiting jobs, or `None` if Kueue has not reported it yet.
    pub waiting: Option<u64>,
    /// Whether Kueue divides the cohort's quota by fair sharing, which has its own preemption.
    pub shares_fairly: bool,
}

/// A Cohort object. ClusterQueues can also name a cohort without an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    pub parent: Option<String>,
    /// Quota in addition to that of the ClusterQueues.
    pub quotas: FlavorQuotas,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceFlavor {
    pub node_labels: BTreeMap<String, String>,
    pub node_taints: Vec<Taint>,
    /// Tolerations that Kueue adds to the pods, as in a pod spec.
    pub tolerations: Vec<Value>,
    /// Name of the Topology by which Kueue places the pods.
    pub topology: Option<String>,
}

/// A job with reserved quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedJob {
    /// NAMESPACE/NAME of the object that Kueue admitted.
    pub name: String,
    pub uid: String,
    pub cluster_queue: String,
    pub priority: i64,
    pub usage: FlavorAmounts,
    pub reserved_at: Option<Timestamp>,
    /// Whether Kueue is already evicting it.
    pub is_evicted: bool,
}

/// A job that waits for quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingJob {
    /// NAMESPACE/NAME of the object that Kueue queues.
    pub name: String,
    pub priority: i64,
    pub created: Option<Timestamp>,
    /// Whether Kueue has tried to admit it.
    pub is_tried: bool,
}

/// Everything that decides the admissions of a queue.
#[derive(Clone, Debug, Default)]
pub struct OpenQueue {
    /// The ClusterQueues of the cohort, or only the queue's.
    pub cluster_queues: BTreeMap<String, ClusterQueue>,
    /// Cohort objects, or `None` if the user cannot list them.
    pub cohorts: Option<BTreeMap<String, Cohort>>,
    /// Flavors, or `None` if the user cannot list them.
    pub flavors: Option<BTreeMap<String, ResourceFlavor>>,
    /// Whether the ClusterQueue accepts jobs of the namespace, or `None` if the user cannot read
    /// the namespace's labels.
    pub accepts_namespace: Option<bool>,
    /// Jobs with quota in `cluster_queues`, or `None` if the user cannot list all Workloads.
    pub reserved: Option<Vec<ReservedJob>>,
    /// Jobs that wait in the ClusterQueue, as far as the user can list them.
    pub waiting: Vec<WaitingJob>,
    /// Resources that Kueue's configuration excludes from quota, according to admitted jobs.
    pub excluded_resources: BTreeSet<String>,
}

/// Whether a queue admits jobs, apart from its quota.
#[derive(Clone, Debug)]
pub enum QueueState {
    /// The LocalQueue or its ClusterQueue does not exist. Contains the sentence for the user.
    Missing(String),
    /// The LocalQueue or its ClusterQueue is stopped. Contains the sentence for the user.
    Inactive(String),
    /// The user cannot read the queue. Contains the sentence for the user.
    Unreadable(String),
    Open(Box<OpenQueue>),
}

/// A LocalQueue with the state of its ClusterQueue.
#[derive(Clone, Debug)]
pub struct QueueFacts {
    /// Name of the LocalQueue.
    pub name: String,
    /// Name of its ClusterQueue, or `None` if the LocalQueue is missing or not readable.
    pub cluster_queue: Option<String>,
    pub state: QueueState,
}

/// Why the pods cannot use a flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlavorExclusion {
    /// The label that the flavor's nodes do not have.
    Label(String),
    /// The key of a taint that the pods do not tolerate.
    Taint(String),
    /// As `Label`, but only in versions of Kueue that compare the labels of all flavors of a group
    /// with each of them (kubernetes-sigs/kueue#12446).
    LabelOfOtherFlavor(String),
}

/// Equal pods of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSetRequest {
    pub pods: u64,
    /// Requests of one pod.
    pub requests: Amounts,
    /// Flavors that the pods cannot use.
    pub exclusions: BTreeMap<String, FlavorExclusion>,
}

/// A job that does not exist yet.
#[derive(Clone, Debug, Default)]
pub struct AdmissionRequest {
    /// The groups of pods that Kueue admits separately, each as one or more pod sets.
    pub workloads: Vec<Vec<PodSetRequest>>,
    /// Priority of the job, or `None` if it cannot be read.
    pub priority: Option<i64>,
}
