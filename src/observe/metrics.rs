//! Finds Prometheus at the address from the flags or the config file. Without an address, probes
//! Services in the cluster, through the API server's proxy or through a port-forward if the proxy
//! is forbidden.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{LocalBoxFuture, join_all};
use serde_json::{Value, json};

use crate::config::{MetricsSource, Origin};
use crate::context::Context;
use crate::observe::label_names::with_unlabeled_sources;
use crate::observe::service_probe::{Probe, StoreContent, probe};
use crate::observe::store_identity::{StoreClusters, identify};
use crate::observe::store_membership::{membership, warn_about_replicas};
use gpuctl_cluster::{Connection, PrometheusService};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::membership::{StoreMembership, names_only_message};
use gpuctl_local::bundle::Bundle;
use gpuctl_local::cache::Cache;
use gpuctl_prometheus::{
    Credentials, HttpReply, Matchers, Prometheus, PrometheusAddress, QueryError, QueryRequest,
};

/// Whether a command sums devices or lists them. A sum must not include other clusters' devices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreUse {
    /// Sums devices from `since` on, or identifies them by pod names, which several clusters can
    /// use.
    Sums { since: UnixSeconds },
    /// Lists devices individually and identifies them by node names.
    Devices,
}

/// Window in seconds that is searched for other clusters if devices are listed individually.
const RECENT_SECONDS: i64 = 3600;

/// Finds the Prometheus to query, and restricts it to the series of this cluster.
pub(crate) async fn find<'c>(
    context: &Context,
    connection: &'c Connection,
    timeout: Duration,
    store_use: StoreUse,
) -> Result<Prometheus<'c>, Error> {
    if let Some(bundle) = &context.access.bundle {
        let prometheus = from_bundle(bundle, timeout)?;
        return match (&bundle.unclear, store_use) {
            (Some((label, values)), StoreUse::Sums { .. }) => {
                Err(StoreClusters::refusal(label, values, &prometheus.server))
            }
            _ => Ok(prometheus),
        };
    }
    let source = context.metrics_of(connection)?;
    let prometheus = match source.url {
        Some(_) => connect_to_address(context, &source, timeout).await?,
        None => find_in_cluster(context, connection, timeout).await?.0,
    };
    let until = UnixSeconds::from(context.now());
    let since = match store_use {
        StoreUse::Sums { since } => since,
        StoreUse::Devices => until - RECENT_SECONDS,
    };
    let prometheus = match source.matchers.is_empty() {
        true => {
            let clusters = identify(&prometheus, connection, (since, until)).await?;
            narrow(context, prometheus, clusters, store_use)?
        }
        // Matchers set by the user replace the detection of clusters.
        false => {
            let matchers =
                with_unlabeled_sources(&prometheus, source.matchers, (since, until)).await;
            context
                .terminal
                .detail(&format!("querying only series with {matchers}"));
            prometheus.with_matchers(matchers)
        }
    };
    check_store(context, connection, &prometheus, store_use, until).await?;
    Ok(prometheus)
}

/// Restricts a store to this cluster's series. Without knowing them, refuses sums and warns in
/// lists.
fn narrow<'c>(
    context: &Context,
    prometheus: Prometheus<'c>,
    clusters: StoreClusters,
    store_use: StoreUse,
) -> Result<Prometheus<'c>, Error> {
    match clusters {
        StoreClusters::One => Ok(prometheus),
        StoreClusters::Proven(matchers) => {
            context.terminal.detail(&format!(
                "it has several clusters; {matchers} selects this one's pods or nodes"
            ));
            Ok(prometheus.with_matchers(matchers))
        }
        StoreClusters::Unclear { label, values } => match store_use {
            StoreUse::Sums { .. } => {
                Err(StoreClusters::refusal(label, &values, &prometheus.server))
            }
            StoreUse::Devices => {
                context
                    .terminal
                    .warn(&StoreClusters::warning(label, &values, &prometheus.server));
                Ok(prometheus)
            }
        },
    }
}

