//! A real node beside the simulated ones: kubelet, containerd, runc and CoreDNS in namespaces of
//! their own, as a device plugin and a driver of claims see GPUs. What happens inside is a Go
//! program (`go/node`), because the kubelet's interfaces are Go modules; this file builds it,
//! starts it, and asks it for faults.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::egress;
use crate::persona::Persona;

/// What a real node offers. Nothing is behind the devices but their ids.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// The extended resource of the device plugin.
    pub resource: String,
    /// How many of it; their ids are `GPU-0`, `GPU-1`, ….
    pub devices: usize,
    /// The value of the label `nvidia.com/gpu.product`.
    pub product: String,
    /// Devices that are given by claims of dynamic resource allocation, beside those of the plugin.
    pub claims: usize,
    /// MiB of a disk of its own for what pods write; `None` for that of this machine.
    pub disk: Option<u32>,
    /// Further labels.
    pub labels: Vec<(String, String)>,
}

impl Hardware {
    /// `count` A100 behind a device plugin.
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

    /// The same in a pool of gpuctl's.
    pub fn in_pool(mut self, pool: &str) -> Self {
        self.labels
            .push(("gpuctl/pool".to_owned(), pool.to_owned()));
        self
    }
}

/// A running node; it ends when this value is dropped or the process dies, and leaves nothing
/// behind.
pub struct RealNode {
    index: usize,
    folder: PathBuf,
    keeper: Child,
}

impl RealNode {
    /// The most nodes of one cluster, which get tokens beforehand.
    pub const MOST: usize = 16;

    pub(crate) fn token_line(index: usize) -> String {
        let name = node_name(index);
        format!(
            "{},system:node:{name},{name},\"system:nodes\"\n",
            node_token(index)
        )
    }

    pub(crate) fn start(cluster: &Cluster, index: usize, hardware: &Hardware) -> Result<Self> {
        if let Some(lack) = lack() {
            bail!("{lack}");
        }
        let folder = PathBuf::from(format!("{}-node-{index}", cluster.folder().display()));
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        egress::lead_out(&folder.join("api.sock"), cluster.ports.api)?;
        let node = cluster.binaries.path("node");
        let status = Command::new(&node)
            .arg("images")
            .arg(&folder)
            .arg(cluster.binaries.path("toolbox"))
            .status()?;
        if !status.success() {
            bail!("the images of the real node could not be made");
        }
        let config = folder.join("node.json");
        let text = config_text(cluster, index, hardware, &folder, cluster.wire()?);
        fs::write(&config, text.to_string())?;
        let log = File::create(cluster.folder().join(format!("{}.log", node_name(index))))?;
        // A group of its own: whatever ends the cluster, the keeper lives a moment longer and
        // cleans up.
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

    pub(crate) fn way_in(&self) -> PathBuf {
        self.folder.join("in.sock")
    }

    /// Whether everything still runs that was started.
    pub fn lives(&mut self) -> bool {
        self.keeper.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Ends the node as a power cut does: nobody tells the API server.
    pub fn end(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }

    /// Folder whose files pods see in `/var/lib/gpuctl-sandbox` of the node, for volumes.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Kills a program without a warning: `kubelet`, `containerd`, `coredns`.
    pub fn stop(&self, program: &str) {
        self.ask("POST", &format!("/stop/{program}"));
    }

    /// Starts a program again.
    pub fn start_again(&self, program: &str) {
        self.ask("POST", &format!("/start/{program}"));
    }

    /// Stops a program where it stands: what asks it waits.
    pub fn freeze(&self, program: &str) {
        self.ask("POST", &format!("/freeze/{program}"));
    }

    /// Lets a frozen program go on.
    pub fn thaw(&self, program: &str) {
        self.ask("POST", &format!("/thaw/{program}"));
    }

    /// Loads an archive with an image into the container runtime.
    pub fn load(&self, archive: &Path) {
        self.ask("POST", &format!("/load{}", archive.display()));
    }

    /// Lets the device plugin report a device as healthy or not.
    pub fn set_health(&self, device: usize, healthy: bool) {
        let health = if healthy { "Healthy" } else { "Unhealthy" };
        self.ask(
            "POST",
            &format!("/health/{}/{health}", device_id(self.index, device)),
        );
    }

    /// Which container has which device, as the kubelet tells exporters: `namespace/pod/container`
    /// by the device's id.
    pub fn holders(&self) -> BTreeMap<String, String> {
        let answer: Value =
            serde_json::from_str(&self.ask("GET", "/holders")).expect("the node answers with JSON");
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
    /// When the node does not do what it is asked for.
    fn ask(&self, method: &str, path: &str) -> String {
        let socket = self.folder.join("control.sock");
        // It is started in the background.
        let end = Instant::now() + Duration::from_secs(60);
        while !socket.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
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
    let all = hardware.devices + hardware.claims;
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
        "devices": ids(0..hardware.devices), "claims": ids(hardware.devices..all), "product": hardware.product,
        "images": images, "disk": hardware.disk.unwrap_or(0),
        "leave": std::env::var_os("GPUCTL_SANDBOX_KEEP").is_some(),
    })
}

/// Why no real node can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Something that whoever runs it can mend.
    Missing(&'static str),
    /// What the kernel, or a container around us, does not let even root do.
    Forbidden(&'static str),
}

impl std::fmt::Display for Lack {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(what) => write!(formatter, "a real node needs {what}"),
            Self::Forbidden(what) => write!(
                formatter,
                "a real node needs {what}, which this kernel or its container forbids"
            ),
        }
    }
}

/// What a real node needs and this machine lacks, the first of it.
pub fn lack() -> Option<Lack> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let (out, err) = (Stdio::null(), Stdio::null());
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .status()
            .is_ok_and(|status| status.success())
    };
    if !cfg!(target_os = "linux") {
        return Some(Lack::Missing("Linux"));
    }
    if !Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
    {
        return Some(Lack::Missing(
            "root: run it with sudo or in a virtual machine",
        ));
    }
    if !succeeds("unshare", &["--version"]) {
        return Some(Lack::Missing("`unshare` of util-linux in PATH"));
    }
    // runc enters namespaces in C, before Go's threads begin.
    if !succeeds("cc", &["--version"]) && !succeeds("gcc", &["--version"]) {
        return Some(Lack::Missing("a C compiler (`cc` or `gcc`) in PATH"));
    }
    if !succeeds(
        "unshare",
        &[
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "mount",
            "-t",
            "tmpfs",
            "tmpfs",
            "/run",
        ],
    ) {
        return Some(Lack::Forbidden("namespaces with mounts of their own"));
    }
    // Above some file systems, such as another overlay, none can be mounted.
    let probe = std::env::temp_dir().join(format!("gpuctl-sandbox-probe-{}", std::process::id()));
    let mount = "mkdir -p l u w m && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w m";
    let overlay = fs::create_dir_all(&probe).is_ok()
        && succeeds(
            "unshare",
            &[
                "--mount",
                "sh",
                "-c",
                &format!("cd '{}' && {mount}", probe.display()),
            ],
        );
    let _ = fs::remove_dir_all(&probe);
    if !overlay {
        return Some(Lack::Forbidden(
            "the overlay file system above the folder for temporary files",
        ));
    }
    let cgroup = ["", "memory/"].iter().any(|tree| {
        let group = format!(
            "/sys/fs/cgroup/{tree}gpuctl-sandbox-probe-{}",
            std::process::id()
        );
        fs::create_dir(&group).is_ok_and(|()| fs::remove_dir(&group).is_ok())
    });
    if !cgroup {
        return Some(Lack::Forbidden("cgroups that can be written"));
    }
    None
}
