//! Finds out whether a job fits now, later or never on these nodes, and what limits it on which of
//! them.
//!
//! Compares a pod with each node as the scheduler does: node selector and required affinity,
//! taints, cordons, and requests with free resources. Volumes, claims and affinity between pods are
//! not compared: they turn «fits now» into unknown, but «does not fit» stays true.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::deploy::feasibility::Surroundings;
use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Connection, requests};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::capacity::{Amounts, lacking, pods_held};
use gpuctl_core::model::counting::device_demand::{DeviceClaims, device_class};
use gpuctl_core::model::counting::fit::{Domain, Fit, FitVerdict, NodeGroup};
use gpuctl_core::model::counting::victims::{NodeLoad, Victim, victims};
use gpuctl_core::model::facts::gpu::is_device;
use gpuctl_core::model::{Node, Nodes};
use gpuctl_diagnosis::insufficient;
use gpuctl_manifest::render::{PodRules, pods_in_all};

/// Result of comparing a pod with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeVerdict {
    cause: Option<(&'static str, Option<String>)>,
    now: u64,
    /// Number of pods that fit if the node runs no others, even if it is cordoned.
    ever: u64,
}

/// Checks one job that does not exist yet. With `by`, all its pods must run on nodes with the same
/// value of this label.
pub(crate) async fn fit(
    plan: &Plan,
    by: Option<&str>,
    connection: &Connection,
) -> Result<Fit, Error> {
    let mut around = Surroundings::new(connection);
    // Objects that the document itself creates count as existing.
    around.add(plan);
    let found = around.check(plan).await;
    let candidate = Candidate::of(plan, connection).await?;
    let mut answer = candidate.judge(&candidate.nodes);
    if let Some(label) = by {
        within(&mut answer, label, &candidate.nodes, |nodes| {
            candidate.judge(nodes)
        });
    }
    if answer.verdict == FitVerdict::Never && !matches!(plan.target.nodes, Nodes::Listed(_)) {
        // The published list of nodes may be out of date.
        answer.verdict = FitVerdict::Unknown;
        answer
            .not_evaluated
            .push("current nodes, which you may not list".to_owned());
    }
    if let DeviceClaims::ClassMissing(class) = &candidate.devices {
        answer.verdict = FitVerdict::Never;
        answer
            .reasons
            .push(format!("device class `{class}` does not exist"));
    }
    // Both forecasts consider all nodes, not the nodes of one label value.
    if by.is_none() {
        candidate.foresee_room(&mut answer, connection).await?;
    }
    answer.gpus_per_pod = candidate.gpus_per_pod();
    answer.not_evaluated.extend(candidate.unevaluated_rules());
    if !answer.not_evaluated.is_empty() && answer.verdict == FitVerdict::Now {
        answer.verdict = FitVerdict::Unknown;
    }
    if !found.errors.is_empty() {
        answer.verdict = FitVerdict::Never;
        answer
            .reasons
            .extend(found.errors.iter().map(ToString::to_string));
    } else if let Some(quota) = found.now.filter(|line| line.starts_with("quota ")) {
        // Any other message in `now` only repeats the comparison with nodes.
        answer.verdict = answer.verdict.max(FitVerdict::NotNow);
        answer.reasons.push(quota);
    }
    Ok(answer)
}

/// A job and the nodes that its pods are compared with.
struct Candidate<'p> {
    plan: &'p Plan,
    rules: PodRules,
    /// Requests of one pod, including the devices that it claims.
    wanted: Amounts,
    pods: u64,
    nodes: Vec<Node>,
    /// `None` if the free resources are unknown.
    room: Option<Room>,
    devices: DeviceClaims,
}

