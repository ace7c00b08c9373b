//! Chooses the nodes that a job may use, and the extended resource or claim for its GPUs. If the
//! user cannot list nodes, the choice relies on well-known labels.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::affinity::{
    affinity, avoid_shared_gpus, base_requirements, cloud_terms, in_values, prefer_no_pool,
    type_terms, without_gpus,
};
use super::claim::DeviceClaim;
use super::gpu_request::{PodRequest, count, resources};
use super::tolerations::{driver_toleration, pool_tolerations, tolerated_nodes, tolerations};
use super::{Refusal, Target};
use crate::spec::{JobDocument, JobResources, Located, WrittenGpuType, nearest};
use gpuctl_core::model::facts::gpu;
use gpuctl_core::model::{GpuType, Node, Nodes};

/// The nodes that a job can run on, and the requests and constraints that select them.
#[derive(Clone, Debug, Default)]
pub struct NodeChoice {
    /// Extended resources per pod.
    pub resources: BTreeMap<String, Quantity>,
    /// Node affinity of the pods.
    pub affinity: Option<Affinity>,
    /// Taints of GPU nodes that the pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// GPU type of all qualified nodes, or `None` if they have several types.
    pub gpu_type: Option<GpuType>,
    /// Names of the nodes with suitable devices in the job's pool, including nodes with taints that
    /// the job does not tolerate. Empty if the user cannot list nodes.
    pub qualified: Vec<String>,
    /// Names of the qualified nodes whose taints the job tolerates. Empty if the user cannot list
    /// nodes.
    pub candidates: Vec<String>,
    /// Devices that each pod claims through dynamic resource allocation instead of extended
    /// resources.
    pub claim: Option<DeviceClaim>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

pub fn choose(job: &JobDocument, target: &Target) -> Result<NodeChoice, Refusal> {
    let requested = &job.resources;
    match &target.nodes {
        Nodes::Listed(nodes) => match without_nodes(requested, nodes, target) {
            Some(pool) => {
                let choice = without_node_list(requested);
                let assumed: Vec<&str> = choice.resources.keys().map(String::as_str).collect();
                let assumed = if assumed.is_empty() {
                    String::new()
                } else {
                    format!("; assuming {}", assumed.join(", "))
                };
                let warning =
                    format!("pool `{pool}` has no nodes yet; the job waits for one{assumed}");
                Ok(NodeChoice {
                    warnings: vec![warning],
                    ..choice
                })
            }
            None => from_nodes(job, nodes),
        },
        // Published nodes may be outdated, so a missing match must not refuse the job.
        Nodes::Published(nodes) => from_nodes(job, nodes).or_else(|refusal| {
            let choice = without_node_list(requested);
            let warning = format!(
                "{} in the published node list, which may be outdated; you are not allowed to list nodes",
                refusal.message
            );
            Ok(NodeChoice {
                warnings: [vec![warning], choice.warnings].concat(),
                ..choice
            })
        }),
        Nodes::Hidden => Ok(without_node_list(requested)),
    }
}

/// Returns the job's pool if it is defined but has no nodes.
fn without_nodes<'w>(
    requested: &'w JobResources,
    nodes: &[Node],
    target: &Target,
) -> Option<&'w str> {
    let pool = requested.pool.as_ref()?.value.as_str();
    (target.pools.contains(pool) && nodes.iter().all(|node| node.pool() != Some(pool)))
        .then_some(pool)
}

