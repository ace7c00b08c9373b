//! Handles manifests, the files users write: their fields and checks (`spec`), the Kubernetes
//! objects they describe (`render`), the comparison of those objects with live ones (`compare`),
//! and the conversion of other tools' files (`convert`).
#![warn(unreachable_pub)]

pub mod compare;
pub mod convert;
pub mod render;
pub mod spec;
