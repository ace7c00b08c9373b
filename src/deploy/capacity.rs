//! Compares the pods of a job with the nodes: whether the nodes could hold the pods if they were
//! empty, and whether the pods fit now. If they do not fit now, names the jobs that hold the
//! devices. Cordoned nodes and nodes with a broken device plugin count as capacity. Taints are not
//! considered.

use std::collections::BTreeMap;

use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::requests;
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::{Amounts, Shortage, pods_held, shortage};
use gpuctl_core::model::facts::resource::is_device;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Gang, Node, Nodes};
use gpuctl_manifest::render::{PodRules, Refusal, is_temporary, pods_in_all};

/// Resources that only HAMi's scheduler tracks. Nodes do not report them.
const NOT_ON_NODES: [&str; 3] = [
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
];

/// The requests of one pod in a plan, and the nodes on which the pod may run.
pub(super) struct Demand<'p> {
    plan: &'p Plan,
    requests: Amounts,
    /// Number of pods that must run at the same time.
    concurrent_pods: u64,
}

/// Result of comparing the pods with empty nodes.
pub(super) enum CapacityVerdict {
    Possible,
    /// The pods do not fit on the known nodes, but may fit on nodes that an autoscaler adds.
    Doubtful(String),
    Impossible(Box<Error>),
}