fn from_nodes(job: &JobDocument, nodes: &[Node]) -> Result<NodeChoice, Refusal> {
    let requested = &job.resources;
    let mut in_pool: Vec<&Node> = match &requested.pool {
        None => nodes.iter().collect(),
        Some(pool) => pool_members(pool, nodes)?,
    };
    in_pool.retain(|node| !requested.exclude_nodes.contains(&node.name));
    let unknown = requested
        .exclude_nodes
        .iter()
        .find(|name| nodes.iter().all(|node| node.name != **name));
    let unknown =
        unknown.map(|name| format!("`resources.exclude_nodes`: node `{name}` does not exist"));
    if requested.gpu == 0 {
        return Ok(without_devices(requested, nodes, &in_pool, unknown));
    }
    let mut warnings: Vec<String> = unknown.into_iter().collect();
    let with_gpus: Vec<&Node> = in_pool
        .iter()
        .copied()
        .filter(|node| node.has_gpus())
        .collect();
    let is_autoscaled = in_pool.iter().any(|node| node.is_autoscaled());
    let typed = match requested.gpu_type.as_ref() {
        None => with_gpus.clone(),
        Some(requested_type) => nodes_of_type(requested_type, &with_gpus),
    };
    if let Some(requested_type) = requested.gpu_type.as_ref().filter(|_| typed.is_empty()) {
        if !is_autoscaled {
            return Err(no_such_type(requested_type, requested, &with_gpus));
        }
        let kind = &requested_type.value.kind;
        warnings.push(format!(
            "no node has {kind} yet; the job waits until an autoscaler adds one"
        ));
        let choice = without_node_list(requested);
        return Ok(NodeChoice { warnings, ..choice });
    }
    if typed.is_empty() && !is_autoscaled {
        return Err(no_gpu_nodes(requested));
    }
    let PodRequest {
        resources,
        serving,
        requirements,
        claim,
    } = resources(requested, &typed, nodes, &mut warnings)?;
    let types: BTreeSet<GpuType> = serving.iter().filter_map(|node| node.gpu_type()).collect();
    // A claim selects devices by product, so it needs no node labels for the type.
    let alternatives = match claim {
        Some(_) => Vec::new(),
        None => labels_of_type(requested, &serving, is_autoscaled),
    };
    let mut tolerations = tolerations(requested, &serving, &resources);
    tolerations.extend(
        claim
            .iter()
            .filter_map(|claim| driver_toleration(&claim.class))
            .filter(|toleration| !tolerations.contains(toleration))
            .collect::<Vec<_>>(),
    );
    let qualified = serving.iter().map(|node| node.name.clone()).collect();
    let serving = tolerated_nodes(serving, job, &tolerations, &mut warnings);
    let required = base_requirements(requested)
        .into_iter()
        .chain(requirements)
        .collect();
    Ok(NodeChoice {
        affinity: affinity(
            required,
            alternatives,
            prefer_no_pool(requested, nodes).into_iter().collect(),
        ),
        tolerations,
        gpu_type: types.first().filter(|_| types.len() == 1).cloned(),
        qualified,
        candidates: serving.iter().map(|node| node.name.clone()).collect(),
        resources,
        claim,
        warnings,
    })
}

/// Chooses nodes for a job without GPUs.
fn without_devices(
    requested: &JobResources,
    nodes: &[Node],
    in_pool: &[&Node],
    unknown: Option<String>,
) -> NodeChoice {
    let preferred = [without_gpus()]
        .into_iter()
        .chain(prefer_no_pool(requested, nodes))
        .collect();
    let affinity = affinity(base_requirements(requested), Vec::new(), preferred);
    let candidates: Vec<String> = in_pool.iter().map(|node| node.name.clone()).collect();
    let qualified = candidates.clone();
    let (tolerations, warnings) = (pool_tolerations(requested), unknown.into_iter().collect());
    NodeChoice {
        affinity,
        tolerations,
        qualified,
        candidates,
        warnings,
        ..NodeChoice::default()
    }
}

/// Selects the nodes with GPUs of the requested type.
fn nodes_of_type<'n>(requested: &Located<WrittenGpuType>, nodes: &[&'n Node]) -> Vec<&'n Node> {
    let kind = &requested.value.kind;
    nodes
        .iter()
        .copied()
        .filter(|node| {
            node.gpu_type()
                .is_some_and(|gpu_type| gpu_type.matches(kind))
        })
        .collect()
}

/// Refuses a job with GPUs if no node has any.
fn no_gpu_nodes(requested: &JobResources) -> Refusal {
    let place = requested
        .pool
        .as_ref()
        .map_or("the cluster".to_owned(), |pool| {
            format!("pool `{}`", pool.value)
        });
    let exclusion = if requested.exclude_nodes.is_empty() {
        ""
    } else {
        " except those in `exclude_nodes`"
    };
    let refusal = Refusal::new(
        "NoGpuNodes",
        format!("no node in {place}{exclusion} has GPUs"),
        "set `resources.gpu: 0` or another `resources.pool`",
    );
    refusal.with_position(requested.gpu_at)
}

