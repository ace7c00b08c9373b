//! Gets the peer that sums up what pods ask for.

use std::path::PathBuf;
use std::process::Command;

use gpuctl_sandbox::binaries::cache_folder;

const NAME: &str = "kubectl-view-allocations";
const VERSION: &str = "3.1.0";

/// Returns its path; it is built once, in a few minutes. `None` when it cannot be had.
pub fn ready() -> Option<PathBuf> {
    let root = cache_folder().ok()?.join(format!("{NAME}-{VERSION}"));
    let program = root.join("bin").join(NAME);
    if !program.exists() {
        println!("builds {NAME} {VERSION}, once");
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
            println!("{NAME} cannot be built, and is not compared");
            return None;
        }
    }
    Some(program)
}
