//! What each verb does: it resolves its arguments, asks the cluster or Prometheus, calls the core,
//! and hands text to the terminal. A command never names another one: what two of them need is a
//! workflow (`deploy`, `observe`, `inside`) or the core.

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

/// Makes the future of a command on the heap, and leaves nothing of it on the stack. Some commands
/// run others, and without this those of all commands would have their places in each of their
/// frames.
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
                /// Runs the verb that was typed.
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
