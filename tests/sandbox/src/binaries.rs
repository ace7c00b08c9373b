//! Builds the control plane, and optional programs such as those of a real node, from Go modules.
//! The binaries are stored in the user's cache directory under a hash of their inputs, guarded by a
//! lock, so that other checkouts and later runs on the same machine reuse them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const VERSION: &str = "k8s.io/component-base/version.";

/// A Go module, and the binaries built from its `tool` packages or its own program.
struct Module {
    name: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// Source files of its own program, as (name, text). If empty, its tools are built instead.
    sources: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
    ldflags: fn() -> String,
    /// Builds a static binary for containers without a C library.
    without_c: bool,
    /// Pairs of (name from `go build`, name in the sandbox).
    binaries: &'static [(&'static str, &'static str)],
    /// Build time on two cores without a Go cache. Only displayed, not a timeout.
    minutes: u32,
}

macro_rules! module {
    ($folder:literal) => {
        (
            include_str!(concat!("../go/", $folder, "/go.mod")),
            include_str!(concat!("../go/", $folder, "/go.sum")),
        )
    };
}

macro_rules! sources {
    ($folder:literal: $($file:literal)+) => {
        &[$(($file, include_str!(concat!("../go/", $folder, "/", $file)))),+]
    };
}

fn plain() -> String {
    "-s -w".to_owned()
}

/// Without these flags, the API server reports version v0.0.0-master.
fn versioned() -> String {
    format!("-s -w -X {VERSION}gitVersion=v1.36.3 -X {VERSION}gitMajor=1 -X {VERSION}gitMinor=36")
}

impl Module {
    /// A module whose tools are built with default flags.
    const fn from_tools(
        name: &'static str,
        (go_mod, go_sum): (&'static str, &'static str),
        binaries: &'static [(&'static str, &'static str)],
        minutes: u32,
    ) -> Self {
        Self {
            name,
            go_mod,
            go_sum,
            sources: &[],
            arguments: &[],
            ldflags: plain,
            without_c: false,
            binaries,
            minutes,
        }
    }
}

fn control_plane() -> [Module; 3] {
    [
        Module {
            ldflags: versioned,
            ..Module::from_tools(
                "kubernetes",
                module!("kubernetes"),
                &[
                    ("server", "etcd"),
                    ("kube-apiserver", "kube-apiserver"),
                    ("kube-controller-manager", "kube-controller-manager"),
                    ("kube-scheduler", "kube-scheduler"),
                    ("kubectl", "kubectl"),
                    ("kwok", "kwok"),
                ],
                6,
            )
        },
        Module {
            arguments: &["-tags", "remove_all_sd,enable_kubernetes_sd"],
            ..Module::from_tools(
                "prometheus",
                module!("prometheus"),
                &[("prometheus", "prometheus"), ("promtool", "promtool")],
                2,
            )
        },
        Module::from_tools(
            "kube-state-metrics",
            module!("kube-state-metrics"),
            &[("kube-state-metrics", "kube-state-metrics")],
            2,
        ),
    ]
}

fn adapter() -> Module {
    Module::from_tools(
        "prometheus-adapter",
        module!("prometheus-adapter"),
        &[("adapter", "prometheus-adapter")],
        2,
    )
}

/// Kueue and, from the same module, JobSet.
fn kueue() -> Module {
    Module::from_tools(
        "kueue",
        module!("kueue"),
        &[("kueue", "kueue"), ("jobset", "jobset")],
        17,
    )
}

fn lws() -> Module {
    Module::from_tools("lws", module!("lws"), &[("cmd", "lws")], 4)
}

/// Volcano's scheduler and controller. Later versions build only inside their repository.
fn volcano() -> Module {
    let binaries = &[
        ("controller-manager", "vc-controller-manager"),
        ("scheduler", "vc-scheduler"),
    ];
    Module::from_tools("volcano", module!("volcano"), binaries, 7)
}

