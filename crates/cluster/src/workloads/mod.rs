//! Reads workloads that any tool created.

pub(crate) mod custom_owners;
pub(crate) mod kinds;
pub(crate) mod list;
mod wire_object;
