//! `gpuctl drain NODE --plan`: shows the effects of a drain without draining.

use std::process::ExitCode;

use crate::cli::nodes::drain::Drain;
use crate::context::Context;
use crate::observe::drain::plan;
use crate::observe::list::{self, Listing, Refresh};
use gpuctl_core::error::Error;
use gpuctl_view::nodes::drain as view;

pub(crate) async fn run(args: &Drain, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let pods = plan(&connection, &args.node).await?;
    list::run(&options, context, async |_: Refresh<'_>| {
        let names = pods
            .iter()
            .map(|pod| format!("{}/{}", pod.namespace, pod.name))
            .collect();
        let table = |format, headers| {
            view::table(
                &pods,
                format,
                headers,
                context.terminal.style(),
                context.now(),
            )
        };
        Ok(Listing::new(
            &options,
            &view::plan(&args.node, &pods),
            "items",
            names,
            table,
        )
        .none("no pods would be terminated"))
    })
    .await
}
