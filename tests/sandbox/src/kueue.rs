//! Runs Kueue as a process next to the control plane, with its released manifests except those for
//! pods. Its webhooks fail closed: while the process is down, no Job or pod can be created.

use anyhow::Result;
use serde_json::json;

use crate::cluster::Cluster;
use crate::persona::Persona;

/// Kueue reads certificates from the fixed paths /etc/kueue and /visibility. This script starts it
/// in a separate root directory that contains them.
const START: &str = "set -e; root=$PWD/root-of-kueue; mkdir -p \"$root\"
for entry in /*; do
  if [ -L \"$entry\" ]; then cp -a \"$entry\" \"$root\"
  elif [ -d \"$entry\" ] && [ \"$entry\" != /etc ]; then mkdir -p \"$root$entry\"; mount --rbind \"$entry\" \"$root$entry\"; fi
done
mkdir -p \"$root/visibility\"; cp -a /etc \"$root\"; mkdir -p \"$root/etc/kueue/metrics/certs\"
cp certs/* \"$root/visibility\"; cp certs/* \"$root/etc/kueue/metrics/certs\"
exec chroot \"$root\" \"$@\"";
/// Address at which the API server reaches Kueue's visibility API, which reports queue positions.
const VISIBILITY: &str = "10.244.255.2";

impl Cluster {
    pub(crate) fn start_kueue(&self) -> Result<()> {
        let admin = self.kubectl(Persona::Admin);
        let webhooks = self.install("sigs.k8s.io/kueue", self.ports.kueue)?;
        let certificates = self.certificates()?;
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
                "integrations": {"frameworks": ["batch/job", "pod", "deployment"]},
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
        self.launch(
            "kueue",
            "unshare".as_ref(),
            arguments.map(ToOwned::to_owned).to_vec(),
        )?;
        let ready = || std::net::TcpStream::connect(("127.0.0.1", self.ports.kueue)).is_ok();
        self.wait_until_ready("kueue", ready)?;
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": webhooks}));
        self.serve_visibility()
    }

    fn serve_visibility(&self) -> Result<()> {
        self.add_road(&format!("{VISIBILITY}:443"), self.ports.kueue_visibility);
        let admin = self.kubectl(Persona::Admin);
        let service = json!({"name": "kueue-visibility-server", "namespace": "kueue-system"});
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"ports": [{"port": 443}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
             "metadata": {"name": "kueue-visibility-server", "namespace": "kueue-system",
                          "labels": {"kubernetes.io/service-name": "kueue-visibility-server"}},
             "addressType": "IPv4", "ports": [{"port": 443}], "endpoints": [{"addresses": [VISIBILITY]}]},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
             "metadata": {"name": "v1beta2.visibility.kueue.x-k8s.io"},
             "spec": {"group": "visibility.kueue.x-k8s.io", "version": "v1beta2", "insecureSkipTLSVerify": true,
                      "groupPriorityMinimum": 100, "versionPriority": 100, "service": service}},
        ]}));
        self.wait_until_ready("kueue", || {
            admin
                .try_run(
                    &["get", "--raw", "/apis/visibility.kueue.x-k8s.io/v1beta2"],
                    "",
                )
                .status
                .success()
        })
    }
}
