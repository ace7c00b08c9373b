//! Runs the guide to queues with a real Kueue.

use gpuctl_sandbox::nodes::fleet;
use gpuctl_sandbox::{Cluster, Options};

use crate::guide::Guide;
use crate::runner::gpuctl;

#[test]
fn the_guide_about_queues_runs_as_written() {
    let options = Options {
        with_kueue: true,
        ..Options::default()
    };
    let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
    cluster.add_nodes(&fleet());
    Guide::new(&cluster, "guides/queues", &[]).run(&gpuctl);
}
