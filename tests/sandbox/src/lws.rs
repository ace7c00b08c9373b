//! Runs LeaderWorkerSet as a process next to the control plane, with its released manifests except
//! those for pods.

use anyhow::Result;
use serde_json::json;

use crate::cluster::Cluster;
use crate::persona::Persona;

impl Cluster {
    pub(crate) fn start_lws(&self) -> Result<()> {
        let admin = self.kubectl(Persona::Admin);
        let webhooks = self.install("sigs.k8s.io/lws", self.ports.lws)?;
        self.write(
            "lws.yaml",
            &json!({
                "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
                "health": {"healthProbeBindAddress": "127.0.0.1:0"},
                "metrics": {"bindAddress": "0"},
                "webhook": {"host": "127.0.0.1", "port": self.ports.lws, "certDir": self.certificates()?},
                "leaderElection": {"leaderElect": false},
                "internalCertManagement": {"enable": false},
                "clientConnection": {"qps": 100, "burst": 200},
            })
            .to_string(),
        )?;
        let kubeconfig = self.kubeconfig(Persona::Admin).display().to_string();
        let arguments = [
            "--config",
            &self.file("lws.yaml"),
            "--kubeconfig",
            &kubeconfig,
        ]
        .map(ToOwned::to_owned)
        .to_vec();
        self.launch("lws", &self.binaries.path("lws"), arguments)?;
        self.wait_until_ready("lws", || {
            std::net::TcpStream::connect(("127.0.0.1", self.ports.lws)).is_ok()
        })?;
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": webhooks}));
        Ok(())
    }
}
