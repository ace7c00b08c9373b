//! Arguments and help for `gpuctl schema`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::files::kinds;
use crate::verbs;
use gpuctl_view::program::answers;

/// Print the JSON Schema of the specification file, or of a command's output
///
/// The schemas use Draft 2020-12. The schema of the file accepts what gpuctl accepts, except for
/// rules that compare two values of a file. The schema of an output describes what the command
/// prints with `-o json`: each field, its type, and whether it may be null. Minor versions add
/// fields but remove none.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl schema > gpuctl.schema.json
  gpuctl schema training
  gpuctl schema --output get-jobs
  gpuctl schema --output get-jobs --lines   what `get jobs -w -o json` prints on each line
  gpuctl schema --output error              what -o json prints on stderr")]
pub(crate) struct Schema {
    /// Print only the schema of this kind
    #[arg(value_name = "KIND", value_parser = kinds())]
    pub kind: Option<String>,
    /// Print the schema of a command's output instead; COMMAND is its words joined by `-`, or
    /// `error`
    #[arg(
        long,
        value_name = "COMMAND",
        value_parser = PossibleValuesParser::new(names()),
        hide_possible_values = true,
        conflicts_with = "kind"
    )]
    pub output: Option<String>,
    /// Print the schema of one line of the command's --watch: a current or a removed row
    #[arg(long, requires = "output")]
    pub lines: bool,
}

/// Names of all outputs with a schema.
pub(crate) fn names() -> Vec<String> {
    let verb_words = verbs::commands_with_answer();
    let mut names: Vec<String> = verb_words
        .iter()
        .map(|words| answers::name(words))
        .collect();
    names.push(answers::ERROR.to_owned());
    names.sort_unstable();
    names
}
