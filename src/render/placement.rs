//! Decides on which nodes a job may run and which resource it requests for GPUs there. It reads the nodes of the cluster; for
//! a user who may not list nodes, it uses the labels that are known to exist.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Refusal, Target};
use crate::model::gpu::{self, TYPE_LABELS};
use crate::model::labels::POOL_LABEL;
use crate::model::{GpuType, Node, Nodes, quantity};
use crate::spec::{JobDocument, JobResources, Located, Share, WrittenGpuType, nearest};

/// What a job asks of its nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeChoice {
    /// Extended resources per pod.
    pub resources: BTreeMap<String, Quantity>,
    /// Which nodes the pods may use.
    pub affinity: Option<Affinity>,
    /// Taints of GPU nodes that the pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// The type that the job will get; `None` when several are possible.
    pub gpu_type: Option<GpuType>,
    /// Nodes that qualify, by name; empty when they may not be seen.
    pub candidates: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Decides where `job` may run.
pub fn choose(job: &JobDocument, target: &Target) -> Result<NodeChoice, Refusal> {
    let wanted = &job.resources;
    match &target.nodes {
        Nodes::Listed(nodes) => match without_nodes(wanted, nodes, target) {
            Some(pool) => {
                let choice = blind(wanted);
                let assumed: Vec<&str> = choice.resources.keys().map(String::as_str).collect();
                let assumed = if assumed.is_empty() { String::new() } else { format!("; {} is assumed", assumed.join(", ")) };
                let warning = format!("pool `{pool}` has no node yet: the job waits for one{assumed}");
                Ok(NodeChoice { warnings: vec![warning], ..choice })
            }
            None => from_nodes(wanted, nodes),
        },
        // What somebody wrote down some day is no ground to refuse a job.
        Nodes::Published(nodes) => from_nodes(wanted, nodes).or_else(|refusal| {
            let choice = blind(wanted);
            let warning =
                format!("{} in the list of nodes that was published, which may be old; you may not list nodes", refusal.message);
            Ok(NodeChoice { warnings: [vec![warning], choice.warnings].concat(), ..choice })
        }),
        Nodes::Hidden => Ok(blind(wanted)),
    }
}

/// Returns the job's pool, when it is defined and nothing is in it.
fn without_nodes<'w>(wanted: &'w JobResources, nodes: &[Node], target: &Target) -> Option<&'w str> {
    let pool = wanted.pool.as_ref()?.value.as_str();
    (target.pools.contains(pool) && nodes.iter().all(|node| node.pool() != Some(pool))).then_some(pool)
}

fn from_nodes(wanted: &JobResources, nodes: &[Node]) -> Result<NodeChoice, Refusal> {
    let in_pool: Vec<&Node> = match &wanted.pool {
        None => nodes.iter().collect(),
        Some(pool) => in_pool(pool, nodes)?,
    };
    if wanted.gpu == 0 {
        let affinity = affinity(pool_requirement(wanted), Vec::new(), without_gpus());
        let candidates = in_pool.iter().map(|node| node.name.clone()).collect();
        return Ok(NodeChoice { affinity, candidates, tolerations: pool_tolerations(wanted, &in_pool), ..NodeChoice::default() });
    }
    let mut warnings = Vec::new();
    let with_gpus: Vec<&Node> = in_pool.iter().copied().filter(|node| node.has_gpus()).collect();
    let typed = match wanted.gpu_type.as_ref() {
        None => with_gpus.clone(),
        Some(written) => {
            let kind = &written.value.kind;
            let fitting: Vec<&Node> =
                with_gpus.iter().copied().filter(|node| node.gpu_type().is_some_and(|other| other.matches(kind))).collect();
            if fitting.is_empty() {
                if !in_pool.iter().any(|node| node.is_autoscaled()) {
                    return Err(no_such_type(written, wanted, &with_gpus));
                }
                warnings.push(format!("no node has {kind} now; the job waits until an autoscaler brings one"));
                let choice = blind(wanted);
                return Ok(NodeChoice { warnings, ..choice });
            }
            fitting
        }
    };
    if typed.is_empty() && !in_pool.iter().any(|node| node.is_autoscaled()) {
        let place = wanted.pool.as_ref().map_or("the cluster".to_owned(), |pool| format!("pool `{}`", pool.value));
        let refusal = Refusal::new(
            "NoGpuNodes",
            format!("no node of {place} has GPUs"),
            "set `resources.gpu: 0` or another `resources.pool`",
        );
        return Err(refusal.at(wanted.gpu_at));
    }
    let (resources, serving) = resources(wanted, &typed, &mut warnings)?;
    let types: BTreeSet<GpuType> = serving.iter().filter_map(|node| node.gpu_type()).collect();
    let requirement = if wanted.gpu_type.is_some() { type_terms(&serving) } else { Vec::new() };
    Ok(NodeChoice {
        affinity: affinity(pool_requirement(wanted), requirement, None),
        tolerations: tolerations(wanted, &serving, &resources),
        gpu_type: types.first().filter(|_| types.len() == 1).cloned(),
        candidates: serving.iter().map(|node| node.name.clone()).collect(),
        resources,
        warnings,
    })
}

