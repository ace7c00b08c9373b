//! Arguments of commands for job files and other documents.

pub(crate) mod apply;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod create_secret;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod init;
pub(crate) mod schema;
pub(crate) mod validate;

use gpuctl_manifest::spec::reference::KINDS;

/// Parser that accepts the kinds of documents.
pub(crate) fn kinds() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        KINDS
            .iter()
            .map(|(kind, help)| clap::builder::PossibleValue::new(*kind).help(*help)),
    )
}
