//! Arguments and help of `gpuctl schema`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::files::kinds;
use crate::verbs;
use gpuctl_view::program::answers;

/// Print the JSON Schema of the specification file, or of the answer of a command
///
/// Draft 2020-12. That of the file accepts what gpuctl accepts, but for rules that compare two
/// values of a file. That of an answer describes what the command prints with `-o json`: each
/// field, its type, and whether it may be null. Within a minor version fields are added and none is
/// taken away.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl schema > gpuctl.schema.json
  gpuctl schema training
  gpuctl schema --output get-jobs
  gpuctl schema --output get-jobs --lines   what `get jobs -w -o json` prints on each line
  gpuctl schema --output error              what stderr gets beside -o json")]
pub(crate) struct Schema {
    /// Only of this kind
    #[arg(value_name = "KIND", value_parser = kinds())]
    pub kind: Option<String>,
    /// Print the schema of the answer of this command instead: its words joined by `-`, or `error`
    #[arg(
        long,
        value_name = "COMMAND",
        value_parser = PossibleValuesParser::new(names()),
        hide_possible_values = true,
        conflicts_with = "kind"
    )]
    pub output: Option<String>,
    /// Print the schema of a line of the command's --watch: a row as it is now, or one that is gone
    #[arg(long, requires = "output")]
    pub lines: bool,
}

/// Returns the names of all answers.
pub(crate) fn names() -> Vec<String> {
    let of_verbs = verbs::with_answer();
    let mut names: Vec<String> = of_verbs.iter().map(|words| answers::name(words)).collect();
    names.push(answers::ERROR.to_owned());
    names.sort_unstable();
    names
}
