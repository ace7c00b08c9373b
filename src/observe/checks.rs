//! `doctor` checks of nodes, Prometheus, queues and autoscaling.

use futures::future::{join, join3};

use crate::context::Context;
use crate::observe::live::DEVICE_QUANTITIES;
use crate::observe::node_checks::check_nodes;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::store_checks::{check_store, unread_metrics};
use gpuctl_cluster::{Connection, ServedQueueing};
use gpuctl_core::model::QueueSystem;
use gpuctl_core::model::contract::check::{CheckStatus, DoctorCheck};
use gpuctl_core::model::values::text::count;

/// Runs all checks of this module concurrently.
pub(crate) async fn checks(context: &Context, connection: &Connection) -> Vec<DoctorCheck> {
    let metrics = OptionalMetrics::new(context, connection);
    let snapshot = metrics.snapshot(&DEVICE_QUANTITIES);
    let store = metrics.optional(async |prometheus| {
        let checks = check_store(prometheus, connection, context.now());
        Ok(join(checks, unread_metrics(prometheus)).await)
    });
    let served = join(connection.queues().served(), connection.services().served());
    let (snapshot, stack, (store, (queueing, served))) = join3(
        snapshot,
        connection.inventory().gpu_stack(),
        join(store, served),
    )
    .await;
    let (store, unread) = store.ok().flatten().unwrap_or_default();
    let mut checks = Vec::new();
    match snapshot {
        Err(error) => checks.push(
            DoctorCheck::new(
                CheckStatus::Warn,
                "nodes",
                format!("nodes were not checked: {error}"),
            )
            .fix("gpuctl auth check"),
        ),
        Ok((snapshot, readings)) => {
            checks.extend(check_nodes(
                &snapshot,
                readings.as_ref(),
                stack.ok().as_deref(),
                &unread,
            ));
        }
    }
    checks.extend(store);
    checks.extend(queueing.ok().map(|served| check_queues(&served)));
    checks.extend(
        served
            .ok()
            .map(|served| check_autoscaling(served.custom_metrics.map(|metrics| metrics.len()))),
    );
    checks
}

/// Reports the queueing systems that the cluster serves.
fn check_queues(served: &ServedQueueing) -> DoctorCheck {
    let names: Vec<&str> = served.systems().map(QueueSystem::name).collect();
    let message = if names.is_empty() {
        "the cluster has no queueing system".to_owned()
    } else {
        names.join(", ")
    };
    DoctorCheck::new(CheckStatus::Ok, "queues", message)
}

/// Reports whether services can scale on GPU use. `metrics` is the number of pod metrics in the
/// custom metrics API, or `None` if the cluster does not serve this API.
fn check_autoscaling(metrics: Option<usize>) -> DoctorCheck {
    match metrics {
        Some(metrics) => DoctorCheck::new(
            CheckStatus::Ok,
            "autoscaling",
            format!("the cluster serves {}", count(metrics as u64, "pod metric")),
        ),
        // Autoscaling on GPU use is optional, so its absence is not a warning.
        None => DoctorCheck::new(
            CheckStatus::Ok,
            "autoscaling",
            "the cluster serves no pod metrics, so services cannot scale by GPU use".to_owned(),
        )
        .fix("gpuctl doctor --adapter-rules"),
    }
}
