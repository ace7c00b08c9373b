//! Compares pools for `diff`: their definitions, and the labels of their nodes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::deploy::events::Reporter;
use crate::deploy::pool_plan::{self, PoolPlan};
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::{LabelNote, PoolDefinition};
use gpuctl_manifest::spec::Pool;
use gpuctl_view::files::changes::Difference;

type LabelsByNode = BTreeMap<String, BTreeMap<String, String>>;

fn labels_by_node(pool: &PoolDefinition) -> LabelsByNode {
    let values = |set: &BTreeMap<String, LabelNote>| {
        set.iter()
            .map(|(key, noted)| (key.clone(), noted.value.clone()))
            .collect()
    };
    pool.labels
        .iter()
        .map(|(node, set)| (node.clone(), values(set)))
        .collect()
}

/// Renders a pool in the form that its difference shows.
fn pool_document(pool: &PoolDefinition, nodes: LabelsByNode) -> Value {
    json!({
        "description": pool.description, "gpu-type": pool.gpu_types, "exclusive": pool.exclusive,
        "quota": {"maxJobs": pool.max_jobs, "maxGpuPerJob": pool.max_gpu_per_job}, "nodes": nodes,
    })
}

/// Plans a pool, and warns if `apply` would reject it.
async fn plan_pool(
    connection: &Connection,
    pool: &Pool,
    reporter: &dyn Reporter,
) -> Result<PoolPlan, Error> {
    let mut planned = match pool_plan::plan(connection, pool, false).await {
        Ok(planned) => planned,
        // Show the difference even if `apply` would reject it.
        Err(error) if matches!(error.kind, ErrorKind::Request | ErrorKind::Access) => {
            reporter.warn(&format!(
                "`apply` would reject pool `{}`: {error}",
                pool.name.value
            ));
            PoolPlan::without_nodes(
                pool,
                connection
                    .pools()
                    .get(&pool.name.value)
                    .await?
                    .map(|known| known.pool),
            )
        }
        Err(error) => return Err(error),
    };
    for node in std::mem::take(&mut planned.missing) {
        reporter.warn(&format!("node {node} does not exist: `apply` would fail"));
        planned.wanted.labels.insert(node, BTreeMap::new());
    }
    Ok(planned)
}

/// Compares a pool's definition and the labels of its nodes with the file.
pub(super) async fn of_pool(
    connection: &Connection,
    pool: &Pool,
    reporter: &dyn Reporter,
) -> Result<Option<Difference>, Error> {
    let planned = plan_pool(connection, pool, reporter).await?;
    let name = format!("pool/{}", pool.name.value);
    let Some(before) = planned.before else {
        let wanted = pool_document(&planned.wanted, labels_by_node(&planned.wanted));
        return Ok(Some(Difference::new("", &name, &wanted)));
    };
    let after = before.updated_to(&planned.wanted);
    // The labels recorded for a node may differ from its actual labels. Compare with the actual
    // ones.
    let mut live = labels_by_node(&before);
    for step in planned.steps {
        if let Some(labels) = live.get_mut(&step.node) {
            labels.remove(&step.key);
            labels.extend(step.before.map(|value| (step.key, value)));
        }
    }
    let mut wanted = labels_by_node(&after);
    for taint in planned.taints {
        let key = format!("taint {POOL_LABEL}");
        live.entry(taint.node.clone())
            .or_default()
            .extend(taint.before.map(|pool| (key.clone(), pool)));
        wanted
            .entry(taint.node)
            .or_default()
            .extend(taint.wanted.map(|pool| (key, pool)));
    }
    let (live, wanted) = (pool_document(&before, live), pool_document(&after, wanted));
    Ok((live != wanted).then(|| Difference::changed("", &name, &live, &wanted)))
}
