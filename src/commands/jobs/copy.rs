//! `gpuctl cp`: copies files into and out of a running container with the image's `tar`, and out of
//! the claims of an ended job.

mod container;
mod download;
mod ended;
mod stream;
mod upload;

use std::process::ExitCode;

use self::container::TarContainer;
use self::ended::{EndedJob, cannot_write, has_ended};

use crate::cli::jobs::copy::Copy;
use crate::context::Context;
use crate::inside::choice::ContainerChoice;
use crate::inside::choice::pod;
use crate::lookup;
use crate::lookup::LookupPurpose;
use gpuctl_core::error::Error;
use gpuctl_core::error::ErrorKind;
use gpuctl_local::files::archive::Copied;
use gpuctl_view::document;
use gpuctl_view::jobs::copied;
use gpuctl_view::jobs::copied::CopyResult;

/// Parses `JOB:PATH`. Returns `None` for a local file: text without a colon, or text that starts
/// like a path.
fn remote(text: &str) -> Option<(&str, &str)> {
    let (job, path) = text.split_once(':')?;
    // `NAMESPACE/JOB` contains at most one slash.
    let is_local =
        job.starts_with(['.', '/', '~']) || job.matches('/').count() > 1 || job.is_empty();
    (!is_local).then_some((job, path))
}

/// The side of a copy that is inside a job.
struct RemoteSide<'a> {
    job: &'a str,
    path: &'a str,
    is_source: bool,
}

impl<'a> RemoteSide<'a> {
    /// Parses the arguments. Exactly one side must be in a job.
    fn parse(args: &'a Copy) -> Result<Self, Error> {
        let (job, path, is_source) = match (remote(&args.from), remote(&args.to)) {
            (Some((job, path)), None) => (job, path, true),
            (None, Some((job, path))) => (job, path, false),
            (Some(_), Some(_)) => {
                return Err(Error::usage("source and destination are both in a job")
                    .hint("copy to this machine first, or write the local path as `./NAME`"));
            }
            (None, None) => {
                return Err(Error::usage("neither source nor destination is in a job")
                    .hint("gpuctl cp JOB:/path ./path"));
            }
        };
        if path.is_empty() {
            return Err(Error::usage(format!("`{job}:` is missing a path"))
                .hint(format!("{job}:/workspace")));
        }
        Ok(Self {
            job,
            path,
            is_source,
        })
    }
}

pub(crate) async fn run(args: &Copy, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("remove `--replay` to use a live cluster")?;
    context.terminal.set_format(args.output.into());
    let side = RemoteSide::parse(args)?;
    let connection = context.connect().await?;
    let job = lookup::job(&connection, side.job, LookupPurpose::Change).await?;
    let choice = ContainerChoice {
        rank: args.rank,
        pod: args.pod.as_deref(),
        container: args.container.as_deref(),
    };
    if has_ended(&job) {
        if !side.is_source {
            return Err(cannot_write(&job));
        }
        let ended = EndedJob {
            connection: &connection,
            job: &job,
            container: args.container.as_deref(),
            context,
        };
        let copied = ended.download(side.path, &args.to).await?;
        return report(args, copied, context);
    }
    let pod = pod(&job, choice)?;
    let container = choice
        .container
        .unwrap_or_else(|| pod.own_container())
        .to_owned();
    let container = TarContainer {
        connection: &connection,
        namespace: &job.namespace,
        pod,
        name: &container,
        context,
    };
    let copied = if side.is_source {
        container.download(side.path, &args.to).await?
    } else {
        container.upload(&args.from, side.path).await?
    };
    report(args, copied, context)
}

/// Prints the number of copied files and warns about skipped ones.
fn report(args: &Copy, copied: Copied, context: &Context) -> Result<ExitCode, Error> {
    let skipped = &copied.skipped;
    skipped
        .first
        .iter()
        .for_each(|path| context.terminal.warn(&format!("skipped {path}")));
    let unnamed_count = skipped.count - skipped.first.len() as u64;
    if unnamed_count > 0 {
        context
            .terminal
            .warn(&format!("skipped {unnamed_count} more"));
    }
    let is_complete = skipped.count == 0;
    let answer = CopyResult {
        from: args.from.clone(),
        to: args.to.clone(),
        files: copied.files,
        bytes: copied.bytes,
        skipped: copied.skipped.first,
        skipped_count: copied.skipped.count,
    };
    context
        .terminal
        .print(&document(args.output.into(), &answer).unwrap_or_else(|| copied::text(&answer)))?;
    Ok(if is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Request.exit_code())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_the_side_in_a_job() {
        assert_eq!(remote("a:/x"), Some(("a", "/x")));
        assert_eq!(
            remote("ns/a:x/y"),
            Some(("ns", "")).map(|_| ("ns/a", "x/y"))
        );
        for local in ["./a:b", "/tmp/a:b", "a", "x/y/z:1", ":x"] {
            assert_eq!(remote(local), None, "{local}");
        }
    }
}
