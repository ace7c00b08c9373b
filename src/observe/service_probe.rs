//! Probes whether a Service is a Prometheus, and which exporters it scrapes.

use std::time::Duration;

use futures::future::LocalBoxFuture;

use gpuctl_cluster::{Connection, Failure, PrometheusService, ProxiedResponse};
use gpuctl_core::stats::exporters::query;
use gpuctl_prometheus::{
    self as prometheus, Credentials, HttpReply, Prometheus, PrometheusAddress, QueryError,
    QueryRequest,
};

/// Timeout for the response of a Service.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);

/// Result of probing a Service that may be a Prometheus.
pub(super) struct Probe<'c> {
    pub prometheus: Prometheus<'c>,
    /// How gpuctl reaches the Service, for messages.
    pub route: &'static str,
    /// Whether the user may know that the Service exists, because it answered or its pods are
    /// listable.
    pub is_seen: bool,
    /// The metrics that the Service has, or the reason why it is not a Prometheus.
    pub answer: Result<StoreContent, QueryError>,
}

/// Metrics of a Prometheus, in increasing order of usefulness: none, kube-state-metrics, or GPU
/// metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoreContent {
    NoMetrics,
    Cluster,
    Gpus,
}

/// Probes a Service through the API server's proxy, or through a port-forward if the proxy is
/// forbidden.
pub(super) async fn probe(
    connection: &Connection,
    service: PrometheusService,
    timeout: Duration,
) -> Probe<'_> {
    let by_proxy = by_proxy(connection, &service, timeout);
    let answer = store_content(&by_proxy).await;
    // A port-forward needs different permissions, but does not help against any other failure.
    if !matches!(answer, Err(QueryError::Forbidden { .. })) {
        return Probe {
            prometheus: by_proxy,
            route: "through the API server",
            is_seen: answer.is_ok(),
            answer,
        };
    }
    let Ok(Some((pod, port))) = connection.metrics().pod_behind(&service).await else {
        let is_denied_by_api_server = matches!(
            answer,
            Err(QueryError::Forbidden {
                by_api_server: true,
                ..
            })
        );
        return Probe {
            prometheus: by_proxy,
            route: "",
            is_seen: !is_denied_by_api_server,
            answer,
        };
    };
    let by_pod = by_port_forward(connection, service, pod, port, timeout);
    let answer = store_content(&by_pod).await;
    Probe {
        prometheus: by_pod,
        route: "by a port-forward",
        is_seen: true,
        answer,
    }
}

/// Queries which metrics a Prometheus has.
async fn store_content(prometheus: &Prometheus<'_>) -> Result<StoreContent, QueryError> {
    let result = tokio::time::timeout(PROBE_TIMEOUT, prometheus.now(&query::inventory())).await;
    let timed_out = || QueryError::TimedOut {
        server: prometheus.server.clone(),
        seconds: PROBE_TIMEOUT.as_secs(),
    };
    let series = result.unwrap_or_else(|_| Err(timed_out()))?;
    // The query selects only GPU utilization metrics and `kube_node_info`.
    let is_gpu = |name: &str| name != "kube_node_info";
    Ok(match series.iter().any(|series| is_gpu(series.name())) {
        true => StoreContent::Gpus,
        false if series.is_empty() => StoreContent::NoMetrics,
        false => StoreContent::Cluster,
    })
}

fn by_proxy<'c>(
    connection: &'c Connection,
    service: &PrometheusService,
    timeout: Duration,
) -> Prometheus<'c> {
    let service = service.clone();
    let name = service.name();
    let query = move |request: QueryRequest| -> LocalBoxFuture<'c, Result<HttpReply, QueryError>> {
        let service = service.clone();
        Box::pin(async move {
            let (kind, body) = request
                .form
                .map_or_else(Default::default, |form| (prometheus::FORM, form.into()));
            let response = connection
                .metrics()
                .through_service(&service, &request.path, kind, body)
                .await;
            response
                .map(reply)
                .map_err(|failure| query_error(&failure, service.name()))
        })
    };
    Prometheus::with_sender(name, timeout, Box::new(query))
}

fn by_port_forward<'c>(
    connection: &'c Connection,
    service: PrometheusService,
    pod: String,
    port: u16,
    timeout: Duration,
) -> Prometheus<'c> {
    let name = service.name();
    let query = move |request: QueryRequest| -> LocalBoxFuture<'c, Result<HttpReply, QueryError>> {
        let (service, pod) = (service.clone(), pod.clone());
        Box::pin(async move {
            let response = connection.metrics().with_port_forward(
                &service.namespace,
                &pod,
                port,
                async |url| {
                    // Send no credentials: any user can create a Service with matching labels.
                    let address = PrometheusAddress::parse(
                        &format!("{url}{}", service.base),
                        Credentials::default(),
                    )?;
                    prometheus::fetch(&address, request).await
                },
            );
            response
                .await
                .map_err(|failure| query_error(&failure, service.name()))?
        })
    };
    Prometheus::with_sender(name, timeout, Box::new(query))
}

fn reply(response: ProxiedResponse) -> HttpReply {
    HttpReply {
        code: response.code,
        media: response.media,
        body: response.body,
    }
}

fn query_error(failure: &Failure, server: String) -> QueryError {
    let message = failure.to_string();
    if failure.is_forbidden() {
        QueryError::Forbidden {
            server,
            message,
            by_api_server: true,
        }
    } else {
        QueryError::Unreachable {
            server,
            cause: message,
        }
    }
}
