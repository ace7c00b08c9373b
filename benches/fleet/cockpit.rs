//! What `gpuctl top` costs while it is only looked at: its CPU over a minute in which nothing
//! changes, and over one in which a pod ends every two seconds.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Persona, Tty};

use crate::measure::Server;
use crate::process::cpu;

const LONG: Duration = Duration::from_secs(60);

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
    let pid = tty.program().expect("it runs");
    // What comes after the first answer is no part of looking.
    thread::sleep(Duration::from_secs(15));
    println!(
        "\n`gpuctl top`, looked at for {} s:\n\n| | CPU of a core | CPU of the API server's core |\n|---|---:|---:|",
        LONG.as_secs()
    );
    let percent = |used: Duration| used.as_secs_f64() / LONG.as_secs_f64() * 100.0;
    let admin = cluster.kubectl(Persona::Admin);
    for changes in [false, true] {
        let (before, of_server) = (cpu(pid).expect("it runs"), server.cpu());
        let start = Instant::now();
        let mut ended = 0;
        while start.elapsed() < LONG {
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
        let what = if changes {
            "a pod ends every two seconds"
        } else {
            "nothing changes"
        };
        let (own, of_server) = (
            cpu(pid).expect("it runs").saturating_sub(before),
            server.cpu().saturating_sub(of_server),
        );
        println!(
            "| {what} | {:.1} % | {:.1} % |",
            percent(own),
            percent(of_server)
        );
    }
}
