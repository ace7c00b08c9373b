//! Generates clap's commands from the table of verbs.

use clap::Subcommand;

use super::{
    access, claims, command, defaults, files, history, jobs, metrics, nodes, pools, program,
    queues, quotas, score, workloads,
};

/// Expands to the task of a row, as named in `auth check`.
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
                /// The task of this command line in `auth check`. `None` if it needs no
                /// permissions, or if the files determine the task.
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
