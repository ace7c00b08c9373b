//! A real node in addition to the simulated ones: kubelet, containerd, runc and CoreDNS in separate
//! namespaces, with a device plugin and a DRA driver that offer GPUs.
//!
//! A Go program (`go/node`) runs inside the node, because the kubelet's interfaces are Go modules.
//! This module starts the program, and sends it commands, for example to cause faults.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::egress;
use crate::eventually;
use crate::node_requirements::unmet_requirement;
use crate::persona::Persona;

/// A real node's devices. They exist only as ids.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Name of the device plugin's extended resource.
    pub resource: String,
    /// Number of devices. Their ids are `GPU-NODE-0`, `GPU-NODE-1`, ….
    pub devices: usize,
    /// Value of the label `nvidia.com/gpu.product`.
    pub product: String,
    /// Number of additional devices that are allocated through claims (dynamic resource
    /// allocation).
    pub claims: usize,
    /// Size in MiB of a separate disk for the pods' files. `None` uses this machine's disk.
    pub disk: Option<u32>,
    pub labels: Vec<(String, String)>,
}

impl Hardware {
    /// `count` A100s offered by a device plugin.
    pub fn gpus(count: usize) -> Self {
        Self {
            resource: "nvidia.com/gpu".to_owned(),
            devices: count,
            product: "NVIDIA-A100-SXM4-80GB".to_owned(),
            claims: 0,
            disk: None,
            labels: Vec::new(),
        }
    }

    /// Labels the node as part of a gpuctl pool.
    pub fn in_pool(mut self, pool: &str) -> Self {
        self.labels
            .push(("gpuctl/pool".to_owned(), pool.to_owned()));
        self
    }
}

/// A running node. It ends and cleans up when this value is dropped or the process dies.
pub struct RealNode {
    index: usize,
    folder: PathBuf,
    keeper: Child,
}

impl RealNode {
    /// Maximum number of nodes in one cluster. Their tokens are created with the cluster.
    pub const MAX_NODES: usize = 16;

    pub(crate) fn token_line(index: usize) -> String {
        let name = node_name(index);
        format!(
            "{},system:node:{name},{name},\"system:nodes\"\n",
            node_token(index)
        )
    }

    pub(crate) fn start(cluster: &Cluster, index: usize, hardware: &Hardware) -> Result<Self> {
        if let Some(unmet_requirement) = unmet_requirement() {
            bail!("{unmet_requirement}");
        }
        let folder = PathBuf::from(format!("{}-node-{index}", cluster.folder().display()));
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        egress::forward_to_port(&folder.join("api.sock"), cluster.ports.api)?;
        let node = cluster.binaries.path("node");
        let status = Command::new(&node)
            .arg("images")
            .arg(&folder)
            .arg(cluster.binaries.path("toolbox"))
            .status()?;
        if !status.success() {
            bail!("cannot build the images of the real node");
        }
        let config = folder.join("node.json");
        let text = config_text(cluster, index, hardware, &folder, cluster.wire()?);
        fs::write(&config, text.to_string())?;
        let log = File::create(cluster.folder().join(format!("{}.log", node_name(index))))?;
        // In a separate process group, because the keeper briefly outlives the cluster to clean up.
        let keeper = Command::new(&node)
            .arg("keep")
            .arg(&config)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start the real node")?;
        Ok(Self {
            index,
            folder,
            keeper,
        })
    }

    pub fn name(&self) -> String {
        node_name(self.index)
    }

    pub(crate) fn proxy_socket(&self) -> PathBuf {
        self.folder.join("in.sock")
    }

