//! Parses `-o`: the formats, and the selections `jsonpath=` and `custom-columns=`. A command prints
//! its whole JSON document and the terminal applies the selection, so every command with `-o json`
//! supports selections.

use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, ValueEnum};

use crate::cli::args::format::ListFormat;
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
