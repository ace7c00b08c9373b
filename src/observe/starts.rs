//! Forecasts the start of a waiting job from the waiting times of similar jobs, for `why` and
//! `fit`.

use std::collections::BTreeSet;

use futures::future::{join, join3};

use crate::context::Context;
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::StartQuery;
use gpuctl_core::stats::history::starts;
use gpuctl_core::stats::history::starts::StartSeries;

/// Number of days of history to read.
const DAYS: i64 = 7;

/// Forecasts when a job with `gpus` devices will start that may run on `nodes` and has waited for
/// `waited` seconds. Returns `None` if no similar job started within the history.
pub(crate) async fn forecast(
    context: &Context,
    connection: &Connection,
    gpus: u64,
    nodes: &BTreeSet<String>,
    waited: f64,
) -> Result<Option<StartForecast>, Error> {
    if gpus == 0 || nodes.is_empty() {
        return Ok(None);
    }
    let metrics = OptionalMetrics::for_names(context, connection, DAYS * 86_400);
    let answer = metrics.optional(async |prometheus| {
        let query = async |quantity| {
            prometheus
                .now(&kube_state::starts(quantity, DAYS * 86_400))
                .await
        };
        let pod_times = join(query(StartQuery::Created), query(StartQuery::Placed));
        let (pod_times, requested, (nodes_of_pods, owners)) = join3(
            pod_times,
            query(StartQuery::Requested),
            join(query(StartQuery::Place), query(StartQuery::Owner)),
        )
        .await;
        Ok((
            pod_times.0?,
            pod_times.1?,
            requested?,
            nodes_of_pods?,
            owners?,
        ))
    });
    let Some((created, placed, requested, nodes_of_pods, owners)) = answer.await? else {
        return Ok(None);
    };
    let series = StartSeries {
        created: &created,
        placed: &placed,
        requested: &requested,
        places: &nodes_of_pods,
        owners: &owners,
    };
    let past_starts = starts::past(series);
    if past_starts.is_empty() {
        return Ok(None);
    }
    let similar = starts::similar(&past_starts, gpus, nodes);
    let still_waiting = similar.iter().filter(|start| start.waited > waited).count();
    let forecast = starts::forecast(&similar, waited);
    Ok(Some(StartForecast {
        quantiles: forecast.map(|forecast| (forecast.p10, forecast.p50, forecast.p90)),
        similar: still_waiting as u64,
        days: DAYS,
        latest: None,
    }))
}