fn in_pool<'n>(pool: &Located<String>, nodes: &'n [Node]) -> Result<Vec<&'n Node>, Refusal> {
    let found: Vec<&Node> = nodes.iter().filter(|node| node.pool() == Some(&pool.value)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let pools: BTreeSet<&str> = nodes.iter().filter_map(Node::pool).collect();
    let pools: Vec<&str> = pools.into_iter().collect();
    let hint = match nearest(&pool.value, &pools) {
        Some(near) => format!("did you mean `{near}`? pools here: {}", pools.join(", ")),
        None if pools.is_empty() => "no node is in a pool; leave `resources.pool` out".to_owned(),
        None => format!("pools here: {}", pools.join(", ")),
    };
    Err(Refusal::new("PoolNotFound", format!("there is no pool `{}`", pool.value), hint).at(Some(pool.at)))
}

fn no_such_type(written: &Located<WrittenGpuType>, wanted: &JobResources, nodes: &[&Node]) -> Refusal {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        *types.entry(node.gpu_type().map_or("of unknown type".to_owned(), |kind| kind.to_string())).or_default() += 1;
    }
    let list: Vec<String> =
        types.iter().map(|(kind, count)| format!("{kind} ({count} node{})", if *count == 1 { "" } else { "s" })).collect();
    let place = wanted.pool.as_ref().map_or("here".to_owned(), |pool| format!("in pool `{}`", pool.value));
    let hint = if list.is_empty() { format!("no node {place} has GPUs") } else { format!("{place}: {}", list.join(", ")) };
    Refusal::new("GpuTypeNotFound", format!("no node {place} has GPUs of type `{}`", written.value.text), hint)
        .at(Some(written.at))
}

/// Extended resources of one pod, and the nodes that offer them.
type PodRequest<'n> = (BTreeMap<String, Quantity>, Vec<&'n Node>);

/// Returns what one pod asks for.
fn resources<'n>(wanted: &JobResources, nodes: &[&'n Node], warnings: &mut Vec<String>) -> Result<PodRequest<'n>, Refusal> {
    if let Some(shared) = wanted.gpu_share.as_ref().and_then(|share| share_of(wanted, &share.value, nodes)) {
        return Ok(shared);
    }
    let whole: BTreeMap<&str, Vec<&Node>> = nodes.iter().fold(BTreeMap::new(), |mut map, node| {
        if let Some(resource) = node.whole_resource() {
            map.entry(resource).or_insert_with(Vec::new).push(*node);
        }
        map
    });
    if whole.is_empty() && !nodes.is_empty() {
        let sizes: BTreeSet<&str> =
            nodes.iter().flat_map(|node| node.allocatable.keys()).filter_map(|name| gpu::mig_profile(name)).collect();
        let sizes =
            if sizes.is_empty() { "parts of devices".to_owned() } else { sizes.into_iter().collect::<Vec<_>>().join(", ") };
        let refusal = Refusal::new(
            "NoWholeGpus",
            format!("the nodes that qualify have only slices of GPUs: {sizes}"),
            "say how much memory one needs: `gpu_share: 10Gi`",
        );
        return Err(refusal.at(wanted.gpu_at));
    }
    if let Some(share) = wanted.gpu_share.as_ref().filter(|share| share.value != Share::Fraction(1.0)) {
        let written = match &share.value {
            Share::Memory(text) => text.clone(),
            Share::Fraction(part) => part.to_string(),
        };
        warnings.push(format!("gpu_share: {written} has no effect here (no sharing device plugin); whole GPUs are requested"));
    }
    let chosen = gpu::WHOLE.into_iter().find(|resource| whole.contains_key(resource)).unwrap_or(gpu::WHOLE[0]);
    if whole.len() > 1 {
        let others: Vec<&str> = whole.keys().copied().filter(|resource| *resource != chosen).collect();
        warnings.push(format!(
            "nodes here offer {chosen} and {}; {chosen} is requested (say `resources.pool` or `gpu-type` to choose)",
            others.join(", ")
        ));
    }
    let serving = whole.get(chosen).cloned().unwrap_or_default();
    Ok((count(chosen, wanted.gpu.into()), serving))
}