impl<'p> Demand<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        let mut requests = requests(&plan.rendered.probe.body);
        requests.retain(|resource, _| !NOT_ON_NODES.contains(&resource.as_str()));
        // A claimed device is not a resource of the node, so use a name that no node resource has.
        if let Some(claim) = &plan.rendered.choice.claim {
            requests.insert(
                claimed_resource(&claim.class),
                i128::from(claim.count) * 1000,
            );
        }
        let concurrent_pods = job(&plan.input).map_or(1, |job| u64::from(job.resources.node_count));
        Self {
            plan,
            requests,
            concurrent_pods,
        }
    }

    pub(super) fn has_devices(&self) -> bool {
        self.requests.keys().any(|resource| is_device(resource))
    }

    /// Compares the pods with the total capacity of the nodes.
    pub(super) fn check_capacity(&self) -> CapacityVerdict {
        let nodes: Vec<&Node> = self.nodes(&self.plan.rendered.choice.qualified).collect();
        // Without a suitable node, there is nothing to compare the pods with.
        if nodes.is_empty() {
            return CapacityVerdict::Possible;
        }
        let amounts = self.amounts(&nodes);
        let shortage = shortage(&self.requests, &amounts);
        let (message, hint) = match &shortage {
            Some(shortage) => (
                self.impossible_message(shortage),
                self.impossible_hint(shortage),
            ),
            None => match pods_held(&self.requests, &amounts) {
                held if held >= self.concurrent_pods => return CapacityVerdict::Possible,
                held => (
                    format!(
                        "the eligible nodes can hold only {held} of these pods at once, but the job needs \
                         {} at the same time",
                        self.concurrent_pods
                    ),
                    format!("set `resources.node_count: {held}`, or request less per pod"),
                ),
            },
        };
        // A scheduler extension such as HAMi can provide a resource that no node reports, so this
        // is only a warning.
        let unreported = shortage.is_some_and(|shortage| {
            shortage.most == 0
                && !is_device(&shortage.resource)
                && shortage.resource.contains('/')
                && !shortage.resource.ends_with(CLAIMED_SUFFIX)
        });
        if unreported {
            return CapacityVerdict::Doubtful(format!(
                "{message}; the job will never start unless a scheduler extension provides it"
            ));
        }
        let may_autoscale = self.may_autoscale(&nodes);
        // The pods can never fit only if the list of nodes is complete and no autoscaler adds
        // nodes.
        if may_autoscale || !matches!(self.plan.target.nodes, Nodes::Listed(_)) {
            let exception = if may_autoscale {
                "an autoscaler adds a larger node"
            } else {
                "the published list of nodes is out of date"
            };
            return CapacityVerdict::Doubtful(format!(
                "{message}; the job will never start unless {exception}"
            ));
        }
        let position = job(&self.plan.input).and_then(|job| job.resources.gpu_at);
        let refusal = Refusal {
            name: "NeverFits",
            message,
            hints: vec![hint],
            at: position,
        };
        CapacityVerdict::Impossible(Box::new(
            refusal.in_file(&self.plan.input.file, &self.plan.input.text),
        ))
    }

    /// Returns the capacity of each node, including the devices that the job's claim can use.
    fn amounts(&self, nodes: &[&Node]) -> BTreeMap<String, Amounts> {
        let mut amounts: BTreeMap<String, Amounts> = nodes
            .iter()
            .map(|node| (node.name.clone(), self.most(node)))
            .collect();
        let Some(claim) = &self.plan.rendered.choice.claim else {
            return amounts;
        };
        for node in nodes {
            let is_offered = |product: Option<&String>| {
                claim.products.is_empty()
                    || product.is_some_and(|product| claim.products.contains(product))
            };
            let devices = node.claimable.iter().filter(|claimable| {
                claimable.driver == claim.class && is_offered(claimable.product.as_ref())
            });
            let maximum = i128::from(devices.map(|claimable| claimable.count).sum::<u64>()) * 1000;
            amounts
                .get_mut(&node.name)
                .map(|amounts| amounts.insert(claimed_resource(&claim.class), maximum));
        }
        amounts
    }

    /// Returns the capacity of a node, including the devices that a driver offers under the name of
    /// a requested extended resource.
    fn most(&self, node: &Node) -> Amounts {
        let mut most = node.most();
        for resource in self.requests.keys() {
            let served = i128::from(node.served_by_claims(resource)) * 1000;
            let amount = most.get(resource).copied().unwrap_or(0);
            if served > amount {
                most.insert(resource.clone(), served);
            }
        }
        most
    }

    /// Returns true if an autoscaler may add nodes on which the pods fit.
    fn may_autoscale(&self, nodes: &[&Node]) -> bool {
        let all = self.plan.target.nodes.all();
        nodes.iter().any(|node| node.is_autoscaled())
            || all
                .iter()
                .any(|node| node.is_autoscaled() && self.in_pool(node))
    }

    /// Returns true if all pods must run at the same time.
    pub(super) fn is_gang(&self) -> bool {
        self.concurrent_pods > 1
    }

    /// Describes what is missing now, and names the jobs that hold it. Returns `None` if the pods
    /// fit.
    pub(super) fn missing_now(&self, free_resources: &ClusterCapacity) -> Option<String> {
        // Candidates include nodes with temporary taints, such as `not-ready`, because a job can
        // wait for them. Neither these nor cordoned nodes accept new pods now.
        let rules = PodRules::from_spec(&self.plan.rendered.probe.body["spec"]);
        let is_shut = |node: &Node| {
            rules
                .untolerated_taint(node)
                .is_some_and(|taint| is_temporary(&taint.key))
        };
        let is_usable = |node: &&Node| node.schedulable && !is_shut(node);
        let free: BTreeMap<String, Amounts> = self
            .nodes(&self.plan.rendered.choice.candidates)
            .filter(is_usable)
            .filter_map(|node| {
                Some((
                    node.name.clone(),
                    free_resources.free.get(&node.name)?.clone(),
                ))
            })
            .collect();
        let mut candidates = self.nodes(&self.plan.rendered.choice.candidates);
        let is_served = candidates.any(|node| {
            let mut resources = self.requests.keys();
            resources.any(|resource| node.served_by_claims(resource) > 0)
        });
        if self.plan.rendered.choice.claim.is_some() || is_served {
            // The claimed devices that are in use follow from ResourceClaims, which are not read
            // here.
            return None;
        }
        let (fitting, pods) = (
            pods_held(&self.requests, &free),
            job(&self.plan.input).map_or(1, pods_in_all),
        );
        let pods = u64::from(pods);
        if fitting >= pods {
            return None;
        }
        // For a gang, the number of pods that fit is more useful than the first shortage.
        let message = match shortage(&self.requests, &free) {
            _ if self.is_gang() => {
                let consequence = match &self.plan.target.gang {
                    Some(Gang::Native(_) | Gang::Volcano) => "none start until all fit",
                    Some(Gang::Kueue) => "the queue decides when they start",
                    // Pods of a partly placed gang hold GPUs without doing any work.
                    None => "pods that start hold their GPUs while waiting for the rest",
                };
                format!("only {fitting} of {pods} pods fit now; {consequence}")
            }
            _ if pods > 1 => format!("only {fitting} of {pods} pods fit now"),
            None => return None,
            Some(shortage) => match &shortage.node {
                None => "no eligible node currently accepts new pods".to_owned(),
                Some(node) => format!(
                    "no node has {} free now; the most is {} ({node})",
                    self.amount(&shortage.resource, shortage.requested),
                    format_amount(&shortage.resource, shortage.most.max(0))
                ),
            },
        };
        Some(format!(
            "{message}{}",
            describe_holders(&free, free_resources)
        ))
    }

    fn nodes<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a Node> {
        self.plan
            .target
            .nodes
            .all()
            .iter()
            .filter(move |node| names.contains(&node.name))
    }

    fn in_pool(&self, node: &Node) -> bool {
        let pool = job(&self.plan.input).and_then(|job| job.resources.pool.as_ref());
        pool.is_none_or(|pool| node.pool() == Some(&pool.value))
    }

    fn impossible_message(&self, shortage: &Shortage) -> String {
        let requested = self.amount(&shortage.resource, shortage.requested);
        // `shortage` considers CPU and memory only on nodes with enough devices, so mention the
        // devices.
        let device_amounts: Vec<String> = match is_device(&shortage.resource) {
            true => Vec::new(),
            false => {
                let devices = self
                    .requests
                    .iter()
                    .filter(|(resource, _)| is_device(resource));
                devices
                    .map(|(resource, amount)| self.amount(resource, *amount))
                    .collect()
            }
        };
        let with_devices = if device_amounts.is_empty() {
            String::new()
        } else {
            format!(" with {}", device_amounts.join(" and "))
        };
        let largest = shortage.node.as_ref().map_or(String::new(), |node| {
            format!(
                "; the largest has {} ({node})",
                format_amount(&shortage.resource, shortage.most)
            )
        });
        format!("no node{with_devices} has {requested}{largest}")
    }

    fn impossible_hint(&self, shortage: &Shortage) -> String {
        let maximum = format_amount(&shortage.resource, shortage.most);
        let field = match shortage.resource.as_str() {
            "cpu" => "cpu",
            "memory" => "memory",
            resource if is_device(resource) => "gpu",
            _ => {
                return "request less, or submit the job anyway with `--allow-pending`".to_owned();
            }
        };
        let alternative = if shortage.most > 0 {
            format!("set `resources.{field}` to {maximum} or less, or ")
        } else {
            String::new()
        };
        format!("{alternative}submit the job anyway with `--allow-pending`")
    }

    /// Formats an amount for messages, such as `8 a100-80g`, `96 CPUs` or `1Ti of memory`.
    fn amount(&self, resource: &str, milli: i128) -> String {
        let kind = self
            .plan
            .rendered
            .choice
            .gpu_type
            .as_ref()
            .map(ToString::to_string);
        let number = format_amount(resource, milli);
        match resource {
            "cpu" => format!("{number} CPU{}", if milli == 1000 { "" } else { "s" }),
            "memory" => format!("{number} of memory"),
            "ephemeral-storage" => format!("{number} of ephemeral storage"),
            _ if is_device(resource) || resource.ends_with(CLAIMED_SUFFIX) => match kind {
                Some(kind) => format!("{number} {kind}"),
                None => count(u64::try_from(milli / 1000).unwrap_or(0), "GPU"),
            },
            _ => format!("{number} {resource}"),
        }
    }
}

