//! `gpuctl logs`: prints or follows the selected lines of a job's pods.

mod choice;
mod follow;

use std::process::ExitCode;
use std::time::Duration;

use crate::cli::jobs::logs::Logs;
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::inside::choice::from_node;
use crate::lookup::LookupPurpose;
use crate::observe::first_error::first_error;
use crate::observe::past_jobs;
use crate::observe::times;
use crate::selection;
use gpuctl_cluster::{Connection, Failure, LogLine, LogQuery, MOST_LOG_BYTES, names_no_container};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{ContainerEnd, Job, OWN_CONTAINER, Pod, State, Status};
use gpuctl_view::format::text;
use gpuctl_view::jobs::first_error::{FirstErrorItem, FirstErrorLine};
use gpuctl_view::jobs::logs;
use gpuctl_view::jobs::logs::{JobPrefix, PodLogLine, Prefix};
use gpuctl_view::{self as view, Format, document};

/// Number of logs of a job to read concurrently.
const MAX_CONCURRENT: usize = 16;
/// Number of jobs to read concurrently.
const MAX_CONCURRENT_JOBS: usize = 4;

pub(crate) async fn run(args: &Logs, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    // Report invalid times before sending requests.
    let since = since(args, context)?;
    let connection = context.connect().await?;
    let jobs = match args.jobs.one_name() {
        Some(name) => vec![past_jobs::job(context, &connection, name, LookupPurpose::Read).await?],
        None => selection::jobs(context, &connection, &args.jobs, LookupPurpose::Read).await?,
    };
    check_options(args, &jobs)?;
    if args.follow {
        context.must_change("remove `--follow`")?;
        return follow::follow(args, &connection, &jobs, since, context).await;
    }
    if args.first_error
        && let [job] = &jobs[..]
    {
        let pods = choice::select_pods(args, job)?;
        let query = limited(log_query(args, job, since), pods.len());
        return print_first_error(&connection, job, &pods, &query, format, context).await;
    }
    print_once(args, &connection, &jobs, since, context).await
}

/// Rejects options that are about one job.
fn check_options(args: &Logs, jobs: &[Job]) -> Result<(), Error> {
    let options = [
        ("--first-error", args.first_error),
        ("--pod", args.pod.is_some()),
    ];
    let given = options.into_iter().find(|(_, is_given)| *is_given);
    match given.filter(|_| jobs.len() > 1) {
        None => Ok(()),
        Some((option, _)) => {
            let message = format!(
                "`{option}` works with one job, but {} are selected",
                count(jobs.len() as u64, "job")
            );
            let hint = format!("gpuctl logs {} {option}", selection::full_name(&jobs[0]));
            Err(Error::usage(message).hint(hint))
        }
    }
}

