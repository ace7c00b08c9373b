//! Adapts a controller's released manifests to a process that runs next to the control plane
//! instead of in a pod.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::persona::Persona;

/// Kinds that only a controller in a pod needs.
const IN_CLUSTER: [&str; 5] = ["Deployment", "Service", "APIService", "Secret", "ConfigMap"];

impl Cluster {
    /// Applies a Go module's `config/default`, except for its webhook configurations, which it
    /// returns. They fail closed, so the caller applies them once the process at `port` is
    /// listening.
    pub(crate) fn install(&self, module: &str, port: u16) -> Result<Vec<Value>> {
        let admin = self.kubectl(Persona::Admin);
        let module = self.binaries.module(module)?;
        let manifests = admin.run(&[
            "kustomize",
            &module.join("config/default").display().to_string(),
        ]);
        // kubectl prints the objects as concatenated JSON documents.
        let objects = admin.run_with(
            &[
                "create",
                "--dry-run=client",
                "--validate=false",
                "-o",
                "json",
                "-f",
                "-",
            ],
            &manifests,
        );
        let items = serde_json::Deserializer::from_str(&objects)
            .into_iter::<Value>()
            .collect::<Result<Vec<_>, _>>();
        let url = format!("https://127.0.0.1:{port}");
        let (ca, items) = (self.ca_bundle(), items.context("kubectl prints JSON")?);
        let (mut others, mut webhooks) = (Vec::new(), Vec::new());
        for mut item in items
            .into_iter()
            .filter(|item| !IN_CLUSTER.iter().any(|kind| item["kind"] == *kind))
        {
            use_url(&mut item, &url, &ca);
            let is_webhook = item["kind"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("WebhookConfiguration"));
            if is_webhook {
                &mut webhooks
            } else {
                &mut others
            }
            .push(item);
        }
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": others}));
        admin.run(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "--all",
        ]);
        Ok(webhooks)
    }

    /// Creates a folder that contains a certificate trusted by the API server, under the file names
    /// that controllers expect.
    pub(crate) fn certificates(&self) -> Result<PathBuf> {
        let folder = self.folder().join("certs");
        fs::create_dir_all(&folder)?;
        fs::copy(self.file("api.crt"), folder.join("tls.crt"))?;
        fs::copy(self.file("api.key"), folder.join("tls.key"))?;
        Ok(folder)
    }
}

/// Replaces the Service in webhook and conversion configurations with a URL.
fn use_url(item: &mut Value, url: &str, ca: &Value) {
    let replace = |client: &mut Value| {
        let path = client["service"]["path"].as_str().unwrap_or("/").to_owned();
        *client = json!({"url": format!("{url}{path}"), "caBundle": ca});
    };
    for webhook in item
        .get_mut("webhooks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        replace(&mut webhook["clientConfig"]);
    }
    if item
        .pointer("/spec/conversion/webhook/clientConfig/service")
        .is_some()
    {
        replace(&mut item["spec"]["conversion"]["webhook"]["clientConfig"]);
    }
    if let Some(item) = item.as_object_mut() {
        item.remove("status");
    }
}
