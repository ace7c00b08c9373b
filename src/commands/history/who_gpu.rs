//! `gpuctl who gpu`: reports which pod holds or held a GPU.

use std::process::ExitCode;

use crate::cli::history::who_gpu::WhoGpu;
use crate::context::Context;
use crate::observe::at_time::read_at;
use gpuctl_core::error::Error;
use gpuctl_view::history::device_at as view;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &WhoGpu, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let (node, device) = &args.gpu;
    let answer = read_at(args.at.as_deref(), context, |state| {
        view::device(state, node, device)
    })
    .await?;
    context
        .terminal
        .print(&document(format, &answer).unwrap_or_else(|| view::sentence(&answer)))?;
    Ok(ExitCode::SUCCESS)
}