/// Prints the last lines of each job, merged by time. A job that cannot be read is an error after
/// the lines of the others are printed.
async fn print_once(
    args: &Logs,
    connection: &Connection,
    jobs: &[Job],
    since: Option<Duration>,
    context: &Context,
) -> Result<ExitCode, Error> {
    let mut errors = Vec::new();
    let mut selected: Vec<(&Job, Vec<Pod>)> = Vec::new();
    for job in jobs {
        match choice::select_pods(args, job) {
            Ok(pods) => selected.push((job, pods)),
            Err(error) => errors.push(error),
        }
    }
    let pod_count = selected.iter().map(|(_, pods)| pods.len()).sum();
    let reads = selected.iter().map(|(job, pods)| async move {
        let query = limited(log_query(args, job, since), pod_count);
        read(args, connection, job, pods, &query, context).await
    });
    let results = OrderedConcurrent::new(reads, MAX_CONCURRENT_JOBS)
        .all()
        .await;
    let mut lines = Vec::new();
    for ((job, _), result) in selected.iter().zip(results) {
        let PodLines {
            lines: mut job_lines,
            failure: no_log_failure,
        } = match result {
            Ok(pod_lines) => pod_lines,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        // Merge the pods' lines by time. The sort is stable, so the lines of each pod keep their
        // order.
        job_lines.sort_by_key(|line| line.at);
        job_lines.drain(..job_lines.len().saturating_sub(args.tail as usize));
        if job_lines.is_empty() {
            explain_silence(job, no_log_failure.as_ref(), context);
        }
        lines.append(&mut job_lines);
    }
    let failure = errors
        .into_iter()
        .reduce(|first, other| first.note(other.message));
    if let (true, Some(error)) = (lines.is_empty(), &failure) {
        return Err(error.clone());
    }
    lines.sort_by_key(|line| line.at);
    let prefix = Prefix {
        job: job_prefix(jobs),
        rank: selected.iter().any(|(_, pods)| pods.len() > 1),
        timestamps: args.timestamps,
    };
    print(args, &lines, prefix, context)?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn job_prefix(jobs: &[Job]) -> JobPrefix {
    JobPrefix::for_jobs(
        jobs.iter()
            .map(|job| (job.namespace.as_str(), job.name.as_str())),
    )
}

/// Shares the memory limit of a single log among all pods.
fn limited(query: LogQuery, pods: usize) -> LogQuery {
    LogQuery {
        most_bytes: Some(MOST_LOG_BYTES / pods.max(1)),
        ..query
    }
}

/// Lines of all pods, and the API server's response for a container without a log.
#[derive(Default)]
struct PodLines {
    lines: Vec<PodLogLine>,
    failure: Option<Failure>,
}

/// Reads the logs of several pods concurrently.
async fn read(
    args: &Logs,
    connection: &Connection,
    job: &Job,
    pods: &[Pod],
    query: &LogQuery,
    context: &Context,
) -> Result<PodLines, Error> {
    let max_lines = args.tail as usize;
    let is_wanted = |line: &LogLine| matches(args, &line.text);
    let reads = pods.iter().map(|pod| {
        connection
            .logs()
            .matching(&job.namespace, &pod.name, query, max_lines, is_wanted)
    });
    let results = OrderedConcurrent::new(reads, MAX_CONCURRENT).all().await;
    let (mut pod_lines, mut failures) = (PodLines::default(), Vec::new());
    let warn = |text: String| context.terminal.warn(&text);
    for (pod, result) in pods.iter().zip(results) {
        match result {
            Ok(read) => {
                if read.is_cut {
                    warn(format!(
                        "the log of {} is too long: older lines are omitted",
                        pod.name
                    ));
                }
                if read.has_surplus {
                    warn(format!(
                        "the server sent more lines of {} than requested, so they may not be \
                         the newest",
                        pod.name
                    ));
                }
                pod_lines
                    .lines
                    .extend(read.lines.into_iter().map(|line| PodLogLine {
                        namespace: job.namespace.clone(),
                        job: job.name.clone(),
                        pod: pod.name.clone(),
                        rank: pod.rank,
                        container: query.container.clone(),
                        at: line.at,
                        text: line.text,
                    }));
            }
            Err(failure) if names_no_container(&failure) => {
                return Err(no_container(&query.container, job));
            }
            // A container has no log before it starts.
            Err(failure) if matches!(failure.code(), Some(400 | 404)) => {
                pod_lines.failure = Some(failure);
            }
            // A node that does not respond must not hide the other ranks' logs.
            Err(failure) if failure.is_transient() => failures.push((pod, failure)),
            Err(failure) => return Err(from_node(failure, pod)),
        }
    }
    if failures.len() == pods.len()
        && let Some((pod, failure)) = failures.pop()
    {
        return Err(from_node(failure, pod));
    }
    for (pod, failure) in failures {
        warn(format!("cannot read the log of {}: {failure}", pod.name));
    }
    Ok(pod_lines)
}

async fn print_first_error(
    connection: &Connection,
    job: &Job,
    pods: &[Pod],
    query: &LogQuery,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let mut findings = first_error(connection, &job.namespace, pods, query).await;
    if findings.read == 0
        && let Some((name, failure)) = findings.unread.pop()
    {
        let pod = pods.iter().find(|pod| pod.name == name).unwrap_or(&pods[0]);
        return Err(from_node(failure, pod));
    }
    for (name, failure) in &findings.unread {
        context
            .terminal
            .warn(&format!("cannot read the log of {name}: {failure}"));
    }
    let line = findings
        .first
        .as_ref()
        .map(|first| FirstErrorLine::new(&first.pod, &first.error, first.same, first.others));
    if line.is_none() {
        context.terminal.report(&format!(
            "no line in the logs of {} states an error that ended it",
            text::count(findings.read as u64, "pod")
        ));
    }
    let text = line.as_ref().map_or(String::new(), |line| {
        view::jobs::first_error::text(line, context.terminal.style())
    });
    let answer = document(
        format,
        &FirstErrorItem {
            pods_read: findings.read,
            pods: pods.len(),
            first: line,
        },
    );
    context.terminal.print(&answer.unwrap_or(text))?;
    Ok(ExitCode::SUCCESS)
}

fn no_container(name: &str, job: &Job) -> Error {
    let names: Vec<&str> = job.pods.first().map_or_else(Vec::new, |pod| {
        pod.containers
            .iter()
            .map(|container| container.name.as_str())
            .collect()
    });
    let error = Error::new(
        ErrorName::ContainerNotFound,
        format!("job `{}` has no container `{name}`", job.name),
    );
    error.hint(format!("available: {}", names.join(", ")))
}

/// Converts `--since` to the duration before now that the API server accepts.
fn since(args: &Logs, context: &Context) -> Result<Option<Duration>, Error> {
    let Some(text) = &args.since else {
        return Ok(None);
    };
    let now = context.now();
    let span = now.duration_since(times::instant(text, now)?);
    Duration::try_from(span)
        .map(Some)
        .map_err(|_| Error::usage(format!("`{text}` is in the future")))
}

fn log_query(args: &Logs, job: &Job, since: Option<Duration>) -> LogQuery {
    let container = job
        .pods
        .iter()
        .find(|pod| !pod.containers.is_empty())
        .map_or(OWN_CONTAINER, Pod::own_container);
    LogQuery {
        container: args
            .container
            .clone()
            .unwrap_or_else(|| container.to_owned()),
        // With `--grep`, the last matches may be before the last lines.
        tail: args.grep.is_none().then_some(args.tail),
        since,
        // A service restarts its container in the same pod, but each attempt of a training has its
        // own pods.
        previous: args.previous && job.kind.serves(),
        most_bytes: None,
        head_bytes: None,
    }
}

fn matches(args: &Logs, line: &str) -> bool {
    args.grep
        .as_ref()
        .is_none_or(|pattern| pattern.is_match(line))
}

fn print(
    args: &Logs,
    lines: &[PodLogLine],
    prefix: Prefix,
    context: &Context,
) -> Result<(), Error> {
    if let Some(text) = document(args.output.into(), &logs::document(lines)) {
        return context.terminal.print(&text);
    }
    let text: String = lines
        .iter()
        .map(|line| logs::text(line, prefix, context.terminal.style(), args.raw))
        .collect();
    print_lines(args, &text, context)
}

/// Prints lines. Removes control sequences unless `--raw` is set.
fn print_lines(args: &Logs, text: &str, context: &Context) -> Result<(), Error> {
    if args.raw {
        context.terminal.print_raw(text)
    } else {
        context.terminal.print(text)
    }
}

fn never_started(job: &Job) -> bool {
    let ends = job
        .current_pods()
        .into_iter()
        .flat_map(|pod| &pod.containers)
        .filter_map(|container| container.terminated.as_ref());
    ends.into_iter().any(ContainerEnd::never_started)
}

fn explain_silence(job: &Job, failure: Option<&Failure>, context: &Context) {
    let state = State::from_job(job);
    match failure {
        // The API returns an empty log for a container that never started, not an error.
        _ if state.status == Status::Failed && never_started(job) => {
            context
                .terminal
                .note(&format!("no log: {}", state.message.unwrap_or_default()));
        }
        Some(failure) if job.pods.iter().any(Pod::ended) => {
            context.terminal.note(&format!("no log: {failure}"));
        }
        _ if state.status == Status::Pending || failure.is_some() => {
            let reason = state
                .message
                .as_ref()
                .map_or(String::new(), |message| format!(": {message}"));
            context
                .terminal
                .note(&format!("no log yet: {} is {state}{reason}", job.name));
        }
        _ => {}
    }
}
