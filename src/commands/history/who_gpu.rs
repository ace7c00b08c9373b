//! `gpuctl who gpu`: reports which pod holds or held a GPU.

use std::process::ExitCode;

use crate::cli::history::who_gpu::WhoGpu;
use crate::context::Context;
use crate::observe::at_time::read_at;
use gpuctl_core::error::Error;
use gpuctl_view::history::at_time as view;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &WhoGpu, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let (node, device) = &args.gpu;
    let found = read_at(args.at.as_deref(), context, |then| {
        view::device(then, node, device.index)
    })
    .await?;
    context
        .terminal
        .print(&document(format, &found).unwrap_or_else(|| view::sentence(&found)))?;
    Ok(ExitCode::SUCCESS)
}
