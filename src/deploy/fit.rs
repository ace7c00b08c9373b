//! Tells whether a job fits: now, later, or never on these nodes, and what binds on which of them.
//! A pod is compared with each node as the scheduler does: selector and required affinity, taints,
//! cordons, and what is requested of what is free. What is not compared (volumes, claims, pods
//! beside pods) makes a «fits now» unknown; a «does not fit» stays true.

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

/// What one node says of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeVerdict {
    cause: Option<(&'static str, Option<String>)>,
    now: u64,
    /// When nobody else uses it, cordoned or not.
    ever: u64,
}

/// Judges one job that is not there yet; with `by` it has to fit into one value of this label of
/// nodes.
pub(crate) async fn fit(
    plan: &Plan,
    by: Option<&str>,
    connection: &Connection,
) -> Result<Fit, Error> {
    let mut around = Surroundings::new(connection);
    around.add(plan);
    let found = around.check(plan).await;
    let pods = job(&plan.input).map_or(1, |job| u64::from(pods_in_all(job)));
    let pod = PodRules::of(&plan.rendered.probe.body["spec"]);
    let mut wanted = requests(&plan.rendered.probe.body);
    let mut room = match &plan.target.nodes {
        Nodes::Listed(nodes) => connection.room(nodes).await?,
        Nodes::Published(_) | Nodes::Hidden => None,
    };
    let own: Vec<&Value> = plan
        .rendered
        .objects
        .iter()
        .map(|object| &object.body)
        .collect();
    let spec = &plan.rendered.probe.body["spec"];
    let devices = connection
        .device_claims(&plan.target.namespace, spec, &own)
        .await?;
    let mut nodes = plan.target.nodes.all().to_vec();
    devices.add_to(&mut wanted, &mut nodes, room.as_mut());
    let is_gpu = |resource: &str| is_device(resource) || device_class(resource).is_some();
    let gpus_per_pod = wanted
        .iter()
        .filter(|(resource, _)| is_gpu(resource))
        .map(|(_, milli)| milli / 1000)
        .sum::<i128>();
    let mut answer = judged(&pod, &wanted, pods, &nodes, room.as_ref());
    if let Some(label) = by {
        within(&mut answer, label, &nodes, |nodes| {
            judged(&pod, &wanted, pods, nodes, room.as_ref())
        });
    }
    if answer.verdict == FitVerdict::Never && !matches!(plan.target.nodes, Nodes::Listed(_)) {
        // What was published may be old.
        answer.verdict = FitVerdict::Unknown;
        answer
            .not_evaluated
            .push("nodes as they are now: you may not list them".to_owned());
    }
    if let DeviceClaims::ClassMissing(class) = &devices {
        answer.verdict = FitVerdict::Never;
        answer
            .reasons
            .push(format!("device class `{class}` does not exist"));
    }
    // Victims and deadlines are computed from what pods request; devices that are held through
    // claims are not among that.
    let claims_nothing = matches!(devices, DeviceClaims::None);
    if let (FitVerdict::NotNow, None, true, Some(room)) =
        (answer.verdict, by, claims_nothing, &room)
    {
        let nodes = load(&pod, plan, room);
        answer.victims = ended(&pod, &wanted, pods, plan, nodes.clone(), connection).await?;
        let open: Vec<&Node> = plan
            .target
            .nodes
            .all()
            .iter()
            .filter(|node| nodes.contains_key(&node.name))
            .collect();
        let beyond = plan.target.gang.is_some() || !beyond(plan, &pod, &devices).is_empty();
        answer.room_by = if beyond || room.has_rivals("", &open) {
            None
        } else {
            connection.room_by(&wanted, pods, &nodes).await
        };
    }
    answer.gpus_per_pod = u64::try_from(gpus_per_pod).unwrap_or(0);
    answer.not_evaluated.extend(beyond(plan, &pod, &devices));
    if !answer.not_evaluated.is_empty() && answer.verdict == FitVerdict::Now {
        answer.verdict = FitVerdict::Unknown;
    }
    if !found.errors.is_empty() {
        answer.verdict = FitVerdict::Never;
        answer
            .reasons
            .extend(found.errors.iter().map(ToString::to_string));
    } else if let Some(quota) = found.now.filter(|line| line.starts_with("quota ")) {
        answer.verdict = answer.verdict.max(FitVerdict::NotNow);
        answer.reasons.push(quota);
    }
    Ok(answer)
}