/// Builds alternative node labels for the requested GPU type. A node must have one of them.
fn labels_of_type(
    requested: &JobResources,
    serving: &[&Node],
    is_autoscaled: bool,
) -> Vec<NodeSelectorRequirement> {
    let Some(requested_type) = &requested.gpu_type else {
        return Vec::new();
    };
    let mut alternatives = type_terms(serving);
    if is_autoscaled {
        alternatives.extend(cloud_terms(&requested_type.value.kind, &alternatives));
    }
    alternatives
}

fn pool_members<'n>(pool: &Located<String>, nodes: &'n [Node]) -> Result<Vec<&'n Node>, Refusal> {
    let members: Vec<&Node> = nodes
        .iter()
        .filter(|node| node.pool() == Some(&pool.value))
        .collect();
    if !members.is_empty() {
        return Ok(members);
    }
    let pools: BTreeSet<&str> = nodes.iter().filter_map(Node::pool).collect();
    let pools: Vec<&str> = pools.into_iter().collect();
    let hint = match nearest(&pool.value, &pools) {
        Some(similar) => format!(
            "did you mean `{similar}`? existing pools: {}",
            pools.join(", ")
        ),
        None if pools.is_empty() => "this cluster has no pools; remove `resources.pool`".to_owned(),
        None => format!("existing pools: {}", pools.join(", ")),
    };
    Err(Refusal::new(
        "PoolNotFound",
        format!("there is no pool `{}`", pool.value),
        hint,
    )
    .with_position(Some(pool.at)))
}

fn no_such_type(
    requested_type: &Located<WrittenGpuType>,
    requested: &JobResources,
    nodes: &[&Node],
) -> Refusal {
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        *types
            .entry(
                node.gpu_type()
                    .map_or("of unknown type".to_owned(), |kind| kind.to_string()),
            )
            .or_default() += 1;
    }
    let list: Vec<String> = types
        .iter()
        .map(|(kind, count)| {
            format!(
                "{kind} ({count} node{})",
                if *count == 1 { "" } else { "s" }
            )
        })
        .collect();
    let place = requested.pool.as_ref().map_or("here".to_owned(), |pool| {
        format!("in pool `{}`", pool.value)
    });
    let hint = if list.is_empty() {
        format!("no node {place} has GPUs")
    } else {
        format!("{place}: {}", list.join(", "))
    };
    Refusal::new(
        "GpuTypeNotFound",
        format!(
            "no node {place} has GPUs of type `{}`",
            requested_type.value.text
        ),
        hint,
    )
    .with_position(Some(requested_type.at))
}

/// Chooses without a list of nodes, because the user cannot read it or no matching node exists yet.
/// Uses the vendor's resource name and all known spellings of the GPU type. An autoscaler only
/// knows the labels of its node groups.
fn without_node_list(requested: &JobResources) -> NodeChoice {
    if requested.gpu == 0 {
        let affinity = affinity(
            base_requirements(requested),
            Vec::new(),
            vec![without_gpus()],
        );
        return NodeChoice {
            affinity,
            tolerations: pool_tolerations(requested),
            ..NodeChoice::default()
        };
    }
    let requested_type = requested
        .gpu_type
        .as_ref()
        .map(|requested_type| &requested_type.value);
    let alternatives = requested_type.map_or_else(Vec::new, |WrittenGpuType { text, kind }| {
        let mut labels = kind.known_labels();
        let spellings = [
            kind.to_string(),
            text.clone(),
            kind.to_string().to_uppercase(),
        ];
        labels
            .entry(gpu::TYPE_LABELS[0])
            .or_default()
            .extend(spellings);
        labels
            .into_iter()
            .map(|(key, values)| in_values(key, values.into_iter().collect()))
            .collect()
    });
    let resource = requested_type.map_or(gpu::WHOLE[0], |requested_type| {
        requested_type.kind.resource()
    });
    let resources = count(resource, requested.gpu.into());
    NodeChoice {
        tolerations: tolerations(requested, &[], &resources),
        affinity: affinity(
            base_requirements(requested)
                .into_iter()
                .chain(avoid_shared_gpus(&resources, &[]))
                .collect(),
            alternatives,
            Vec::new(),
        ),
        gpu_type: requested_type.map(|requested_type| requested_type.kind.clone()),
        qualified: Vec::new(),
        candidates: Vec::new(),
        claim: None,
        warnings: vec![format!(
            "you are not allowed to list nodes: assuming {resource}, without checking the pool or the GPU type"
        )],
        resources,
    }
}
