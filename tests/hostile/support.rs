//! One control plane that all attacks share, with a separate namespace for each.

use std::sync::OnceLock;

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona};

use crate::runner::{Run, gpuctl, run};

/// Returns the control plane, and starts it at the first call.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster =
            Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
        cluster.add_nodes(&[node("plain-01", None, &[])]);
        cluster
    })
}

/// Runs gpuctl as `persona`.
pub fn gpuctl_as(persona: Persona, arguments: &[&str], input: &str) -> Run {
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", cluster().kubeconfig(persona))
        .args(arguments);
    run(command, input)
}
