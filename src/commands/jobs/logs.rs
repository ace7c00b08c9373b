//! `gpuctl logs`: chooses the pods and lines, and prints them once or follows them.

use std::cell::RefCell;
use std::process::ExitCode;

use tokio::sync::Notify;

use crate::cli::jobs::logs::Logs;
use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::inside::choice::from_node;
use crate::lookup::{self, LookupPurpose};
use crate::observe::first_error::first_error;
use gpuctl_cluster::{
    Connection, Failure, LogEvent, LogLine, LogQuery, MOST_LOG_BYTES, names_no_container,
};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::{ContainerEnd, Job, OWN_CONTAINER, Pod, State, Status};
use gpuctl_view::format::text;
use gpuctl_view::jobs::first_error::{FirstErrorItem, FirstErrorLine};
use gpuctl_view::jobs::logs;
use gpuctl_view::jobs::logs::{JsonLine, PodLogLine, Prefix};
use gpuctl_view::{self as view, Format, document, json_line};

/// Logs that are read at the same time.
const AT_ONCE: usize = 16;
/// Bytes that are kept before they are written, of lines that come faster than they are.
const AT_MOST: usize = 1 << 16;

pub(crate) async fn run(args: &Logs, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let job = lookup::job(&connection, &args.name, LookupPurpose::Read).await?;
    if args.follow {
        context.must_change("omit `--follow`")?;
        return follow(args, &connection, &job, context).await;
    }
    let pods = chosen(args, &job)?;
    let query = LogQuery {
        most_bytes: Some(MOST_LOG_BYTES / pods.len().max(1)),
        ..query(args, &job)
    };
    if args.first_error {
        return first(&connection, &job, &pods, &query, format, context).await;
    }
    let most = args.tail as usize;
    let wanted = |line: &LogLine| matches(args, &line.text);
    let reads = pods
        .iter()
        .map(|pod| connection.matching_log(&job.namespace, &pod.name, &query, most, wanted));
    let answers = SideBySide::new(reads, AT_ONCE).all().await;
    let (mut lines, mut silent, mut broken) = (Vec::new(), None, Vec::new());
    for (pod, answer) in pods.iter().zip(answers) {
        match answer {
            Ok(read) => {
                if read.is_cut {
                    context.terminal.warn(&format!(
                        "the log of {} is too long: older lines are left out",
                        pod.name
                    ));
                }
                if read.has_surplus {
                    let name = &pod.name;
                    context
                        .terminal
                        .warn(&format!("the server sent more lines of {name} than requested: the lines may not be the newest"));
                }
                lines.extend(read.lines.into_iter().map(|line| PodLogLine {
                    pod: pod.name.clone(),
                    rank: pod.rank,
                    container: query.container.clone(),
                    at: line.at,
                    text: line.text,
                }));
            }
            Err(failure) if names_no_container(&failure) => {
                return Err(no_container(&query.container, &job));
            }
            // A container that has not begun has no log.
            Err(failure) if matches!(failure.code(), Some(400 | 404)) => silent = Some(failure),
            // One node that does not answer must not hide what the other ranks say.
            Err(failure) if failure.is_transient() => broken.push((pod, failure)),
            Err(failure) => return Err(from_node(failure, pod)),
        }
    }
    if broken.len() == pods.len()
        && let Some((pod, failure)) = broken.pop()
    {
        return Err(from_node(failure, pod));
    }
    for (pod, failure) in broken {
        context
            .terminal
            .warn(&format!("no log of {}: {failure}", pod.name));
    }
    lines.sort_by_key(|line| line.at);
    lines.drain(..lines.len().saturating_sub(args.tail as usize));
    print(args, &lines, pods.len() > 1, format, context)?;
    if lines.is_empty() {
        explain_silence(&job, silent.as_ref(), context);
    }
    Ok(ExitCode::SUCCESS)
}

