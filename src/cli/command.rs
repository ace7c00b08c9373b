//! Generates clap's commands from the table of verbs.

use clap::Subcommand;

use super::{
    access, claims, command, defaults, files, history, jobs, metrics, nodes, pools, program,
    queues, quotas, score, workloads,
};

/// The name that `auth check` has for a row of the table.
macro_rules! task_of {
    ($args:ident, { run: $run:path, $(help: $help:ident $place:literal,)? rights: $rights:tt,
        $($rest:tt)* }) => {
        task_of!($args, $rights)
    };
    ($args:ident, ()) => {{
        let _ = $args;
        None
    }};
    ($args:ident, ($words:literal [$($rules:ident),*])) => {{
        let _ = $args;
        Some($words)
    }};
    ($args:ident, (as $words:literal)) => {{
        let _ = $args;
        Some($words)
    }};
    ($args:ident, (by $task:path $(, $words:literal $rules:tt)*)) => {
        $task($args)
    };
    ($args:ident, (by_file $($rest:tt)*)) => {{
        let _ = $args;
        None
    }};
}

macro_rules! define_commands {
    ($($group:ident { $($(#[$attribute:meta])* $verb:ident($args:path) $fields:tt)* })*) => {
        $(
            #[derive(Debug, Subcommand)]
            pub(crate) enum $group {
                $($(#[$attribute])* $verb($args),)*
            }

            impl $group {
                /// The name that `auth check` has for this command line; `None` if it needs no
                /// rights, or if files decide.
                pub(crate) fn task(&self) -> Option<&'static str> {
                    match self {
                        $(Self::$verb(args) => task_of!(args, $fields),)*
                    }
                }
            }
        )*
    };
}

verbs!(define_commands);