/// Refuses sums over a store without any data about this cluster, and warns in lists. Warns about a
/// store that may belong to another cluster, and about replicas whose sums differ.
async fn check_store(
    context: &Context,
    connection: &Connection,
    prometheus: &Prometheus<'_>,
    store_use: StoreUse,
    until: UnixSeconds,
) -> Result<(), Error> {
    match (membership(prometheus, connection).await, store_use) {
        (StoreMembership::Own, _) => {}
        (StoreMembership::NamesOnly(nodes), _) => {
            let message = names_only_message(&nodes, &prometheus.server);
            context.terminal.warn(&message);
        }
        (StoreMembership::Foreign(foreign), StoreUse::Sums { .. }) => {
            return Err(Error::usage(foreign.message(&prometheus.server)).hint(
                "set this cluster's Prometheus with `--prometheus URL`, or permanently with \
                 `contexts.NAME.prometheus.url` in the config file",
            ));
        }
        (StoreMembership::Foreign(foreign), StoreUse::Devices) => {
            context.terminal.warn(&foreign.message(&prometheus.server));
        }
    }
    if let StoreUse::Sums { since } = store_use {
        warn_about_replicas(context, prometheus, (since, until)).await;
    }
    Ok(())
}

/// Connects to the Prometheus at the configured address.
pub(crate) async fn configured<'c>(
    context: &Context,
    timeout: Duration,
) -> Result<Prometheus<'c>, Error> {
    if let Some(bundle) = &context.access.bundle {
        return from_bundle(bundle, timeout);
    }
    let source = context.metrics()?;
    Ok(connect_to_address(context, &source, timeout)
        .await?
        .with_matchers(source.matchers))
}

async fn connect_to_address<'c>(
    context: &Context,
    source: &MetricsSource,
    timeout: Duration,
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
        .authenticate()
        .await?;
    let origin_name = if *origin == Origin::Flag {
        "`--prometheus`"
    } else {
        origin.word()
    };
    context.terminal.detail(&format!(
        "prometheus {}, set by {}",
        address.shown(),
        origin_name
    ));
    let prometheus = Prometheus::direct(&address, timeout)?;
    // Some managed stores reject regexes on `__name__`.
    let needs_exact_names = source.exact_names || address.requires_exact_names();
    Ok(if needs_exact_names {
        prometheus.with_exact_names()
    } else {
        prometheus
    })
}

/// Answers queries from the recorded responses of a bundle.
fn from_bundle<'c>(bundle: &Arc<Bundle>, timeout: Duration) -> Result<Prometheus<'c>, Error> {
    let Some(server) = bundle.prometheus.clone() else {
        return Err(QueryError::NotFound.into());
    };
    let matchers =
        Matchers::new(bundle.matchers.clone()).or_unlabeled(bundle.matchers_include_unlabeled);
    let bundle = Arc::clone(bundle);
    let query = move |request: QueryRequest| -> LocalBoxFuture<'c, Result<HttpReply, QueryError>> {
        // A bundle identifies queries by URL, so convert the POST form to a query string.
        let path = request.form.map_or_else(
            || request.path.clone(),
            |form| format!("{}?{form}", request.path),
        );
        let response = bundle.query(&path);
        Box::pin(async move {
            let (code, body) = response?;
            Ok(HttpReply {
                code,
                media: "application/json".to_owned(),
                body: body.into(),
            })
        })
    };
    Ok(Prometheus::with_sender(server, timeout, Box::new(query)).with_matchers(matchers))
}

pub(crate) enum PrometheusPath {
    /// An address from the flags or the config file, or a bundle.
    Url,
    /// A Service behind the API server's proxy. The path is a guess if the Service's scheme is
    /// unknown.
    Service {
        service: PrometheusService,
        is_exact: bool,
    },
    /// No Service responds, with the reason.
    Unknown(String),
}

/// Returns how commands reach Prometheus.
pub(crate) async fn find_path(
    context: &Context,
    connection: &Connection,
    timeout: Duration,
) -> PrometheusPath {
    let path = async {
        if context.access.bundle.is_some() || context.metrics_of(connection)?.url.is_some() {
            return Ok(PrometheusPath::Url);
        }
        let (_, service) = find_in_cluster(context, connection, timeout).await?;
        Ok::<_, Error>(PrometheusPath::Service {
            service,
            is_exact: true,
        })
    };
    path.await
        .unwrap_or_else(|error| PrometheusPath::Unknown(error.to_string()))
}