impl<'p> Candidate<'p> {
    /// Reads the free resources and the devices that the job claims.
    async fn of(plan: &'p Plan, connection: &Connection) -> Result<Self, Error> {
        let mut wanted = requests(&plan.rendered.probe.body);
        let mut room = match &plan.target.nodes {
            Nodes::Listed(nodes) => connection.inventory().room(nodes).await?,
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
        devices.add_to(&mut wanted, &mut nodes, room.as_mut());
        Ok(Self {
            plan,
            rules: PodRules::from_spec(spec),
            wanted,
            pods: job(&plan.input).map_or(1, |job| u64::from(pods_in_all(job))),
            nodes,
            room,
            devices,
        })
    }

    fn judge(&self, nodes: &[Node]) -> Fit {
        judged(
            &self.rules,
            &self.wanted,
            self.pods,
            nodes,
            self.room.as_ref(),
        )
    }

    fn gpus_per_pod(&self) -> u64 {
        let is_gpu = |resource: &str| is_device(resource) || device_class(resource).is_some();
        let gpus = self.wanted.iter().filter(|(resource, _)| is_gpu(resource));
        let gpus = gpus.map(|(_, milli)| milli / 1000).sum::<i128>();
        u64::try_from(gpus).unwrap_or(0)
    }

    /// For a job that does not fit now, adds the pods it would preempt and the time when it may
    /// fit. Both are computed from the requests of pods, which do not include claimed devices.
    async fn foresee_room(&self, answer: &mut Fit, connection: &Connection) -> Result<(), Error> {
        let claims_nothing = matches!(self.devices, DeviceClaims::None);
        let Some(room) = self
            .room
            .as_ref()
            .filter(|_| answer.verdict == FitVerdict::NotNow && claims_nothing)
        else {
            return Ok(());
        };
        let nodes = self.load(room);
        answer.victims = self.victims(nodes.clone(), connection).await?;
        let open: Vec<&Node> = self
            .plan
            .target
            .nodes
            .all()
            .iter()
            .filter(|node| nodes.contains_key(&node.name))
            .collect();
        // A gang, or a condition that is not compared here, makes a forecast unreliable.
        let beyond = self.plan.target.gang.is_some() || !self.unevaluated_rules().is_empty();
        answer.room_by = if beyond || room.has_rivals("", &open) {
            None
        } else {
            connection
                .jobs()
                .room_by(&self.wanted, self.pods, &nodes)
                .await
        };
        Ok(())
    }

    /// Lists the pods that the scheduler would preempt for the job; `None` if it preempts none.
    async fn victims(
        &self,
        nodes: BTreeMap<String, NodeLoad>,
        connection: &Connection,
    ) -> Result<Option<Vec<Victim>>, Error> {
        let plan = self.plan;
        let spec = &plan.rendered.probe.body["spec"];
        // Schedulers of gangs and queues choose their own victims.
        let others =
            plan.target.gang.is_some() || job(&plan.input).is_some_and(|job| job.queue.is_some());
        let never = others
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
        Ok(victims(&self.wanted, priority, self.pods, nodes))
    }

    /// Returns the nodes on which the pods may run, with the pods already on them.
    fn load(&self, room: &Room) -> BTreeMap<String, NodeLoad> {
        let pod = &self.rules;
        let open = |node: &&Node| {
            pod.unmet_label(node).is_none()
                && pod.untolerated_taint(node).is_none()
                && node.schedulable
        };
        let load = |node: &Node| {
            let placed = room.placed.get(&node.name).cloned().unwrap_or_default();
            Some((
                node.name.clone(),
                (room.free.get(&node.name)?.clone(), placed),
            ))
        };
        let nodes = self.plan.target.nodes.all().iter();
        nodes.filter(open).filter_map(load).collect()
    }

    /// Lists conditions other than nodes that are not compared here.
    fn beyond_nodes(&self) -> Vec<String> {
        let queue = job(&self.plan.input).and_then(|job| job.queue.as_ref());
        let queue = queue.map(|queue| format!("queue `{queue}`: gpuctl describe queue {queue}"));
        let beyond = self.rules.unevaluated_rules(&self.devices).into_iter();
        beyond.chain(queue).collect()
    }
}

/// Compares pods with nodes. `room` is `None` if the free resources are unknown.
fn judged(pod: &PodRules, wanted: &Amounts, pods: u64, nodes: &[Node], room: Option<&Room>) -> Fit {
    let mut groups: BTreeMap<Option<(&'static str, Option<String>)>, NodeGroup> = BTreeMap::new();
    let (mut now, mut ever) = (0_u64, 0_u64);
    for node in nodes {
        let free = room.and_then(|room| room.free.get(&node.name));
        let verdict = on_node(pod, wanted, node, free);
        now = now.saturating_add(verdict.now);
        ever = ever.saturating_add(verdict.ever);
        let (cause, detail) = verdict
            .cause
            .clone()
            .map_or((None, None), |(cause, detail)| (Some(cause), detail));
        let group = groups.entry(verdict.cause).or_insert_with(|| NodeGroup {
            cause,
            detail,
            nodes: Vec::new(),
            pods_now: 0,
        });
        group.nodes.push(node.name.clone());
        group.pods_now = group.pods_now.saturating_add(verdict.now);
    }
    // An autoscaler that extends a node group adds nodes of the same kind.
    let takes =
        |node: &&Node| pod.unmet_label(node).is_none() && pod.untolerated_taint(node).is_none();
    let growing = nodes.iter().filter(takes).any(Node::is_autoscaled);
    let (verdict, missing) = match room {
        _ if nodes.is_empty() => (FitVerdict::Unknown, Some("nodes, which you may not list")),
        _ if ever < pods && growing => (
            FitVerdict::Unknown,
            Some("nodes that an autoscaler may add"),
        ),
        _ if ever < pods => (FitVerdict::Never, None),
        None => (
            FitVerdict::Unknown,
            Some("free resources: you may not list all nodes and pods"),
        ),
        Some(_) if now >= pods => (FitVerdict::Now, None),
        Some(_) => (FitVerdict::NotNow, None),
    };
    Fit {
        verdict,
        pods,
        pods_now: room.map(|_| now.min(pods)),
        gpus_per_pod: 0,
        groups: groups.into_values().collect(),
        domains: Vec::new(),
        victims: None,
        room_by: None,
        reasons: Vec::new(),
        not_evaluated: missing.into_iter().map(ToOwned::to_owned).collect(),
    }
}

/// Checks the nodes of each value of a label separately. The best value decides the verdict, and
/// the answer describes its nodes.
fn within(answer: &mut Fit, label: &str, nodes: &[Node], judge: impl Fn(&[Node]) -> Fit) {
    let mut parts: BTreeMap<&str, Vec<Node>> = BTreeMap::new();
    for node in nodes {
        if let Some(value) = node.labels.get(label) {
            parts.entry(value).or_default().push(node.clone());
        }
    }
    let mut judged: Vec<(Domain, Fit)> = parts
        .into_iter()
        .map(|(value, nodes)| {
            let fit = judge(&nodes);
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
    judged.sort_by_key(|(domain, _)| (domain.verdict, std::cmp::Reverse(domain.pods_now)));
    match judged.first() {
        Some((domain, best)) => {
            (answer.verdict, answer.pods_now) = (domain.verdict, domain.pods_now);
            answer.not_evaluated.clone_from(&best.not_evaluated);
            answer.groups.clone_from(&best.groups);
        }
        None => {
            (answer.verdict, answer.pods_now) = (FitVerdict::Unknown, None);
            answer.not_evaluated = vec![format!(
                "domains: no node that you may list has the label {label}"
            )];
        }
    }
    answer.domains = judged.into_iter().map(|(domain, _)| domain).collect();
}

fn on_node(pod: &PodRules, wanted: &Amounts, node: &Node, free: Option<&Amounts>) -> NodeVerdict {
    let never = |cause, detail| NodeVerdict {
        cause: Some((cause, detail)),
        now: 0,
        ever: 0,
    };
    if let Some(label) = pod.unmet_label(node) {
        return never("node-selector", Some(label));
    }
    let on = |amounts: &Amounts| {
        pods_held(
            wanted,
            &BTreeMap::from([(node.name.clone(), amounts.clone())]),
        )
    };
    let ever = on(&node.most());
    if let Some(taint) = pod.untolerated_taint(node) {
        // Kubernetes sets and removes these taints with the state of the node, for example
        // `not-ready` or `disk-pressure`.
        let ever = if taint.key.starts_with("node.kubernetes.io/") {
            ever
        } else {
            0
        };
        return NodeVerdict {
            cause: Some(("taint", Some(taint.key.clone()))),
            now: 0,
            ever,
        };
    }
    if !node.schedulable {
        return NodeVerdict {
            cause: Some(("cordoned", None)),
            now: 0,
            ever,
        };
    }
    let lacking = |amounts: &Amounts| {
        let short = lacking(wanted, amounts).into_iter().next()?;
        Some((insufficient(&short), Some(short)))
    };
    match free {
        Some(free) => NodeVerdict {
            cause: lacking(free),
            now: on(free),
            ever,
        },
        None => NodeVerdict {
            cause: lacking(&node.now()),
            now: 0,
            ever,
        },
    }
}

#[cfg(test)]
mod tests;
