//! Implements the verbs. A command resolves its arguments, reads the cluster or Prometheus, calls
//! the core and prints the result. Commands never call each other: shared code belongs to a
//! workflow (`deploy`, `observe`, `inside`) or to the core.

pub(crate) mod access;
pub(crate) mod claims;
pub(crate) mod defaults;
pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod metrics;
pub(crate) mod nodes;
pub(crate) mod pools;
pub(crate) mod program;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod score;
pub(crate) mod workloads;

use std::pin::Pin;
use std::process::ExitCode;

use crate::cli::command;
use crate::context::Context;
use gpuctl_core::error::Error;

/// Boxes a command's future. Some commands run others, so without boxing every frame would reserve
/// stack space for all commands' futures.
#[inline(never)]
fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

macro_rules! run_of {
    ({ run: $run:path, $($rest:tt)* }) => {
        $run
    };
}

macro_rules! define_dispatch {
    ($($group:ident { $($(#[$attribute:meta])* $verb:ident($args:path) $fields:tt)* })*) => {
        $(
            impl command::$group {
                /// Runs the selected verb.
                pub(crate) async fn run(&self, context: &Context) -> Result<ExitCode, Error> {
                    match self {
                        $(Self::$verb(args) => boxed(|| run_of!($fields)(args, context)).await,)*
                    }
                }
            }
        )*
    };
}

verbs!(define_dispatch);
