//! Finds Services that may be Prometheus and sends requests to them through the API server's proxy
//! or a port-forward.

use bytes::Bytes;
use futures::future::{join_all, select};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::transport::http::with_query;
use crate::transport::path::is_segment;
use crate::{Failure, handles::MetricsApi};

/// A port of a Service that may be Prometheus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrometheusService {
    pub namespace: String,
    pub service: String,
    pub port: u16,
    /// Whether the API server's proxy connects to the Service over HTTPS. The proxy does not verify
    /// the certificate.
    pub secure: bool,
    /// Path prefix of the API, such as `/select/0/prometheus`.
    pub base: &'static str,
}

/// A proxied response with any status code.
pub struct ProxiedResponse {
    pub code: u16,
    pub media: String,
    pub body: Bytes,
}

/// Label selectors for Services, from the longest retention to the shortest. Each comes with the
/// port to use if the Service has several, and the path prefix of the API.
const SELECTORS: [(&str, Option<u16>, &str); 7] = [
    ("app.kubernetes.io/name=thanos-query", None, ""),
    (
        "app.kubernetes.io/name=vmselect",
        Some(8481),
        "/select/0/prometheus",
    ),
    ("app.kubernetes.io/name=vmsingle", None, ""),
    ("operated-prometheus=true", Some(9090), ""),
    ("app=kube-prometheus-stack-prometheus", Some(9090), ""),
    (
        "app.kubernetes.io/name=prometheus,app.kubernetes.io/component=server",
        None,
        "",
    ),
    ("app.kubernetes.io/name=prometheus", Some(9090), ""),
];

/// Names of Services that charts create, for users who cannot list Services.
const WELL_KNOWN: [(&str, &str, u16); 8] = [
    ("openshift-monitoring", "thanos-querier", 9091),
    ("monitoring", "prometheus-operated", 9090),
    ("monitoring", "kube-prometheus-stack-prometheus", 9090),
    ("monitoring", "prometheus-kube-prometheus-prometheus", 9090),
    ("monitoring", "prometheus-k8s", 9090),
    ("monitoring", "prometheus-server", 80),
    ("prometheus", "prometheus-server", 80),
    ("monitoring", "prometheus", 9090),
];

impl PrometheusService {
    /// Serializes the Service as JSON that `remembered` can parse.
    pub fn to_remember(&self) -> Value {
        let Self {
            namespace,
            service,
            port,
            secure,
            base,
        } = self;
        json!({"namespace": namespace, "service": service, "port": port, "secure": secure, "base": base})
    }

    /// Parses the JSON of `to_remember`. Returns `None` if a field is missing or invalid.
    pub fn remembered(stored: &Value) -> Option<Self> {
        let name = |key: &str| {
            let text = stored[key].as_str()?;
            // Reject other characters, because the text becomes part of a request path.
            let is_valid = !text.is_empty()
                && text
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter));
            is_valid.then(|| text.to_owned())
        };
        Some(Self {
            namespace: name("namespace")?,
            service: name("service")?,
            port: u16::try_from(stored["port"].as_u64()?).ok()?,
            secure: stored["secure"].as_bool()?,
            base: SELECTORS
                .iter()
                .map(|(.., base)| *base)
                .find(|base| stored["base"] == *base)?,
        })
    }

    /// Creates a reference to a Service that the user named.
    pub fn new(namespace: &str, service: &str, port: u16) -> Self {
        Self {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            port,
            secure: false,
            base: "",
        }
    }

    /// Formats the name that appears in the path of a proxied request: `https:NAME:PORT`. A role
    /// that grants `services/proxy` by name must contain exactly this name.
    pub fn proxy_name(&self) -> String {
        let Self {
            service,
            port,
            secure,
            ..
        } = self;
        let scheme = if *secure { "https:" } else { "" };
        format!("{scheme}{service}:{port}")
    }

    /// Returns the namespace and name, such as `monitoring/prometheus-operated`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.namespace, self.service)
    }

    /// Whether gpuctl looks for the Service even if the user cannot list Services.
    pub fn is_well_known(&self) -> bool {
        WELL_KNOWN.iter().any(|(namespace, service, port)| {
            // OpenShift serves Thanos Querier only over HTTPS.
            let secure = *namespace == "openshift-monitoring";
            let default = PrometheusService {
                secure,
                ..PrometheusService::new(namespace, service, *port)
            };
            default.name() == self.name() && default.proxy_name() == self.proxy_name()
        })
    }
}

