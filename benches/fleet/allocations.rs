//! Installs kubectl-view-allocations for comparison, a tool that sums up pods' resource requests.

use std::path::PathBuf;
use std::process::Command;

use gpuctl_sandbox::binaries::cache_folder;

const NAME: &str = "kubectl-view-allocations";
const VERSION: &str = "3.1.0";

/// Builds the tool once, which takes a few minutes, and returns its path. Returns `None` if the
/// build fails.
pub fn ready() -> Option<PathBuf> {
    let root = cache_folder().ok()?.join(format!("{NAME}-{VERSION}"));
    let program = root.join("bin").join(NAME);
    if !program.exists() {
        println!("building {NAME} {VERSION} once");
        let mut cargo = Command::new("cargo");
        cargo
            .args([
                "install",
                "--quiet",
                "--locked",
                "--version",
                VERSION,
                "--root",
            ])
            .arg(&root)
            .arg(NAME);
        if !cargo.status().is_ok_and(|status| status.success()) {
            println!("the build of {NAME} failed; skipping it");
            return None;
        }
    }
    Some(program)
}
