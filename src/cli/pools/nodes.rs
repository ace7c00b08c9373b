//! Arguments and help for `gpuctl add node` and `gpuctl remove node`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::candidates;

#[derive(Args, Debug)]
pub(crate) struct PoolNodes {
    /// Names of the nodes
    #[arg(required = true, value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::node_names))]
    pub nodes: Vec<String>,
    /// Name of the pool
    #[arg(long, value_name = "NAME", value_parser = crate::cli::args::value::object_name, add = ArgValueCandidates::new(candidates::pool_names))]
    pub pool: String,
    /// Move nodes that are in another pool
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
