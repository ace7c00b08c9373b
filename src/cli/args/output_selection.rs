//! Reads which parts of the JSON output the command line selects with `-o`.

use std::fmt;

use clap::builder::PossibleValue;
use clap::{ArgMatches, ValueEnum};

use crate::cli::args::format::{ListFormat, OneFormat};
use crate::cli::history::report::ReportFormat;
use crate::cli::jobs::run::RunFormat;
use crate::cli::score::ScoreFormat;
use gpuctl_view::format::selection::OutputSelection;

macro_rules! formats {
    ($($format:ty),*) => {
        $(/// Writes the word of the command line, which is the default value in the help.
        impl fmt::Display for $format {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = self.to_possible_value();
                f.write_str(value.as_ref().map_or("", PossibleValue::get_name))
            }
        }
        )*

        /// Returns true if the command's `-o` is a format. A few commands use it for a file.
        fn has_format(matches: &ArgMatches) -> bool {
            $(matches.try_get_one::<$format>("output").is_ok_and(|format| format.is_some()))||*
        }
    };
}

formats!(ListFormat, OneFormat, ReportFormat, RunFormat, ScoreFormat);

/// Returns the selection of the JSON output on the command line, and whether to print column
/// titles.
pub(crate) fn selection(matches: &ArgMatches) -> Option<(OutputSelection, bool)> {
    let mut innermost = matches;
    while let Some((_, subcommand)) = innermost.subcommand() {
        innermost = subcommand;
    }
    if !has_format(innermost) {
        return None;
    }
    let value = innermost.get_raw("output")?.next_back()?.to_str()?;
    let selection = OutputSelection::parse(value)?.ok()?;
    let no_headers = innermost.try_get_one::<bool>("no_headers").ok().flatten();
    Some((selection, no_headers != Some(&true)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn parsed(line: &str) -> Option<(OutputSelection, bool)> {
        let matches = Cli::command().try_get_matches_from(line.split(' '));
        selection(&matches.unwrap_or_else(|error| panic!("{line}: {error}")))
    }

    #[test]
    fn every_kind_of_command_accepts_a_selection() {
        for command in [
            "get jobs",
            "get clusters",
            "describe job x",
            "score",
            "report",
            "free",
            "stats cluster",
            "create -f x",
            "version",
        ] {
            let line = format!("gpuctl {command} -o jsonpath={{.a}}");
            let expected = OutputSelection::parse("jsonpath={.a}").unwrap().unwrap();
            assert_eq!(parsed(&line), Some((expected, true)), "{line}");
            assert_eq!(parsed(&format!("gpuctl {command} -o json")), None);
        }
        let columns = parsed("gpuctl get jobs --no-headers -o custom-columns=A:.a");
        assert!(matches!(
            columns,
            Some((OutputSelection::Columns(_), false))
        ));
        assert_eq!(parsed("gpuctl init training --output jsonpath={.a}"), None);
    }

    #[test]
    fn mistakes_in_a_selection_are_explained() {
        let error = Cli::command()
            .try_get_matches_from(["gpuctl", "get", "jobs", "-o", "jsonpath={.items[x]}"])
            .unwrap_err();
        let words = ["gpuctl", "get", "jobs"].map(str::to_owned);
        let error = crate::cli::misuse::explain(&error, &words);
        assert!(
            error.message.contains("`x` is not an index at character 9"),
            "{error:?}"
        );
    }
}
