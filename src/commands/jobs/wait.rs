//! `gpuctl wait`: waits until jobs meet a condition.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cli::jobs::wait::WaitArgs;
use crate::context::Context;
use crate::deploy::events::{Reporter, WaitingLine};
use crate::lookup::{self, LookupPurpose};
use crate::selection;
use crate::show::reporter::TerminalReporter;
use futures::future::try_join_all;
use gpuctl_cluster::{Connection, Failure, JobFilter, OutageRetry, Selection};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Job, State, WaitCondition, WaitVerdict};
use gpuctl_view::jobs::waited::{WaitResult, WaitedJob, text};
use gpuctl_view::{Format, document};

/// Polling interval for several jobs. A single job is watched.
const STEP: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: &WaitArgs, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    context.must_change("remove `--replay` to wait on a live cluster")?;
    let connection = context.connect().await?;
    let targets = targets(args, context, &connection).await?;
    let reporter = TerminalReporter::new(&context.terminal, format);
    let waiting = WaitRun {
        args,
        connection: &connection,
        targets,
        reporter: &reporter,
        start: Instant::now(),
    };
    let (result, error) = waiting.wait().await?;
    let text = document(format, &result).unwrap_or_else(|| text(&result));
    context.terminal.print(&text)?;
    match error {
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// A job to wait for, distinguished by its UID from a later job of the same name.
struct WaitTarget {
    namespace: String,
    name: String,
    /// `None` if the job did not exist initially.
    uid: Option<String>,
}

impl WaitTarget {
    fn from_job(job: &Job) -> Self {
        Self {
            namespace: job.namespace.clone(),
            name: job.name.clone(),
            uid: Some(job.uid.clone()),
        }
    }

    fn is(&self, job: &Job) -> bool {
        (&job.namespace, &job.name) == (&self.namespace, &self.name)
            && self.uid.as_ref().is_none_or(|uid| *uid == job.uid)
    }
}

/// Finds the jobs. Fails for jobs without an end if the condition is completion.
async fn targets(
    args: &WaitArgs,
    context: &Context,
    connection: &Connection,
) -> Result<Vec<WaitTarget>, Error> {
    if args.condition == WaitCondition::Deleted && args.jobs.is_by_name() {
        return named_targets(&args.jobs.names, context, connection).await;
    }
    let jobs = selection::jobs(context, connection, &args.jobs, LookupPurpose::Read).await?;
    let endless = |job: &&Job| job.kind.serves() && args.condition.needs_an_end();
    if let Some(job) = jobs.iter().find(endless) {
        let message = format!(
            "`--for {}` needs a job that ends, but `{}` is a service of kind {}",
            args.condition,
            job.name,
            job.kind.word()
        );
        return Err(
            Error::usage(message).hint("use `--for running`, `--for ready=N` or `--for deleted`")
        );
    }
    Ok(jobs.iter().map(WaitTarget::from_job).collect())
}

/// Finds the jobs of `--for deleted`, which may not exist anymore.
async fn named_targets(
    names: &[String],
    context: &Context,
    connection: &Connection,
) -> Result<Vec<WaitTarget>, Error> {
    let mut targets = Vec::new();
    for text in names {
        // A job of the same name in another namespace is not the one that is being deleted.
        let found = lookup::find(connection, text, LookupPurpose::Change).await?;
        targets.push(match found {
            Some(job) => WaitTarget::from_job(&job),
            None => {
                let (namespace, name) = lookup::split(text)?;
                let namespace = namespace.unwrap_or(&connection.namespace);
                // A missing namespace has no jobs, but its name may also be mistyped.
                if let Err(error) = lookup::check_empty(connection, Some(namespace), true).await {
                    context.terminal.warn(&error.to_string());
                }
                WaitTarget {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    uid: None,
                }
            }
        });
    }
    Ok(targets)
}

struct WaitRun<'w> {
    args: &'w WaitArgs,
    connection: &'w Connection,
    targets: Vec<WaitTarget>,
    reporter: &'w dyn Reporter,
    start: Instant,
}

