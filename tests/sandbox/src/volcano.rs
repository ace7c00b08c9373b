//! Runs Volcano's scheduler and controller next to the control plane, with its released custom
//! resource definitions. Its webhooks do not run: they only validate objects that gpuctl creates.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::persona::Persona;

/// The configuration from Volcano's manifests, without preemption.
const SCHEDULER: &str = "actions: \"enqueue, allocate, backfill\"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
";

impl Cluster {
    pub(crate) fn start_volcano(&self) -> Result<()> {
        let admin = self.kubectl(Persona::Admin);
        let module = self.binaries.module("volcano.sh/volcano")?;
        let manifests = fs::read_to_string(module.join("installer/volcano-development.yaml"))
            .context("Volcano's manifests")?;
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
        let definitions: Vec<Value> = items
            .context("kubectl prints JSON")?
            .into_iter()
            .filter(|item| {
                ["CustomResourceDefinition", "Namespace"]
                    .iter()
                    .any(|kind| item["kind"] == *kind)
            })
            .collect();
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}));
        admin.run(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "--all",
        ]);
        self.write("volcano.yaml", SCHEDULER)?;
        let kubeconfig = self.kubeconfig(Persona::Admin).display().to_string();
        let common = |health: u16| {
            let health = format!("127.0.0.1:{health}");
            [
                "--kubeconfig",
                &kubeconfig,
                "--leader-elect=false",
                "--healthz-address",
                &health,
                "--listen-address",
                "127.0.0.1:0",
            ]
            .map(ToOwned::to_owned)
            .to_vec()
        };
        let controller = common(self.ports.volcano_controller);
        self.launch(
            "volcano-controller",
            &self.binaries.path("vc-controller-manager"),
            controller,
        )?;
        let mut scheduler = common(self.ports.volcano_scheduler);
        scheduler.extend(["--scheduler-conf".to_owned(), self.file("volcano.yaml")]);
        self.launch(
            "volcano-scheduler",
            &self.binaries.path("vc-scheduler"),
            scheduler,
        )?;
        // The controller creates the default queue.
        self.wait_until_ready("volcano-controller", || {
            admin.json(&["get", "queues.scheduling.volcano.sh"])["items"]
                .as_array()
                .is_some_and(|queues| !queues.is_empty())
        })
    }
}
