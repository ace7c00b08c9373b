//! Reads `kind: resource` (alias `pool`) and `kind: quota`.

use super::document::Document;
use super::fields::{Fields, Reader};
use super::pool_document::{Pool, PoolNode, PoolQuota, Quota, QuotaLimits};
use super::reference;
use super::shape::Field;
use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::Problem;
use gpuctl_core::model::GpuType;

pub(super) fn pool(reader: &mut Reader, root: &YamlNode) -> Option<Pool> {
    let mut document = start(reader, root, reference::POOL)?;
    let node = document.need(reader, "pool", "it needs at least `name:`");
    let nodes = document
        .take(reader, "nodes")
        .map_or_else(Vec::new, |node| pool_nodes(reader, node));
    document.finish(reader);
    let mut fields = reader.map(node?, "pool", reference::OF_POOL)?;
    let name = fields
        .need(reader, "name", "the name that jobs use to request the pool")
        .and_then(|node| reader.object_name(node, "name"));
    let description = fields
        .take(reader, "description")
        .and_then(|node| reader.text(node, "description"));
    let types = fields.take(reader, "gpu-type");
    let gpu_types = types.map_or_else(Vec::new, |node| {
        let items = reader.list_or_one(node);
        items
            .into_iter()
            .filter_map(|item| gpu_type(reader, item))
            .collect()
    });
    let quota = fields
        .take(reader, "quota")
        .map_or_else(PoolQuota::default, |node| {
            let Some(mut quota) = reader.map(node, "pool.quota", reference::POOL_LIMITS) else {
                return PoolQuota::default();
            };
            let mut number = |reader: &mut Reader, name: &'static str| {
                quota
                    .take(reader, name)
                    .and_then(|node| reader.whole_number(node, name, 0..=u32::MAX))
            };
            let max_jobs = number(reader, "maxJobs");
            let max_gpu_per_job = number(reader, "maxGpuPerJob");
            quota.finish(reader);
            PoolQuota {
                max_jobs,
                max_gpu_per_job,
            }
        });
    let exclusive = fields
        .take(reader, "exclusive")
        .and_then(|node| reader.boolean(node, "exclusive"))
        .unwrap_or(false);
    fields.finish(reader);
    Some(Pool {
        name: name?,
        description: description.map(|text| text.value),
        gpu_types,
        quota,
        exclusive,
        nodes,
    })
}

fn start<'t>(
    reader: &mut Reader,
    root: &'t YamlNode,
    table: &'static [Field],
) -> Option<Fields<'t>> {
    let mut document = reader.map(root, "", table)?;
    document.take(reader, "kind");
    document.take(reader, "version");
    Some(document)
}

fn gpu_type(reader: &mut Reader, node: &YamlNode) -> Option<GpuType> {
    reader.gpu_type(node).map(|gpu_type| gpu_type.value.kind)
}

/// Reads a map of node names to `{gpu-type}`, or a list of node names.
fn pool_nodes(reader: &mut Reader, node: &YamlNode) -> Vec<PoolNode> {
    let mut nodes = Vec::new();
    match &node.value {
        YamlValue::Map(entries) => {
            for entry in entries {
                let name = YamlNode {
                    at: entry.key_at,
                    value: YamlValue::Scalar {
                        text: entry.key.clone(),
                        plain: false,
                    },
                };
                let name = reader.object_name(&name, "nodes");
                let gpu_type = match &entry.value.value {
                    YamlValue::Null => None,
                    _ => reader
                        .map(&entry.value, "nodes", reference::POOL_NODE)
                        .and_then(|mut fields| {
                            let nodes = fields
                                .take(reader, "gpu-type")
                                .and_then(|node| gpu_type(reader, node));
                            fields.finish(reader);
                            nodes
                        }),
                };
                nodes.extend(name.map(|name| PoolNode { name, gpu_type }));
            }
        }
        _ => {
            for item in reader.list(node, "nodes") {
                nodes.extend(reader.object_name(item, "nodes").map(|name| PoolNode {
                    name,
                    gpu_type: None,
                }));
            }
        }
    }
    nodes
}

