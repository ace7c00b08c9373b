//! Determines whether a job fits now, later or never, and what limits it on each node.
//!
//! Compares a pod with each node as the scheduler does: node selector, required node affinity,
//! taints, cordons, volumes, and requests against the free resources. Affinity between pods is not
//! compared. For a job with such affinity, "fits now" becomes unknown, but "does not fit" remains
//! correct. For a job in a Kueue queue, `admission.rs` simulates the admission first.

mod admission;
mod nodes;

use std::collections::BTreeMap;

use futures::future::try_join3;
use serde_json::Value;

use crate::deploy::feasibility::FeasibilityChecks;
use crate::deploy::fit::admission::predict_admission;
use crate::deploy::fit::nodes::{compare_nodes, fit_domains};
use crate::deploy::plan::{Plan, job};
use gpuctl_cluster::{Connection, requests};
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_claims::DeviceClaims;
use gpuctl_core::model::counting::fit::{Fit, FitVerdict};
use gpuctl_core::model::counting::fit_reason::FitReason;
use gpuctl_core::model::counting::victims::{NodeLoad, Victim, victims};
use gpuctl_core::model::facts::resource::is_device;
use gpuctl_core::model::{Node, Nodes, QueueSystem};
use gpuctl_manifest::render::{PodRules, VolumeFinding, VolumeRules, judge_volumes, pods_in_all};

/// Checks one job that does not exist yet. With `domain_label`, all pods must run on nodes with the
/// same value of this label.
pub(crate) async fn fit(
    plan: &Plan,
    domain_label: Option<&str>,
    connection: &Connection,
) -> Result<Fit, Error> {
    let mut feasibility = FeasibilityChecks::new(connection).without_volumes();
    // Objects that the document itself creates count as existing.
    feasibility.add(plan);
    let findings = feasibility.check(plan).await;
    let prediction = predict_admission(plan, connection).await?;
    let spec = prediction.as_ref().map(|prediction| &prediction.spec);
    let spec = spec.unwrap_or(&plan.rendered.probe.body["spec"]);
    let candidate = Candidate::read(plan, spec, connection).await?;
    let mut answer = candidate.compare(&candidate.nodes);
    if let Some(label) = domain_label {
        fit_domains(&mut answer, label, &candidate.nodes, |nodes| {
            candidate.compare(nodes)
        });
    }
    if answer.verdict == FitVerdict::Never && !matches!(plan.target.nodes, Nodes::Listed(_)) {
        // The published list of nodes may be outdated, so it does not prove that the job never
        // fits.
        answer.verdict = FitVerdict::Unknown;
        let text = "current nodes, which you are not allowed to list";
        answer
            .not_evaluated
            .push(FitReason::new("nodes-unreadable", text));
    }
    if let DeviceClaims::ClassMissing(class) = &candidate.devices {
        answer.verdict = FitVerdict::Never;
        let text = format!("device class `{class}` does not exist");
        answer.reasons.push(FitReason::new("device-claim", text));
    }
    // The forecasts consider all nodes, not only those with one value of the label.
    if domain_label.is_none() {
        candidate.add_forecasts(&mut answer, connection).await?;
    }
    answer.gpus_per_pod = candidate.gpus_per_pod();
    answer
        .not_evaluated
        .extend(candidate.unchecked_conditions());
    candidate.add_volume_findings(&mut answer);
    answer.reasons.extend(missing_queue(plan));
    if let Some(prediction) = prediction {
        answer.add_queue(prediction.admission);
    }
    if !answer.not_evaluated.is_empty() && answer.verdict == FitVerdict::Now {
        answer.verdict = FitVerdict::Unknown;
    }
    if !findings.errors.is_empty() {
        answer.verdict = FitVerdict::Never;
        let reason = |error: &Error| FitReason::new(error.name.to_string(), error.to_string());
        let others = findings
            .errors
            .iter()
            .filter(|error| !is_missing_queue(error));
        answer.reasons.extend(others.map(reason));
    } else if let Some(quota) = findings.now.filter(|line| line.starts_with("quota ")) {
        // Other messages in `now` only repeat the result of the comparison with the nodes.
        answer.verdict = answer.verdict.max(FitVerdict::NotNow);
        answer.reasons.push(FitReason::new("quota", quota));
    }
    Ok(answer)
}

/// Returns the reason for a queue that does not exist, with the cause that `why` reports.
fn missing_queue(plan: &Plan) -> Option<FitReason> {
    let error = plan
        .missing_queue
        .as_ref()
        .filter(|error| is_missing_queue(error))?;
    Some(FitReason::new("queue-missing", error.to_string()))
}

fn is_missing_queue(error: &Error) -> bool {
    error.name.to_string() == "QueueNotFound"
}

/// A job that does not exist yet, and the nodes to compare its pods with.
struct Candidate<'p> {
    plan: &'p Plan,
    rules: PodRules,
    /// Requests of one pod, including its claimed devices.
    requests: Amounts,
    pods: u64,
    nodes: Vec<Node>,
    /// Free resources of the nodes, or `None` if they are unknown.
    usage: Option<ClusterCapacity>,
    devices: DeviceClaims,
    volumes: VolumeRules,
}

