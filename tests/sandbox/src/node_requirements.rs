//! What a machine must offer to run a real node.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The reason why this machine cannot run a real node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmetRequirement {
    /// Something that the user can install or provide.
    Missing(&'static str),
    /// An operation that the kernel, or the container around this process, denies even to root.
    Forbidden(&'static str),
}

impl std::fmt::Display for UnmetRequirement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(requirement) => write!(formatter, "a real node needs {requirement}"),
            Self::Forbidden(requirement) => write!(
                formatter,
                "a real node needs {requirement}, which this kernel or its container forbids"
            ),
        }
    }
}

/// Finds the first requirement of a real node that this machine does not meet.
///
/// The checks run once per process: threads that ran them at the same time would remove each
/// other's folders and control groups, and take that for a machine that forbids them.
pub fn unmet_requirement() -> Option<UnmetRequirement> {
    static UNMET: LazyLock<Option<UnmetRequirement>> = LazyLock::new(find_unmet_requirement);
    *UNMET
}

fn find_unmet_requirement() -> Option<UnmetRequirement> {
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
        return Some(UnmetRequirement::Missing("Linux"));
    }
    if !Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
    {
        return Some(UnmetRequirement::Missing(
            "root: run it with sudo or in a virtual machine",
        ));
    }
    if !succeeds("unshare", &["--version"]) {
        return Some(UnmetRequirement::Missing("`unshare` of util-linux in PATH"));
    }
    // runc is built with cgo: its C code enters namespaces before the Go runtime starts threads.
    if !succeeds("cc", &["--version"]) && !succeeds("gcc", &["--version"]) {
        return Some(UnmetRequirement::Missing(
            "a C compiler (`cc` or `gcc`) in PATH",
        ));
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
        return Some(UnmetRequirement::Forbidden(
            "mount, PID and network namespaces",
        ));
    }
    // Some file systems, such as another overlay, cannot hold an overlay's upper directory.
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
        return Some(UnmetRequirement::Forbidden(
            "an overlay file system on the folder for temporary files",
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
        return Some(UnmetRequirement::Forbidden("writable cgroups"));
    }
    None
}
