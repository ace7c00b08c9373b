//! Groups of arguments that several commands share.

pub(crate) mod container;
pub(crate) mod format;
pub(crate) mod kubectl;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod metrics;
pub(crate) mod output;
pub(crate) mod output_selection;
pub(crate) mod selection;
pub(crate) mod submit;
pub(crate) mod time;
pub(crate) mod value;