impl MetricsApi<'_> {
    /// Lists the Services that may be Prometheus, with the longest retention first. If the user
    /// cannot list Services, returns the well-known ones and false.
    pub async fn candidate_services(self) -> Result<(Vec<PrometheusService>, bool), Failure> {
        let lists = SELECTORS.map(|(selector, ..)| async move {
            let path = with_query("/api/v1/services", &[("labelSelector", selector)]);
            self.0.get::<Value>(&path).await
        });
        let mut gates: Vec<PrometheusService> = Vec::new();
        for ((_, port, base), list) in SELECTORS.iter().zip(join_all(lists).await) {
            let list = match list {
                Err(failure) if failure.is_forbidden() => {
                    return Ok((self.well_known_services(), false));
                }
                other => other?,
            };
            let mut labelled: Vec<PrometheusService> = list["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|service| gate(service, *port, base))
                .collect();
            labelled.sort();
            for gate in labelled {
                // Keep the first selector that matches a Service, because it has the longest
                // retention.
                if !gates.iter().any(|existing| existing.name() == gate.name()) {
                    gates.push(gate);
                }
            }
        }
        Ok((gates, true))
    }

    /// Builds the well-known Services, in their usual namespaces and in the user's own namespace.
    fn well_known_services(self) -> Vec<PrometheusService> {
        let gate = |namespace: &str, service: &str, port| PrometheusService {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            port,
            secure: namespace == "openshift-monitoring",
            base: "",
        };
        let well_known = WELL_KNOWN
            .iter()
            .map(|(namespace, service, port)| gate(namespace, service, *port));
        let operated = [("prometheus-operated", 9090), ("prometheus-server", 80)];
        let mut gates: Vec<PrometheusService> = well_known.collect();
        for (service, port) in operated {
            let own = gate(&self.0.namespace, service, port);
            // The user's own namespace may be listed in `WELL_KNOWN` too.
            if !gates.contains(&own) {
                gates.push(own);
            }
        }
        gates
    }

    /// Reads one Service by its name; `None` if it does not exist or has no port.
    pub async fn prometheus_service(
        self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PrometheusService>, Failure> {
        let service: Option<Value> = self
            .0
            .find(&format!("/api/v1/namespaces/{namespace}/services/{name}"))
            .await?;
        let matches = |labels: &Value, selector: &str| {
            let mut terms = selector.split(',').filter_map(|term| term.split_once('='));
            terms.all(|(key, value)| labels[key] == value)
        };
        Ok(service.and_then(|service| {
            let labels = &service["metadata"]["labels"];
            let labelled = SELECTORS
                .iter()
                .find(|(selector, ..)| matches(labels, selector));
            // Without a known label, assume the default port of Prometheus.
            let (port, base) = labelled.map_or((Some(9090), ""), |(_, port, base)| (*port, *base));
            gate(&service, port, base)
        }))
    }

    /// Sends a request through the API server's proxy; a body makes it a POST.
    pub async fn through_service(
        self,
        gate: &PrometheusService,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<ProxiedResponse, Failure> {
        let PrometheusService {
            namespace, base, ..
        } = gate;
        let url = format!(
            "/api/v1/namespaces/{namespace}/services/{}/proxy{base}/{path}",
            gate.proxy_name()
        );
        let reply = self.0.ask(&url, content_type, body).await?;
        // The API server reports its own errors as a `Status` object, which Prometheus never sends.
        let is_api_error = || {
            serde_json::from_slice::<Value>(&reply.body)
                .is_ok_and(|status| status["kind"] == "Status")
        };
        if reply.code >= 400 && is_api_error() {
            return Err(self.0.failure(reply.code, &reply.media, &reply.body));
        }
        Ok(ProxiedResponse {
            code: reply.code,
            media: reply.media,
            body: reply.body,
        })
    }

    /// Returns a ready pod of a Service and the pod's port.
    pub async fn pod_behind(
        self,
        gate: &PrometheusService,
    ) -> Result<Option<(String, u16)>, Failure> {
        let selector = format!("kubernetes.io/service-name={}", gate.service);
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
            gate.namespace
        );
        let slices: Value = self
            .0
            .get(&with_query(&path, &[("labelSelector", &selector)]))
            .await?;
        let slices = slices["items"].as_array().into_iter().flatten();
        Ok(slices.into_iter().find_map(|slice| {
            let ports = slice["ports"]
                .as_array()?
                .iter()
                .filter_map(|port| u16::try_from(port["port"].as_u64()?).ok());
            // Use the port from the EndpointSlice, which may differ from the port of the Service.
            let port = ports
                .clone()
                .find(|port| *port == gate.port)
                .or_else(|| ports.clone().next())?;
            // `ready` is optional; the API defines a missing value as ready (EndpointConditions).
            let ready = |endpoint: &&Value| {
                endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false))
            };
            let pod = slice["endpoints"]
                .as_array()?
                .iter()
                .filter(ready)
                .find_map(|endpoint| endpoint.pointer("/targetRef/name")?.as_str())?;
            // Users with write access to EndpointSlices control the target's name, and the name
            // becomes part of a request path.
            is_segment(pod).then(|| (pod.to_owned(), port))
        }))
    }

    /// Forwards a local address to a port of the pod while `call` runs with that address.
    pub async fn with_port_forward<T>(
        self,
        namespace: &str,
        pod: &str,
        port: u16,
        call: impl AsyncFnOnce(String) -> T,
    ) -> Result<T, Failure> {
        let unreachable = |error: std::io::Error| Failure::Unreachable {
            server: self.0.server.clone(),
            cause: error.to_string(),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .map_err(unreachable)?;
        let address = listener.local_addr().map_err(unreachable)?;
        let forwarding =
            std::pin::pin!(self.0.sessions().carry_to(&listener, namespace, pod, port));
        let response = std::pin::pin!(call(format!("http://{address}")));
        match select(response, forwarding).await {
            futures::future::Either::Left((answer, _)) => Ok(answer),
            futures::future::Either::Right((failure, _)) => Err(failure),
        }
    }
}

