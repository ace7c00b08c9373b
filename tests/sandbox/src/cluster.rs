//! Starts and stops a cluster. Everything listens on 127.0.0.1 at ports assigned by the kernel, so
//! several clusters can run at once. All files are in one folder.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::binaries::{Binaries, Extras};
use crate::egress::{self, Routes};
use crate::persona::Persona;
use crate::process::Group;
use crate::real_node::{Hardware, RealNode};
use crate::webhook::{self, Judge};
use crate::{Kubectl, PodLog, certificates, nodes};

/// What a cluster consists of, and its configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder for all files. Defaults to a temporary folder that is removed with the cluster.
    pub folder: Option<PathBuf>,
    /// Builds the programs of a real node; [`Cluster::add_real_node`] starts one.
    pub with_real_nodes: bool,
    /// Serves `custom.metrics.k8s.io` with prometheus-adapter. Use a separate cluster: an
    /// APIService whose server is down blocks the deletion of every namespace.
    pub with_adapter: bool,
    /// The adapter's rules. Defaults to one rule without GPU metrics.
    pub adapter_rules: Option<PathBuf>,
    /// Enables the feature gates for gang scheduling in Kubernetes.
    pub with_gangs: bool,
    /// Starts Kueue. Use a separate cluster: its webhooks intercept every Job and pod, so none can
    /// be created while Kueue is down.
    pub with_kueue: bool,
    /// Starts LeaderWorkerSet.
    pub with_lws: bool,
    /// Starts Volcano's scheduler and controller.
    pub with_volcano: bool,
    /// Builds VictoriaMetrics and Thanos; [`Cluster::victoria_metrics`] and [`Cluster::thanos`]
    /// start them.
    pub with_stores: bool,
    /// Exporters (`host:port`) that Prometheus scrapes without `honor_labels`.
    pub exporters: Vec<String>,
    /// Additional scrape configurations of Prometheus.
    pub scrapes: Vec<Value>,
}

/// A running cluster. It ends when this value is dropped or the process dies.
pub struct Cluster {
    /// The first field, because fields are dropped in declaration order. A node that outlives its
    /// API server still cleans up, but logs many errors.
    real_nodes: Mutex<Vec<RealNode>>,
    folder: PathBuf,
    pub(crate) binaries: Binaries,
    pub(crate) ports: Ports,
    routes: Routes,
    pub(crate) group: Group,
    with_real_nodes: bool,
    with_gangs: bool,
    /// Locked for writing while nodes are added.
    nodes: RwLock<()>,
    /// The process that owns the network namespace between real nodes.
    wire: OnceLock<u32>,
    /// Parts that can be stopped and restarted, by name.
    running: Mutex<HashMap<String, Part>>,
}

/// A process with its command line.
struct Part {
    program: PathBuf,
    arguments: Vec<String>,
    child: Child,
}

#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api: u16,
    pub(crate) controllers: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
    pub(crate) state: u16,
    pub(crate) state_self: u16,
    pub(crate) prometheus: u16,
    pub(crate) adapter: u16,
    pub(crate) kueue: u16,
    pub(crate) kueue_health: u16,
    pub(crate) kueue_visibility: u16,
    pub(crate) lws: u16,
    pub(crate) volcano_controller: u16,
    pub(crate) volcano_scheduler: u16,
}

impl Ports {
    /// Gets free ports from the kernel. All listeners stay open until the last port is assigned, so
    /// that none is assigned twice.
    fn free() -> Result<Self> {
        let listeners = (0..16)
            .map(|_| TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1"))
            .collect::<Result<Vec<_>>>()?;
        let mut ports = listeners
            .iter()
            .map(|listener| listener.local_addr().map(|address| address.port()));
        let mut next = || {
            ports
                .next()
                .expect("a listener for each port")
                .context("a listener without an address")
        };
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
            kueue: next()?,
            kueue_health: next()?,
            kueue_visibility: next()?,
            lws: next()?,
            volcano_controller: next()?,
            volcano_scheduler: next()?,
        })
    }
}

/// A namespace in which the audit log records all writes by all users.
pub const AUDITED: &str = "audited";