/// Probes the Services of the cluster and returns the Prometheus with the most useful metrics.
async fn find_in_cluster<'c>(
    context: &Context,
    connection: &'c Connection,
    timeout: Duration,
) -> Result<(Prometheus<'c>, PrometheusService), Error> {
    // Send no credentials: any user may have created the Service.
    if context.metrics()?.credentials.are_given() {
        context.terminal.warn(
            "credentials are sent only to an address given by `--prometheus URL`, not to a \
             Prometheus found in the cluster",
        );
    }
    let (cache, now) = (Cache::cluster_facts(), context.now().as_second());
    let key = format!(
        "prometheus of {} for {}",
        connection.server(),
        connection.namespace
    );
    if let Some(service) = cache.get(&key).and_then(|hit| cached_service(&hit, now)) {
        let probe = probe(connection, service.clone(), timeout).await;
        if matches!(probe.answer, Ok(StoreContent::Gpus)) {
            let (server, route) = (&probe.prometheus.server, probe.route);
            context.terminal.detail(&format!(
                "prometheus {server}, found in the cluster a few minutes ago, reached {route}"
            ));
            return Ok((probe.prometheus, service));
        }
    }
    let (services, is_listed) = connection.metrics().candidate_services().await?;
    let probes = services
        .iter()
        .map(|service| probe(connection, service.clone(), timeout));
    // Probe all Services concurrently, because only one of several Prometheus servers may have GPU
    // metrics.
    let probes = join_all(probes).await;
    let content_of = |probe: &Probe<'_>| probe.answer.as_ref().ok().copied();
    // The Services are in order of preference, so the first of equally useful ones wins.
    let best_content = probes.iter().filter_map(content_of).max();
    let mut first_error = None;
    for (probe, service) in probes.into_iter().zip(&services) {
        match (&probe.answer, best_content) {
            (Ok(content), Some(best_content)) if *content == best_content => {
                if best_content == StoreContent::Gpus {
                    cache.put(&key, &json!({"at": now, "service": service.to_remember()}));
                }
                context.terminal.detail(&format!(
                    "prometheus {}, found in the cluster, reached {}",
                    probe.prometheus.server, probe.route
                ));
                if best_content == StoreContent::NoMetrics {
                    context
                        .terminal
                        .detail("it has neither GPU nor node metrics");
                }
                return Ok((probe.prometheus, service.clone()));
            }
            (Err(error), None) => {
                // If the user may not list Services, their names are guesses. An error must not
                // name a Service that may not exist.
                let is_seen = is_listed || probe.is_seen;
                first_error = first_error.or(Some(error.clone()).filter(|_| is_seen));
            }
            _ => {}
        }
    }
    let not_found = || match is_listed {
        true => QueryError::NotFound,
        false => QueryError::NotSeen {
            tried: services.len(),
        },
    };
    Err(first_error.unwrap_or_else(not_found).into())
}

/// Builds the error for a timeout. Names the configured address but no Service in the cluster,
/// because the search may not have found a Prometheus.
pub(crate) fn timed_out(
    context: &Context,
    connection: &Connection,
    found: Option<&Prometheus<'_>>,
    timeout: Duration,
) -> Error {
    let seconds = timeout.as_secs();
    let configured = || {
        let (url, _) = context.metrics_of(connection).ok()?.url?;
        let address = PrometheusAddress::parse(&url, Credentials::default()).ok()?;
        Some(address.shown())
    };
    let server = found
        .map(|prometheus| prometheus.server.clone())
        .or_else(configured);
    match server {
        Some(server) => QueryError::TimedOut { server, seconds }.into(),
        None => QueryError::SearchTimedOut { seconds }.into(),
    }
}

/// Number of seconds for which a cached Service is probed first. The probe detects a Service that
/// is no longer a Prometheus.
const CACHE_SECONDS: i64 = 600;

fn cached_service(entry: &Value, now: i64) -> Option<PrometheusService> {
    let age = now - entry["at"].as_i64()?;
    PrometheusService::remembered(&entry["service"]).filter(|_| (0..CACHE_SECONDS).contains(&age))
}

/// Prints Prometheus' own warnings, which usually mean that a response is incomplete.
pub(crate) fn print_warnings(context: &Context, prometheus: &Prometheus<'_>) {
    for warning in prometheus.take_warnings() {
        context
            .terminal
            .warn(&format!("Prometheus at {}: {warning}", prometheus.server));
    }
}
