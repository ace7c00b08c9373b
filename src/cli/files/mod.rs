//! What can be typed about specification files.

pub mod apply;
pub mod convert;
pub mod create;
pub mod create_secret;
pub mod diff;
pub mod explain;
pub mod init;
pub mod schema;
pub mod validate;

use crate::spec::reference::KINDS;

/// Kinds as words of the command line.
pub fn kinds() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        KINDS.iter().map(|(kind, about)| clap::builder::PossibleValue::new(*kind).help(*about)),
    )
}
