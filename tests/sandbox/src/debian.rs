//! An image of Debian with Python, made once from Debian's own packages: no registry is needed. Only slow tests ask for it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::binaries::{Binaries, Extras, cache_folder};

/// The name under which containers have it.
pub const PYTHON: &str = "python:1";
const SUITE: &str = "bookworm";

/// Returns the archive of the image, which is made when it is not there yet: about two minutes.
pub fn python_image() -> Result<PathBuf> {
    let folder = cache_folder()?.join(format!("debian-{SUITE}"));
    let archive = folder.join("python.tar");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("lock")).context("cannot write the lock of the image")?;
    lock.lock().context("cannot lock the image")?;
    if archive.exists() {
        return Ok(archive);
    }
    eprintln!("sandbox: making an image of Debian {SUITE} with Python, once: about two minutes");
    let root = folder.join("root");
    let _ = fs::remove_dir_all(&root);
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", "--include=python3", SUITE]).arg(&root).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(_) => bail!("debootstrap could not make {}; its log is debootstrap/debootstrap.log there", root.display()),
        Err(_) => bail!("this machine has no debootstrap, which fetches Debian's packages: apt-get install debootstrap"),
    }
    let node = Binaries::ready(Extras { real_node: true, ..Extras::default() })?.path("node");
    let making = folder.join("python.tar.making");
    let name = format!("docker.io/library/{PYTHON}");
    let packed = Command::new(node).arg("image").arg(&root).arg(name).arg(&making).status()?;
    if !packed.success() {
        bail!("the image could not be packed");
    }
    fs::rename(&making, &archive)?;
    fs::remove_dir_all(&root)?;
    Ok(archive)
}
