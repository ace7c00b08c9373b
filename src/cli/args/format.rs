//! Output formats of `-o`.

use clap::ValueEnum;

use gpuctl_view::Format;

/// Formats of commands that print a list.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ListFormat {
    #[default]
    #[value(alias = "text")]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Csv,
    /// The YAML that each job was submitted with. Only lists of jobs accept it.
    #[value(skip)]
    Spec,
}

impl From<ListFormat> for Format {
    fn from(format: ListFormat) -> Self {
        match format {
            ListFormat::Table | ListFormat::Spec => Self::Table,
            ListFormat::Wide => Self::Wide,
            ListFormat::Json => Self::Json,
            ListFormat::Yaml => Self::Yaml,
            ListFormat::Name => Self::Name,
            ListFormat::Csv => Self::Csv,
        }
    }
}

/// Formats of commands that describe one object.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum OneFormat {
    #[default]
    Text,
    Json,
    Yaml,
}

impl From<OneFormat> for Format {
    fn from(format: OneFormat) -> Self {
        match format {
            OneFormat::Text => Self::Table,
            OneFormat::Json => Self::Json,
            OneFormat::Yaml => Self::Yaml,
        }
    }
}
