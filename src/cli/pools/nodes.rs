//! Arguments and help for `gpuctl add node` and `gpuctl remove node`.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cli::args::format::OneFormat;
use crate::cli::args::output::output_format;
use crate::cli::args::submit::dry_run;
use crate::cli::candidates;
use gpuctl_cluster::DryRun;

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
    /// Show the result without changing anything; `server` also lets the API server check it
    #[arg(long, value_parser = dry_run(), value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Output format
    #[arg(short, long, value_parser = output_format::<OneFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: OneFormat,
}
