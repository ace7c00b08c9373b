//! Metrics stores other than Prometheus 3: VictoriaMetrics and Prometheus 2, which receive samples
//! through remote write, and Thanos, which queries several Prometheus servers. Also starts a
//! kube-state-metrics with custom resource metrics.

use std::net::{TcpListener, TcpStream};

use anyhow::Result;
use serde_json::{Value, json};

use crate::cluster::is_ready;
use crate::{Cluster, Persona};

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl Cluster {
    /// Starts another kube-state-metrics with this custom resource state configuration. Returns its
    /// scrape target, `host:port`.
    pub fn custom_state_metrics(&self, name: &str, config: &str) -> Result<String> {
        let (port, telemetry_port) = (free_port()?, free_port()?);
        let file = format!("{name}.yaml");
        self.write(&file, config)?;
        let arguments = [
            format!("--kubeconfig={}", self.kubeconfig(Persona::Admin).display()),
            "--host=127.0.0.1".to_owned(),
            format!("--port={port}"),
            "--telemetry-host=127.0.0.1".to_owned(),
            format!("--telemetry-port={telemetry_port}"),
            format!("--custom-resource-state-config-file={}", self.file(&file)),
        ];
        self.launch(name, &self.binary("kube-state-metrics"), arguments.to_vec())?;
        self.wait_until_ready(name, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(format!("127.0.0.1:{port}"))
    }

    /// Starts a VictoriaMetrics. Returns its URL.
    pub fn victoria_metrics(&self, name: &str) -> Result<String> {
        let port = free_port()?;
        let arguments = [
            format!("-httpListenAddr=127.0.0.1:{port}"),
            format!("-storageDataPath={}", self.file(&format!("{name}-data"))),
            // By default, queries do not return samples newer than 30 s.
            "-search.latencyOffset=0s".to_owned(),
            "-search.disableCache=true".to_owned(),
            "-loggerLevel=WARN".to_owned(),
        ];
        self.launch(name, &self.binary("victoria-metrics"), arguments.to_vec())?;
        self.wait_until_ready(name, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Starts a Prometheus 2 that scrapes nothing and accepts remote write. Returns its URL.
    pub fn prometheus_2(&self, name: &str) -> Result<String> {
        let port = free_port()?;
        self.write(&format!("{name}.yml"), "{}")?;
        let arguments = [
            "--web.enable-remote-write-receiver".to_owned(),
            format!("--config.file={}", self.file(&format!("{name}.yml"))),
            format!("--storage.tsdb.path={}", self.file(&format!("{name}-tsdb"))),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ];
        self.launch(name, &self.binary("prometheus-2"), arguments.to_vec())?;
        self.wait_until_ready(name, || is_ready(port))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Starts a Prometheus that scrapes kube-state-metrics and `scrapes`, adds these external
    /// labels, and sends its samples to other stores through remote write. Returns its URL.
    pub fn labelled_prometheus(
        &self,
        name: &str,
        labels: &Value,
        scrapes: &[Value],
        send_to: &[&str],
    ) -> Result<String> {
        let state = json!({"job_name": "kube-state-metrics", "honor_labels": true,
            "static_configs": [{"targets": [format!("127.0.0.1:{}", self.state_metrics_port())]}]});
        let scrapes: Vec<&Value> = std::iter::once(&state).chain(scrapes).collect();
        let mut config = json!({"global": {"scrape_interval": "1s", "external_labels": labels}, "scrape_configs": scrapes});
        let remote_write = send_to.iter().map(|address| {
            json!({"name": address, "url": format!("{address}/api/v1/write"), "queue_config": {"batch_send_deadline": "1s"}})
        });
        config["remote_write"] = remote_write.collect();
        self.prometheus_with(name, &config)
    }

    /// Starts a Thanos querier, and a sidecar for each `(name, URL)` of a Prometheus started with
    /// [`Cluster::labelled_prometheus`]. Returns the querier's URL.
    pub fn thanos(&self, name: &str, stores: &[(&str, &str)]) -> Result<String> {
        let program = self.binary("thanos");
        let port = free_port()?;
        let mut query: Vec<String> = vec![
            "query".to_owned(),
            format!("--http-address=127.0.0.1:{port}"),
            format!("--grpc-address=127.0.0.1:{}", free_port()?),
            "--query.replica-label=replica".to_owned(),
            "--log.level=warn".to_owned(),
        ];
        for (prometheus, address) in stores {
            let (grpc, http) = (free_port()?, free_port()?);
            let arguments = [
                "sidecar".to_owned(),
                format!("--tsdb.path={}", self.file(&format!("{prometheus}-tsdb"))),
                format!("--prometheus.url={address}"),
                format!("--grpc-address=127.0.0.1:{grpc}"),
                format!("--http-address=127.0.0.1:{http}"),
                "--log.level=warn".to_owned(),
            ];
            let sidecar = format!("{name}-{prometheus}");
            self.launch(&sidecar, &program, arguments.to_vec())?;
            self.wait_until_ready(&sidecar, || is_ready(http))?;
            query.push(format!("--endpoint=127.0.0.1:{grpc}"));
        }
        self.launch(name, &program, query)?;
        self.wait_until_ready(name, || is_ready(port))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }
}
