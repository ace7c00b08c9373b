//! Starts the programs of a cluster: etcd, API server, controller manager, scheduler, kwok,
//! kube-state-metrics, Prometheus and, optionally, its adapter.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cluster::Cluster;
use crate::persona::Persona;

impl Cluster {
    pub(crate) fn start_control_plane(&self) -> Result<()> {
        let ports = &self.ports;
        let (etcd, peer) = (
            format!("http://127.0.0.1:{}", ports.etcd),
            format!("http://127.0.0.1:{}", ports.etcd_peer),
        );
        self.spawn(
            "etcd",
            &[
                "--data-dir",
                &self.file("etcd"),
                "--listen-client-urls",
                &etcd,
                "--advertise-client-urls",
                &etcd,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &format!("default={peer}"),
                "--unsafe-no-fsync",
                "--log-level",
                "warn",
            ],
        )?;
        let versions = if self.gates().is_empty() {
            vec![]
        } else {
            vec!["--runtime-config", "scheduling.k8s.io/v1alpha2=true"]
        };
        self.spawn(
            "kube-apiserver",
            &[
                &[
                    "--etcd-servers",
                    &etcd,
                    "--bind-address",
                    "127.0.0.1",
                    "--secure-port",
                    &ports.api.to_string(),
                    "--tls-cert-file",
                    &self.file("api.crt"),
                    "--tls-private-key-file",
                    &self.file("api.key"),
                    "--token-auth-file",
                    &self.file("tokens.csv"),
                    "--authorization-mode",
                    "Node,RBAC",
                    // The names of real nodes do not resolve on this machine.
                    "--kubelet-preferred-address-types",
                    "InternalIP",
                    "--requestheader-client-ca-file",
                    &self.file("ca.crt"),
                    "--requestheader-allowed-names",
                    "front-proxy",
                    "--requestheader-username-headers",
                    "X-Remote-User",
                    "--requestheader-group-headers",
                    "X-Remote-Group",
                    "--requestheader-extra-headers-prefix",
                    "X-Remote-Extra-",
                    "--proxy-client-cert-file",
                    &self.file("front.crt"),
                    "--proxy-client-key-file",
                    &self.file("front.key"),
                    "--enable-aggregator-routing=true",
                    "--egress-selector-config-file",
                    &self.file("egress.yaml"),
                    "--audit-policy-file",
                    &self.file("audit.yaml"),
                    "--audit-log-path",
                    &self.file("audit.log"),
                    "--service-cluster-ip-range",
                    "10.96.0.0/16",
                    "--service-account-issuer",
                    "https://kubernetes.default.svc",
                    "--service-account-key-file",
                    &self.file("sa.pub"),
                    "--service-account-signing-key-file",
                    &self.file("sa.key"),
                    "--advertise-address",
                    "127.0.0.1",
                    "--endpoint-reconciler-type",
                    "none",
                    "--disable-admission-plugins",
                    "ServiceAccount",
                ][..],
                &self.gates(),
                &versions,
            ]
            .concat(),
        )?;
        self.wait_until_ready("kube-apiserver", || {
            self.kubectl(Persona::Admin)
                .try_run(&["get", "--raw", "/readyz"], "")
                .status
                .success()
        })?;
        let admin = self.kubeconfig(Persona::Admin).display().to_string();
        self.spawn(
            "kube-controller-manager",
            &[
                &[
                    "--kubeconfig",
                    &admin,
                    "--service-account-private-key-file",
                    &self.file("sa.key"),
                    "--use-service-account-credentials=false",
                    "--leader-elect=false",
                    "--bind-address",
                    "127.0.0.1",
                    "--secure-port",
                    &ports.controllers.to_string(),
                    "--controllers",
                    "*,-nodeipam,-cloud-node-lifecycle",
                    "--kube-api-qps",
                    "300",
                    "--kube-api-burst",
                    "600",
                    "--node-monitor-grace-period",
                    self.node_grace(),
                    "--horizontal-pod-autoscaler-sync-period",
                    "2s",
                    "--horizontal-pod-autoscaler-downscale-stabilization",
                    "5s",
                ][..],
                &self.gates(),
            ]
            .concat(),
        )?;
        self.spawn(
            "kube-scheduler",
            &[
                &[
                    "--config",
                    &self.file("scheduler.yaml"),
                    "--bind-address",
                    "127.0.0.1",
                    "--secure-port",
                    &ports.scheduler.to_string(),
                ][..],
                &self.gates(),
            ]
            .concat(),
        )
    }

