//! Reads `job.restart` and `checkpoint:`, which determine what restarts after a failure and where a
//! training resumes.

use super::document::Checkpoint;
use super::fields::{Fields, Located, Reader};
use super::values::Restart;
use super::{reference, storage};
use gpuctl_core::error::Problem;
use gpuctl_core::model::JobKind;

/// Reads the scope of a restart, and refuses fields that contradict it.
pub(super) fn restart(
    reader: &mut Reader,
    job: &mut Fields<'_>,
    retries: Option<u32>,
) -> Option<Restart> {
    let node = job.take(reader, "restart")?;
    let restart = Restart::parse(reader.word(node, "restart", &Restart::WORDS)?);
    let hang_timeout = job
        .position_of("hang_timeout")
        .or(job.position_of("hangTimeout"))
        .or(job.position_of("hang-timeout"));
    if restart == Restart::Never && retries.is_some_and(|retries| retries > 0) {
        let message = "`restart: never` conflicts with `retries`";
        reader
            .problems
            .push(Problem::error(node.at, message, "keep one of them"));
    }
    if let (Restart::Rank, Some(at)) = (restart, hang_timeout) {
        let message =
            "`hang_timeout` requires `restart: all`: hang detection covers all ranks together";
        reader
            .problems
            .push(Problem::error(at, message, "remove one of them"));
    }
    Some(restart)
}

/// Reads the block `checkpoint:` of a training.
pub(super) fn checkpoint(
    reader: &mut Reader,
    document: &mut Fields<'_>,
    kind: JobKind,
) -> Option<Checkpoint> {
    if kind != JobKind::Training {
        let message = format!("`checkpoint` is for trainings, not for `kind: {kind}`");
        document.refuse(reader, "checkpoint", &message, "mount a workdir instead");
        return None;
    }
    let node = document.take(reader, "checkpoint")?;
    let mut fields = reader.map(node, "checkpoint", reference::CHECKPOINT)?;
    let path = fields
        .need(
            reader,
            "path",
            "the directory where the program saves checkpoints",
        )
        .and_then(|node| reader.text(node, "path"));
    let resume = fields.take(reader, "resume").map_or_else(Vec::new, |node| {
        let items = reader.list_or_one(node);
        items
            .into_iter()
            .filter_map(|item| Some(reader.text(item, "resume")?.value))
            .collect()
    });
    fields.finish(reader);
    let path = path?;
    let value = storage::absolute(reader, &path.value, path.at)?;
    Some(Checkpoint {
        path: Located { value, at: path.at },
        resume,
    })
}