    /// Whether all of the node's programs are still running.
    pub fn is_running(&mut self) -> bool {
        self.keeper.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Ends the node as a power failure would: the API server is not notified.
    pub fn end(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }

    /// Folder that is mounted on the node at `/var/lib/gpuctl-sandbox`, for volumes.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Sends SIGKILL to a program: `kubelet`, `containerd` or `coredns`.
    pub fn stop(&self, program: &str) {
        self.request("POST", &format!("/stop/{program}"));
    }

    pub fn start_again(&self, program: &str) {
        self.request("POST", &format!("/start/{program}"));
    }

    /// Freezes a program: its sockets stay open, but it does not answer.
    pub fn freeze(&self, program: &str) {
        self.request("POST", &format!("/freeze/{program}"));
    }

    /// Resumes a frozen program.
    pub fn thaw(&self, program: &str) {
        self.request("POST", &format!("/thaw/{program}"));
    }

    /// Loads an image archive into the container runtime.
    pub fn load(&self, archive: &Path) {
        self.request("POST", &format!("/load{}", archive.display()));
    }

    /// Sets the health that the device plugin reports for a device.
    pub fn set_health(&self, device: usize, healthy: bool) {
        let health = if healthy { "Healthy" } else { "Unhealthy" };
        self.request(
            "POST",
            &format!("/health/{}/{health}", device_id(self.index, device)),
        );
    }

    /// The container that holds each device, as the kubelet reports it to exporters: device id to
    /// `namespace/pod/container`.
    pub fn holders(&self) -> BTreeMap<String, String> {
        let answer: Value = serde_json::from_str(&self.request("GET", "/holders"))
            .expect("the node answers with JSON");
        let text = |holder: &Value, key: &str| holder[key].as_str().unwrap_or_default().to_owned();
        let holders = answer.as_array().into_iter().flatten();
        holders
            .map(|holder| {
                let owner = ["namespace", "pod", "container"]
                    .map(|key| text(holder, key))
                    .join("/");
                (text(holder, "device"), owner)
            })
            .collect()
    }

    /// # Panics
    /// If the request fails.
    fn request(&self, method: &str, path: &str) -> String {
        let socket = self.folder.join("control.sock");
        // The node starts in the background.
        eventually(
            "the control socket of the node exists",
            Duration::from_secs(60),
            || socket.exists(),
        );
        let mut stream = UnixStream::connect(socket).expect("the node listens");
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: node\r\n\r\n").expect("the node reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("the node answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("the node speaks HTTP");
        assert!(head.contains(" 200 "), "{method} {path}: {answer}");
        body.to_owned()
    }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        self.end();
    }
}

fn node_name(index: usize) -> String {
    format!("gpu-real-{index}")
}

fn node_token(index: usize) -> String {
    format!("node-{index}-sandbox-token")
}

fn device_id(node: usize, device: usize) -> String {
    format!("GPU-{node}-{device}")
}

fn config_text(
    cluster: &Cluster,
    index: usize,
    hardware: &Hardware,
    folder: &Path,
    wire: u32,
) -> Value {
    const PROGRAMS: [&str; 10] = [
        "kubelet",
        "kube-proxy",
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "runc",
        "bridge",
        "host-local",
        "loopback",
        "coredns",
    ];
    let binaries: BTreeMap<&str, PathBuf> = PROGRAMS
        .iter()
        .map(|name| (*name, cluster.binaries.path(name)))
        .collect();
    let ids = |range: std::ops::Range<usize>| {
        range
            .map(|device| device_id(index, device))
            .collect::<Vec<_>>()
    };
    let total = hardware.devices + hardware.claims;
    let mut labels = vec![
        (
            "nvidia.com/gpu.product".to_owned(),
            hardware.product.clone(),
        ),
        ("real".to_owned(), "true".to_owned()),
    ];
    labels.extend(hardware.labels.clone());
    let images = ["pause.tar", "toolbox.tar", "toolbox-user.tar"].map(|image| folder.join(image));
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    json!({
        "name": node_name(index), "index": index, "folder": folder, "binaries": binaries, "wire": wire,
        "api_port": cluster.ports.api, "authority": cluster.folder().join("ca.crt"),
        "node_token": node_token(index), "admin_token": Persona::Admin.token(),
        "cgroup": format!("gpuctl-sandbox-{}-{index}", cluster.ports.api),
        "labels": labels.join(","), "resource": hardware.resource,
        "devices": ids(0..hardware.devices), "claims": ids(hardware.devices..total), "product": hardware.product,
        "images": images, "disk": hardware.disk.unwrap_or(0),
        "leave": std::env::var_os("GPUCTL_SANDBOX_KEEP").is_some(),
    })
}
