//! Checks of `doctor` beyond whether the cluster responds: nodes, Prometheus, queues and
//! autoscaling.

use futures::future::{join, join3};

use crate::context::Context;
use crate::observe::live::OF_DEVICES;
use crate::observe::node_checks::of_nodes;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::store_checks::of_store;
use gpuctl_cluster::{Connection, ServedQueueing};
use gpuctl_core::model::QueueSystem;
use gpuctl_core::model::contract::check::{CheckStatus, DoctorCheck};
use gpuctl_core::model::values::text::count;

/// Runs all checks of this module concurrently.
pub(crate) async fn checks(context: &Context, connection: &Connection) -> Vec<DoctorCheck> {
    let cells = OptionalMetrics::new(context, connection);
    let stock = cells.stock(&OF_DEVICES);
    let store = cells
        .optional(async |prometheus| Ok(of_store(prometheus, connection, context.now()).await));
    let served = join(connection.queues().served(), connection.services().served());
    let (stock, stack, (store, (queueing, served))) = join3(
        stock,
        connection.inventory().gpu_stack(),
        join(store, served),
    )
    .await;
    let mut found = Vec::new();
    match stock {
        Err(error) => found.push(
            DoctorCheck::new(
                CheckStatus::Warn,
                "nodes",
                format!("nodes were not checked: {error}"),
            )
            .fix("gpuctl auth check"),
        ),
        Ok((stock, readings)) => {
            found.extend(of_nodes(&stock, readings.as_ref(), stack.ok().as_deref()));
        }
    }
    found.extend(store.ok().flatten().unwrap_or_default());
    found.extend(queueing.ok().map(|served| of_queues(&served)));
    found.extend(
        served
            .ok()
            .map(|served| of_autoscaling(served.custom_metrics.map(|metrics| metrics.len()))),
    );
    found
}

/// Lists the queueing systems that the cluster serves.
fn of_queues(served: &ServedQueueing) -> DoctorCheck {
    let names: Vec<&str> = served.systems().map(QueueSystem::name).collect();
    let message = if names.is_empty() {
        "the cluster serves no queues".to_owned()
    } else {
        names.join(", ")
    };
    DoctorCheck::new(CheckStatus::Ok, "queues", message)
}

/// Checks whether services can scale by GPU use. `metrics` is the number of pod metrics served.
fn of_autoscaling(metrics: Option<usize>) -> DoctorCheck {
    match metrics {
        Some(metrics) => DoctorCheck::new(
            CheckStatus::Ok,
            "autoscaling",
            format!("the cluster serves {}", count(metrics as u64, "pod metric")),
        ),
        // Scaling by GPU use is optional, so its absence is not a warning.
        None => DoctorCheck::new(
            CheckStatus::Ok,
            "autoscaling",
            "the cluster serves no pod metrics, so services cannot scale by GPU use".to_owned(),
        )
        .fix("gpuctl doctor --adapter-rules"),
    }
}
