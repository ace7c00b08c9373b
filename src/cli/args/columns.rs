//! Parses `-o`, including `-o custom-columns=TITLE:.field,…`.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, ValueEnum};

use crate::cli::args::format::ListFormat;
use gpuctl_view::format::columns::CustomColumn;

/// How a list is printed.
#[derive(Clone, Debug)]
pub(crate) enum ListOutput {
    Usual(ListFormat),
    Columns(Vec<CustomColumn>),
    /// The YAML that each job was submitted with.
    Specification,
}

impl ListOutput {
    /// The built-in format that is nearest to this output.
    pub(crate) fn format(&self) -> ListFormat {
        match self {
            Self::Usual(format) => *format,
            Self::Columns(_) | Self::Specification => ListFormat::Table,
        }
    }

    /// The custom columns, if any.
    pub(crate) fn columns(&self) -> Option<Vec<CustomColumn>> {
        match self {
            Self::Usual(_) | Self::Specification => None,
            Self::Columns(columns) => Some(columns.clone()),
        }
    }
}

pub(crate) const CUSTOM: &str = "custom-columns=";

/// The format of lists of jobs only.
const SPECIFICATION: &str = "spec";

/// Parses the value of `-o`.
#[derive(Clone)]
pub(crate) struct OutputParser {
    /// Whether the list accepts `spec`.
    specification: bool,
}

impl OutputParser {
    /// The parser of most lists.
    pub(crate) const LIST: Self = Self {
        specification: false,
    };
    /// The parser of lists of jobs.
    pub(crate) const JOBS: Self = Self {
        specification: true,
    };

    /// Every value except custom columns.
    fn words(&self) -> impl Iterator<Item = PossibleValue> {
        let specification = PossibleValue::new(SPECIFICATION).help("the submitted YAML");
        ListFormat::value_variants()
            .iter()
            .filter_map(ValueEnum::to_possible_value)
            .chain(self.specification.then_some(specification))
    }
}

impl TypedValueParser for OutputParser {
    type Value = ListOutput;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<ListOutput, clap::Error> {
        let text = value.to_string_lossy();
        let list_format = ListFormat::from_str(&text, true)
            .ok()
            .map(ListOutput::Usual);
        let columns = || {
            text.strip_prefix(CUSTOM)
                .and_then(columns)
                .map(ListOutput::Columns)
        };
        let specification =
            (self.specification && text == SPECIFICATION).then_some(ListOutput::Specification);
        let parsed = list_format.or(specification).or_else(columns);
        parsed.ok_or_else(|| {
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
            let mut formats: Vec<String> = self
                .words()
                .map(|value| value.get_name().to_owned())
                .collect();
            formats.push(format!("{CUSTOM}TITLE:.field,…"));
            error.insert(ContextKind::ValidValue, ContextValue::Strings(formats));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let custom = PossibleValue::new(CUSTOM).help("JSON fields, as TITLE:.field,TITLE:.field");
        Some(Box::new(self.words().chain([custom])))
    }
}

pub(crate) fn columns(text: &str) -> Option<Vec<CustomColumn>> {
    let column = |part: &str| {
        let (title, path) = part.split_once(':')?;
        let path: Vec<String> = path
            .trim_start_matches('.')
            .split('.')
            .map(ToOwned::to_owned)
            .collect();
        let is_complete = !title.is_empty() && path.iter().all(|key| !key.is_empty());
        is_complete.then(|| CustomColumn {
            title: title.to_owned(),
            path,
        })
    };
    text.split(',').map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_columns_are_titles_and_paths() {
        let parsed = columns("NAME:.jobId,ON:.a.b").unwrap();
        assert_eq!(
            parsed[1],
            CustomColumn {
                title: "ON".into(),
                path: vec!["a".into(), "b".into()]
            }
        );
        for invalid in ["", "NAME", "NAME:", ":.a", "A:.a,,B:.b", "A:.a..b"] {
            assert_eq!(columns(invalid), None, "{invalid}");
        }
    }
}
