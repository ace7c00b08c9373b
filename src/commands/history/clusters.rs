//! `gpuctl get clusters`: lists the contexts of the kubeconfig.

use std::process::ExitCode;

use crate::cli::history::clusters::GetClusters;
use crate::cluster::Connection;
use crate::context::Context;
use crate::error::Error;
use crate::observe::names::print;

pub(crate) async fn run(args: &GetClusters, context: &Context) -> Result<ExitCode, Error> {
    let (contexts, _) = Connection::contexts(&context.access)?;
    print(&contexts, args.output.into(), "no context is configured", context)
}