async fn first(
    connection: &Connection,
    job: &Job,
    pods: &[Pod],
    query: &LogQuery,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let mut found = first_error(connection, &job.namespace, pods, query).await;
    if found.read == 0
        && let Some((name, failure)) = found.unread.pop()
    {
        let pod = pods.iter().find(|pod| pod.name == name).unwrap_or(&pods[0]);
        return Err(from_node(failure, pod));
    }
    for (name, failure) in &found.unread {
        context
            .terminal
            .warn(&format!("no log of {name}: {failure}"));
    }
    let line = found
        .first
        .as_ref()
        .map(|first| FirstErrorLine::new(&first.pod, &first.error, first.same, first.others));
    if line.is_none() {
        context.terminal.report(&format!(
            "no line of {} looks like an error",
            text::count(found.read as u64, "pod")
        ));
    }
    let told = line.as_ref().map_or(String::new(), |line| {
        view::jobs::first_error::text(line, context.terminal.look())
    });
    let answer = document(
        format,
        &FirstErrorItem {
            pods_read: found.read,
            pods: pods.len(),
            first: line,
        },
    );
    context.terminal.print(&answer.unwrap_or(told))?;
    Ok(ExitCode::SUCCESS)
}

fn no_container(name: &str, job: &Job) -> Error {
    let names: Vec<&str> = job.pods.first().map_or_else(Vec::new, |pod| {
        pod.containers.iter().map(|one| one.name.as_str()).collect()
    });
    let error = Error::new(
        ErrorName::ContainerNotFound,
        format!("job `{}` has no container `{name}`", job.name),
    );
    error.hint(format!("available: {}", names.join(", ")))
}

/// Returns the pods to read: those of the present try, or of the one before.
fn chosen(args: &Logs, job: &Job) -> Result<Vec<Pod>, Error> {
    let current = job.current_pods();
    let mut pods: Vec<Pod> = if args.previous && !job.kind.serves() {
        let earlier = |pod: &&Pod| {
            let mut tries: Vec<&Pod> = job
                .pods
                .iter()
                .filter(|other| other.rank == pod.rank)
                .collect();
            tries.sort_by_key(|pod| (pod.created_at, pod.name.clone()));
            tries.iter().rev().nth(1).map(|pod| (*pod).clone())
        };
        current.iter().filter_map(earlier).collect()
    } else if args.pod.is_some() {
        job.pods.clone()
    } else {
        current.into_iter().cloned().collect()
    };
    let any = !pods.is_empty();
    let only = Only::of(args, job);
    pods.retain(|pod| only.wants(pod));
    if pods.is_empty() && any {
        let what = args.rank.map_or_else(
            || format!("pod `{}`", args.pod.clone().unwrap_or_default()),
            |rank| format!("rank {rank}"),
        );
        let names: Vec<String> = {
            let label = |(index, pod): (usize, &&Pod)| match (args.rank, pod.rank) {
                (_, Some(rank)) => rank.to_string(),
                (Some(_), None) => index.to_string(),
                (None, None) => pod.name.clone(),
            };
            job.current_pods().iter().enumerate().map(label).collect()
        };
        let error = Error::new(
            ErrorName::PodNotFound,
            format!("job `{}` has no {what}", job.name),
        );
        return Err(error.hint(format!("available: {}", names.join(", "))));
    }
    if pods.is_empty() && args.previous {
        let error = Error::new(
            ErrorName::NoPreviousTry,
            format!("no pod of job `{}` had an earlier attempt", job.name),
        );
        return Err(error.hint(format!("gpuctl logs {}/{}", job.namespace, job.name)));
    }
    Ok(pods)
}

/// Which pods are meant: a training's by rank, a service's by their number at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Only {
    pod: Option<String>,
    rank: Option<u32>,
}

impl Only {
    fn of(args: &Logs, job: &Job) -> Self {
        if !job.kind.serves() || args.rank.is_none() {
            return Self {
                pod: args.pod.clone(),
                rank: args.rank,
            };
        }
        let mut names: Vec<&str> = job
            .pods
            .iter()
            .filter(|pod| !pod.ended())
            .map(|pod| pod.name.as_str())
            .collect();
        names.sort_unstable();
        // A number that no pod has matches none.
        let name = args
            .rank
            .and_then(|rank| names.get(rank as usize))
            .copied()
            .unwrap_or_default();
        Self {
            pod: Some(name.to_owned()),
            rank: None,
        }
    }

    fn wants(&self, pod: &Pod) -> bool {
        self.rank.is_none_or(|rank| pod.rank == Some(rank))
            && self.pod.as_ref().is_none_or(|name| &pod.name == name)
    }
}

