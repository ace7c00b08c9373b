//! Reads workloads of any origin.

pub(crate) mod custom_owners;
pub(crate) mod kinds;
pub(crate) mod list;
mod wire_object;
