//! Finds the pods of GPU exporters and reads their metrics through the API server's proxy, for
//! clusters without Prometheus.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;

use crate::transport::decode::{ListPage, ObjectMetadata};
use crate::transport::http::with_query;
use crate::{Failure, handles::MetricsApi};

/// A pod that exposes metrics for the GPUs of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExporterPod {
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub port: u16,
}

/// Label selectors of the exporters that operators and charts install, each with the port of pods
/// that declare none.
const SELECTORS: [(&str, u16); 3] = [
    (
        "app in (nvidia-dcgm-exporter,nvidia-dcgm-exporter-dra,dcgm-exporter)",
        9400,
    ),
    (
        "app.kubernetes.io/name in (dcgm-exporter,nvidia-dcgm-exporter)",
        9400,
    ),
    (
        "app.kubernetes.io/name in (metrics-exporter,amd-gpu-metrics-exporter,device-metrics-exporter)",
        5000,
    ),
];

#[derive(Deserialize)]
struct WireExporter<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: WireExporterSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireExporterSpec<'a> {
    #[serde(borrow)]
    node_name: Cow<'a, str>,
    #[serde(borrow)]
    containers: Vec<WireExporterContainer<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireExporterContainer<'a> {
    #[serde(borrow)]
    ports: Vec<WireExporterPort<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireExporterPort<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    container_port: u16,
}

impl WireExporterSpec<'_> {
    fn port(&self) -> Option<u16> {
        let ports = || {
            self.containers
                .iter()
                .flat_map(|container| &container.ports)
        };
        let metrics_port = ports().find(|port| port.name == "metrics");
        metrics_port
            .or_else(|| ports().next())
            .map(|port| port.container_port)
    }
}

impl MetricsApi<'_> {
    /// Lists the running exporters and drops all but one on each node.
    pub async fn exporter_pods(self) -> Result<Vec<ExporterPod>, Failure> {
        let mut exporters: Vec<ExporterPod> = Vec::new();
        for (selector, default_port) in SELECTORS {
            let running = [
                ("labelSelector", selector),
                ("fieldSelector", "status.phase=Running"),
            ];
            self.0
                .list("/api/v1/pods", &running, |page| {
                    let page: ListPage<WireExporter<'_>> = page.objects()?;
                    for pod in page
                        .items
                        .iter()
                        .filter(|pod| !pod.spec.node_name.is_empty())
                    {
                        // A node can run one exporter from an operator and another from a chart,
                        // and both report the same GPUs.
                        if !exporters
                            .iter()
                            .any(|exporter| exporter.node == pod.spec.node_name)
                        {
                            exporters.push(ExporterPod {
                                namespace: pod.metadata.namespace.to_string(),
                                name: pod.metadata.name.to_string(),
                                node: pod.spec.node_name.to_string(),
                                port: pod.spec.port().unwrap_or(default_port),
                            });
                        }
                    }
                    Ok(())
                })
                .await?;
        }
        Ok(exporters)
    }

    /// Reads the current metrics of an exporter.
    pub async fn exposed_by(self, exporter: &ExporterPod) -> Result<String, Failure> {
        let ExporterPod {
            namespace,
            name,
            port,
            ..
        } = exporter;
        let path = with_query(
            &format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/metrics"),
            &[],
        );
        let reply = self.0.ask(&path, "", Bytes::new()).await?;
        if reply.code >= 400 {
            return Err(self.0.failure(reply.code, &reply.media, &reply.body));
        }
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }
}