/// Compares pods with nodes; `room` is `None` where it is not known what is free.
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
    // A group of nodes that grows brings more of the nodes that it has.
    let takes =
        |node: &&Node| pod.off_selector(node).is_none() && pod.not_tolerated(node).is_none();
    let growing = nodes.iter().filter(takes).any(Node::is_autoscaled);
    let (verdict, missing) = match room {
        _ if nodes.is_empty() => (FitVerdict::Unknown, Some("nodes, which you may not list")),
        _ if ever < pods && growing => (
            FitVerdict::Unknown,
            Some("nodes that an autoscaler may bring"),
        ),
        _ if ever < pods => (FitVerdict::Never, None),
        None => (
            FitVerdict::Unknown,
            Some("what is free: you may not list all nodes and pods"),
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

/// Returns who would be ended for it; `None` for a job that preempts nobody.
async fn ended(
    pod: &PodRules,
    wanted: &Amounts,
    pods: u64,
    plan: &Plan,
    nodes: BTreeMap<String, NodeLoad>,
    connection: &Connection,
) -> Result<Option<Vec<Victim>>, Error> {
    let spec = &plan.rendered.probe.body["spec"];
    // Schedulers of gangs and queues choose whom they end in ways of their own.
    let others =
        plan.target.gang.is_some() || job(&plan.input).is_some_and(|job| job.queue.is_some());
    let never = others
        || spec["preemptionPolicy"] == "Never"
        || !pod.beyond_nodes(&DeviceClaims::None).is_empty();
    let Some(class) = spec["priorityClassName"].as_str().filter(|_| !never) else {
        return Ok(None);
    };
    let Some(class) = connection.priority_class(class).await? else {
        return Ok(None);
    };
    if class.preemption_policy.as_deref() == Some("Never") {
        return Ok(None);
    }
    Ok(victims(wanted, i64::from(class.value), pods, nodes))
}

/// Returns the nodes on which its pods may run, with who is there.
fn load(pod: &PodRules, plan: &Plan, room: &Room) -> BTreeMap<String, NodeLoad> {
    let open = |node: &&Node| {
        pod.off_selector(node).is_none() && pod.not_tolerated(node).is_none() && node.schedulable
    };
    let load = |node: &Node| {
        let placed = room.placed.get(&node.name).cloned().unwrap_or_default();
        Some((
            node.name.clone(),
            (room.free.get(&node.name)?.clone(), placed),
        ))
    };
    plan.target
        .nodes
        .all()
        .iter()
        .filter(open)
        .filter_map(load)
        .collect()
}

/// Judges each value of a label by itself; the best of them decides, and what binds is told of its
/// nodes.
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
    if let Some(label) = pod.off_selector(node) {
        return never("node-selector", Some(label));
    }
    let on = |amounts: &Amounts| {
        pods_held(
            wanted,
            &BTreeMap::from([(node.name.clone(), amounts.clone())]),
        )
    };
    let ever = on(&node.most());
    if let Some(taint) = pod.not_tolerated(node) {
        // Taints of a node's own state come and go.
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

/// Returns what decides beside nodes and is not compared here.
fn beyond(plan: &Plan, pod: &PodRules, devices: &DeviceClaims) -> Vec<String> {
    let queue = job(&plan.input).and_then(|job| job.queue.as_ref());
    let queue = queue.map(|queue| format!("queue `{queue}`: gpuctl describe queue {queue}"));
    pod.beyond_nodes(devices).into_iter().chain(queue).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> Node {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        Node {
            name: name.to_owned(),
            allocatable: map(&[("nvidia.com/gpu", "8")]),
            machine: map(&[("cpu", "96")]),
            schedulable: true,
            ..Node::default()
        }
    }

    /// Three nodes of eight: one with five free, one cordoned, one full.
    #[test]
    fn now_later_and_never() {
        let mut cordoned = node("b");
        cordoned.schedulable = false;
        let nodes = [node("a"), cordoned, node("c")];
        let free_of = |gpus: i128| {
            Amounts::from([
                ("nvidia.com/gpu".to_owned(), gpus * 1000),
                ("cpu".to_owned(), 96_000),
            ])
        };
        let free =
            [("a", 5), ("b", 8), ("c", 0)].map(|(name, gpus)| (name.to_owned(), free_of(gpus)));
        let room = Room {
            free: free.into(),
            ..Room::default()
        };
        let wanted = |gpus: i128| Amounts::from([("nvidia.com/gpu".to_owned(), gpus * 1000)]);
        let pod = PodRules::of(&json!({"containers": []}));
        let verdict = |gpus, pods| judged(&pod, &wanted(gpus), pods, &nodes, Some(&room));
        let told = [(5, 1), (2, 2), (2, 3), (8, 3), (8, 4), (9, 1)]
            .map(|(gpus, pods)| verdict(gpus, pods).verdict);
        use FitVerdict::{Never, NotNow, Now, Unknown};
        assert_eq!(told, [Now, Now, NotNow, NotNow, Never, Never]);
        let causes: Vec<_> = verdict(2, 3)
            .groups
            .into_iter()
            .map(|group| (group.cause, group.nodes.len(), group.pods_now))
            .collect();
        assert_eq!(
            causes,
            [
                (None, 1, 2),
                (Some("cordoned"), 1, 0),
                (Some("insufficient-gpu"), 1, 0)
            ]
        );
        // Five and eight free in one rack, four in the other: three pods of three fit in the first
        // alone.
        let racked = |name: &str, rack: &str| {
            let mut node = node(name);
            node.labels.insert("rack".to_owned(), rack.to_owned());
            node
        };
        let racks = [
            racked("a", "r1"),
            racked("b", "r1"),
            racked("c", "r2"),
            node("d"),
        ];
        let in_rack = |pods, label: &str| {
            let free = [("a", 5), ("b", 8), ("c", 4), ("d", 8)]
                .map(|(name, gpus)| (name.to_owned(), free_of(gpus)));
            let room = Room {
                free: free.into(),
                ..Room::default()
            };
            let judge = |nodes: &[Node]| judged(&pod, &wanted(3), pods, nodes, Some(&room));
            let mut fit = judge(&racks);
            within(&mut fit, label, &racks, judge);
            let domains: Vec<_> = fit
                .domains
                .iter()
                .map(|one| (one.value.clone(), one.verdict, one.pods_now, one.nodes))
                .collect();
            let nodes: usize = fit.groups.iter().map(|group| group.nodes.len()).sum();
            (fit.verdict, fit.pods_now, domains, nodes)
        };
        let (r1, r2) = ("r1".to_owned(), "r2".to_owned());
        assert_eq!(
            in_rack(3, "rack"),
            (
                Now,
                Some(3),
                vec![
                    (r1.clone(), Now, Some(3), 2),
                    (r2.clone(), Never, Some(1), 1)
                ],
                2
            )
        );
        // When nobody else uses them the racks hold 2 + 2 and 2 pods, so five have to be spread.
        assert_eq!(in_rack(5, "rack").0, Never);
        assert_eq!(in_rack(1, "row").0, Unknown, "no node has this label");
        assert_eq!(judged(&pod, &wanted(1), 1, &nodes, None).verdict, Unknown);
        assert_eq!(judged(&pod, &wanted(9), 1, &nodes, None).verdict, Never);
        assert_eq!(
            judged(&pod, &wanted(1), 1, &[], Some(&room)).verdict,
            Unknown
        );
    }
}