/// Reports nodes in more than one pool. Each problem refers to the lines of both pools.
pub(super) fn nodes_in_two_pools(reader: &mut Reader, documents: &[Document]) {
    let mut seen: Vec<(&Pool, &PoolNode)> = Vec::new();
    for document in documents {
        let Document::Pool(pool) = document else {
            continue;
        };
        for node in &pool.nodes {
            if let Some((other, first)) = seen
                .iter()
                .find(|(_, first)| first.name.value == node.name.value)
            {
                let message = |line| {
                    format!(
                        "node `{}` is in two pools; also on line {line}",
                        node.name.value
                    )
                };
                let note = format!(
                    "a node can be in only one pool; keep it in `{}` or in `{}`",
                    other.name.value, pool.name.value
                );
                reader.problems.push(Problem::error(
                    first.name.at,
                    message(node.name.at.line),
                    note.clone(),
                ));
                reader.problems.push(Problem::error(
                    node.name.at,
                    message(first.name.at.line),
                    note,
                ));
            }
            seen.push((pool, node));
        }
    }
}

pub(super) fn quota(reader: &mut Reader, root: &YamlNode) -> Option<Quota> {
    let mut document = start(reader, root, reference::QUOTA)?;
    let node = document.need(reader, "quota", "it needs at least `name:`");
    let spaces = document.take(reader, "namespace");
    let default = document.take(reader, "default");
    document.finish(reader);
    let at = node?.at;
    let mut fields = reader.map(node?, "quota", reference::OF_QUOTA)?;
    let name = fields
        .need(reader, "name", "the name of the quota")
        .and_then(|node| reader.dns_label(node, "name", 63));
    let description = fields
        .take(reader, "description")
        .and_then(|node| reader.text(node, "description"));
    fields.finish(reader);
    let mut namespaces = Vec::new();
    if let Some(YamlValue::Map(entries)) = spaces.map(|node| &node.value) {
        for entry in entries {
            let key = YamlNode {
                at: entry.key_at,
                value: YamlValue::Scalar {
                    text: entry.key.clone(),
                    plain: false,
                },
            };
            let name = reader.object_name(&key, "namespace");
            let limits = limits(reader, &entry.value, "namespace");
            namespaces.extend(name.zip(limits).map(|(name, limits)| (name.value, limits)));
        }
    } else if let Some(node) = spaces {
        reader.map(node, "namespace", &[]);
    }
    if let Some(node) = default.filter(|_| namespaces.iter().any(|(name, _)| name == "default")) {
        let message =
            "`default` sets the limits of namespace `default`, which `namespace` also contains";
        reader
            .problems
            .push(Problem::error(node.at, message, "write it once"));
    }
    namespaces.extend(
        default
            .and_then(|node| limits(reader, node, "default"))
            .map(|limits| ("default".to_owned(), limits)),
    );
    if spaces.is_none() && default.is_none() {
        reader.problems.push(Problem::error(
            at,
            "the quota has no namespaces",
            "add some, such as `namespace: {team-a: {gpu: 4}}`",
        ));
    }
    Some(Quota {
        name: name?.value,
        description: description.map(|text| text.value),
        namespaces,
    })
}

fn limits(reader: &mut Reader, node: &YamlNode, path: &'static str) -> Option<QuotaLimits> {
    let mut fields = reader.map(node, path, reference::LIMITS)?;
    let cpu = fields
        .take(reader, "cpu")
        .and_then(|node| reader.cpu(node, "cpu"));
    let memory = fields
        .take(reader, "memory")
        .and_then(|node| reader.bytes(node, "memory"));
    let storage = fields
        .take(reader, "storage")
        .and_then(|node| reader.bytes(node, "storage"));
    let mut number = |reader: &mut Reader, name| {
        fields
            .take(reader, name)
            .and_then(|node| reader.whole_number(node, name, 0..=u32::MAX))
    };
    let (gpu, pods) = (number(reader, "gpu"), number(reader, "pods"));
    fields.finish(reader);
    Some(QuotaLimits {
        cpu: cpu.map(|text| text.value),
        memory: memory.map(|text| text.value),
        gpu,
        pods,
        storage: storage.map(|text| text.value),
    })
}
