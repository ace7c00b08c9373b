//! Arguments and help of `gpuctl schema`.

use clap::Args;

use crate::cli::files::kinds;

/// Print the JSON Schema of the specification file
///
/// Draft 2020-12. It accepts what gpuctl accepts, but for rules that compare two values of a file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl schema > gpuctl.schema.json
  gpuctl schema training")]
pub(crate) struct Schema {
    /// Only of this kind
    #[arg(value_name = "KIND", value_parser = kinds())]
    pub kind: Option<String>,
}
