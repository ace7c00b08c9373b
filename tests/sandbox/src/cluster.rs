//! Starts and ends one cluster. Everything listens on 127.0.0.1 at ports that the kernel gave, so several clusters
//! run side by side; everything it writes is in one folder.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::binaries::Binaries;
use crate::egress::{self, Roads};
use crate::process::Group;
use crate::webhook::{self, Judge};
use crate::{Kubectl, PodLog, certificates, nodes};

/// Who asks: one token each, so that every test meets real RBAC. Only `Admin` may do anything unless a test binds a
/// role; the others differ so that tests do not lend each other rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persona {
    Admin,
    Viewer,
    Alice,
    Bob,
    Carol,
    /// The name that single sign-on gives: it holds characters that no label value may.
    Dave,
    /// May read nodes where a test says so.
    Erin,
    /// Has only what roles of a test grant.
    Frank,
    /// May read one namespace.
    Grace,
}

impl Persona {
    const ALL: [Self; 9] =
        [Self::Admin, Self::Viewer, Self::Alice, Self::Bob, Self::Carol, Self::Dave, Self::Erin, Self::Frank, Self::Grace];

    /// The name of the kubeconfig and its context.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Viewer => "viewer",
            Self::Alice => "alice",
            Self::Bob => "bob",
            Self::Carol => "carol",
            Self::Dave => "dave",
            Self::Erin => "erin",
            Self::Frank => "frank",
            Self::Grace => "grace",
        }
    }

    /// The name by which the API server knows it.
    #[must_use]
    pub fn user(self) -> &'static str {
        match self {
            Self::Dave => "oidc:dave@example.com",
            other => other.name(),
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Admin => "system:masters",
            Self::Viewer => "viewers",
            _ => "engineers",
        }
    }

    fn token(self) -> String {
        format!("{}-sandbox-token", self.name())
    }
}

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where to write; a temporary folder that goes with the cluster when absent.
    pub folder: Option<PathBuf>,
    /// prometheus-adapter behind `custom.metrics.k8s.io`. A cluster of its own, please: an API service whose server
    /// is gone blocks the deletion of every namespace.
    pub with_adapter: bool,
    /// Its rules; one that has nothing to do with GPUs when absent.
    pub adapter_rules: Option<PathBuf>,
    /// Exporters that Prometheus scrapes without honoring their labels, as `host:port`.
    pub exporters: Vec<String>,
}

/// A running cluster; it ends when this value is dropped or the process dies.
pub struct Cluster {
    folder: PathBuf,
    binaries: Binaries,
    ports: Ports,
    roads: Roads,
    group: Group,
    /// What can be stopped and started again, by its name.
    running: Mutex<HashMap<String, Part>>,
}

/// A process with what it was started with.
struct Part {
    program: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

#[derive(Clone, Debug)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    api: u16,
    controllers: u16,
    scheduler: u16,
    kwok: u16,
    state: u16,
    state_self: u16,
    prometheus: u16,
    adapter: u16,
}

impl Ports {
    /// Asks the kernel; all are held at once so that none is given twice.
    fn free() -> Result<Self> {
        let listeners = (0..10)
            .map(|_| TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1"))
            .collect::<Result<Vec<_>>>()?;
        let mut ports = listeners.iter().map(|listener| listener.local_addr().map(|address| address.port()));
        let mut next = || ports.next().expect("ten listeners").context("a listener without an address");
        Ok(Self {
            etcd: next()?,
            etcd_peer: next()?,
            api: next()?,
            controllers: next()?,
            scheduler: next()?,
            kwok: next()?,
            state: next()?,
            state_self: next()?,
            prometheus: next()?,
            adapter: next()?,
        })
    }
}

impl Cluster {
    /// Builds what is missing, then starts everything: about five seconds once built.
    pub fn start(options: &Options) -> Result<Self> {
        let binaries = Binaries::ready(options.with_adapter)?;
        let mut tries = 0;
        loop {
            match Self::try_start(options, &binaries) {
                // Between asking for a port and using it somebody else may have taken it.
                Err(error) if tries < 2 && format!("{error:#}").contains("address already in use") => tries += 1,
                other => return other,
            }
        }
    }

