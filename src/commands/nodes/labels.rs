//! `gpuctl get label`, `get node-labels` and `get gpu-type`: print labels of one node or of all.

use std::process::ExitCode;

use crate::cli::nodes::labels::{NodeLabels, SortKey};
use crate::context::Context;
use crate::error::{Error, Kind};
use crate::lookup;
use crate::model::Host;
use crate::view::{Format, document, labels};

pub async fn run(args: &NodeLabels, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let Some(name) = &args.node else {
        let stock = connection.stock().await?;
        if stock.unreadable.contains(&"nodes") {
            context.terminal.lack("you may not list nodes: of their labels only those are shown that were published");
        }
        let hosts: Vec<&Host> = stock.inventory.hosts.iter().map(|host| &host.host).collect();
        let total = hosts.len();
        let mut hosts = hosts;
        match args.sort_by {
            None | Some(SortKey::Name) => {}
            Some(SortKey::Pool) => hosts.sort_by_key(|host| host.node.pool().map(ToOwned::to_owned)),
            Some(SortKey::Type) => hosts.sort_by_key(|host| host.node.gpu_type().map(|kind| kind.to_string())),
        }
        let hosts = args.page.of(hosts);
        if format == Format::Name {
            let names: String = hosts.iter().map(|host| format!("{}\n", host.node.name)).collect();
            context.terminal.print(&names)?;
            return Ok(ExitCode::SUCCESS);
        }
        let text = document(format, &labels::of_gpus(&hosts, total))
            .unwrap_or_else(|| labels::of_gpus_table(&hosts, format, !args.no_headers, context.terminal.look()));
        context.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some((host, _)) = connection.host(name).await? else { return Err(lookup::missing_node(name, &[])) };
    let Some(value) = host.node.labels.get(&args.key) else {
        let error = Error::new(Kind::NotFound, "LabelNotFound", format!("node `{name}` has no label `{}`", args.key));
        return Err(error.hint(format!("gpuctl describe node {name}")));
    };
    let text = document(format, &labels::timed(&host, &args.key, value)).unwrap_or_else(|| format!("{value}\n"));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
