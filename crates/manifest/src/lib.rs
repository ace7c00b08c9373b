//! The user's file: its fields and checks (`spec`), the Kubernetes objects it describes (`render`),
//! and the translation of other tools' files (`convert`).
#![warn(unreachable_pub)]

pub mod convert;
pub mod render;
pub mod spec;