fn count(resource: &str, amount: u64) -> BTreeMap<String, Quantity> {
    BTreeMap::from([(resource.to_owned(), Quantity(amount.to_string()))])
}

/// Returns a share through the mechanism that the nodes have: HAMi, Aliyun's gpushare, or MIG.
fn share_of<'n>(wanted: &JobResources, share: &Share, nodes: &[&'n Node]) -> Option<(BTreeMap<String, Quantity>, Vec<&'n Node>)> {
    let with = |test: &dyn Fn(&Node) -> bool| nodes.iter().copied().filter(|node| test(node)).collect::<Vec<&Node>>();
    let bytes = match share {
        Share::Memory(text) => quantity::whole(text),
        Share::Fraction(_) => None,
    };
    if *share == Share::Fraction(1.0) {
        return None;
    }
    let hami = with(&|node| node.annotations.contains_key("hami.io/node-nvidia-register"));
    if !hami.is_empty() {
        let mut resources = count("nvidia.com/gpu", wanted.gpu.into());
        match share {
            Share::Memory(_) => resources.extend(count("nvidia.com/gpumem", bytes?.div_ceil(1 << 20))),
            Share::Fraction(part) => {
                let percent = Quantity(format!("{:.0}", (part * 100.0).max(1.0)));
                resources.insert("nvidia.com/gpumem-percentage".to_owned(), percent.clone());
                resources.insert("nvidia.com/gpucores".to_owned(), percent);
            }
        }
        return Some((resources, hami));
    }
    let aliyun = with(&|node| node.allocatable(gpu::SHARED_MEMORY) > 0);
    if let Some(bytes) = bytes.filter(|_| !aliyun.is_empty()) {
        return Some((count(gpu::SHARED_MEMORY, bytes.div_ceil(1 << 30)), aliyun));
    }
    let profiles: BTreeSet<(u64, &str)> = nodes
        .iter()
        .flat_map(|node| node.allocatable.keys().filter(|resource| node.allocatable(resource) > 0))
        .filter_map(|resource| Some((gpu::mig_gigabytes(gpu::mig_profile(resource)?)?, resource.as_str())))
        .collect();
    // Profiles are named in decimal gigabytes; a share written as 10Gi is meant to fit a 10gb slice.
    let (_, profile) = profiles.iter().find(|(gigabytes, _)| bytes.is_some_and(|bytes| bytes <= gigabytes << 30))?;
    let serving = with(&|node| node.allocatable(profile) > 0);
    Some((count(profile, wanted.gpu.into()), serving))
}

fn pool_requirement(wanted: &JobResources) -> Option<NodeSelectorRequirement> {
    wanted.pool.as_ref().map(|pool| is_in(POOL_LABEL, vec![pool.value.clone()]))
}

fn is_in(key: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values: Some(values) }
}

/// Returns one requirement per label that tells the type, with the values that the nodes really carry.
fn type_terms(nodes: &[&Node]) -> Vec<NodeSelectorRequirement> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (key, value) in nodes.iter().filter_map(|node| node.type_label()) {
        values.entry(key).or_default().insert(value.to_owned());
    }
    values.into_iter().map(|(key, values)| is_in(key, values.into_iter().collect())).collect()
}

/// Alternatives are separate terms, each with the pool.
fn affinity(
    pool: Option<NodeSelectorRequirement>,
    alternatives: Vec<NodeSelectorRequirement>,
    preferred: Option<PreferredSchedulingTerm>,
) -> Option<Affinity> {
    let with_pool = |other: Option<NodeSelectorRequirement>| {
        let requirements: Vec<_> = pool.iter().cloned().chain(other).collect();
        (!requirements.is_empty()).then_some(NodeSelectorTerm { match_expressions: Some(requirements), match_fields: None })
    };
    let terms: Vec<NodeSelectorTerm> = if alternatives.is_empty() {
        with_pool(None).into_iter().collect()
    } else {
        alternatives.into_iter().filter_map(|other| with_pool(Some(other))).collect()
    };
    let required = (!terms.is_empty()).then_some(NodeSelector { node_selector_terms: terms });
    if required.is_none() && preferred.is_none() {
        return None;
    }
    Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred.map(|term| vec![term]),
        }),
        ..Affinity::default()
    })
}