/// Metrics stores other than Prometheus 3.
fn stores() -> [Module; 3] {
    [
        Module::from_tools(
            "prometheus-2",
            module!("prometheus-2"),
            &[("prometheus", "prometheus-2")],
            4,
        ),
        Module {
            without_c: true,
            ..Module::from_tools(
                "victoriametrics",
                module!("victoriametrics"),
                &[("victoria-metrics", "victoria-metrics")],
                6,
            )
        },
        Module {
            // Without this tag, which Thanos' own build sets, the sidecar panics in gRPC at the
            // first query.
            arguments: &["-tags", "slicelabels"],
            ..Module::from_tools("thanos", module!("thanos"), &[("thanos", "thanos")], 3)
        },
    ]
}

fn helm() -> Module {
    Module::from_tools("helm", module!("helm"), &[("helm", "helm")], 3)
}

fn real_node() -> [Module; 5] {
    [
        Module {
            ldflags: versioned,
            ..Module::from_tools(
                "kubelet",
                module!("kubelet"),
                &[("kubelet", "kubelet"), ("kube-proxy", "kube-proxy")],
                3,
            )
        },
        Module::from_tools(
            "containerd",
            module!("containerd"),
            &[
                ("containerd", "containerd"),
                ("containerd-shim-runc-v2", "containerd-shim-runc-v2"),
                ("ctr", "ctr"),
                ("runc", "runc"),
                ("bridge", "bridge"),
                ("host-local", "host-local"),
                ("loopback", "loopback"),
            ],
            3,
        ),
        Module {
            sources: sources!("coredns": "main.go"),
            ..Module::from_tools("coredns", module!("coredns"), &[("coredns", "coredns")], 3)
        },
        Module {
            sources: sources!("node": "claims.go" "control.go" "devices.go" "files.go" "image.go" "inside.go" "keep.go" "main.go" "relay.go" "runtime.go"),
            without_c: true,
            ..Module::from_tools("node", module!("node"), &[("node", "node")], 1)
        },
        Module {
            sources: sources!("toolbox": "main.go"),
            without_c: true,
            ..Module::from_tools("toolbox", module!("toolbox"), &[("toolbox", "toolbox")], 1)
        },
    ]
}

/// Optional parts, which only some tests need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    pub adapter: bool,
    /// All programs that a real node runs.
    pub real_node: bool,
    /// Kueue and JobSet.
    pub kueue: bool,
    pub volcano: bool,
    pub lws: bool,
    /// Prometheus 2, VictoriaMetrics and Thanos.
    pub stores: bool,
    /// For installing charts.
    pub helm: bool,
}

/// Lists the modules that [`Binaries::ready`] would have to build, with the minutes that each takes
/// on two cores without a Go cache.
pub fn missing(extras: Extras) -> Result<Vec<(&'static str, u32)>> {
    let (go, root) = (go_version()?, cache_folder()?);
    let missing = modules(extras)
        .into_iter()
        .filter(|module| !module.is_built(&module.folder(&root, &go)));
    Ok(missing
        .map(|module| (module.name, module.minutes))
        .collect())
}

fn modules(extras: Extras) -> Vec<Module> {
    let adapter = extras.adapter.then(adapter).into_iter();
    let node = extras.real_node.then(real_node).into_iter().flatten();
    let queues = extras
        .kueue
        .then(kueue)
        .into_iter()
        .chain(extras.volcano.then(volcano))
        .chain(extras.lws.then(lws));
    let stores = extras.stores.then(stores).into_iter().flatten();
    let helm = extras.helm.then(helm).into_iter();
    control_plane()
        .into_iter()
        .chain(adapter)
        .chain(node)
        .chain(queues)
        .chain(stores)
        .chain(helm)
        .collect()
}

/// Folders that contain the built binaries.
#[derive(Clone, Debug)]
pub struct Binaries {
    folders: Vec<PathBuf>,
    /// Folder of the kwok module, with its custom resource definitions and node stages.
    pub kwok_module: PathBuf,
}

impl Binaries {
    /// Builds missing parts.
    pub fn ready(extras: Extras) -> Result<Self> {
        let go = go_version()?;
        let root = cache_folder()?;
        fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let mut folders = Vec::new();
        for module in modules(extras) {
            folders.push(module.ready(&root, &go)?);
        }
        let kwok_module = module_folder(&folders[0], "sigs.k8s.io/kwok")?;
        Ok(Self {
            folders,
            kwok_module,
        })
    }

