//! Lists the types that each verb prints with `-o json`, according to the verb table.

use crate::verbs::ROWS;
use gpuctl_view::program::answers::{MakeSchema, shape};
use gpuctl_view::{files, format, history, jobs, nodes, program, queues, score, workloads};

macro_rules! define_shapes {
    ($($group:ident { $($(#[$attribute:meta])* $verb:ident($args:path) {
        run: $run:path,
        $(help: $help:ident $place:literal,)?
        rights: $rights:tt,
        $(next: $next:literal,)?
        $(answers: [$($answer:ty),+ $(,)?],)?
        $(bundle: [$($options:literal),+],)?
    })* })*) => {
        /// Schemas of each row's types, in the order of the table.
        const SHAPES: &[&[MakeSchema]] = &[$($(&[$($(shape::<$answer>),+)?],)*)*];
    };
}

verbs!(define_shapes);

/// Lists the commands with an answer, each with the schemas of its types.
pub(super) fn of_commands() -> Vec<(String, &'static [MakeSchema])> {
    let rows = ROWS.iter().zip(SHAPES.iter().copied());
    rows.filter(|(_, shapes)| !shapes.is_empty())
        .map(|(row, shapes)| (row.words(), shapes))
        .collect()
}