    pub(crate) fn start_nodes(&self) -> Result<()> {
        let module = &self.binaries.kwok_module;
        let crds = module.join("kustomize/crd/bases").display().to_string();
        let kubectl = self.kubectl(Persona::Admin);
        kubectl.run(&["apply", "--server-side", "-f", &crds]);
        kubectl.run(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "--all",
        ]);
        let stage = |path: &str| {
            module
                .join("kustomize/stage/node")
                .join(path)
                .display()
                .to_string()
        };
        let port = self.ports.kwok.to_string();
        self.spawn(
            "kwok",
            &[
                "--kubeconfig",
                &self.kubeconfig(Persona::Admin).display().to_string(),
                "--manage-nodes-with-label-selector",
                "type=kwok",
                "--node-ip",
                "127.0.0.1",
                "--node-port",
                &port,
                "--server-address",
                &format!("127.0.0.1:{port}"),
                "--tls-cert-file",
                &self.file("api.crt"),
                "--tls-private-key-file",
                &self.file("api.key"),
                "--node-lease-duration-seconds",
                "40",
                "--enable-crds",
                "Logs,Attach,PortForward,ClusterPortForward,Exec,ClusterExec",
                "--config",
                &self.file("pods.yaml"),
                "--config",
                &stage("fast/node-initialize.yaml"),
                "--config",
                &stage("heartbeat-with-lease/node-heartbeat-with-lease.yaml"),
            ],
        )
    }

    pub(crate) fn start_metrics(&self) -> Result<()> {
        self.spawn(
            "kube-state-metrics",
            &[
                "--kubeconfig",
                &self.kubeconfig(Persona::Admin).display().to_string(),
                "--host",
                "127.0.0.1",
                "--port",
                &self.ports.state.to_string(),
                "--telemetry-host",
                "127.0.0.1",
                "--telemetry-port",
                &self.ports.state_self.to_string(),
                "--metric-labels-allowlist",
                "pods=[*],nodes=[*],jobs=[*],deployments=[*]",
                "--metric-annotations-allowlist",
                "pods=[*]",
            ],
        )?;
        self.spawn(
            "prometheus",
            &[
                "--config.file",
                &self.file("prometheus.yml"),
                "--storage.tsdb.path",
                &self.file("tsdb"),
                "--web.listen-address",
                &format!("127.0.0.1:{}", self.ports.prometheus),
                "--log.level",
                "warn",
                "--storage.tsdb.retention.time",
                "30d",
                "--web.enable-admin-api",
                "--web.enable-lifecycle",
            ],
        )
    }

    pub(crate) fn start_adapter(&self, rules: Option<&Path>) -> Result<()> {
        let admin = self.kubeconfig(Persona::Admin).display().to_string();
        // Without rules, the adapter serves no API.
        let rule = json!({
            "seriesQuery": "kube_pod_start_time{namespace!=\"\",pod!=\"\"}", "name": {"as": "pod_start_time_seconds"},
            "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
            "metricsQuery": "max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})",
        });
        let text = match rules {
            Some(path) => fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?,
            None => json!({"rules": [rule]}).to_string(),
        };
        self.write("adapter.yaml", &text)?;
        self.spawn(
            "prometheus-adapter",
            &[
                "--secure-port",
                &self.ports.adapter.to_string(),
                "--prometheus-url",
                &self.prometheus(),
                "--config",
                &self.file("adapter.yaml"),
                "--metrics-relist-interval",
                "2s",
                "--lister-kubeconfig",
                &admin,
                "--authentication-kubeconfig",
                &admin,
                "--authorization-kubeconfig",
                &admin,
                "--tls-cert-file",
                &self.file("api.crt"),
                "--tls-private-key-file",
                &self.file("api.key"),
            ],
        )?;
        let address = "10.244.255.1";
        self.add_road(&format!("{address}:443"), self.ports.adapter);
        let kubectl = self.kubectl(Persona::Admin);
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "prometheus-adapter", "namespace": "kube-system"},
             "spec": {"ports": [{"port": 443}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
             "metadata": {"name": "prometheus-adapter", "namespace": "kube-system",
                          "labels": {"kubernetes.io/service-name": "prometheus-adapter"}},
             "addressType": "IPv4", "ports": [{"port": 443}], "endpoints": [{"addresses": [address]}]},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
             "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
             "spec": {"group": "custom.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
                      "groupPriorityMinimum": 100, "versionPriority": 100,
                      "service": {"name": "prometheus-adapter", "namespace": "kube-system"}}},
        ]}));
        self.wait_until_ready("prometheus-adapter", || {
            kubectl
                .try_run(&["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"], "")
                .status
                .success()
        })
    }
}
