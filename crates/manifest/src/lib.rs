//! The user's file: its fields and checks (`spec`), the Kubernetes objects it describes (`render`),
//! the comparison of those with the cluster's (`compare`), and the translation of other tools' files
//! (`convert`).
#![warn(unreachable_pub)]

pub mod compare;
pub mod convert;
pub mod render;
pub mod spec;
