//! Debian images with Python and with torch, built once from Debian packages without a registry.
//! Only slow tests use them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::binaries::{Binaries, Extras, cache_folder};

pub const PYTHON: &str = "python:1";
pub const TORCH: &str = "torch:1";

struct Image {
    name: &'static str,
    suite: &'static str,
    package: &'static str,
    minutes: u32,
    /// Patches bugs in the packages.
    patch: fn(&Path) -> Result<()>,
}

/// Builds the Python image unless it exists. Returns its archive.
pub fn python_image() -> Result<PathBuf> {
    Image {
        name: PYTHON,
        suite: "bookworm",
        package: "python3",
        minutes: 2,
        patch: |_| Ok(()),
    }
    .ready()
}

/// Builds the image with torch 2.6 for CPUs (1 GiB) unless it exists. Returns its archive.
pub fn torch_image() -> Result<PathBuf> {
    Image {
        name: TORCH,
        suite: "trixie",
        package: "python3-torch",
        minutes: 4,
        patch: disable_libuv,
    }
    .ready()
}

/// Debian builds torch without libuv, but torch's Python code uses libuv by default.
fn disable_libuv(root: &Path) -> Result<()> {
    let file = root.join("usr/lib/python3/dist-packages/torch/distributed/__init__.py");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let (import, class) = ("        TCPStore,\n", "    class _DistributedPdb(");
    if text.matches(import).count() != 1 || text.matches(class).count() != 1 {
        bail!("{} differs from that of torch 2.6", file.display());
    }
    let subclass = "    class TCPStore(_TCPStore):\n        def __init__(self, *args, **kwargs):\n            \
               super().__init__(*args, **dict(kwargs, use_libuv=False))\n\n";
    let text = text
        .replace(import, "        TCPStore as _TCPStore,\n")
        .replace(class, &format!("{subclass}{class}"));
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

impl Image {
    fn ready(&self) -> Result<PathBuf> {
        let folder = cache_folder()?.join(format!("debian-{}", self.suite));
        let archive = folder.join(format!("{}.tar", self.package));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let lock =
            File::create(folder.join("lock")).context("cannot write the lock of the image")?;
        lock.lock().context("cannot lock the image")?;
        if archive.exists() {
            return Ok(archive);
        }
        eprintln!(
            "sandbox: building a Debian {} image with {} once, about {} minutes",
            self.suite, self.package, self.minutes
        );
        let root = folder.join("root");
        let _ = fs::remove_dir_all(&root);
        let include = format!("--include={}", self.package);
        let mut command = Command::new("debootstrap");
        command
            .args(["--variant=minbase", &include, self.suite])
            .arg(&root)
            .stdout(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => bail!(
                "debootstrap failed in {}; see debootstrap/debootstrap.log in that folder",
                root.display()
            ),
            Err(_) => bail!(
                "debootstrap is not installed; it downloads Debian's packages (apt-get install debootstrap)"
            ),
        }
        (self.patch)(&root)?;
        let node = Binaries::ready(Extras {
            real_node: true,
            ..Extras::default()
        })?
        .path("node");
        let unfinished = folder.join("making");
        let name = format!("docker.io/library/{}", self.name);
        let packed = Command::new(node)
            .arg("image")
            .arg(&root)
            .arg(name)
            .arg(&unfinished)
            .status()?;
        if !packed.success() {
            bail!("cannot pack the image");
        }
        fs::rename(&unfinished, &archive)?;
        fs::remove_dir_all(&root)?;
        Ok(archive)
    }
}