impl Cluster {
    /// Builds what is missing and starts the cluster, which takes about five seconds after the
    /// build.
    pub fn start(options: &Options) -> Result<Self> {
        let binaries = Binaries::ready(Extras {
            adapter: options.with_adapter,
            real_node: options.with_real_nodes,
            kueue: options.with_kueue,
            lws: options.with_lws,
            volcano: options.with_volcano,
            stores: options.with_stores,
            helm: false,
        })?;
        let mut tries = 0;
        loop {
            match Self::try_start(options, &binaries) {
                // Another process may have bound a port after `Ports::free` closed its listener.
                Err(error)
                    if tries < 2 && format!("{error:#}").contains("address already in use") =>
                {
                    tries += 1
                }
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
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let leftover = Some(folder.as_path())
            .filter(|_| temporary && std::env::var_os("GPUCTL_SANDBOX_KEEP").is_none());
        let group = Group::new(leftover)?;
        let cluster = Self {
            real_nodes: Mutex::default(),
            with_real_nodes: options.with_real_nodes,
            with_gangs: options.with_gangs,
            nodes: RwLock::new(()),
            wire: OnceLock::new(),
            folder,
            binaries: binaries.clone(),
            ports: Ports::free()?,
            routes: Routes::default(),
            group,
            running: Mutex::new(HashMap::new()),
        };
        cluster.write_files(&options.exporters, &options.scrapes)?;
        egress::serve(&cluster.folder.join("egress.sock"), cluster.routes.clone())?;
        cluster.start_control_plane()?;
        cluster.start_nodes()?;
        let volumes = nodes::volumes(20);
        cluster
            .kubectl(Persona::Admin)
            .apply(&json!({"apiVersion": "v1", "kind": "List", "items": volumes}));
        cluster.start_metrics()?;
        cluster.wait_until_ready("prometheus", || is_ready(cluster.ports.prometheus))?;
        if options.with_adapter {
            cluster.start_adapter(options.adapter_rules.as_deref())?;
        }
        if options.with_lws {
            cluster.start_lws()?;
        }
        if options.with_kueue {
            cluster.start_kueue()?;
        }
        if options.with_volcano {
            cluster.start_volcano()?;
        }
        Ok(cluster)
    }

    /// Command-line arguments that enable the feature gates.
    pub(crate) fn gates(&self) -> Vec<&'static str> {
        if self.with_gangs {
            vec![
                "--feature-gates",
                "GenericWorkload=true,GangScheduling=true",
            ]
        } else {
            Vec::new()
        }
    }

    /// The folder that contains logs, certificates and kubeconfigs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn kubeconfig(&self, persona: Persona) -> PathBuf {
        self.folder.join(format!("{}.kubeconfig", persona.name()))
    }

    pub fn token(&self, persona: Persona) -> String {
        persona.token().to_owned()
    }

    pub fn kubectl(&self, persona: Persona) -> Kubectl {
        Kubectl::new(&self.binaries.path("kubectl"), &self.kubeconfig(persona))
    }

    pub(crate) fn state_metrics_port(&self) -> u16 {
        self.ports.state
    }