impl WaitRun<'_> {
    /// Waits until the result is final. The error explains why the condition was not met.
    async fn wait(&self) -> Result<(WaitResult, Option<Error>), Error> {
        let line = WaitingLine::begin(self.reporter);
        let deadline = self.args.timeout.map(|timeout| self.start + timeout);
        let retry = OutageRetry::new(|failure| self.reporter.warn(&format!("{failure}; retrying")))
            .until(deadline);
        let mut change = match &self.targets[..] {
            [one] => Some(self.connection.watch_job(&one.namespace, &one.name)),
            _ => None,
        };
        loop {
            let listed = retry.ask(|| self.list()).await;
            let (jobs, unseen) = listed.map_err(|failure| self.unanswered(failure, deadline))?;
            if let (Some(unseen), Some(target)) = (unseen, self.missing(&jobs)) {
                let message = format!("it is unknown whether job `{}` exists", target.name);
                return Err(Error::new(ErrorName::Forbidden, message).cause(unseen));
            }
            let result = self.result(&jobs);
            if result.met {
                return Ok((result, None));
            }
            if self.is_impossible(&result) {
                let error = self.ended(&result);
                return Ok((result, Some(error)));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let error = self.timed_out(&result);
                return Ok((result, Some(error)));
            }
            line.show(&summary(&result));
            let due = [deadline, line.next_beat()].into_iter().flatten().min();
            match &mut change {
                Some(change) => {
                    change.changed(due).await;
                }
                None => {
                    let left =
                        due.map_or(STEP, |due| due.saturating_duration_since(Instant::now()));
                    tokio::time::sleep(left.min(STEP)).await;
                }
            }
        }
    }

    /// Lists the jobs with one request per kind and namespace. Fails if a job is missing and its
    /// kind cannot be listed, because the job may still exist.
    async fn list(&self) -> Result<(Vec<Job>, Option<String>), Failure> {
        let namespaces: BTreeSet<&str> = self
            .targets
            .iter()
            .map(|target| target.namespace.as_str())
            .collect();
        let lists = try_join_all(namespaces.into_iter().map(|namespace| {
            let targets = self
                .targets
                .iter()
                .filter(|target| target.namespace == namespace);
            let filter = JobFilter {
                namespace: Some(namespace.to_owned()),
                names: targets.map(|target| target.name.clone()).collect(),
                ..JobFilter::default()
            };
            async move { self.connection.jobs().list(&filter).await }
        }))
        .await?;
        let unseen = lists.iter().find_map(Selection::unseen);
        let jobs = lists.into_iter().flat_map(|list| list.jobs).collect();
        Ok((jobs, unseen))
    }

    /// Returns the first job that is missing in the list.
    fn missing(&self, jobs: &[Job]) -> Option<&WaitTarget> {
        let is_missing = |target: &&WaitTarget| !jobs.iter().any(|job| target.is(job));
        self.targets.iter().find(is_missing)
    }

    fn result(&self, jobs: &[Job]) -> WaitResult {
        let judged = |target: &WaitTarget| {
            let job = jobs.iter().find(|job| target.is(job));
            let state = job.map(State::from_job);
            let verdict = self.args.condition.judge(job.zip(state.as_ref()));
            (verdict, waited(target, verdict, state))
        };
        let judged: Vec<(WaitVerdict, WaitedJob)> = self.targets.iter().map(judged).collect();
        let mut met = judged
            .iter()
            .map(|(verdict, _)| *verdict == WaitVerdict::Met);
        let met = if self.args.any {
            met.any(|met| met)
        } else {
            met.all(|met| met)
        };
        WaitResult {
            condition: self.args.condition.to_string(),
            met,
            total: judged.len(),
            items: judged.into_iter().map(|(_, job)| job).collect(),
        }
    }

    fn is_impossible(&self, result: &WaitResult) -> bool {
        let mut impossible = result.items.iter().map(|job| job.outcome == IMPOSSIBLE);
        if self.args.any {
            impossible.all(|impossible| impossible)
        } else {
            impossible.any(|impossible| impossible)
        }
    }

    /// Builds the error for a condition that can no longer be met.
    fn ended(&self, result: &WaitResult) -> Error {
        let ended: Vec<&WaitedJob> = result
            .items
            .iter()
            .filter(|job| job.outcome == IMPOSSIBLE)
            .collect();
        let first = ended[0];
        let message = format!(
            "job `{}` is {}, so it cannot meet `--for {}`",
            first.job_id,
            first.state(),
            result.condition
        );
        let error = Error::new(ErrorName::JobEnded, message);
        let error = first.message.iter().fold(error, Error::cause);
        let error = match ended.len() {
            1 => error,
            many => error.note(format!(
                "{} more cannot meet it either",
                count(many as u64 - 1, "job")
            )),
        };
        match first.status {
            Some(_) => error.hint(format!("gpuctl why {}/{}", first.namespace, first.job_id)),
            None => error.hint("`gpuctl get jobs` lists all jobs"),
        }
    }

    /// Builds the error for a failed list: a timeout if an outage lasted until the deadline.
    fn unanswered(&self, failure: Failure, deadline: Option<Instant>) -> Error {
        if !failure.is_transient() || deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return failure.into();
        }
        let seconds = self.start.elapsed().as_secs();
        let message = format!("timed out after {seconds} s: the API server does not respond");
        Error::new(ErrorName::Timeout, message).cause(failure.to_string())
    }

    fn timed_out(&self, result: &WaitResult) -> Error {
        let seconds = self.start.elapsed().as_secs();
        let message = format!("timed out after {seconds} s: {}", summary(result));
        let error = Error::new(ErrorName::Timeout, message);
        match result.items.iter().find(|job| job.outcome == WAITING) {
            Some(job) => error.hint(format!("gpuctl why {}/{}", job.namespace, job.job_id)),
            None => error,
        }
    }
}

const MET: &str = "met";
const WAITING: &str = "waiting";
const IMPOSSIBLE: &str = "impossible";

fn waited(target: &WaitTarget, verdict: WaitVerdict, state: Option<State>) -> WaitedJob {
    WaitedJob {
        job_id: target.name.clone(),
        namespace: target.namespace.clone(),
        outcome: match verdict {
            WaitVerdict::Met => MET,
            WaitVerdict::Waiting => WAITING,
            WaitVerdict::Impossible => IMPOSSIBLE,
        },
        status: state.as_ref().map(|state| state.status.word()),
        reason: state.as_ref().and_then(|state| state.reason.clone()),
        message: state.and_then(|state| state.message),
    }
}

/// Formats the state, such as `job `a` is pending Unschedulable` or `2 of 3 jobs are complete; b:
/// pending`.
fn summary(result: &WaitResult) -> String {
    let open: Vec<&WaitedJob> = result
        .items
        .iter()
        .filter(|job| job.outcome != MET)
        .collect();
    match (&result.items[..], open.first()) {
        ([one], _) => format!("job `{}` is {}", one.job_id, one.state()),
        (all, Some(first)) => format!(
            "{} of {} jobs are {}; {}: {}",
            all.len() - open.len(),
            all.len(),
            result.condition,
            first.job_id,
            first.state()
        ),
        (all, None) => format!(
            "{} are {}",
            count(all.len() as u64, "job"),
            result.condition
        ),
    }
}
