//! `gpuctl free`: reports the free GPUs that can be used.

use std::process::ExitCode;

use crate::cli::nodes::free::Free;
use crate::context::Context;
use crate::observe::nodes::warn_of;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::counting::free::{BesideGpu, free_gpus};
use gpuctl_core::model::{Consumers, GpuType, NodeUsage};
use gpuctl_view::nodes::free;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &Free, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let wanted = args.gpu_type.as_deref().map(gpu_type).transpose()?;
    let connection = context.connect().await?;
    let stock = connection.inventory().stock().await?.listed()?;
    warn_of(&stock, context);
    let beside = BesideGpu {
        cpu_milli: args.cpu,
        memory_bytes: args.memory / 1000,
    };
    let chosen = |host: &NodeUsage| {
        args.pool
            .as_deref()
            .is_none_or(|pool| host.details.node.pool() == Some(pool))
            && wanted
                .as_ref()
                .is_none_or(|wanted| host.gpu_type().is_some_and(|kind| wanted.matches(&kind)))
    };
    let none = Consumers::default();
    let consumers = stock.consumers.as_ref().unwrap_or(&none);
    let Some(groups) = free_gpus(
        &stock.inventory,
        consumers,
        beside,
        args.by.as_deref(),
        chosen,
    ) else {
        let what = if stock.consumers.is_some() {
            "resourceclaims"
        } else {
            "the pods of all namespaces"
        };
        let error = Error::new(
            ErrorName::Forbidden,
            format!("free capacity is unknown: you may not list {what}"),
        );
        return Err(error.hint("gpuctl auth check free --emit-role"));
    };
    if groups.is_empty() {
        context.terminal.report("no node with whole GPUs matches");
    }
    let format: Format = args.output.into();
    let text = match format {
        Format::Table => None,
        format => document(format, &free::answer(&groups, args.slots)),
    };
    context.terminal.print(
        &text.unwrap_or_else(|| free::text(&groups, args.slots, context.terminal.style())),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn gpu_type(text: &str) -> Result<GpuType, Error> {
    GpuType::parse(text).ok_or_else(|| {
        let error = Error::new(
            ErrorName::reported(ErrorKind::Usage, "InvalidGpuType"),
            format!("`{text}` is not a GPU type"),
        );
        error.hint("such as a100-80g; `gpuctl get nodes` shows the types in this cluster")
    })
}
