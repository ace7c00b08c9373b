//! Measures a process's duration, CPU time and peak memory on Linux.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Persona};

use crate::process;

/// Cost of one run of a command.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    /// CPU time of the command itself.
    pub cpu: Duration,
    /// Peak resident memory in MiB.
    pub peak: f64,
    /// CPU time of the API server during the run, for all clients.
    pub server: Duration,
}

/// Measured runs per command. The table shows their medians.
pub const RUNS: usize = 7;

/// A command to compare, with its name in the table.
pub struct Contestant {
    pub name: String,
    program: String,
    words: Vec<String>,
}

impl Contestant {
    pub fn new(name: &str, program: &str, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            words,
        }
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.words).env("GPUCTL_PROMETHEUS", "none");
        command
    }
}

/// Runs the commands in turn, so that other load on the machine affects all of them equally.
/// Returns each command's run with the median duration.
pub fn measure_alternating(
    contestants: &[Contestant],
    cluster: &Cluster,
    server: &Server,
) -> Vec<Cost> {
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); contestants.len()];
    for run in 0..=RUNS {
        for (runs, contestant) in costs.iter_mut().zip(contestants) {
            let before = server.cpu();
            let cost = measure(
                contestant
                    .command()
                    .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin)),
            );
            // The first run only fills caches.
            if run > 0 {
                runs.push(Cost {
                    server: server.cpu().saturating_sub(before),
                    ..cost
                });
            }
        }
    }
    let median = |mut runs: Vec<Cost>| {
        runs.sort_by_key(|cost| cost.wall);
        runs[runs.len() / 2]
    };
    costs.into_iter().map(median).collect()
}

/// Runs a command and measures its cost.
pub fn measure(command: &mut Command) -> Cost {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let (mut peak, mut used): (f64, Duration) = (0.0, Duration::ZERO);
    loop {
        peak = peak.max(process::peak(child.id()).unwrap_or_default());
        used = used.max(process::cpu(child.id()).unwrap_or_default());
        if let Some(status) = child.try_wait().expect("the command can be waited for") {
            assert!(status.success(), "{command:?} failed");
            return Cost {
                wall: start.elapsed(),
                cpu: used,
                peak,
                server: Duration::ZERO,
            };
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// PID of a cluster's API server.
pub struct Server(u32);

impl Server {
    pub fn find(cluster: &Cluster) -> Self {
        let folder = cluster.folder().display().to_string();
        let processes = fs::read_dir("/proc").expect("Linux has /proc").flatten();
        let mut pids =
            processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_api_server = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words);
            words
                .split('\0')
                .next()
                .is_some_and(|program| program.ends_with("kube-apiserver"))
                && words.contains(&folder)
        };
        Self(pids.find(is_api_server).expect("the API server runs"))
    }

    pub fn cpu(&self) -> Duration {
        process::cpu(self.0).expect("the API server runs")
    }
}
