//! Runs the guides of the documentation on a cluster with the nodes of the sandbox.
//! `tests/metrics/guides.rs` and `tests/queues/guides.rs` run those that need Prometheus or Kueue.
//!
//! Guides show the output of `logs`, `exec`, `attach`, `cp` and `open` in `text` blocks, which are
//! not run: the sandbox's kubelet (kwok) reports pods as running, but starts no containers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gpuctl_sandbox::nodes::fleet;
use gpuctl_sandbox::{Cluster, Options};

use crate::guide::Guide;
use crate::runner::gpuctl;

const GUIDES: [&str; 5] = ["failures", "multi-node", "notebooks", "serving", "slurm"];

/// Guides that other tests run.
const NEED_METRICS_OR_QUEUES: [&str; 3] = ["queues", "reports", "waste"];

/// How the containers of some files end; `tests/sandbox/config/pods.yaml` explains the variables.
const SIMULATED: [(&str, &str); 5] = [
    ("oom.yaml", "environment.env.SIM_SECONDS=2"),
    ("oom.yaml", "environment.env.SIM_EXIT=137"),
    ("oom.yaml", "environment.env.SIM_REASON=OOMKilled"),
    ("error.yaml", "environment.env.SIM_SECONDS=2"),
    ("error.yaml", "environment.env.SIM_EXIT=1"),
];

#[test]
fn guides_run_as_written() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    cluster.add_nodes(&fleet());
    for name in GUIDES {
        Guide::new(&cluster, &format!("guides/{name}"), &SIMULATED).run(&gpuctl);
    }
}

#[test]
fn every_guide_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides");
    let pages: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let tested: BTreeSet<String> = GUIDES
        .iter()
        .chain(&NEED_METRICS_OR_QUEUES)
        .map(|name| format!("{name}.md"))
        .collect();
    assert_eq!(pages, tested);
}
