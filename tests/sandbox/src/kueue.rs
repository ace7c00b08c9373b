//! Kueue beside the control plane: its released manifests without what only a cluster of containers needs, and its process. Its
//! webhooks fail closed: without the process no Job or pod can be made.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::persona::Persona;

/// Kinds of the manifests that are for a process in a pod.
const IN_CLUSTER: [&str; 5] = ["Deployment", "Service", "APIService", "Secret", "ConfigMap"];

/// Gives the process what it looks for at fixed paths, in a view of the file system of its own.
const START: &str = "set -e; mkdir -p etc-of-kueue; cp -a /etc/. etc-of-kueue/; mkdir -p etc-of-kueue/kueue/metrics/certs; \
    cp certs/* etc-of-kueue/kueue/metrics/certs/; mount --bind etc-of-kueue /etc; exec \"$@\"";

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
            "--feature-gates",
            "VisibilityOnDemand=false",
        ];
        self.launch("kueue", "unshare".as_ref(), arguments.map(ToOwned::to_owned).to_vec())?;
        let ready = || std::net::TcpStream::connect(("127.0.0.1", self.ports.kueue)).is_ok();
        self.until_ready("kueue", ready)?;
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": webhooks}));
        Ok(())
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
