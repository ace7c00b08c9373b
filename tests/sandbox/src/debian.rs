//! Images of Debian with Python, and with torch, made once from Debian's own packages: no registry
//! is needed. Only slow tests ask for them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::binaries::{Binaries, Extras, cache_folder};

/// The name under which containers have Python.
pub const PYTHON: &str = "python:1";
/// The name under which containers have torch.
pub const TORCH: &str = "torch:1";

struct Image {
    name: &'static str,
    suite: &'static str,
    package: &'static str,
    minutes: u32,
    /// Mends what the packages have wrong.
    mend: fn(&Path) -> Result<()>,
}

/// Returns the archive of the image with Python, which is made when it is not there yet.
pub fn python_image() -> Result<PathBuf> {
    Image {
        name: PYTHON,
        suite: "bookworm",
        package: "python3",
        minutes: 2,
        mend: |_| Ok(()),
    }
    .ready()
}

/// Returns the archive of the image with torch 2.6 for CPUs: 1 GiB.
pub fn torch_image() -> Result<PathBuf> {
    Image {
        name: TORCH,
        suite: "trixie",
        package: "python3-torch",
        minutes: 4,
        mend: without_libuv,
    }
    .ready()
}

/// Debian builds torch without libuv, and torch's own Python asks for it all the same.
fn without_libuv(root: &Path) -> Result<()> {
    let file = root.join("usr/lib/python3/dist-packages/torch/distributed/__init__.py");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let (import, class) = ("        TCPStore,\n", "    class _DistributedPdb(");
    if text.matches(import).count() != 1 || text.matches(class).count() != 1 {
        bail!("{} is not what torch 2.6 has", file.display());
    }
    let own = "    class TCPStore(_TCPStore):\n        def __init__(self, *args, **kwargs):\n            \
               super().__init__(*args, **dict(kwargs, use_libuv=False))\n\n";
    let text = text
        .replace(import, "        TCPStore as _TCPStore,\n")
        .replace(class, &format!("{own}{class}"));
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
            "sandbox: making an image of Debian {} with {}, once: about {} minutes",
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
                "debootstrap could not make {}; its log is debootstrap/debootstrap.log there",
                root.display()
            ),
            Err(_) => bail!(
                "this machine has no debootstrap, which fetches Debian's packages: apt-get install debootstrap"
            ),
        }
        (self.mend)(&root)?;
        let node = Binaries::ready(Extras {
            real_node: true,
            ..Extras::default()
        })?
        .path("node");
        let making = folder.join("making");
        let name = format!("docker.io/library/{}", self.name);
        let packed = Command::new(node)
            .arg("image")
            .arg(&root)
            .arg(name)
            .arg(&making)
            .status()?;
        if !packed.success() {
            bail!("the image could not be packed");
        }
        fs::rename(&making, &archive)?;
        fs::remove_dir_all(&root)?;
        Ok(archive)
    }
}
