//! Compares pool definitions and node labels for `diff`.

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
    let values = |labels: &BTreeMap<String, LabelNote>| {
        labels
            .iter()
            .map(|(key, noted)| (key.clone(), noted.value.clone()))
            .collect()
    };
    pool.labels
        .iter()
        .map(|(node, labels)| (node.clone(), values(labels)))
        .collect()
}

/// Renders a pool as a document for comparison.
fn pool_document(pool: &PoolDefinition, nodes: LabelsByNode) -> Value {
    json!({
        "description": pool.description, "gpu-type": pool.gpu_types, "exclusive": pool.exclusive,
        "quota": {"maxJobs": pool.max_jobs, "maxGpuPerJob": pool.max_gpu_per_job}, "nodes": nodes,
    })
}

/// Plans the changes to a pool. If `apply` would reject them, warns and continues.
async fn plan_pool(
    connection: &Connection,
    pool: &Pool,
    reporter: &dyn Reporter,
) -> Result<PoolPlan, Error> {
    let mut plan = match pool_plan::plan(connection, pool, false).await {
        Ok(plan) => plan,
        // Show the differences even if `apply` would reject the pool.
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
                    .map(|stored| stored.pool),
            )
        }
        Err(error) => return Err(error),
    };
    for node in std::mem::take(&mut plan.missing) {
        reporter.warn(&format!("node {node} does not exist: `apply` would fail"));
        plan.desired.labels.insert(node, BTreeMap::new());
    }
    Ok(plan)
}

/// Compares a pool's definition and node labels with the file.
pub(super) async fn diff_pool(
    connection: &Connection,
    pool: &Pool,
    reporter: &dyn Reporter,
) -> Result<Option<Difference>, Error> {
    let plan = plan_pool(connection, pool, reporter).await?;
    let name = format!("pool/{}", pool.name.value);
    let Some(stored) = plan.stored else {
        let desired_document = pool_document(&plan.desired, labels_by_node(&plan.desired));
        return Ok(Some(Difference::new("", &name, &desired_document)));
    };
    let desired = stored.updated_to(&plan.desired);
    // Compare with the actual labels of a node, which may differ from the recorded ones.
    let mut live = labels_by_node(&stored);
    for step in plan.steps {
        if let Some(labels) = live.get_mut(&step.node) {
            labels.remove(&step.key);
            labels.extend(step.current.map(|value| (step.key, value)));
        }
    }
    let mut desired_document = labels_by_node(&desired);
    for taint in plan.taints {
        let key = format!("taint {POOL_LABEL}");
        live.entry(taint.node.clone())
            .or_default()
            .extend(taint.current.map(|pool| (key.clone(), pool)));
        desired_document
            .entry(taint.node)
            .or_default()
            .extend(taint.desired.map(|pool| (key, pool)));
    }
    let (live, desired_document) = (
        pool_document(&stored, live),
        pool_document(&desired, desired_document),
    );
    Ok(
        (live != desired_document)
            .then(|| Difference::changed("", &name, &live, &desired_document)),
    )
}
