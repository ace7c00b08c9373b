//! Finds Prometheus. The address comes from the flags or the config file. Without an address,
//! Services in the cluster are probed through the API server's proxy, or through a port-forward if
//! the proxy is forbidden.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{LocalBoxFuture, join_all};
use serde_json::{Value, json};

use crate::config::{MetricsSource, Origin};
use crate::context::Context;
use crate::observe::service_probe::{Probe, Worth, probe};
use crate::observe::store_identity::{StoreClusters, which};
use gpuctl_cluster::{Connection, PrometheusService};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::UnixSeconds;
use gpuctl_local::bundle::Bundle;
use gpuctl_local::cache::Cache;
use gpuctl_prometheus::{
    HttpReply, Matchers, Prometheus, PrometheusAddress, QueryError, QueryRequest,
};

/// How results are used, which matters if one store has the series of several clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreUse {
    /// Devices are summed from `since` on, or are identified by pod names: the devices of other
    /// clusters would be counted too.
    Sums { since: UnixSeconds },
    /// Devices are listed one by one and identified by their nodes' names.
    Devices,
}

/// Seconds to search for series of other clusters when devices are listed one by one.
const LATELY: i64 = 3600;

/// Finds the Prometheus to query, restricted to this cluster's series.
pub(crate) async fn find<'c>(
    context: &Context,
    connection: &'c Connection,
    within: Duration,
    used: StoreUse,
) -> Result<Prometheus<'c>, Error> {
    if let Some(bundle) = &context.access.bundle {
        let found = kept(bundle, within)?;
        return match (&bundle.unclear, used) {
            (Some((label, values)), StoreUse::Sums { .. }) => {
                Err(StoreClusters::refusal(label, values, &found.server))
            }
            _ => Ok(found),
        };
    }
    let source = context.metrics_of(connection)?;
    let found = match source.url {
        Some(_) => straight(context, &source, within).await?,
        None => in_cluster(context, connection, within).await?.0,
    };
    // Matchers of the user take precedence over the detection of clusters.
    if !source.matchers.is_empty() {
        context
            .terminal
            .detail(&format!("querying only series with {}", source.matchers));
        return Ok(found.narrowed_to(source.matchers));
    }
    let until = UnixSeconds::from(context.now());
    let since = match used {
        StoreUse::Sums { since } => since,
        StoreUse::Devices => until - LATELY,
    };
    match which(&found, connection, (since, until)).await? {
        StoreClusters::One => Ok(found),
        StoreClusters::Proven(matchers) => {
            context.terminal.detail(&format!(
                "it has several clusters; {matchers} selects this one's pods or nodes"
            ));
            Ok(found.narrowed_to(matchers))
        }
        StoreClusters::Unclear { label, values } => match used {
            StoreUse::Sums { .. } => Err(StoreClusters::refusal(label, &values, &found.server)),
            StoreUse::Devices => {
                context
                    .terminal
                    .warn(&StoreClusters::warning(label, &values, &found.server));
                Ok(found)
            }
        },
    }
}

/// Connects to the Prometheus at the configured address.
pub(crate) async fn named<'c>(
    context: &Context,
    within: Duration,
) -> Result<Prometheus<'c>, Error> {
    if let Some(bundle) = &context.access.bundle {
        return kept(bundle, within);
    }
    let source = context.metrics()?;
    Ok(straight(context, &source, within)
        .await?
        .narrowed_to(source.matchers))
}

async fn straight<'c>(
    context: &Context,
    source: &MetricsSource,
    within: Duration,
) -> Result<Prometheus<'c>, Error> {
    if source.is_off() {
        return Err(Error::new(
            ErrorName::MetricsOff,
            "metrics are disabled by `--prometheus none`",
        ));
    }
    let Some((url, origin)) = &source.url else {
        return Err(QueryError::NotFound.into());
    };
    let address = PrometheusAddress::parse(url, source.credentials.clone())?
        .let_in()
        .await?;
    let by = if *origin == Origin::Flag {
        "`--prometheus`"
    } else {
        origin.word()
    };
    context
        .terminal
        .detail(&format!("prometheus {}, named by {}", address.shown(), by));
    let prometheus = Prometheus::straight_to(&address, within)?;
    // Some managed stores do not support regexes on `__name__`.
    let is_exact = source.exact_names || address.wants_exact_names();
    Ok(if is_exact {
        prometheus.by_exact_names()
    } else {
        prometheus
    })
}

