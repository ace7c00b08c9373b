//! Measures the CPU time of `gpuctl top` without user input: for one minute without changes, and
//! for one minute with a pod deletion every two seconds.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Persona, Tty};

use crate::measure::Server;
use crate::process::cpu;

const PERIOD: Duration = Duration::from_secs(60);

pub fn show(cluster: &Cluster, server: &Server) {
    let kubeconfig = cluster.kubeconfig(Persona::Admin).display().to_string();
    let environment = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("GPUCTL_PROMETHEUS", "none"),
    ];
    let tty = Tty::start(
        &format!("exec {} top", env!("CARGO_BIN_EXE_gpuctl")),
        (120, 40),
        &environment,
    );
    tty.sees("team-0/");
    let pid = tty.program().expect("gpuctl runs");
    // Wait for the first complete screen, so that startup is not measured.
    thread::sleep(Duration::from_secs(15));
    println!(
        "\n`gpuctl top` for {} s without input:\n\n| | CPU of a core | CPU of the API server's core |\n|---|---:|---:|",
        PERIOD.as_secs()
    );
    let percent = |used: Duration| used.as_secs_f64() / PERIOD.as_secs_f64() * 100.0;
    let admin = cluster.kubectl(Persona::Admin);
    for changes in [false, true] {
        let (cpu_before, server_before) = (cpu(pid).expect("gpuctl runs"), server.cpu());
        let start = Instant::now();
        let mut ended = 0;
        while start.elapsed() < PERIOD {
            if changes {
                let name = format!("p-{ended:07}");
                admin.run(&[
                    "delete",
                    "pod",
                    &name,
                    "-n",
                    &format!("team-{}", ended % 10),
                    "--wait=false",
                ]);
                ended += 1;
            }
            thread::sleep(Duration::from_secs(2));
        }
        let label = if changes {
            "a pod ends every two seconds"
        } else {
            "no changes"
        };
        let (cpu_used, server_used) = (
            cpu(pid).expect("gpuctl runs").saturating_sub(cpu_before),
            server.cpu().saturating_sub(server_before),
        );
        println!(
            "| {label} | {:.1} % | {:.1} % |",
            percent(cpu_used),
            percent(server_used)
        );
    }
}
