//! Probes a Service in the cluster: whether it is a Prometheus, and which exporters it scrapes.

use std::time::Duration;

use futures::future::LocalBoxFuture;

use gpuctl_cluster::{Connection, Failure, PrometheusService, ProxiedResponse};
use gpuctl_core::stats::exporters::query;
use gpuctl_prometheus::{
    self as prometheus, Credentials, HttpReply, Prometheus, PrometheusAddress, QueryError,
    QueryRequest,
};

/// Timeout for a Service to respond.
const PROBE_WITHIN: Duration = Duration::from_secs(4);

/// A Service that may be a Prometheus, and the result of probing it.
pub(super) struct Probe<'c> {
    pub prometheus: Prometheus<'c>,
    /// How the Service is reached, for messages.
    pub how: &'static str,
    /// The most useful exporters that it scrapes, or why it is not a Prometheus.
    pub answer: Result<Worth, QueryError>,
}

/// How useful a server is: it responds, it has kube-state-metrics, or it has GPU metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    Answers,
    Cluster,
    Gpus,
}

/// Probes a Service through the API server's proxy, or through a port-forward if the proxy is
/// forbidden.
pub(super) async fn probe(
    connection: &Connection,
    gate: PrometheusService,
    within: Duration,
) -> Probe<'_> {
    let by_proxy = by_proxy(connection, &gate, within);
    let answer = worth(&by_proxy).await;
    // A port-forward needs other rights than the proxy. It does not help against other failures.
    if !matches!(answer, Err(QueryError::Forbidden { .. })) {
        return Probe {
            prometheus: by_proxy,
            how: "through the API server",
            answer,
        };
    }
    let Ok(Some((pod, port))) = connection.metrics().pod_behind(&gate).await else {
        return Probe {
            prometheus: by_proxy,
            how: "",
            answer,
        };
    };
    let by_pod = by_port_forward(connection, gate, pod, port, within);
    let answer = worth(&by_pod).await;
    Probe {
        prometheus: by_pod,
        how: "by a port-forward",
        answer,
    }
}

/// Queries which exporters a server scrapes.
async fn worth(prometheus: &Prometheus<'_>) -> Result<Worth, QueryError> {
    let asked = tokio::time::timeout(PROBE_WITHIN, prometheus.now(&query::inventory())).await;
    let late = || QueryError::TimedOut {
        server: prometheus.server.clone(),
        seconds: PROBE_WITHIN.as_secs(),
    };
    let known = asked.unwrap_or_else(|_| Err(late()))?;
    // The query selects only utilization metrics of GPUs and `kube_node_info`.
    let is_gpu = |name: &str| name != "kube_node_info";
    Ok(match known.iter().any(|series| is_gpu(series.name())) {
        true => Worth::Gpus,
        false if known.is_empty() => Worth::Answers,
        false => Worth::Cluster,
    })
}

fn by_proxy<'c>(
    connection: &'c Connection,
    gate: &PrometheusService,
    within: Duration,
) -> Prometheus<'c> {
    let gate = gate.clone();
    let name = gate.name();
    let ask = move |question: QueryRequest| -> LocalBoxFuture<'c, Result<HttpReply, QueryError>> {
        let gate = gate.clone();
        Box::pin(async move {
            let (kind, body) = question
                .form
                .map_or_else(Default::default, |form| (prometheus::FORM, form.into()));
            let carried = connection
                .metrics()
                .through_service(&gate, &question.path, kind, body)
                .await;
            carried
                .map(reply)
                .map_err(|failure| trouble(&failure, gate.name()))
        })
    };
    Prometheus::with_sender(name, within, Box::new(ask))
}

fn by_port_forward<'c>(
    connection: &'c Connection,
    gate: PrometheusService,
    pod: String,
    port: u16,
    within: Duration,
) -> Prometheus<'c> {
    let name = gate.name();
    let ask = move |question: QueryRequest| -> LocalBoxFuture<'c, Result<HttpReply, QueryError>> {
        let (gate, pod) = (gate.clone(), pod.clone());
        Box::pin(async move {
            let fetched =
                connection
                    .metrics()
                    .beside_pod(&gate.namespace, &pod, port, async |url| {
                        // A matching label does not make a Service trustworthy, so send it no
                        // credentials.
                        let address = PrometheusAddress::parse(
                            &format!("{url}{}", gate.base),
                            Credentials::default(),
                        )?;
                        prometheus::fetch(&address, question).await
                    });
            fetched
                .await
                .map_err(|failure| trouble(&failure, gate.name()))?
        })
    };
    Prometheus::with_sender(name, within, Box::new(ask))
}

fn reply(carried: ProxiedResponse) -> HttpReply {
    HttpReply {
        code: carried.code,
        media: carried.media,
        body: carried.body,
    }
}

fn trouble(failure: &Failure, server: String) -> QueryError {
    let message = failure.to_string();
    if failure.is_forbidden() {
        QueryError::Forbidden { server, message }
    } else {
        QueryError::Unreachable {
            server,
            cause: message,
        }
    }
}
