//! Determines whether a job fits on these nodes now, later or never, and what limits it on each.
//!
//! Compares a pod with each node as the scheduler does: by node selector, required affinity, taints
//! and cordons, and by its requests against the free resources. Volumes, claims and affinity
//! between pods are not compared. If a job has any of them, "fits now" becomes unknown, but "does
//! not fit" remains correct.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::deploy::feasibility::FeasibilityChecks;
use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Connection, requests};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::{Amounts, lacking, pods_held};
use gpuctl_core::model::counting::device_demand::{DeviceClaims, device_class};
use gpuctl_core::model::counting::fit::{Domain, Fit, FitVerdict, NodeGroup};
use gpuctl_core::model::counting::victims::{NodeLoad, Victim, victims};
use gpuctl_core::model::facts::gpu::is_device;
use gpuctl_core::model::{Node, Nodes};
use gpuctl_diagnosis::insufficient;
use gpuctl_manifest::render::{PodRules, pods_in_all};

/// The result of comparing a pod with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeVerdict {
    cause: Option<(&'static str, Option<String>)>,
    /// `None` if the node satisfies all rules, but its free resources are unknown.
    pods_now: Option<u64>,
    /// Number of pods that fit if the node runs no other pods, even if it is cordoned.
    pods_when_empty: u64,
}

/// Checks one job that does not exist yet. With `domain_label`, all pods must run on nodes that
/// have the same value of this label.
pub(crate) async fn fit(
    plan: &Plan,
    domain_label: Option<&str>,
    connection: &Connection,
) -> Result<Fit, Error> {
    let mut feasibility = FeasibilityChecks::new(connection);
    // Objects that the document itself creates count as existing.
    feasibility.add(plan);
    let findings = feasibility.check(plan).await;
    let candidate = Candidate::read(plan, connection).await?;
    let mut answer = candidate.compare(&candidate.nodes);
    if let Some(label) = domain_label {
        fit_domains(&mut answer, label, &candidate.nodes, |nodes| {
            candidate.compare(nodes)
        });
    }
    if answer.verdict == FitVerdict::Never && !matches!(plan.target.nodes, Nodes::Listed(_)) {
        // The published list of nodes may be out of date.
        answer.verdict = FitVerdict::Unknown;
        answer
            .not_evaluated
            .push("current nodes, which you are not allowed to list".to_owned());
    }
    if let DeviceClaims::ClassMissing(class) = &candidate.devices {
        answer.verdict = FitVerdict::Never;
        answer
            .reasons
            .push(format!("device class `{class}` does not exist"));
    }
    // Both forecasts consider all nodes, not just those with one label value.
    if domain_label.is_none() {
        candidate.add_forecasts(&mut answer, connection).await?;
    }
    answer.gpus_per_pod = candidate.gpus_per_pod();
    answer
        .not_evaluated
        .extend(candidate.unchecked_conditions());
    if !answer.not_evaluated.is_empty() && answer.verdict == FitVerdict::Now {
        answer.verdict = FitVerdict::Unknown;
    }
    if !findings.errors.is_empty() {
        answer.verdict = FitVerdict::Never;
        answer
            .reasons
            .extend(findings.errors.iter().map(ToString::to_string));
    } else if let Some(quota) = findings.now.filter(|line| line.starts_with("quota ")) {
        // Any other message in `now` only repeats the result of the comparison with the nodes.
        answer.verdict = answer.verdict.max(FitVerdict::NotNow);
        answer.reasons.push(quota);
    }
    Ok(answer)
}

/// A job, and the nodes with which its pods are compared.
struct Candidate<'p> {
    plan: &'p Plan,
    rules: PodRules,
    /// The requests of one pod, including the devices that it claims.
    requests: Amounts,
    pods: u64,
    nodes: Vec<Node>,
    /// `None` if the free resources are unknown.
    usage: Option<ClusterCapacity>,
    devices: DeviceClaims,
}

impl<'p> Candidate<'p> {
    /// Reads the free resources, and the devices that the job claims.
    async fn read(plan: &'p Plan, connection: &Connection) -> Result<Self, Error> {
        let mut requests = requests(&plan.rendered.probe.body);
        let mut usage = match &plan.target.nodes {
            Nodes::Listed(nodes) => connection.inventory().capacity(nodes).await?,
            Nodes::Published(_) | Nodes::Hidden => None,
        };
        let objects = plan.rendered.objects.iter();
        let bodies: Vec<&Value> = objects.map(|object| &object.body).collect();
        let spec = &plan.rendered.probe.body["spec"];
        let devices = connection
            .devices()
            .device_claims(&plan.target.namespace, spec, &bodies)
            .await?;
        let mut nodes = plan.target.nodes.all().to_vec();
        devices.add_to(&mut requests, &mut nodes, usage.as_mut());
        Ok(Self {
            plan,
            rules: PodRules::from_spec(spec),
            requests,
            pods: job(&plan.input).map_or(1, |job| u64::from(pods_in_all(job))),
            nodes,
            usage,
            devices,
        })
    }