fn query(args: &Logs, job: &Job) -> LogQuery {
    let own = job
        .pods
        .iter()
        .find(|pod| !pod.containers.is_empty())
        .map_or(OWN_CONTAINER, Pod::own_container);
    LogQuery {
        container: args.container.clone().unwrap_or_else(|| own.to_owned()),
        tail: args.grep.is_none().then_some(args.tail),
        since: args.since,
        // A service's pod is restarted in place; a training's failed try is a pod of its own.
        previous: args.previous && job.kind.serves(),
        most_bytes: None,
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
    several: bool,
    format: Format,
    context: &Context,
) -> Result<(), Error> {
    if let Some(text) = document(format, &logs::document(lines)) {
        return context.terminal.print(&text);
    }
    let prefix = Prefix {
        rank: several,
        timestamps: args.timestamps,
    };
    let text: String = lines
        .iter()
        .map(|line| logs::text(line, prefix, context.terminal.look(), args.raw))
        .collect();
    said(args, &text, context)
}

/// Prints lines: only those that are asked for as they are may steer a terminal.
fn said(args: &Logs, text: &str, context: &Context) -> Result<(), Error> {
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
        .filter_map(|one| one.terminated.as_ref());
    ends.into_iter().any(ContainerEnd::never_started)
}

fn explain_silence(job: &Job, failure: Option<&Failure>, context: &Context) {
    let state = State::of(job);
    match failure {
        // A container that never started has an empty log, and no error says so.
        _ if state.status == Status::Failed && never_started(job) => {
            context
                .terminal
                .note(&format!("no log: {}", state.message.unwrap_or_default()));
        }
        Some(failure) if job.pods.iter().any(Pod::ended) => {
            context.terminal.note(&format!("no log: {failure}"));
        }
        _ if state.status == Status::Pending || failure.is_some() => {
            let why = state
                .message
                .as_ref()
                .map_or(String::new(), |message| format!(": {message}"));
            context.terminal.note(&format!(
                "no log yet: {} is {}{why}",
                job.name,
                text::state(&state)
            ));
        }
        _ => {}
    }
}

async fn follow(
    args: &Logs,
    connection: &Connection,
    job: &Job,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.stream()?;
    let query = query(args, job);
    let only = Only::of(args, job);
    let prefix = Prefix {
        rank: (job.pods_wanted > 1 || job.kind.is_replicated()) && only == Only::default(),
        timestamps: args.timestamps,
    };
    let look = context.terminal.look();
    let failed = RefCell::new(None);
    // Lines that came together are written together: one system call for each is dearer than the
    // line.
    let (unwritten, news) = (RefCell::new(String::new()), Notify::new());
    let write = || {
        let text = unwritten.take();
        if !text.is_empty()
            && let Err(error) = said(args, &text, context)
        {
            failed.borrow_mut().get_or_insert(error);
        }
    };
    let sink = RefCell::new(|event: LogEvent| match event {
        LogEvent::Line { pod, rank, line } => {
            let line = PodLogLine {
                pod,
                rank,
                container: query.container.clone(),
                at: line.at,
                text: line.text,
            };
            if !matches(args, &line.text) {
                return;
            }
            let text = if is_document(args) {
                format!("{}\n", json_line(&JsonLine::from(&line)))
            } else {
                logs::text(&line, prefix, look, args.raw)
            };
            unwritten.borrow_mut().push_str(&text);
            news.notify_one();
            if unwritten.borrow().len() >= AT_MOST {
                write();
            }
        }
        LogEvent::Note(text) => {
            write();
            context.terminal.note(&logs::remark(&text));
        }
    });
    let following = connection.follow_job(job, &query, |pod| only.wants(pod), &sink);
    let writing = async {
        loop {
            news.notified().await;
            write();
        }
    };
    let followed = tokio::select! {
        followed = following => followed,
        never = writing => never,
    };
    write();
    let state = followed.map_err(|failure| {
        if names_no_container(&failure) {
            no_container(&query.container, job)
        } else {
            failure.into()
        }
    })?;
    if let Some(error) = failed.take() {
        return Err(error);
    }
    if let Some(state) = state {
        context.terminal.note(&logs::ending(&job.name, &state));
    }
    Ok(ExitCode::SUCCESS)
}

fn is_document(args: &Logs) -> bool {
    Format::from(args.output).is_document()
}