impl<'p> Candidate<'p> {
    /// Reads the free resources, the job's claimed devices, and its volumes. `placement` is the spec
    /// of its pods as they are scheduled.
    async fn read(
        plan: &'p Plan,
        placement: &Value,
        connection: &Connection,
    ) -> Result<Self, Error> {
        let mut requests = requests(&plan.rendered.probe.body);
        let objects = plan.rendered.objects.iter();
        let bodies: Vec<&Value> = objects.map(|object| &object.body).collect();
        let spec = &plan.rendered.probe.body["spec"];
        let namespace = &plan.target.namespace;
        let pods = job(&plan.input).map_or(1, |job| u64::from(pods_in_all(job)));
        let usage = async {
            match &plan.target.nodes {
                Nodes::Listed(nodes) => connection.inventory().capacity(nodes).await,
                Nodes::Published(_) | Nodes::Hidden => Ok(None),
            }
        };
        let mut nodes = plan.target.nodes.all().to_vec();
        let (mut usage, devices, volumes) = try_join3(
            usage,
            connection
                .devices()
                .device_claims(namespace, spec, &bodies, &nodes),
            connection
                .storage()
                .volume_facts(namespace, &plan.rendered, pods),
        )
        .await?;
        devices.add_to(&mut requests, &mut nodes, usage.as_mut());
        let rules = PodRules::from_spec(placement);
        let is_eligible = |node: &Node| accepts(&rules, node);
        let mounted = usage
            .as_mut()
            .map(|usage| std::mem::take(&mut usage.claims));
        let volumes = volumes.map_or_else(VolumeRules::default, |mut facts| {
            facts.mounted = mounted;
            judge_volumes(&facts, pods, &nodes, is_eligible)
        });
        Ok(Self {
            plan,
            rules,
            requests,
            pods,
            nodes,
            usage,
            devices,
            volumes,
        })
    }

    fn compare(&self, nodes: &[Node]) -> Fit {
        compare_nodes(
            &self.rules,
            &self.volumes,
            &self.requests,
            self.pods,
            nodes,
            self.usage.as_ref(),
        )
    }

    fn gpus_per_pod(&self) -> u64 {
        let gpus = self.requests.iter().filter(|(name, _)| is_device(name));
        let gpus = gpus.map(|(_, milli)| milli / 1000).sum::<i128>();
        let claimed = self.devices.claimed_per_pod();
        u64::try_from(gpus).unwrap_or(0).saturating_add(claimed)
    }

    /// Adds the problems with volumes that do not depend on nodes. Unknown results are added as
    /// conditions that were not evaluated.
    fn add_volume_findings(&self, answer: &mut Fit) {
        answer.warnings.clone_from(&self.volumes.warnings);
        for finding in &self.volumes.findings {
            let (verdict, reason) = match finding {
                VolumeFinding::Never(reason) => (FitVerdict::Never, reason),
                VolumeFinding::NotNow(reason) => (FitVerdict::NotNow, reason),
                VolumeFinding::Unknown(_) => continue,
            };
            answer.verdict = answer.verdict.max(verdict);
            answer.reasons.push(reason.clone());
        }
    }

    /// For a job that does not fit now, adds the pods that it would preempt and the time when it
    /// may fit. Both follow from the requests of pods, which do not include claimed devices.
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
        // A forecast is unreliable for a gang, or if a condition was not evaluated.
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

    /// Lists the pods that the scheduler would preempt for the job, or returns `None` if there are
    /// none.
    async fn victims(
        &self,
        nodes: BTreeMap<String, NodeLoad>,
        connection: &Connection,
    ) -> Result<Option<Vec<Victim>>, Error> {
        let plan = self.plan;
        let spec = &plan.rendered.probe.body["spec"];
        // Gang schedulers and queue systems choose the pods to preempt by their own rules.
        let custom_scheduler =
            plan.target.gang.is_some() || job(&plan.input).is_some_and(|job| job.queue.is_some());
        let never = custom_scheduler
            || spec["preemptionPolicy"] == "Never"
            || !self.volumes.findings.is_empty()
            || !self
                .rules
                .unevaluated_besides_volumes(&DeviceClaims::None)
                .is_empty();
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

    /// Returns the load of the nodes that the pods may run on.
    fn load(&self, usage: &ClusterCapacity) -> BTreeMap<String, NodeLoad> {
        let is_eligible = |node: &&Node| {
            accepts(&self.rules, node)
                && self.volumes.unmet_claim(node).is_none()
                && self.volumes.on_node(node).cause.is_none()
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

    /// Lists the conditions beyond nodes that are not compared.
    fn unchecked_conditions(&self) -> Vec<FitReason> {
        let queue = job(&self.plan.input).and_then(|job| job.queue.as_ref());
        let is_simulated = self.plan.target.queueing == Some(QueueSystem::Kueue);
        let queue = queue.filter(|_| !is_simulated).map(|queue| {
            let text = format!("queue `{queue}`: gpuctl describe queue {queue}");
            FitReason::new("queue", text)
        });
        let volumes = self
            .volumes
            .findings
            .iter()
            .filter_map(|finding| match finding {
                VolumeFinding::Unknown(reason) => Some(reason.clone()),
                VolumeFinding::Never(_) | VolumeFinding::NotNow(_) => None,
            });
        let rules = self.rules.unevaluated_besides_volumes(&self.devices);
        rules.into_iter().chain(volumes).chain(queue).collect()
    }
}

/// Returns true if the pods may run on the node when it has capacity.
fn accepts(rules: &PodRules, node: &Node) -> bool {
    rules.unmet_label(node).is_none() && rules.untolerated_taint(node).is_none()
}