    /// Source folder of a module that a part is built from, for example for its manifests.
    pub(crate) fn module(&self, module: &str) -> Result<PathBuf> {
        let requires = format!("\t{module} v");
        let is_required = |folder: &&PathBuf| {
            fs::read_to_string(folder.join("source/go.mod"))
                .is_ok_and(|text| text.contains(&requires))
        };
        let folder = self.folders.iter().find(is_required);
        module_folder(
            folder.with_context(|| format!("the sandbox was built without {module}"))?,
            module,
        )
    }

    /// # Panics
    /// If [`Binaries::ready`] did not build `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.exists())
            .unwrap_or_else(|| panic!("`{name}` is not a part of the sandbox"))
    }
}

impl Module {
    fn folder(&self, root: &Path, go: &str) -> PathBuf {
        root.join(format!("{}-{:016x}", self.name, self.fingerprint(go)))
    }

    fn is_built(&self, folder: &Path) -> bool {
        self.binaries
            .iter()
            .all(|(_, name)| folder.join(name).exists())
    }

    fn ready(&self, root: &Path, go: &str) -> Result<PathBuf> {
        let folder = self.folder(root, go);
        if self.is_built(&folder) {
            return Ok(folder);
        }
        let lock_path = root.join(format!("{}.lock", self.name));
        let lock = File::create(&lock_path)
            .with_context(|| format!("cannot write {}", lock_path.display()))?;
        lock.lock()
            .context("cannot lock the sandbox's cache folder")?;
        if !self.is_built(&folder) {
            require_disk_space(root)?;
            self.build(&folder)?;
        }
        Ok(folder)
    }

    fn build(&self, folder: &Path) -> Result<()> {
        let source = folder.join("source");
        fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
        fs::write(source.join("go.mod"), self.go_mod)?;
        fs::write(source.join("go.sum"), self.go_sum)?;
        for (file, text) in self.sources {
            fs::write(source.join(file), text)?;
        }
        let output = folder.join("building");
        fs::create_dir_all(&output)?;
        let mut command = Command::new("go");
        command
            .current_dir(&source)
            .args(["build", "-v", "-ldflags", &(self.ldflags)()])
            .args(self.arguments)
            .arg("-o")
            .arg(format!("{}/", output.display()))
            .arg(if self.sources.is_empty() { "tool" } else { "." })
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if self.without_c {
            command.env("CGO_ENABLED", "0");
        }
        let mut child = command.spawn().context("cannot start `go`")?;
        let lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let last = watch_build(self.name, self.minutes, lines);
        if !child.wait()?.success() {
            bail!("`go build` of {} failed:\n{}", self.name, last.join("\n"));
        }
        for (built, name) in self.binaries {
            fs::rename(output.join(built), folder.join(name))
                .with_context(|| format!("`go build` of {} made no `{built}`", self.name))?;
        }
        fs::remove_dir_all(&output)?;
        Ok(())
    }

    /// FNV-1a of all build inputs. `DefaultHasher` is not stable across Rust versions.
    fn fingerprint(&self, go: &str) -> u64 {
        let flags = (self.ldflags)();
        let sources = self.sources.iter().map(|(_, text)| *text);
        let parts = [self.go_mod, self.go_sum, &flags, go]
            .into_iter()
            .chain(self.arguments.iter().copied())
            .chain(sources);
        parts
            .flat_map(|part| part.bytes().chain([0]))
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
    }
}

/// Shows the progress of a build. Returns its last lines, which contain the reason for a failure.
fn watch_build(name: &str, minutes: u32, lines: impl BufRead) -> Vec<String> {
    let start = Instant::now();
    let mut stderr = std::io::stderr();
    let terminal = stderr.is_terminal();
    let _ = writeln!(
        stderr,
        "sandbox: building {name} from Go modules, once; about {minutes} minutes on two cores"
    );
    let (mut packages, mut last, mut last_report) = (0_u32, Vec::new(), Instant::now());
    for line in lines.lines().map_while(Result::ok) {
        packages += 1;
        if terminal && last_report.elapsed() > Duration::from_millis(200) {
            let _ = write!(
                stderr,
                "\r\x1b[K  {packages} packages, {} s: {line:.50}",
                start.elapsed().as_secs()
            );
            last_report = Instant::now();
        } else if !terminal && last_report.elapsed() > Duration::from_secs(30) {
            let _ = writeln!(
                stderr,
                "  {name}: {packages} packages after {} s",
                start.elapsed().as_secs()
            );
            last_report = Instant::now();
        }
        last.push(line);
        if last.len() > 20 {
            last.remove(0);
        }
    }
    let _ = writeln!(
        stderr,
        "{}  {name}: {packages} packages in {} s",
        if terminal { "\r\x1b[K" } else { "" },
        start.elapsed().as_secs()
    );
    last
}

