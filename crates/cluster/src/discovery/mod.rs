//! Finds out which APIs and services a cluster offers and which permissions the user has.

pub(crate) mod defaults;
pub(crate) mod exporter_pods;
pub(crate) mod home;
pub(crate) mod namespace;
pub(crate) mod network_policies;
pub(crate) mod pod_uids;
pub(crate) mod prometheus_service;
pub(crate) mod rights;