    fn try_start(options: &Options, binaries: &Binaries) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let temporary = options.folder.is_none();
        let folder = options.folder.clone().unwrap_or_else(|| {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            std::env::temp_dir().join(format!("gpuctl-sandbox-{}-{number}", std::process::id()))
        });
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let leftover = Some(folder.as_path()).filter(|_| temporary && std::env::var_os("GPUCTL_SANDBOX_KEEP").is_none());
        let group = Group::new(leftover)?;
        let cluster = Self {
            folder,
            binaries: binaries.clone(),
            ports: Ports::free()?,
            roads: Arc::new(Mutex::new(HashMap::new())),
            group,
            running: Mutex::new(HashMap::new()),
        };
        cluster.write_files(&options.exporters)?;
        egress::serve(&cluster.folder.join("egress.sock"), Arc::clone(&cluster.roads))?;
        cluster.start_control_plane()?;
        cluster.start_nodes()?;
        let volumes = nodes::volumes(20);
        cluster.kubectl(Persona::Admin).apply(&json!({"apiVersion": "v1", "kind": "List", "items": volumes}));
        cluster.start_metrics()?;
        cluster.until_ready("prometheus", || is_ready(cluster.ports.prometheus))?;
        if options.with_adapter {
            cluster.start_adapter(options.adapter_rules.as_deref())?;
        }
        Ok(cluster)
    }