    fn compare(&self, nodes: &[Node]) -> Fit {
        compare_nodes(
            &self.rules,
            &self.requests,
            self.pods,
            nodes,
            self.usage.as_ref(),
        )
    }

    fn gpus_per_pod(&self) -> u64 {
        let is_gpu = |name: &str| is_device(name) || device_class(name).is_some();
        let gpus = self.requests.iter().filter(|(name, _)| is_gpu(name));
        let gpus = gpus.map(|(_, milli)| milli / 1000).sum::<i128>();
        u64::try_from(gpus).unwrap_or(0)
    }

    /// For a job that does not fit now, adds the pods that it would preempt and the time when it
    /// may fit. Both are computed from the requests of pods, which do not include claimed devices.
    async fn add_forecasts(&self, answer: &mut Fit, connection: &Connection) -> Result<(), Error> {
        let claims_nothing = matches!(self.devices, DeviceClaims::None);
        let Some(usage) = self
            .usage
            .as_ref()
            .filter(|_| answer.verdict == FitVerdict::NotNow && claims_nothing)
        else {
            return Ok(());
        };
        let nodes = self.load(usage);
        answer.victims = self.victims(nodes.clone(), connection).await?;
        let eligible: Vec<&Node> = self
            .plan
            .target
            .nodes
            .all()
            .iter()
            .filter(|node| nodes.contains_key(&node.name))
            .collect();
        // A forecast is unreliable for a gang, and if a condition is not compared here.
        let unreliable = self.plan.target.gang.is_some() || !self.unchecked_conditions().is_empty();
        answer.free_by = if unreliable || usage.has_rivals("", &eligible) {
            None
        } else {
            connection
                .jobs()
                .capacity_by(&self.requests, self.pods, &nodes)
                .await
        };
        Ok(())
    }

    /// Lists the pods that the scheduler would preempt for the job; `None` if there are none.
    async fn victims(
        &self,
        nodes: BTreeMap<String, NodeLoad>,
        connection: &Connection,
    ) -> Result<Option<Vec<Victim>>, Error> {
        let plan = self.plan;
        let spec = &plan.rendered.probe.body["spec"];
        // The schedulers for gangs and queues choose their own victims.
        let custom_scheduler =
            plan.target.gang.is_some() || job(&plan.input).is_some_and(|job| job.queue.is_some());
        let never = custom_scheduler
            || spec["preemptionPolicy"] == "Never"
            || !self.rules.unevaluated_rules(&DeviceClaims::None).is_empty();
        let Some(class) = spec["priorityClassName"].as_str().filter(|_| !never) else {
            return Ok(None);
        };
        let Some(class) = connection.inventory().priority_class(class).await? else {
            return Ok(None);
        };
        if class.preemption_policy.as_deref() == Some("Never") {
            return Ok(None);
        }
        let priority = i64::from(class.value);
        Ok(victims(&self.requests, priority, self.pods, nodes))
    }

    /// Returns the nodes on which the pods may run, and the pods already on them.
    fn load(&self, usage: &ClusterCapacity) -> BTreeMap<String, NodeLoad> {
        let pod = &self.rules;
        let is_eligible = |node: &&Node| {
            pod.unmet_label(node).is_none()
                && pod.untolerated_taint(node).is_none()
                && node.schedulable
        };
        let load = |node: &Node| {
            let placed = usage.placed.get(&node.name).cloned().unwrap_or_default();
            Some((
                node.name.clone(),
                (usage.free.get(&node.name)?.clone(), placed),
            ))
        };
        let nodes = self.plan.target.nodes.all().iter();
        nodes.filter(is_eligible).filter_map(load).collect()
    }

    /// Lists the conditions, apart from nodes, that are not compared here.
    fn unchecked_conditions(&self) -> Vec<String> {
        let queue = job(&self.plan.input).and_then(|job| job.queue.as_ref());
        let queue = queue.map(|queue| format!("queue `{queue}`: gpuctl describe queue {queue}"));
        let conditions = self.rules.unevaluated_rules(&self.devices).into_iter();
        conditions.chain(queue).collect()
    }
}

