//! The first job and the guides about waste and reports run as written, on a cluster whose GPUs an
//! exporter measures. Pods are busy unless their label says otherwise.

use std::fs;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::load;
use gpuctl_sandbox::nodes::fleet;
use gpuctl_sandbox::{Cluster, Options, Persona};

use crate::guide::Guide;
use crate::support::gpuctl;

/// `gpuctl_sandbox::load` reads the label.
const SIMULATED: [(&str, &str); 1] = [("lab.yaml", "job.labels.sandbox/load=idle")];

/// A score needs samples of half its window, so a short one keeps the test short.
const SHORT_WINDOW: &str = "prometheus: {time_window_min: 1, step: 5s}\n";

#[test]
fn guides_with_metrics_run_as_written() {
    let exporter = Exporter::start().unwrap();
    let options = Options {
        exporters: vec![exporter.address()],
        ..Options::default()
    };
    let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
    // The load is played until the process ends, and with it the cluster.
    let cluster: &'static Cluster = Box::leak(Box::new(cluster));
    cluster.add_nodes(&fleet());
    std::thread::spawn(move || load::play(cluster, &exporter, &fleet()));
    let settings = cluster.folder().join("config");
    fs::create_dir_all(settings.join("gpuctl")).unwrap();
    fs::write(settings.join("gpuctl/config.yaml"), SHORT_WINDOW).unwrap();
    let with_metrics = || {
        let mut command = gpuctl(cluster, Persona::Admin);
        command
            .env("GPUCTL_PROMETHEUS", cluster.prometheus())
            .env("XDG_CONFIG_HOME", &settings);
        command
    };
    for name in ["first-job", "guides/waste", "guides/reports"] {
        Guide::new(cluster, name, &SIMULATED).run(&with_metrics);
    }
}