    /// The folder with logs, certificates and kubeconfigs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn kubeconfig(&self, persona: Persona) -> PathBuf {
        self.folder.join(format!("{}.kubeconfig", persona.name()))
    }

    #[must_use]
    pub fn kubectl(&self, persona: Persona) -> Kubectl {
        Kubectl::new(&self.binaries.path("kubectl"), &self.kubeconfig(persona))
    }

    /// Where a part of the control plane is.
    #[must_use]
    pub fn binary(&self, name: &str) -> PathBuf {
        self.binaries.path(name)
    }

    /// Where Prometheus answers, without a path.
    #[must_use]
    pub fn prometheus(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.prometheus)
    }

    /// Starts a further Prometheus that scrapes as `scrapes` say, every second. Returns its address.
    pub fn another_prometheus(&self, name: &str, scrapes: &Value) -> Result<String> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let config = format!("{name}.yml");
        self.write(&config, &json!({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}).to_string())?;
        let arguments = [
            "--config.file",
            &self.file(&config),
            "--storage.tsdb.path",
            &self.file(&format!("{name}-tsdb")),
            "--web.listen-address",
            &format!("127.0.0.1:{port}"),
            "--log.level",
            "warn",
        ];
        self.launch(name, &self.binaries.path("prometheus"), arguments.map(ToOwned::to_owned).to_vec())?;
        self.until_ready(name, || is_ready(port))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Puts Prometheus behind a Service as its operator does: a pod that is led to it.
    pub fn publish_prometheus(&self, namespace: &str) {
        let kubectl = self.kubectl(Persona::Admin);
        let labels = json!({"app.kubernetes.io/name": "prometheus"});
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "prometheus-0", "namespace": namespace, "labels": labels},
             "spec": {"containers": [{"name": "prometheus", "image": "prometheus"}]}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "prometheus-operated", "namespace": namespace,
                "labels": {"operated-prometheus": "true"}},
             "spec": {"clusterIP": "None", "selector": labels, "ports": [{"name": "web", "port": 9090}]}},
        ]}));
        let pod = kubectl.until(&["get", "pod", "prometheus-0", "-n", namespace], |pod| pod["status"]["podIP"].is_string());
        let address = pod["status"]["podIP"].as_str().unwrap_or_default();
        self.add_road(&format!("{address}:9090"), self.ports.prometheus);
        self.forward(namespace, &[9090], self.ports.prometheus);
        kubectl.until(&["get", "endpoints", "prometheus-operated", "-n", namespace], |found| {
            found["subsets"].as_array().is_some_and(|subsets| !subsets.is_empty())
        });
    }

    /// Where the API server answers.
    #[must_use]
    pub fn api_server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api)
    }

    /// Lets `exec` run commands of this machine in the pods of a namespace, in the folder `workdir`.
    pub fn allow_exec(&self, namespace: &str, workdir: &Path) {
        self.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterExec", "metadata": {"name": namespace},
            "spec": {"selector": {"matchNamespaces": [namespace]}, "execs": [{"local": {"workDir": workdir}}]},
        }));
    }

    /// Leads ports of every pod of a namespace to a port of this machine.
    pub fn forward(&self, namespace: &str, ports: &[u16], local: u16) {
        self.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward", "metadata": {"name": namespace},
            "spec": {"selector": {"matchNamespaces": [namespace]},
                     "forwards": [{"ports": ports, "target": {"port": local, "address": "127.0.0.1"}}]},
        }));
    }

    /// Lets a webhook judge what is created of a resource, as `apps/v1/deployments`, in one namespace. It is called for dry
    /// runs as well.
    ///
    /// # Panics
    /// When it cannot listen, or the API server refuses it.
    pub fn judge_by(&self, namespace: &str, resource: &str, judge: Judge) {
        let port = webhook::serve(&self.folder, judge).expect("a webhook can listen");
        let admin = self.kubectl(Persona::Admin);
        // kubectl writes a file as base64.
        let ca = format!("--from-file=ca={}", self.file("ca.crt"));
        let secret = admin.json(&["create", "secret", "generic", "ca", &ca, "--dry-run=client"]);
        let [group, version, plural] = resource.splitn(3, '/').collect::<Vec<_>>()[..] else { panic!("{resource}") };
        admin.apply(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": format!("{namespace}.sandbox.test"), "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
                "failurePolicy": "Fail", "timeoutSeconds": 5,
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": secret["data"]["ca"]},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [plural]}],
            }],
        }));
    }

    /// Gives a container a log to write to.
    #[must_use]
    pub fn pod_log(&self, namespace: &str, pod: &str, container: &str) -> PodLog {
        PodLog::new(&self.kubectl(Persona::Admin), self.folder.clone(), namespace, pod, container)
    }

    /// Adds nodes and waits until the scheduler may use them.
    pub fn add_nodes(&self, nodes: &[Value]) {
        let kubectl = self.kubectl(Persona::Admin);
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": nodes}));
        let names: Vec<_> = nodes.iter().filter_map(|node| node["metadata"]["name"].as_str()).collect();
        kubectl.run(&[&["wait", "--for=condition=Ready", "--timeout=60s", "node"], names.as_slice()].concat());
        // The node life cycle controller takes its own not-ready taint away a moment after the node is ready.
        kubectl.until(&["get", "nodes"], |list| {
            list["items"].as_array().is_some_and(|items| {
                items.iter().all(|node| {
                    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
                    taints.iter().all(|taint| taint["key"] != "node.kubernetes.io/not-ready")
                })
            })
        });
    }

    /// Leads `address:port` inside the cluster to a port of this machine.
    pub fn add_road(&self, address: &str, port: u16) {
        self.roads.lock().expect("no holder panics").insert(address.to_owned(), port);
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write_files(&self, exporters: &[String]) -> Result<()> {
        certificates::write(&self.folder)?;
        let tokens: String = Persona::ALL
            .iter()
            .map(|persona| format!("{},{},{},\"{}\"\n", persona.token(), persona.user(), persona.name(), persona.group()))
            .collect();
        self.write("tokens.csv", &tokens)?;
        for persona in Persona::ALL {
            let name = persona.name();
            self.write(
                &format!("{name}.kubeconfig"),
                &json!({
                    "apiVersion": "v1", "kind": "Config", "current-context": name,
                    "clusters": [{"name": "sandbox", "cluster": {
                        "server": self.api_server(), "certificate-authority": self.file("ca.crt")}}],
                    "users": [{"name": name, "user": {"token": persona.token()}}],
                    "contexts": [{"name": name, "context": {"cluster": "sandbox", "user": name}}],
                })
                .to_string(),
            )?;
        }
        self.write(
            "egress.yaml",
            &json!({
                "apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
                "egressSelections": [{"name": "cluster", "connection": {
                    "proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": self.file("egress.sock")}}}}],
            })
            .to_string(),
        )?;
        self.write("pods.yaml", include_str!("../config/pods.yaml"))?;
        self.write(
            "prometheus.yml",
            &json!({
                "global": {"scrape_interval": "1s", "evaluation_interval": "5s"},
                "scrape_configs": [
                    {"job_name": "kube-state-metrics", "honor_labels": true,
                     "static_configs": [{"targets": [format!("127.0.0.1:{}", self.ports.state)]}]},
                    {"job_name": "gpu-exporter", "static_configs": [{"targets": exporters,
                     // What the exporter's own pod would add: so its `pod` labels become `exported_pod`.
                     "labels": {"namespace": "gpu-operator", "pod": "exporter", "container": "exporter"}}]},
                ],
            })
            .to_string(),
        )
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn spawn(&self, name: &str, arguments: &[&str]) -> Result<()> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.launch(name, &self.binaries.path(name), arguments)
    }

    fn launch(&self, name: &str, program: &Path, arguments: Vec<String>) -> Result<()> {
        let mut command = Command::new(program);
        command.args(&arguments).current_dir(&self.folder);
        let child = self.group.spawn(command, &self.folder.join(format!("{name}.log")))?;
        let part = Part { program: program.to_owned(), arguments, child };
        self.running.lock().expect("no holder panics").insert(name.to_owned(), part);
        Ok(())
    }

    /// Kills a part of the cluster, such as `kube-apiserver` or a further Prometheus, without a warning.
    pub fn stop(&self, name: &str) -> Result<()> {
        let mut running = self.running.lock().expect("no holder panics");
        let part = running.get_mut(name).with_context(|| format!("nothing called {name} was started"))?;
        part.child.kill().with_context(|| format!("cannot stop {name}"))?;
        part.child.wait().with_context(|| format!("cannot wait for {name}"))?;
        Ok(())
    }

    /// Starts a part again that was stopped, on what it left.
    pub fn start_again(&self, name: &str) -> Result<()> {
        let part = self.running.lock().expect("no holder panics").remove(name);
        let Part { program, arguments, .. } = part.with_context(|| format!("nothing called {name} was started"))?;
        self.launch(name, &program, arguments)
    }

    fn start_control_plane(&self) -> Result<()> {
        let ports = &self.ports;
        let (etcd, peer) = (format!("http://127.0.0.1:{}", ports.etcd), format!("http://127.0.0.1:{}", ports.etcd_peer));
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
        self.spawn(
            "kube-apiserver",
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
                "RBAC",
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
            ],
        )?;
        self.until_ready("kube-apiserver", || {
            self.kubectl(Persona::Admin).try_run(&["get", "--raw", "/readyz"], "").status.success()
        })?;
        let admin = self.kubeconfig(Persona::Admin).display().to_string();
        self.spawn(
            "kube-controller-manager",
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
                "5m",
                "--horizontal-pod-autoscaler-sync-period",
                "2s",
                "--horizontal-pod-autoscaler-downscale-stabilization",
                "5s",
            ],
        )?;
        self.spawn(
            "kube-scheduler",
            &[
                "--kubeconfig",
                &admin,
                "--leader-elect=false",
                "--bind-address",
                "127.0.0.1",
                "--secure-port",
                &ports.scheduler.to_string(),
                "--kube-api-qps",
                "300",
                "--kube-api-burst",
                "600",
            ],
        )
    }

    fn start_nodes(&self) -> Result<()> {
        let module = &self.binaries.kwok_module;
        let crds = module.join("kustomize/crd/bases").display().to_string();
        let kubectl = self.kubectl(Persona::Admin);
        kubectl.run(&["apply", "--server-side", "-f", &crds]);
        kubectl.run(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
        let stage = |path: &str| module.join("kustomize/stage/node").join(path).display().to_string();
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

    fn start_metrics(&self) -> Result<()> {
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

    fn start_adapter(&self, rules: Option<&Path>) -> Result<()> {
        let admin = self.kubeconfig(Persona::Admin).display().to_string();
        // Without any rule the adapter serves no API at all.
        let rule = json!({
            "seriesQuery": "kube_pod_start_time{namespace!=\"\",pod!=\"\"}", "name": {"as": "pod_start_time_seconds"},
            "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
            "metricsQuery": "max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})",
        });
        let text = match rules {
            Some(path) => fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
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
        self.until_ready("prometheus-adapter", || {
            kubectl.try_run(&["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"], "").status.success()
        })
    }

    fn until_ready(&self, name: &str, ready: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(90);
        while !ready() {
            if let Some((part, line)) = taken_port(&self.folder) {
                bail!("{part} found its port taken: {line}");
            }
            let log = fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            if Instant::now() > end {
                let tail: Vec<_> = log.lines().rev().take(5).collect();
                bail!("{name} did not answer within 90 s; its last words:\n{}", tail.join("\n"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// The part of the control plane that could not listen, and what it said.
fn taken_port(folder: &Path) -> Option<(String, String)> {
    let logs = fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|ending| ending == "log"));
    logs.filter_map(|entry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        let line = text.lines().find(|line| line.contains("address already in use"))?.to_owned();
        Some((entry.path().file_stem()?.to_string_lossy().into_owned(), line))
    })
    .next()
}

/// True when a Prometheus has read its blocks and answers; before that it listens and refuses.
fn is_ready(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.0 200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_found_its_port_taken_is_named() {
        let folder = std::env::temp_dir().join(format!("gpuctl-sandbox-ports-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kwok.log"), "starting\n").unwrap();
        assert_eq!(taken_port(&folder), None);
        fs::write(folder.join("etcd.log"), "starting\nlisten tcp 127.0.0.1:1: bind: address already in use\n").unwrap();
        let (part, line) = taken_port(&folder).unwrap();
        assert_eq!((part.as_str(), line.as_str()), ("etcd", "listen tcp 127.0.0.1:1: bind: address already in use"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