/// Serves queries from the Prometheus responses in a bundle.
fn kept<'c>(bundle: &Arc<Bundle>, within: Duration) -> Result<Prometheus<'c>, Error> {
    let Some(server) = bundle.prometheus.clone() else {
        return Err(QueryError::NotFound.into());
    };
    let matchers = Matchers::new(bundle.matchers.clone());
    let bundle = Arc::clone(bundle);
    let ask = move |question: QueryRequest| -> LocalBoxFuture<'c, Result<HttpReply, QueryError>> {
        // A bundle stores queries by their URL, so a POST form becomes a query string.
        let path = question.form.map_or_else(
            || question.path.clone(),
            |form| format!("{}?{form}", question.path),
        );
        let answer = bundle.query(&path);
        Box::pin(async move {
            let (code, body) = answer?;
            Ok(HttpReply {
                code,
                media: "application/json".to_owned(),
                body: body.into(),
            })
        })
    };
    Ok(Prometheus::through(server, within, Box::new(ask)).narrowed_to(matchers))
}

pub(crate) enum PrometheusPath {
    /// By an address from the flags or the config file, or from a bundle.
    Url,
    /// Through the API server. Not exact if the Service's scheme is unknown.
    Service {
        service: PrometheusService,
        is_exact: bool,
    },
    /// No Service responds, for this reason.
    Unknown(String),
}

/// Determines how commands reach Prometheus.
pub(crate) async fn path_to(
    context: &Context,
    connection: &Connection,
    within: Duration,
) -> PrometheusPath {
    let found = async {
        if context.access.bundle.is_some() || context.metrics_of(connection)?.url.is_some() {
            return Ok(PrometheusPath::Url);
        }
        let (_, service) = in_cluster(context, connection, within).await?;
        Ok::<_, Error>(PrometheusPath::Service {
            service,
            is_exact: true,
        })
    };
    found
        .await
        .unwrap_or_else(|error| PrometheusPath::Unknown(error.to_string()))
}

/// Finds a Service in the cluster that responds like Prometheus.
async fn in_cluster<'c>(
    context: &Context,
    connection: &'c Connection,
    within: Duration,
) -> Result<(Prometheus<'c>, PrometheusService), Error> {
    // A Service found in the cluster may belong to anyone, so it gets no credentials.
    if context.metrics()?.credentials.are_given() {
        context.terminal.warn(
            "credentials are sent only to an address given by `--prometheus URL`, not to a \
             Prometheus found in the cluster",
        );
    }
    let (cache, now) = (Cache::cluster_facts(), context.now().as_second());
    let question = format!(
        "prometheus of {} for {}",
        connection.server(),
        connection.namespace
    );
    if let Some(gate) = cache.get(&question).and_then(|kept| remembered(&kept, now)) {
        let found = probe(connection, gate.clone(), within).await;
        if matches!(found.answer, Ok(Worth::Gpus)) {
            let (server, how) = (&found.prometheus.server, found.how);
            context.terminal.detail(&format!(
                "prometheus {server}, found in the cluster some minutes ago, reached {how}"
            ));
            return Ok((found.prometheus, gate));
        }
    }
    let (gates, listed) = connection.metrics().gates().await?;
    let probes = gates
        .iter()
        .map(|gate| probe(connection, gate.clone(), within));
    // Probe all Services at once: several may be Prometheus servers, but only one may have GPU
    // metrics.
    let probes = join_all(probes).await;
    let answered = |probe: &Probe<'_>| probe.answer.as_ref().ok().copied();
    // On a tie the first Service wins, because the Services are in order of preference.
    let best = probes.iter().filter_map(answered).max();
    let mut refused = None;
    for (probe, gate) in probes.into_iter().zip(&gates) {
        match (&probe.answer, best) {
            (Ok(worth), Some(best)) if *worth == best => {
                if best == Worth::Gpus {
                    cache.put(
                        &question,
                        &json!({"at": now, "service": gate.to_remember()}),
                    );
                }
                context.terminal.detail(&format!(
                    "prometheus {}, found in the cluster, reached {}",
                    probe.prometheus.server, probe.how
                ));
                if best == Worth::Answers {
                    context
                        .terminal
                        .detail("it has neither GPU nor node metrics");
                }
                return Ok((probe.prometheus, gate.clone()));
            }
            (Err(trouble), None) => {
                // If Services may not be listed, their names are guesses. A guessed name that does
                // not exist is not worth an error.
                let counts = listed || matches!(trouble, QueryError::Forbidden { .. });
                refused = refused.or(Some(trouble.clone()).filter(|_| counts));
            }
            _ => {}
        }
    }
    Err(refused.unwrap_or(QueryError::NotFound).into())
}

/// Seconds during which a Service found earlier is probed first. Its response shows whether it is
/// still a Prometheus.
const REMEMBERED: i64 = 600;

fn remembered(kept: &Value, now: i64) -> Option<PrometheusService> {
    let age = now - kept["at"].as_i64()?;
    PrometheusService::remembered(&kept["service"]).filter(|_| (0..REMEMBERED).contains(&age))
}

/// Prints warnings of Prometheus itself, above all about partial responses.
pub(crate) fn tell_warnings(context: &Context, prometheus: &Prometheus<'_>) {
    for warning in prometheus.take_warnings() {
        context
            .terminal
            .warn(&format!("Prometheus at {}: {warning}", prometheus.server));
    }
}