fn gate(service: &Value, port: Option<u16>, base: &'static str) -> Option<PrometheusService> {
    let text = |pointer: &str| {
        service
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(ToOwned::to_owned)
    };
    let ports: Vec<u16> = service
        .pointer("/spec/ports")?
        .as_array()?
        .iter()
        .filter_map(|port| u16::try_from(port["port"].as_u64()?).ok())
        .collect();
    let service_port = port
        .filter(|port| ports.contains(port))
        .or_else(|| ports.first().copied())?;
    let secure = speaks_https(service, service_port);
    Some(PrometheusService {
        namespace: text("/metadata/namespace")?,
        service: text("/metadata/name")?,
        port: service_port,
        secure,
        base,
    })
}

/// Returns true if the port's name or protocol declares HTTPS, or if OpenShift issues the Service's
/// certificate.
fn speaks_https(service: &Value, service_port: u16) -> bool {
    let declared = service
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let port = declared
        .into_iter()
        .find(|port| port["port"].as_u64() == Some(service_port.into()));
    let mentions_https = |key: &str| {
        port.and_then(|port| port[key].as_str())
            .is_some_and(|text| text == "https" || text.starts_with("https-"))
    };
    let annotations = service
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    let has_certificate = annotations.is_some_and(|annotations| {
        annotations
            .keys()
            .any(|key| key.ends_with("openshift.io/serving-cert-secret-name"))
    });
    mentions_https("name") || mentions_https("appProtocol") || has_certificate
}
