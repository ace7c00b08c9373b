//! `gpuctl free`: reports the free GPUs that jobs can use.

use std::process::ExitCode;

use crate::cli::nodes::free::Free;
use crate::context::Context;
use crate::observe::contexts::read_all;
use crate::observe::nodes::warn_of_missing_rights;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::counting::free::{FreeGpus, HostPerGpu, free_gpus};
use gpuctl_core::model::{Consumers, GpuType, NodeUsage};
use gpuctl_view::format::csv;
use gpuctl_view::format::row_contexts::RowContexts;
use gpuctl_view::format::text::name_lines;
use gpuctl_view::nodes::free;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &Free, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let requested_type = args.gpu_type.as_deref().map(gpu_type).transpose()?;
    let requested_type = requested_type.as_ref();
    let parts = match args.all_contexts {
        true => read_all(context, async |own| read(args, requested_type, own).await).await?,
        false => vec![(String::new(), read(args, requested_type, context).await?)],
    };
    let (mut names, mut groups) = (Vec::new(), Vec::new());
    for (name, part) in parts {
        names.extend(part.iter().map(|_| name.clone()));
        groups.extend(part);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let contexts = match args.all_contexts {
        true => RowContexts::new(&names),
        false => RowContexts::NONE,
    };
    if groups.is_empty() {
        context.terminal.report("no matching node has whole GPUs");
    }
    let (answer, headers) = (
        || free::answer(&groups, contexts, args.slots),
        options.headers,
    );
    let style = context.terminal.style();
    let text = match options.format {
        Format::Table | Format::Wide => free::text(&groups, contexts, args.slots, headers, style),
        Format::Csv => csv::rows(&answer().items, headers),
        Format::Name => name_lines(&contexts.qualify(free::names(&groups))),
        format => document(format, &answer()).unwrap_or_default(),
    };
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the free GPUs of one cluster. Fails if the user may not read what holds them.
async fn read(
    args: &Free,
    requested_type: Option<&GpuType>,
    context: &Context,
) -> Result<Vec<FreeGpus>, Error> {
    let connection = context.connect().await?;
    let snapshot = connection.inventory().snapshot().await?.listed()?;
    warn_of_missing_rights(&snapshot, context);
    let other_resources = HostPerGpu {
        cpu_milli: args.cpu,
        memory_bytes: args.memory / 1000,
    };
    let is_selected = |host: &NodeUsage| {
        args.pool
            .as_deref()
            .is_none_or(|pool| host.details.node.pool() == Some(pool))
            && requested_type.is_none_or(|requested_type| {
                host.gpu_type()
                    .is_some_and(|gpu_type| requested_type.matches(&gpu_type))
            })
    };
    let no_consumers = Consumers::default();
    let consumers = snapshot.consumers.as_ref().unwrap_or(&no_consumers);
    let groups = free_gpus(
        &snapshot.inventory,
        consumers,
        other_resources,
        args.by.as_deref(),
        is_selected,
    );
    groups.ok_or_else(|| {
        let unreadable = if snapshot.consumers.is_some() {
            "resourceclaims"
        } else {
            "the pods in all namespaces"
        };
        let error = Error::new(
            ErrorName::Forbidden,
            format!("free capacity is unknown: you are not allowed to list {unreadable}"),
        );
        error.hint("gpuctl auth check free --emit-role")
    })
}

fn gpu_type(text: &str) -> Result<GpuType, Error> {
    GpuType::parse(text).ok_or_else(|| {
        let error = Error::new(
            ErrorName::reported(ErrorKind::Usage, "InvalidGpuType"),
            format!("`{text}` is not a GPU type"),
        );
        error
            .hint("use a type such as a100-80g; `gpuctl get nodes` shows the types in this cluster")
    })
}
