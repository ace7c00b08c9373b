//! Parses `-o`: the formats, and the selections `jsonpath=` and `custom-columns=`. A command prints
//! its whole JSON document and the terminal applies the selection, so every command with `-o json`
//! supports selections.

use std::ffi::OsStr;
use std::fmt;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, ValueEnum};

use crate::cli::args::format::{ListFormat, OneFormat};
use crate::cli::history::report::ReportFormat;
use crate::cli::jobs::run::RunFormat;
use crate::cli::score::ScoreFormat;
use gpuctl_view::format::selection::{OutputSelection, SelectionMistake};

/// Parser of `-o` for a command with the formats `F`.
#[derive(Clone)]
pub(crate) struct FormatParser<F>(PhantomData<F>);

/// Creates the parser of `-o`. Arguments must name it explicitly, because clap prefers the parser
/// of [`ValueEnum`] to a `ValueParserFactory`.
pub(crate) fn output_format<F: ValueEnum>() -> FormatParser<F> {
    FormatParser(PhantomData)
}

/// Prefixes of `-o` values, with a description of the rest.
const OPEN_VALUES: [(&str, &str); 2] = [
    (
        "jsonpath=",
        "kubectl's JSONPath, such as jsonpath='{.items[*].jobId}'",
    ),
    (
        "custom-columns=",
        "JSON fields, as TITLE:.field,TITLE:.field",
    ),
];

impl<F: ValueEnum + Send + Sync + 'static> FormatParser<F> {
    /// Parses a format. A selection implies the JSON format.
    fn format(text: &str) -> Option<F> {
        let name = match OutputSelection::parse(text) {
            Some(_) => "json",
            None => text,
        };
        F::from_str(name, true).ok()
    }
}

impl<F: ValueEnum + Send + Sync + 'static> TypedValueParser for FormatParser<F> {
    type Value = F;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<F, clap::Error> {
        // Validate in a function: only clap can attach a cause to its error, and it does so only
        // for functions.
        let check = |text: &str| -> Result<(), SelectionMistake> {
            OutputSelection::parse(text).transpose().map(drop)
        };
        check.parse_ref(command, arg, value)?;
        let text = value.to_string_lossy();
        Self::format(&text).ok_or_else(|| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(arg) = arg {
                error.insert(
                    ContextKind::InvalidArg,
                    ContextValue::String(arg.to_string()),
                );
            }
            error.insert(
                ContextKind::InvalidValue,
                ContextValue::String(text.into_owned()),
            );
            let formats = F::value_variants()
                .iter()
                .filter_map(ValueEnum::to_possible_value);
            let mut formats: Vec<String> =
                formats.map(|value| value.get_name().to_owned()).collect();
            formats.extend(["jsonpath=TEMPLATE", "custom-columns=TITLE:.field,…"].map(Into::into));
            error.insert(ContextKind::ValidValue, ContextValue::Strings(formats));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let open = OPEN_VALUES
            .iter()
            .map(|(value, help)| PossibleValue::new(*value).help(*help));
        Some(Box::new(
            F::value_variants()
                .iter()
                .filter_map(ValueEnum::to_possible_value)
                .chain(open),
        ))
    }
}

/// Parser of `-o` for `get jobs`, which also accepts `spec`.
#[derive(Clone)]
pub(crate) struct JobListParser;

const SPECIFICATION: &str = "spec";

impl TypedValueParser for JobListParser {
    type Value = ListFormat;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<ListFormat, clap::Error> {
        if value == SPECIFICATION {
            return Ok(ListFormat::Spec);
        }
        let parsed = output_format::<ListFormat>().parse_ref(command, arg, value);
        parsed.map_err(|mut error| {
            if let Some(ContextValue::Strings(formats)) = error.get(ContextKind::ValidValue) {
                let formats = [&formats[..], &[SPECIFICATION.to_owned()]].concat();
                error.insert(ContextKind::ValidValue, ContextValue::Strings(formats));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let specification = PossibleValue::new(SPECIFICATION).help("the submitted YAML");
        let formats: Vec<PossibleValue> =
            output_format::<ListFormat>().possible_values()?.collect();
        Some(Box::new(formats.into_iter().chain([specification])))
    }
}

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
