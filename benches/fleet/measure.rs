//! What a process costs: its time, its CPU and its peak memory, as Linux tells them.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::Cluster;

use crate::process;

/// Of one run of a command.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    /// Of the command itself.
    pub cpu: Duration,
    /// Resident memory at its most, in MiB.
    pub peak: f64,
    /// CPU that the API server used meanwhile, for whomever.
    pub server: Duration,
}

/// Runs a command to its end.
pub fn measured(command: &mut Command) -> Cost {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let (mut peak, mut used): (f64, Duration) = (0.0, Duration::ZERO);
    loop {
        peak = peak.max(process::peak(child.id()).unwrap_or_default());
        used = used.max(process::cpu(child.id()).unwrap_or_default());
        if let Some(status) = child.try_wait().expect("the command can be waited for") {
            assert!(status.success(), "{command:?} failed");
            return Cost { wall: start.elapsed(), cpu: used, peak, server: Duration::ZERO };
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The API server of a cluster.
pub struct Server(u32);

impl Server {
    pub fn of(cluster: &Cluster) -> Self {
        let folder = cluster.folder().display().to_string();
        let processes = fs::read_dir("/proc").expect("Linux has /proc").flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words);
            words.split('\0').next().is_some_and(|program| program.ends_with("kube-apiserver")) && words.contains(&folder)
        };
        Self(pids.find(is_ours).expect("the API server runs"))
    }

    pub fn cpu(&self) -> Duration {
        process::cpu(self.0).expect("the API server runs")
    }
}