/// Keeps a job without GPUs off the nodes that have GPUs.
fn without_gpus() -> Option<PreferredSchedulingTerm> {
    let absent = |key: &str| NodeSelectorRequirement { key: key.to_owned(), operator: "DoesNotExist".to_owned(), values: None };
    let preference =
        NodeSelectorTerm { match_expressions: Some(TYPE_LABELS.into_iter().map(absent).collect()), match_fields: None };
    Some(PreferredSchedulingTerm { weight: 100, preference })
}

fn tolerations(wanted: &JobResources, nodes: &[&Node], resources: &BTreeMap<String, Quantity>) -> Vec<Toleration> {
    let mut keys: BTreeSet<String> = resources.keys().map(|resource| vendor_key(resource)).collect();
    let about_gpus = |key: &str| key.contains("gpu") || key.contains("accelerator") || gpu::WHOLE.contains(&key);
    let of_nodes = nodes.iter().flat_map(|node| &node.taints).filter(|taint| about_gpus(&taint.key) && taint.key != POOL_LABEL);
    keys.extend(of_nodes.map(|taint| taint.key.clone()));
    let mut tolerations: Vec<Toleration> = keys.into_iter().map(|key| tolerate(&key, None)).collect();
    tolerations.extend(pool_tolerations(wanted, nodes));
    tolerations
}

/// `nvidia.com/mig-1g.10gb` is served by nodes tainted `nvidia.com/gpu`.
fn vendor_key(resource: &str) -> String {
    match resource.split_once('/') {
        Some(("nvidia.com", _)) => "nvidia.com/gpu".to_owned(),
        _ => resource.to_owned(),
    }
}

fn pool_tolerations(wanted: &JobResources, nodes: &[&Node]) -> Vec<Toleration> {
    let tainted = nodes.iter().any(|node| node.taints.iter().any(|taint| taint.key == POOL_LABEL));
    let pool = wanted.pool.as_ref().filter(|_| tainted);
    pool.map(|pool| tolerate(POOL_LABEL, Some(&pool.value))).into_iter().collect()
}

fn tolerate(key: &str, value: Option<&str>) -> Toleration {
    let operator = if value.is_some() { "Equal" } else { "Exists" };
    Toleration {
        key: Some(key.to_owned()),
        operator: Some(operator.to_owned()),
        value: value.map(ToOwned::to_owned),
        ..Toleration::default()
    }
}

/// For users who may not see nodes, and nodes that are not there yet: the vendor's resource name, and every known spelling
/// of the type. A node that an autoscaler would bring is known by the autoscaler's own labels only.
fn blind(wanted: &JobResources) -> NodeChoice {
    if wanted.gpu == 0 {
        let affinity = affinity(pool_requirement(wanted), Vec::new(), without_gpus());
        return NodeChoice { affinity, ..NodeChoice::default() };
    }
    let written = wanted.gpu_type.as_ref().map(|written| &written.value);
    let alternatives = written.map_or_else(Vec::new, |WrittenGpuType { text, kind }| {
        let mut labels = kind.known_labels();
        let spellings = [kind.to_string(), text.clone(), kind.to_string().to_uppercase()];
        labels.entry(gpu::TYPE_LABELS[0]).or_default().extend(spellings);
        labels.into_iter().map(|(key, values)| is_in(key, values.into_iter().collect())).collect()
    });
    let resource = written.map_or(gpu::WHOLE[0], |written| written.kind.resource());
    let resources = count(resource, wanted.gpu.into());
    NodeChoice {
        tolerations: tolerations(wanted, &[], &resources),
        affinity: affinity(pool_requirement(wanted), alternatives, None),
        gpu_type: written.map(|written| written.kind.clone()),
        candidates: Vec::new(),
        warnings: vec![format!("you may not list nodes: {resource} is assumed, and neither pool nor GPU type was checked")],
        resources,
    }
}
