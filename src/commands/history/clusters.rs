//! `gpuctl get clusters`: lists the contexts of the kubeconfig.

use std::process::ExitCode;

use crate::cli::history::clusters::GetClusters;
use crate::context::Context;
use crate::observe::names::print;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;

pub(crate) async fn run(args: &GetClusters, context: &Context) -> Result<ExitCode, Error> {
    let (contexts, _) = Connection::contexts(&context.access)?;
    print(
        &contexts,
        &args.print.options(),
        "no contexts are configured",
        context,
    )
}