/// Names up to three jobs that hold the most devices on these nodes.
fn describe_holders(free: &BTreeMap<String, Amounts>, free_resources: &ClusterCapacity) -> String {
    let mut holders: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, devices) in free
        .keys()
        .filter_map(|node| free_resources.held.get(node))
        .flatten()
    {
        *holders.entry(name).or_default() += devices;
    }
    let mut holders: Vec<(&str, u64)> = holders.into_iter().collect();
    // Sort jobs with equally many devices by name, so that repeated calls print the same message.
    holders.sort_by_key(|(name, devices)| (std::cmp::Reverse(*devices), *name));
    if holders.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = holders
        .iter()
        .take(3)
        .map(|(name, devices)| format!("{name} holds {devices}"))
        .collect();
    let others = match holders.len().saturating_sub(3) {
        0 => String::new(),
        others => format!(" and {others} more hold the rest"),
    };
    format!("; {}{others}", shown.join(", "))
}

// Suffix that distinguishes claimed devices from resources that a device plugin reports.
const CLAIMED_SUFFIX: &str = "/claimed";

fn claimed_resource(class: &str) -> String {
    format!("{class}{CLAIMED_SUFFIX}")
}

fn format_amount(resource: &str, milli: i128) -> String {
    let units = u64::try_from(milli / 1000).unwrap_or(0);
    match resource {
        // Round down to whole MiB, because `quantity::binary` would print odd amounts in bytes.
        "memory" | "ephemeral-storage" => quantity::binary(units >> 20 << 20),
        "cpu" if milli % 1000 != 0 => format!("{}.{}", milli / 1000, milli % 1000 / 100),
        _ => units.to_string(),
    }
}
