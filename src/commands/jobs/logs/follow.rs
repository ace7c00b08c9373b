//! Prints log lines as they arrive, until the jobs end. Returns an error unless all jobs completed,
//! so that the exit code reflects their results.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::Notify;

use super::choice::PodFilter;
use super::{job_prefix, log_query, matches, no_container, print_lines};
use crate::cli::jobs::logs::Logs;
use crate::context::Context;
use crate::deploy::follow::unsuccessful_end;
use gpuctl_cluster::{Connection, LogEvent, LogQuery, names_no_container};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::Job;
use gpuctl_view::jobs::logs;
use gpuctl_view::jobs::logs::{JobPrefix, JsonLine, PodLogLine, Prefix};
use gpuctl_view::{Format, json_line};

/// Maximum number of buffered bytes if lines arrive faster than they are written.
const MAX_BUFFER_BYTES: usize = 1 << 16;

/// Maximum number of jobs to follow. Each pod needs a connection for its log, and each job another
/// one for changes.
const MAX_FOLLOWED: usize = 50;

/// Buffers lines that arrive together and writes them in one call, because a system call per line
/// costs more than the line.
struct LineBuffer<'a> {
    args: &'a Logs,
    context: &'a Context,
    prefix: Prefix,
    unwritten: RefCell<String>,
    has_lines: Notify,
    /// Error of the first failed write.
    write_error: RefCell<Option<Error>>,
}

impl LineBuffer<'_> {
    fn add(&self, line: &PodLogLine) {
        if !matches(self.args, &line.text) {
            return;
        }
        let text = if Format::from(self.args.output).is_document() {
            format!("{}\n", json_line(&JsonLine::from(line)))
        } else {
            let look = self.context.terminal.style();
            logs::text(line, self.prefix, look, self.args.raw)
        };
        self.unwritten.borrow_mut().push_str(&text);
        self.has_lines.notify_one();
        if self.unwritten.borrow().len() >= MAX_BUFFER_BYTES {
            self.write();
        }
    }

    fn write(&self) {
        let text = self.unwritten.take();
        if !text.is_empty()
            && let Err(error) = print_lines(self.args, &text, self.context)
        {
            self.write_error.borrow_mut().get_or_insert(error);
        }
    }

    /// Writes buffered lines whenever lines arrive. Never completes.
    async fn write_arriving(&self) -> ! {
        loop {
            self.has_lines.notified().await;
            self.write();
        }
    }
}

/// Follows the logs of all jobs until the last of them has ended.
pub(super) async fn follow(
    args: &Logs,
    connection: &Connection,
    jobs: &[Job],
    since: Option<Duration>,
    context: &Context,
) -> Result<ExitCode, Error> {
    if jobs.len() > MAX_FOLLOWED {
        let message = format!(
            "`--follow` works with at most {MAX_FOLLOWED} jobs, but {} are selected",
            jobs.len()
        );
        return Err(Error::usage(message).hint("select fewer jobs, or remove `--follow`"));
    }
    context.terminal.stream()?;
    let shows_ranks = |job: &Job| {
        let has_several = job.pods_wanted > 1 || job.kind.is_replicated();
        has_several && PodFilter::new(args, job) == PodFilter::default()
    };
    let buffer = LineBuffer {
        args,
        context,
        prefix: Prefix {
            job: job_prefix(jobs),
            rank: jobs.iter().any(shows_ranks),
            timestamps: args.timestamps,
        },
        unwritten: RefCell::default(),
        has_lines: Notify::new(),
        write_error: RefCell::default(),
    };
    let follows = jobs.iter().map(|job| {
        let query = log_query(args, job, since);
        follow_job(args, connection, job, query, &buffer)
    });
    let results = tokio::select! {
        results = join_all(follows) => results,
        never = buffer.write_arriving() => never,
    };
    buffer.write();
    if let Some(error) = buffer.write_error.take() {
        return Err(error);
    }
    outcome(results)
}

/// Follows one job. Fails if the job did not complete.
async fn follow_job(
    args: &Logs,
    connection: &Connection,
    job: &Job,
    query: LogQuery,
    buffer: &LineBuffer<'_>,
) -> Result<(), Error> {
    let filter = PodFilter::new(args, job);
    let note = |text: &str| {
        // A note goes to stderr, so write the preceding lines first.
        buffer.write();
        buffer.context.terminal.note(text);
    };
    let sink = RefCell::new(|event: LogEvent| match event {
        LogEvent::Line { pod, rank, line } => buffer.add(&PodLogLine {
            namespace: job.namespace.clone(),
            job: job.name.clone(),
            pod,
            rank,
            container: query.container.clone(),
            at: line.at,
            text: line.text,
        }),
        LogEvent::Note(text) => note(&logs::remark(&text)),
    });
    let logs_api = connection.logs();
    let result = logs_api
        .follow(job, &query, |pod| filter.matches(pod), &sink)
        .await;
    let state = result.map_err(|failure| {
        if names_no_container(&failure) {
            no_container(&query.container, job)
        } else {
            failure.into()
        }
    })?;
    if let Some(error) = unsuccessful_end(job, state.as_ref()) {
        // The other jobs may continue for hours before the command ends with this error.
        if buffer.prefix.job != JobPrefix::None {
            note(&logs::remark(&error.message));
        }
        return Err(error);
    }
    let final_state = state.filter(|state| state.status.is_final());
    note(&match final_state {
        Some(state) => logs::ending(&job.name, &state),
        None => logs::remark(&format!("{} was deleted", job.name)),
    });
    Ok(())
}

/// The outcome of all jobs. If several did not complete, the error lists them. A job that failed
/// determines the exit code before one that could not be followed.
fn outcome(results: Vec<Result<(), Error>>) -> Result<ExitCode, Error> {
    let total = results.len();
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| error.name != ErrorName::JobEnded);
    match &errors[..] {
        [] => Ok(ExitCode::SUCCESS),
        [error] => Err(error.clone()),
        [first, ..] => {
            let message = format!("{} of {total} jobs did not complete", errors.len());
            let error = Error::new(first.name.clone(), message);
            let error = errors
                .iter()
                .map(|error| error.message.clone())
                .fold(error, Error::note);
            Err(first.hints.iter().fold(error, Error::hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_jobs_determine_the_outcome_of_all() {
        let failed = |name: &str| {
            let error = Error::new(ErrorName::JobEnded, format!("job `{name}` failed"));
            Err(error.hint(format!("gpuctl why team/{name}")))
        };
        let lost = || Err(Error::new(ErrorName::Forbidden, "you may not read logs"));
        assert!(outcome(vec![Ok(()), Ok(())]).is_ok());
        let one = outcome(vec![Ok(()), failed("a")]).unwrap_err();
        assert_eq!(one.message, "job `a` failed");
        let error = outcome(vec![lost(), Ok(()), failed("a"), failed("b")]).unwrap_err();
        assert_eq!(error.name, ErrorName::JobEnded);
        assert_eq!(error.message, "3 of 4 jobs did not complete");
        assert_eq!(
            *error.notes,
            ["job `a` failed", "job `b` failed", "you may not read logs"]
        );
        assert_eq!(error.hints, ["gpuctl why team/a"]);
    }
}
