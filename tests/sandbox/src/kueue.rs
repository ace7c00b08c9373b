//! Kueue beside the control plane: its released manifests without what only a cluster of containers needs, and its process. Its
//! webhooks fail closed: without the process no Job or pod can be made.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::persona::Persona;

/// Kinds of the manifests that are for a process in a pod.
const IN_CLUSTER: [&str; 5] = ["Deployment", "Service", "APIService", "Secret", "ConfigMap"];

/// Gives the process what it looks for at fixed paths, /etc/kueue and /visibility, in a view of the file system of its own.
const START: &str = "set -e; root=$PWD/root-of-kueue; mkdir -p \"$root\"
for entry in /*; do
  if [ -L \"$entry\" ]; then cp -a \"$entry\" \"$root\"
  elif [ -d \"$entry\" ] && [ \"$entry\" != /etc ]; then mkdir -p \"$root$entry\"; mount --rbind \"$entry\" \"$root$entry\"; fi
done
mkdir -p \"$root/visibility\"; cp -a /etc \"$root\"; mkdir -p \"$root/etc/kueue/metrics/certs\"
cp certs/* \"$root/visibility\"; cp certs/* \"$root/etc/kueue/metrics/certs\"
exec chroot \"$root\" \"$@\"";
/// Where the API server finds the API of queue positions.
const VISIBILITY: &str = "10.244.255.2";

impl Cluster {
    pub(crate) fn start_kueue(&self) -> Result<()> {
        let admin = self.kubectl(Persona::Admin);
        let module = self.binaries.module("sigs.k8s.io/kueue")?;
        let manifests = admin.run(&["kustomize", &module.join("config/default").display().to_string()]);
        // One object after the other.
        let objects = admin.run_with(&["create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"], &manifests);
        let items = serde_json::Deserializer::from_str(&objects).into_iter::<Value>().collect::<Result<Vec<_>, _>>();
        let url = format!("https://127.0.0.1:{}", self.ports.kueue);
        let (ca, items) = (self.ca_bundle(), items.context("kubectl prints JSON")?);
        let (mut first, mut webhooks) = (Vec::new(), Vec::new());
        for mut item in items.into_iter().filter(|item| !IN_CLUSTER.iter().any(|kind| item["kind"] == *kind)) {
            by_address(&mut item, &url, &ca);
            let is_webhook = item["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"));
            if is_webhook { &mut webhooks } else { &mut first }.push(item);
        }
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": first}));
        admin.run(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
        let certificates = self.folder().join("certs");
        fs::create_dir_all(&certificates)?;
        fs::copy(self.file("api.crt"), certificates.join("tls.crt"))?;
        fs::copy(self.file("api.key"), certificates.join("tls.key"))?;
        let health = format!("127.0.0.1:{}", self.ports.kueue_health);
        self.write(
            "kueue.yaml",
            &json!({
                "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": "kueue-system",
                "health": {"healthProbeBindAddress": health},
                "metrics": {"bindAddress": "127.0.0.1:0"},
                "webhook": {"host": "127.0.0.1", "port": self.ports.kueue, "certDir": certificates},
                "leaderElection": {"leaderElect": false},
                "internalCertManagement": {"enable": false},
                "clientConnection": {"qps": 100, "burst": 200},
                "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": self.ports.kueue_visibility},
                "integrations": {"frameworks": ["batch/job", "pod", "deployment", "statefulset"]},
            })
            .to_string(),
        )?;
        let program = self.binaries.path("kueue").display().to_string();
        let arguments = [
            "--mount",
            "sh",
            "-c",
            START,
            "sh",
            &program,
            "--config",
            &self.file("kueue.yaml"),
            "--kubeconfig",
            &self.kubeconfig(Persona::Admin).display().to_string(),
        ];
        self.launch("kueue", "unshare".as_ref(), arguments.map(ToOwned::to_owned).to_vec())?;
        let ready = || std::net::TcpStream::connect(("127.0.0.1", self.ports.kueue)).is_ok();
        self.until_ready("kueue", ready)?;
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": webhooks}));
        self.serve_visibility()
    }

    fn serve_visibility(&self) -> Result<()> {
        self.add_road(&format!("{VISIBILITY}:443"), self.ports.kueue_visibility);
        let admin = self.kubectl(Persona::Admin);
        let named = json!({"name": "kueue-visibility-server", "namespace": "kueue-system"});
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": {"ports": [{"port": 443}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
             "metadata": {"name": "kueue-visibility-server", "namespace": "kueue-system",
                          "labels": {"kubernetes.io/service-name": "kueue-visibility-server"}},
             "addressType": "IPv4", "ports": [{"port": 443}], "endpoints": [{"addresses": [VISIBILITY]}]},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
             "metadata": {"name": "v1beta2.visibility.kueue.x-k8s.io"},
             "spec": {"group": "visibility.kueue.x-k8s.io", "version": "v1beta2", "insecureSkipTLSVerify": true,
                      "groupPriorityMinimum": 100, "versionPriority": 100, "service": named}},
        ]}));
        self.until_ready("kueue", || {
            admin.try_run(&["get", "--raw", "/apis/visibility.kueue.x-k8s.io/v1beta2"], "").status.success()
        })
    }
}

/// Replaces the Service of webhooks and conversions by an address.
fn by_address(item: &mut Value, url: &str, ca: &Value) {
    let replace = |client: &mut Value| {
        let path = client["service"]["path"].as_str().unwrap_or("/").to_owned();
        *client = json!({"url": format!("{url}{path}"), "caBundle": ca});
    };
    for webhook in item.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        replace(&mut webhook["clientConfig"]);
    }
    if item.pointer("/spec/conversion/webhook/clientConfig/service").is_some() {
        replace(&mut item["spec"]["conversion"]["webhook"]["clientConfig"]);
    }
    if let Some(item) = item.as_object_mut() {
        item.remove("status");
    }
}