    /// Path of a program of the sandbox.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.binaries.path(name)
    }

    /// URL of Prometheus, without a path.
    pub fn prometheus(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.prometheus)
    }

    /// Starts another Prometheus, which scrapes these configurations every second. Returns its URL.
    pub fn another_prometheus(&self, name: &str, scrapes: &Value) -> Result<String> {
        self.prometheus_with(
            name,
            &json!({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}),
        )
    }

    /// Starts a Prometheus that scrapes nothing, and serves blocks up to one year old from its
    /// folder. Returns its URL.
    pub fn prometheus_of_history(&self, name: &str) -> Result<String> {
        let port =
            self.launch_prometheus(name, &json!({}), &["--storage.tsdb.retention.time", "1y"])?;
        self.wait_until_ready(name, || is_ready(port))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Starts another Prometheus that serves only HTTPS. Returns its port.
    pub fn secure_prometheus(&self, name: &str, scrapes: &Value) -> Result<u16> {
        self.https_prometheus(name, scrapes, &json!({}))
    }

    /// Starts another Prometheus that serves only HTTPS and requires a client certificate from this
    /// cluster's CA. Returns its port.
    pub fn guarded_prometheus(&self, name: &str, scrapes: &Value) -> Result<u16> {
        let client_auth = json!({"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": self.file("ca.crt")});
        self.https_prometheus(name, scrapes, &client_auth)
    }

    fn https_prometheus(&self, name: &str, scrapes: &Value, tls_options: &Value) -> Result<u16> {
        let web = format!("{name}-web.yml");
        let mut tls = json!({"cert_file": self.file("api.crt"), "key_file": self.file("api.key")});
        tls_options
            .as_object()
            .into_iter()
            .flatten()
            .for_each(|(key, value)| tls[key] = value.clone());
        self.write(&web, &json!({"tls_server_config": tls}).to_string())?;
        let configuration = json!({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes});
        let port = self.launch_prometheus(
            name,
            &configuration,
            &["--web.config.file", &self.file(&web)],
        )?;
        self.wait_until_ready(name, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(port)
    }

    /// Starts another Prometheus with this configuration. Returns its URL.
    pub fn prometheus_with(&self, name: &str, configuration: &Value) -> Result<String> {
        let port = self.launch_prometheus(name, configuration, &[])?;
        self.wait_until_ready(name, || is_ready(port))?;
        Ok(format!("http://127.0.0.1:{port}"))
    }

    fn launch_prometheus(&self, name: &str, configuration: &Value, flags: &[&str]) -> Result<u16> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let config = format!("{name}.yml");
        self.write(&config, &configuration.to_string())?;
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
        let arguments = arguments
            .iter()
            .chain(flags)
            .map(|argument| (*argument).to_owned())
            .collect();
        self.launch(name, &self.binaries.path("prometheus"), arguments)?;
        Ok(port)
    }

    /// Creates the Prometheus operator's Service, with a simulated pod whose port is forwarded to
    /// this cluster's Prometheus.
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
        let pod = kubectl.until(&["get", "pod", "prometheus-0", "-n", namespace], |pod| {
            pod["status"]["podIP"].is_string()
        });
        let address = pod["status"]["podIP"].as_str().unwrap_or_default();
        self.add_road(&format!("{address}:9090"), self.ports.prometheus);
        self.forward(namespace, &[9090], self.ports.prometheus);
        kubectl.until(
            &["get", "endpoints", "prometheus-operated", "-n", namespace],
            |endpoints| {
                endpoints["subsets"]
                    .as_array()
                    .is_some_and(|subsets| !subsets.is_empty())
            },
        );
    }

    /// URL of the API server.
    pub fn api_server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api)
    }

    /// URL of the API server for pods on a real node. Its certificate is valid only for 127.0.0.1.
    pub fn api_server_for_pods(&self, node: usize) -> String {
        format!("https://10.77.{}.1:{}", node + 1, self.ports.api)
    }

    /// Makes `exec` in a namespace's pods run commands on this machine, in the folder `workdir`.
    pub fn allow_exec(&self, namespace: &str, workdir: &Path) {
        self.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterExec", "metadata": {"name": namespace},
            "spec": {"selector": {"matchNamespaces": [namespace]}, "execs": [{"local": {"workDir": workdir}}]},
        }));
    }

    /// Forwards these ports of every pod in a namespace to one port of this machine.
    pub fn forward(&self, namespace: &str, ports: &[u16], local: u16) {
        self.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward", "metadata": {"name": namespace},
            "spec": {"selector": {"matchNamespaces": [namespace]},
                     "forwards": [{"ports": ports, "target": {"port": local, "address": "127.0.0.1"}}]},
        }));
    }

    /// Registers an admission webhook that is called when a resource such as `apps/v1/deployments`
    /// is created in one namespace. Dry runs call it too.
    ///
    /// # Panics
    /// If the webhook cannot listen, or the API server rejects its configuration.
    pub fn judge_by(&self, namespace: &str, resource: &str, judge: Judge) {
        let port = webhook::serve(&self.folder, judge).expect("a webhook can listen");
        let admin = self.kubectl(Persona::Admin);
        let [group, version, plural] = resource.splitn(3, '/').collect::<Vec<_>>()[..] else {
            panic!("{resource}")
        };
        admin.apply(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": format!("{namespace}.sandbox.test"), "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
                "failurePolicy": "Fail", "timeoutSeconds": 5,
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": self.ca_bundle()},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [plural]}],
            }],
        }));
    }

    /// The cluster's CA certificate in base64, for webhook configurations.
    pub(crate) fn ca_bundle(&self) -> Value {
        // kubectl encodes a Secret's files in base64.
        let ca = format!("--from-file=ca={}", self.file("ca.crt"));
        let secret = self.kubectl(Persona::Admin).json(&[
            "create",
            "secret",
            "generic",
            "ca",
            &ca,
            "--dry-run=client",
        ]);
        secret["data"]["ca"].clone()
    }

    /// Opens the log of a simulated container for writing.
    pub fn pod_log(&self, namespace: &str, pod: &str, container: &str) -> PodLog {
        PodLog::new(
            &self.kubectl(Persona::Admin),
            self.folder.clone(),
            namespace,
            pod,
            container,
        )
    }

    /// Keeps other tests from adding nodes until the guard is dropped.
    pub fn with_fixed_nodes(&self) -> RwLockReadGuard<'_, ()> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds nodes and waits until the scheduler can use them.
    pub fn add_nodes(&self, nodes: &[Value]) {
        let _adding = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let kubectl = self.kubectl(Persona::Admin);
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": nodes}));
        let names: Vec<_> = nodes
            .iter()
            .filter_map(|node| node["metadata"]["name"].as_str())
            .collect();
        kubectl.run(
            &[
                &["wait", "--for=condition=Ready", "--timeout=60s", "node"],
                names.as_slice(),
            ]
            .concat(),
        );
        // The node lifecycle controller removes its not-ready taint shortly after the node becomes
        // ready.
        kubectl.until(&["get", "nodes"], |list| {
            list["items"].as_array().is_some_and(|items| {
                items.iter().all(|node| {
                    let taints = node["spec"]["taints"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    taints
                        .iter()
                        .all(|taint| taint["key"] != "node.kubernetes.io/not-ready")
                })
            })
        });
    }

    /// Starts a real node and waits about ten seconds until the scheduler can use it.
    pub fn add_real_node(&self, hardware: &Hardware) -> Result<()> {
        let mut nodes = self.real_nodes.lock().expect("no holder panics");
        let mut node = RealNode::start(self, nodes.len(), hardware)?;
        self.routes.add_node(nodes.len(), node.proxy_socket());
        let kubectl = self.kubectl(Persona::Admin);
        let end = Instant::now() + Duration::from_secs(90);
        let name = node.name();
        let is_node_ready = || {
            let output = kubectl.try_run(&["get", "node", &name, "-o", "json"], "");
            let state: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let allocatable = state["status"]["allocatable"][&hardware.resource]
                .as_str()
                .unwrap_or("0");
            state.is_object()
                && allocatable == hardware.devices.to_string()
                && state["spec"]["taints"].is_null()
        };
        // Not `eventually`, because the caller needs an error, and the wait ends early if the node
        // dies.
        while !is_node_ready() {
            if !node.is_running() || Instant::now() > end {
                let log = self.folder.join(format!("{name}.log"));
                let log = fs::read_to_string(&log).unwrap_or_default();
                bail!(
                    "the real node did not become ready; GPUCTL_SANDBOX_KEEP=1 keeps its folder:\n{}",
                    log.trim()
                );
            }
            thread::sleep(Duration::from_millis(200));
        }
        nodes.push(node);
        Ok(())
    }

    /// Calls a function with a real node; see [`RealNode`].
    ///
    /// # Panics
    /// If there is no such node.
    pub fn on_real_node<T>(&self, index: usize, action: impl FnOnce(&mut RealNode) -> T) -> T {
        action(&mut self.real_nodes.lock().expect("no holder panics")[index])
    }

    /// PID of the process that owns the network namespace between real nodes. The first call starts
    /// it.
    pub(crate) fn wire(&self) -> Result<u32> {
        if let Some(process) = self.wire.get() {
            return Ok(*process);
        }
        let mut command = Command::new("unshare");
        command
            .arg("--net")
            .arg(self.binaries.path("node"))
            .arg("wire");
        let process = self
            .group
            .spawn(command, &self.folder.join("wire.log"))?
            .id();
        Ok(*self.wire.get_or_init(|| process))
    }

    /// Grace period of the node lifecycle controller. Real nodes send a heartbeat every ten
    /// seconds, so the usual 40 s are enough. Heartbeats of simulated nodes can be late on a busy
    /// machine.
    pub(crate) fn node_grace(&self) -> &'static str {
        if self.with_real_nodes { "40s" } else { "5m" }
    }

    /// Routes `address:port` of the cluster network to a port of this machine.
    pub fn add_road(&self, address: &str, port: u16) {
        self.routes.add(address, port);
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write_files(&self, exporters: &[String], more_scrapes: &[Value]) -> Result<()> {
        certificates::write(&self.folder)?;
        let tokens: String = Persona::ALL
            .iter()
            .map(|persona| {
                format!(
                    "{},{},{},\"{}\"\n",
                    persona.token(),
                    persona.user(),
                    persona.name(),
                    persona.group()
                )
            })
            .collect();
        let nodes: String = (0..RealNode::MAX_NODES).map(RealNode::token_line).collect();
        self.write("tokens.csv", &(tokens + &nodes))?;
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
        // By default the scheduler scores only some of the nodes if there are more than 100, and a
        // pod can end up on a node that it scores lower. The tests share about 160 nodes.
        let scheduler = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false}, "percentageOfNodesToScore": 100,
            "clientConnection": {"kubeconfig": self.kubeconfig(Persona::Admin), "qps": 300, "burst": 600},
        });
        self.write("scheduler.yaml", &scheduler.to_string())?;
        let audited_namespace = json!({"level": "Metadata", "namespaces": [AUDITED], "verbs": ["create", "update", "patch", "delete"]});
        let rules = json!([{"level": "Metadata", "users": [Persona::Heidi.user()]}, audited_namespace, {"level": "None"}]);
        let audit = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
        self.write("audit.yaml", &audit.to_string())?;
        self.write("pods.yaml", include_str!("../config/pods.yaml"))?;
        let mut scrapes = vec![
            json!({"job_name": "kube-state-metrics", "honor_labels": true,
                "static_configs": [{"targets": [format!("127.0.0.1:{}", self.ports.state)]}]}),
            json!({"job_name": "gpu-exporter", "static_configs": [{"targets": exporters,
                // The exporter's own pod. Prometheus renames clashing labels of its metrics to
                // `exported_pod` and so on.
                "labels": {"namespace": "gpu-operator", "pod": "exporter", "container": "exporter"}}]}),
        ];
        scrapes.extend_from_slice(more_scrapes);
        let global = json!({"scrape_interval": "1s", "evaluation_interval": "5s"});
        self.write(
            "prometheus.yml",
            &json!({"global": global, "scrape_configs": scrapes}).to_string(),
        )
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn spawn(&self, name: &str, arguments: &[&str]) -> Result<()> {
        let arguments = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        self.launch(name, &self.binaries.path(name), arguments)
    }

    pub(crate) fn launch(&self, name: &str, program: &Path, arguments: Vec<String>) -> Result<()> {
        let mut command = Command::new(program);
        command.args(&arguments).current_dir(&self.folder);
        let child = self
            .group
            .spawn(command, &self.folder.join(format!("{name}.log")))?;
        let part = Part {
            program: program.to_owned(),
            arguments,
            child,
        };
        self.running
            .lock()
            .expect("no holder panics")
            .insert(name.to_owned(), part);
        Ok(())
    }

    /// Sends SIGKILL to a part of the cluster, such as `kube-apiserver` or an additional
    /// Prometheus.
    pub fn stop(&self, name: &str) -> Result<()> {
        let mut running = self.running.lock().expect("no holder panics");
        let part = running
            .get_mut(name)
            .with_context(|| format!("`{name}` was not started"))?;
        part.child
            .kill()
            .with_context(|| format!("cannot stop {name}"))?;
        part.child
            .wait()
            .with_context(|| format!("cannot wait for {name}"))?;
        Ok(())
    }

    /// Restarts a stopped part with the files that it left.
    pub fn start_again(&self, name: &str) -> Result<()> {
        let part = self.running.lock().expect("no holder panics").remove(name);
        let Part {
            program, arguments, ..
        } = part.with_context(|| format!("`{name}` was not started"))?;
        self.launch(name, &program, arguments)
    }

    pub(crate) fn wait_until_ready(&self, name: &str, ready: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(90);
        // Not `eventually`, because the caller needs an error: `start` retries after a port
        // conflict.
        while !ready() {
            if let Some((part, line)) = taken_port(&self.folder) {
                bail!("the port of {part} is already in use: {line}");
            }
            let log =
                fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            if Instant::now() > end {
                let tail: Vec<_> = log.lines().rev().take(5).collect();
                bail!(
                    "{name} did not answer within 90 s; the end of its log:\n{}",
                    tail.join("\n")
                );
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Finds a part that could not listen, and the log line about it.
fn taken_port(folder: &Path) -> Option<(String, String)> {
    let logs = fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "log")
        });
    logs.filter_map(|entry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        let line = text
            .lines()
            .find(|line| line.contains("address already in use"))?
            .to_owned();
        Some((
            entry.path().file_stem()?.to_string_lossy().into_owned(),
            line,
        ))
    })
    .next()
}

/// Whether a Prometheus has loaded its blocks and answers queries. It listens before that, but
/// rejects queries.
pub(crate) fn is_ready(port: u16) -> bool {
    let request = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    request().is_ok_and(|answer| answer.starts_with("HTTP/1.0 200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_whose_port_is_in_use_is_reported() {
        let folder =
            std::env::temp_dir().join(format!("gpuctl-sandbox-ports-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kwok.log"), "starting\n").unwrap();
        assert_eq!(taken_port(&folder), None);
        fs::write(
            folder.join("etcd.log"),
            "starting\nlisten tcp 127.0.0.1:1: bind: address already in use\n",
        )
        .unwrap();
        let (part, line) = taken_port(&folder).unwrap();
        assert_eq!(
            (part.as_str(), line.as_str()),
            (
                "etcd",
                "listen tcp 127.0.0.1:1: bind: address already in use"
            )
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
