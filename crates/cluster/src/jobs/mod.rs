//! Reads jobs with the objects that belong to them, and changes their size.

pub(crate) mod claims;
pub(crate) mod copy_pod;
pub(crate) mod deadlines;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod foreign;
pub(crate) mod leftovers;
pub(crate) mod list;
pub(crate) mod owned_objects;
pub(crate) mod owner;
pub(crate) mod owner_object;
pub(crate) mod renew;
pub(crate) mod service;
pub(crate) mod size;
pub(crate) mod storage;
pub(crate) mod stuck_pod;
pub(crate) mod subject;
pub(crate) mod volume_facts;
