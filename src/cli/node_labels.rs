//! `get label`, `get node-labels` and `get gpu-type`: labels of nodes, one or all.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use crate::error::{Error, Kind};
use crate::model::Host;
use crate::model::gpu::TYPE_LABELS;
use crate::view::{Format, document, labels};

use super::get_nodes::Page;
use super::{ListFormat, World, completion, describe_node};

/// Show one label of a node, or the GPU labels of all nodes with their pools
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get label gpu-a-01 --key nvidia.com/gpu-type
  gpuctl get node-labels --all
  gpuctl get gpu-type --all -o json")]
pub struct NodeLabels {
    /// Node
    #[arg(value_parser = super::object_name, add = ArgValueCandidates::new(completion::node_names), required_unless_present = "all", conflicts_with = "all")]
    node: Option<String>,
    /// Key of the label
    #[arg(long, value_name = "KEY", conflicts_with = "all", default_value = TYPE_LABELS[0])]
    key: String,
    /// GPU labels of every node
    #[arg(long)]
    all: bool,
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY", requires = "all")]
    sort_by: Option<SortKey>,
    #[command(flatten)]
    page: Page,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortKey {
    Name,
    Pool,
    Type,
}

pub async fn run(args: &NodeLabels, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let Some(name) = &args.node else {
        let stock = connection.stock().await?;
        if stock.unreadable.contains(&"nodes") {
            world.terminal.lack("you may not list nodes: of their labels only those are shown that were published");
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
            world.terminal.print(&names)?;
            return Ok(ExitCode::SUCCESS);
        }
        let text = document(format, &labels::of_gpus(&hosts, total))
            .unwrap_or_else(|| labels::of_gpus_table(&hosts, format, !args.no_headers, world.terminal.look()));
        world.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some((host, _)) = connection.host(name).await? else { return Err(describe_node::missing(name, &[])) };
    let Some(value) = host.node.labels.get(&args.key) else {
        let error = Error::new(Kind::NotFound, "LabelNotFound", format!("node `{name}` has no label `{}`", args.key));
        return Err(error.hint(format!("gpuctl describe node {name}")));
    };
    let text = document(format, &labels::timed(&host, &args.key, value)).unwrap_or_else(|| format!("{value}\n"));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