/// Compares pods with nodes. `usage` is `None` if the free resources are unknown.
fn compare_nodes(
    pod: &PodRules,
    requests: &Amounts,
    pods: u64,
    nodes: &[Node],
    usage: Option<&ClusterCapacity>,
) -> Fit {
    let mut groups: BTreeMap<Option<(&'static str, Option<String>)>, NodeGroup> = BTreeMap::new();
    let (mut pods_now, mut pods_when_empty) = (0_u64, 0_u64);
    for node in nodes {
        let free = usage.and_then(|usage| usage.free.get(&node.name));
        let verdict = fit_node(pod, requests, node, free);
        pods_now = pods_now.saturating_add(verdict.pods_now.unwrap_or(0));
        pods_when_empty = pods_when_empty.saturating_add(verdict.pods_when_empty);
        let (cause, detail) = verdict
            .cause
            .clone()
            .map_or((None, None), |(cause, detail)| (Some(cause), detail));
        let group = groups.entry(verdict.cause).or_insert_with(|| NodeGroup {
            cause,
            detail,
            nodes: Vec::new(),
            pods_now: Some(0),
        });
        group.nodes.push(node.name.clone());
        group.pods_now = group
            .pods_now
            .zip(verdict.pods_now)
            .map(|(group, node)| group.saturating_add(node));
    }
    // When an autoscaler extends a node group, the new nodes are of the same kind as the others.
    let accepts =
        |node: &&Node| pod.unmet_label(node).is_none() && pod.untolerated_taint(node).is_none();
    let may_autoscale = nodes.iter().filter(accepts).any(Node::is_autoscaled);
    let (verdict, not_evaluated) = match usage {
        _ if nodes.is_empty() => (FitVerdict::Unknown, Some("nodes, which cannot be listed")),
        _ if pods_when_empty < pods && may_autoscale => (
            FitVerdict::Unknown,
            Some("nodes that an autoscaler may add"),
        ),
        _ if pods_when_empty < pods => (FitVerdict::Never, None),
        None => (
            FitVerdict::Unknown,
            Some("free resources: you are not allowed to list all nodes and pods"),
        ),
        Some(_) if pods_now >= pods => (FitVerdict::Now, None),
        Some(_) => (FitVerdict::NotNow, None),
    };
    Fit {
        verdict,
        pods,
        pods_now: usage.map(|_| pods_now.min(pods)),
        gpus_per_pod: 0,
        groups: groups.into_values().collect(),
        domains: Vec::new(),
        victims: None,
        free_by: None,
        reasons: Vec::new(),
        not_evaluated: not_evaluated.into_iter().map(ToOwned::to_owned).collect(),
    }
}

/// Checks the nodes of each label value separately. The value with the best result determines the
/// verdict, and the answer describes its nodes.
fn fit_domains(answer: &mut Fit, label: &str, nodes: &[Node], compare: impl Fn(&[Node]) -> Fit) {
    let mut domains: BTreeMap<&str, Vec<Node>> = BTreeMap::new();
    for node in nodes {
        if let Some(value) = node.labels.get(label) {
            domains.entry(value).or_default().push(node.clone());
        }
    }
    let mut results: Vec<(Domain, Fit)> = domains
        .into_iter()
        .map(|(value, nodes)| {
            let fit = compare(&nodes);
            let (verdict, pods_now) = (fit.verdict, fit.pods_now);
            (
                Domain {
                    value: value.to_owned(),
                    verdict,
                    pods_now,
                    nodes: nodes.len(),
                },
                fit,
            )
        })
        .collect();
    results.sort_by_key(|(domain, _)| (domain.verdict, std::cmp::Reverse(domain.pods_now)));
    match results.first() {
        Some((domain, fit)) => {
            (answer.verdict, answer.pods_now) = (domain.verdict, domain.pods_now);
            answer.not_evaluated.clone_from(&fit.not_evaluated);
            answer.groups.clone_from(&fit.groups);
        }
        None => {
            (answer.verdict, answer.pods_now) = (FitVerdict::Unknown, None);
            answer.not_evaluated = vec![format!(
                "domains: no node that you may list has the label {label}"
            )];
        }
    }
    answer.domains = results.into_iter().map(|(domain, _)| domain).collect();
}

fn fit_node(
    pod: &PodRules,
    requests: &Amounts,
    node: &Node,
    free: Option<&Amounts>,
) -> NodeVerdict {
    let never = |cause, detail| NodeVerdict {
        cause: Some((cause, detail)),
        pods_now: Some(0),
        pods_when_empty: 0,
    };
    if let Some(label) = pod.unmet_label(node) {
        return never("node-selector", Some(label));
    }
    let fitting = |amounts: &Amounts| {
        pods_held(
            requests,
            &BTreeMap::from([(node.name.clone(), amounts.clone())]),
        )
    };
    let pods_when_empty = fitting(&node.most());
    if let Some(taint) = pod.untolerated_taint(node) {
        // Kubernetes sets and removes these taints when the state of the node changes, for example
        // `not-ready` or `disk-pressure`.
        let pods_when_empty = if taint.key.starts_with("node.kubernetes.io/") {
            pods_when_empty
        } else {
            0
        };
        return NodeVerdict {
            cause: Some(("taint", Some(taint.key.clone()))),
            pods_now: Some(0),
            pods_when_empty,
        };
    }
    if !node.schedulable {
        return NodeVerdict {
            cause: Some(("cordoned", None)),
            pods_now: Some(0),
            pods_when_empty,
        };
    }
    let insufficiency = |amounts: &Amounts| {
        let shortage = lacking(requests, amounts).into_iter().next()?;
        Some((insufficient(&shortage), Some(shortage)))
    };
    let empty = node.now();
    let cause = insufficiency(free.unwrap_or(&empty));
    NodeVerdict {
        // A node that lacks a resource even when it is empty holds no pod for certain.
        pods_now: free.map(fitting).or_else(|| cause.is_some().then_some(0)),
        cause,
        pods_when_empty,
    }
}

#[cfg(test)]
mod tests;
