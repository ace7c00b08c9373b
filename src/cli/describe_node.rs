//! `describe node`: everything about one node.

use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cluster::Stock;
use crate::error::{Error, Kind};
use crate::model::HostUse;
use crate::spec::nearest;
use crate::view::{document, node};

use super::get_nodes::warn_of;
use super::metrics::{Cells, OF_DEVICES};
use super::{OneFormat, World, completion};

/// Show everything about one node: its GPUs, who holds them, its health, its labels
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe node gpu-a-01
  gpuctl describe node gpu-a-01 -o json")]
pub struct DescribeNode {
    /// Node
    #[arg(value_parser = super::object_name, add = ArgValueCandidates::new(completion::node_names))]
    name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &DescribeNode, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let (stock, _) = Cells::new(world, &connection).stock(&OF_DEVICES).await?;
    warn_of(&stock, world);
    let host = node_of(&stock, &args.name)?;
    let text = document(args.output.into(), &node::document(host));
    world.terminal.print(&text.unwrap_or_else(|| node::text(host, world.terminal.look(), world.now())))?;
    Ok(ExitCode::SUCCESS)
}

/// The node of that name, or what it might have been.
pub fn node_of<'s>(stock: &'s Stock, name: &str) -> Result<&'s HostUse, Error> {
    let hosts = &stock.inventory.hosts;
    hosts.iter().find(|host| host.name() == name).ok_or_else(|| {
        let names: Vec<&str> = hosts.iter().map(HostUse::name).collect();
        missing(name, &names)
    })
}

/// There is no such node.
pub fn missing(name: &str, names: &[&str]) -> Error {
    let error = Error::new(Kind::NotFound, "NodeNotFound", format!("there is no node `{name}`"));
    match nearest(name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`gpuctl get nodes` lists what there is"),
    }
}
