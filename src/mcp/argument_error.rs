//! Errors of invalid tool call arguments.

use gpuctl_local::bundle::REDACTED;

/// Why the server refused a call's arguments. Messages quote the agent, so answers fence them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("`{tool}` needs `{name}`: {about}\nhint: call `{tool}` again with `{name}`")]
    Missing {
        tool: &'static str,
        name: &'static str,
        about: &'static str,
    },
    #[error(
        "`{name}` of `{tool}` must be {wanted}, not {shown}\n\
         hint: `tools/list` has the schema of the arguments of `{tool}`"
    )]
    WrongValue {
        tool: &'static str,
        name: &'static str,
        wanted: String,
        /// The first characters of the invalid value.
        shown: String,
    },
    #[error("`{tool}` has no argument {shown}\nhint: the arguments of `{tool}` are {known}")]
    Unknown {
        tool: &'static str,
        shown: String,
        known: String,
    },
    #[error(
        "an argument of `{tool}` contains a NUL character\n\
         hint: call `{tool}` again without that character"
    )]
    Nul { tool: &'static str },
    #[error(
        "the manifest contains `{REDACTED}`, which replaces a masked value\n\
         hint: replace it with the value, or name a Secret with `secret: NAME`"
    )]
    Masked,
}
