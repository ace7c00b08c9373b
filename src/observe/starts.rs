//! Reads how long similar jobs waited, for `why` and `fit` of a waiting job.

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

/// Days of history to read.
const DAYS: i64 = 7;

/// Forecasts when a job of `gpus` devices starts that may run on `nodes` and has waited for
/// `waited` seconds. `None` if the history has no starts.
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
    let cells = OptionalMetrics::by_names(context, connection, DAYS * 86_400);
    let read = cells.optional(async |prometheus| {
        let ask = async |what| {
            prometheus
                .now(&kube_state::starts(what, DAYS * 86_400))
                .await
        };
        let times = join(ask(StartQuery::Created), ask(StartQuery::Placed));
        let (times, requested, (places, owners)) = join3(
            times,
            ask(StartQuery::Requested),
            join(ask(StartQuery::Place), ask(StartQuery::Owner)),
        )
        .await;
        Ok((times.0?, times.1?, requested?, places?, owners?))
    });
    let Some((created, placed, requested, places, owners)) = read.await? else {
        return Ok(None);
    };
    let answers = StartSeries {
        created: &created,
        placed: &placed,
        requested: &requested,
        places: &places,
        owners: &owners,
    };
    let past = starts::past(answers);
    if past.is_empty() {
        return Ok(None);
    }
    let similar = starts::similar(&past, gpus, nodes);
    let longer = similar.iter().filter(|start| start.waited > waited).count();
    let found = starts::forecast(&similar, waited);
    Ok(Some(StartForecast {
        quantiles: found.map(|found| (found.p10, found.p50, found.p90)),
        similar: longer as u64,
        days: DAYS,
        latest: None,
    }))
}