/// Folder for files that are kept between runs.
pub fn cache_folder() -> Result<PathBuf> {
    let base = std::env::var_os("GPUCTL_SANDBOX_CACHE")
        .map(PathBuf::from)
        .or_else(dirs::cache_dir);
    Ok(base
        .context("no cache folder: set HOME or GPUCTL_SANDBOX_CACHE")?
        .join("gpuctl-sandbox"))
}

fn go_version() -> Result<String> {
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .output()
        .map_err(|_| anyhow::anyhow!("the sandbox builds Kubernetes from source and needs Go 1.26 or newer: no `go` in PATH"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match go_too_old(&version) {
        Some(reason) => bail!(reason),
        None => Ok(version),
    }
}

fn go_too_old(version: &str) -> Option<String> {
    let mut numbers = version
        .trim_start_matches("go")
        .split(['.', 'r', 'b', '-', ' ']);
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    match (next(), next()) {
        (Some(major), Some(minor)) if (major, minor) >= (1, 26) => None,
        _ => Some(format!(
            "the sandbox needs Go 1.26 or newer; `go` in PATH is {version}"
        )),
    }
}

fn require_disk_space(folder: &Path) -> Result<()> {
    const NEEDED_GIB: u64 = 8;
    let output = Command::new("df")
        .arg("-Pk")
        .arg(folder)
        .output()
        .context("cannot run `df`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let free = text
        .lines()
        .nth(1)
        .and_then(|line| line.split_whitespace().nth(3))
        .and_then(|kib| kib.parse::<u64>().ok());
    match free.map(|kib| kib / (1 << 20)) {
        Some(gib) if gib < NEEDED_GIB => {
            bail!(
                "building the sandbox needs {NEEDED_GIB} GiB; {} has {gib} GiB free",
                folder.display()
            )
        }
        _ => Ok(()),
    }
}

/// Folder of a module in Go's module cache, at the version that a part was built with.
fn module_folder(built: &Path, module: &str) -> Result<PathBuf> {
    let go = |arguments: &[&str]| {
        let source = built.join("source");
        Command::new("go")
            .current_dir(source)
            .args(arguments)
            .output()
            .context("cannot run `go`")
    };
    let find = || -> Result<PathBuf> {
        let output = go(&["list", "-m", "-f", "{{.Dir}}", module])?;
        Ok(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ))
    };
    let mut path = find()?;
    if !path.join("go.mod").exists() {
        // The module cache was emptied after the build. Downloading a single module takes seconds.
        let output = go(&["mod", "download", module])?;
        path = find()?;
        if !path.join("go.mod").exists() {
            bail!(
                "cannot fetch {module}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_go_is_named() {
        assert_eq!(go_too_old("go1.26.8"), None);
        assert_eq!(go_too_old("go1.27rc1"), None);
        assert_eq!(go_too_old("go2.0"), None);
        assert_eq!(
            go_too_old("go1.24.3").unwrap(),
            "the sandbox needs Go 1.26 or newer; `go` in PATH is go1.24.3"
        );
        assert!(go_too_old("").is_some());
    }

    #[test]
    fn the_fingerprint_follows_every_input() {
        let [kubernetes, prometheus, _] = control_plane();
        assert_ne!(
            kubernetes.fingerprint("go1.26.8"),
            kubernetes.fingerprint("go1.26.9")
        );
        assert_ne!(
            kubernetes.fingerprint("go1.26.8"),
            prometheus.fingerprint("go1.26.8")
        );
    }
}
