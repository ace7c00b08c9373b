//! Reads the curves of the devices that some pods hold, over a window.

use futures::future::join;
use jiff::Timestamp;

use crate::cluster::Connection;
use crate::context::Context;
use crate::error::Error;
use crate::model::{Job, Series};
use crate::observe::metrics::{self, StoreUse};
use crate::prometheus::Window;
use crate::stats::dialect::Quantity;
use crate::stats::history::{self, History, Lifetimes};
use crate::stats::identity::ApiFacts;
use crate::stats::query::{self, Pods};

/// Curves of the devices of some pods, and what these expose of their work.
pub(crate) async fn curves(
    context: &Context,
    connection: &Connection,
    quantities: &[Quantity],
    pods: &Pods,
    window: Window,
    lifetimes: &Lifetimes,
) -> Result<(History, Vec<Series>), Error> {
    let prometheus =
        metrics::find(context, connection, context.access.request_timeout, StoreUse::Sums { since: window.start }).await?;
    // Without a name a selector would mean series of no pod.
    if pods.names.is_empty() {
        return Ok((History::default(), Vec::new()));
    }
    let (gauges, exposed) = (query::gauges(quantities, Some(pods)), query::exposed(pods));
    let (series, exposed) = join(prometheus.range(&gauges, window), prometheus.range(&exposed, window)).await;
    metrics::tell_warnings(context, &prometheus);
    Ok((history::read(&series?, &ApiFacts::default(), lifetimes), exposed?))
}

pub(crate) fn milliseconds(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millisecond)
}

/// Returns when the job's pods lived, as far as the pods still exist.
pub(crate) fn lifetimes(job: &Job) -> Lifetimes {
    let pods = job.pods.iter();
    pods.map(|pod| ((job.namespace.clone(), pod.name.clone()), (milliseconds(pod.started_at.or(pod.created_at)), None))).collect()
}
