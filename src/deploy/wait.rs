//! Waits until submitted jobs run or end, and shows their progress.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::context::Context;
use crate::deploy::events::{DeployEvent, Reporter, WaitingLine};
use crate::deploy::follow::deleted;
use crate::deploy::interrupt::Interruption;
use crate::deploy::options::WaitGoal;
use gpuctl_cluster::{Connection, Failure, JobFilter, OutageRetry};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::submission::Created;
use gpuctl_core::model::{Job, Pod, PodPhase, State, Status, cannot_start};
use gpuctl_manifest::spec::{Document, parse};

/// Waits for every job, and updates the statuses in `jobs`. Fails if a job fails, the timeout
/// expires or the user presses Ctrl-C.
pub(crate) async fn wait(
    connection: &Connection,
    jobs: &mut [Created],
    goal: WaitGoal,
    timeout: Option<Duration>,
    interruption: &Interruption,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let line = WaitingLine::begin(reporter);
    let start = Instant::now();
    let deadline = timeout.map(|timeout| start + timeout);
    // The gang that has released its GPUs for now. It must be resumed, however the wait ends.
    let paused = RefCell::new(None);
    let wait = JobWait {
        connection,
        context,
        reporter,
        goal,
        start,
        deadline,
        line: &line,
    };
    let waited = async {
        for created in jobs.iter_mut() {
            let mut gang = GangTimeout {
                since: None,
                paused: &paused,
                deadline,
            };
            wait.wait_for(created, &mut gang).await?;
        }
        Ok(())
    };
    let result = tokio::select! {
        result = waited => result,
        name = interruption.times(1) => Err(Error::new(name, "interrupted while waiting").note("the jobs still exist and are not affected")),
    };
    drop(line);
    if let Some(job) = paused.take() {
        let resumed = connection
            .jobs()
            .suspend(&job, false)
            .await
            .map_err(Error::from);
        resumed.map_err(|error| {
            error.hint(format!(
                "the job is paused: gpuctl resume job {}/{}",
                job.namespace, job.name
            ))
        })?;
    }
    result
}

/// State that the waits for all jobs of a run share.
struct JobWait<'w> {
    connection: &'w Connection,
    context: &'w Context,
    reporter: &'w dyn Reporter,
    goal: WaitGoal,
    start: Instant,
    deadline: Option<Instant>,
    line: &'w WaitingLine<'w>,
}

impl JobWait<'_> {
    async fn wait_for(
        &self,
        created: &mut Created,
        gang: &mut GangTimeout<'_>,
    ) -> Result<(), Error> {
        let reporter = self.reporter;
        let retry = OutageRetry::new(|failure| reporter.warn(&format!("{failure}; retrying")))
            .until(self.deadline);
        let selector = JobFilter::by_name(&created.namespace, &created.job_id);
        let mut notifications = self
            .connection
            .watch_job(&created.namespace, &created.job_id);
        let (mut mount_failures, mut old_pods) = (FailingMounts::default(), None);
        loop {
            let listed = retry.ask(|| self.connection.jobs().list(&selector)).await;
            let mut selection = listed.map_err(|failure| self.unanswered(failure, created))?;
            let selection = selection.jobs.pop();
            let Some(job) = selection.filter(|job| !job.owner_is_gone) else {
                return Err(deleted(&created.job_id, "waiting for it"));
            };
            let state = State::from_job(&job);
            state.status.word().clone_into(&mut created.status);
            created.message = state.message.clone().unwrap_or_else(|| state.to_string());
            self.line.show(&format!(
                "{}: {}",
                created.job_id,
                describe_phase(&job, &state)
            ));
            if self.is_goal_reached(&job, &state, created).await? {
                return Ok(());
            }
            let mount_failure = mount_failures.observe(&state);
            let overdue = mount_failure.filter(|(_, until)| Instant::now() >= *until);
            // Pods of the version before an update do not show whether the update starts.
            let old_pods = old_pods.get_or_insert_with(|| self.older_pods(&job, created));
            let obstacle = cannot_start(&job, |pod| !old_pods.contains(&pod.uid)).or_else(|| {
                overdue.map(|(reason, _)| (reason.to_owned(), created.message.clone()))
            });
            if let Some((reason, message)) = obstacle {
                let message = format!("job `{}` cannot start, {reason}: {message}", created.job_id);
                let name = ErrorName::reported(ErrorKind::JobEnded, &reason);
                let error = failure_error(self.connection, &job, name, message).await;
                return Err(error.note("the job still exists and keeps trying"));
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Err(self.timed_out(created, &state));
            }
            gang.step(self.connection, &job, &state).await?;
            let wake_times = [
                self.line.next_beat(),
                self.deadline,
                gang.due(&job),
                mount_failure.map(|(_, until)| until),
            ];
            notifications
                .changed(wake_times.into_iter().flatten().min())
                .await;
        }
    }

    /// Returns true if the job has reached the goal. Fails if the job has failed.
    async fn is_goal_reached(
        &self,
        job: &Job,
        state: &State,
        created: &mut Created,
    ) -> Result<bool, Error> {
        match (state.status, self.goal) {
            // A service counts as running only when all its pods run the submitted version.
            (Status::Running, _)
                if job.kind.serves() && (job.rolling_out || state.running < state.wanted) =>
            {
                Ok(false)
            }
            (Status::Succeeded, _) | (Status::Running, WaitGoal::Running | WaitGoal::Started) => {
                created.message = describe_result(job, state, self.start.elapsed());
                let message = format!("{}: {}", created.job_id, created.message);
                self.reporter.report(DeployEvent::Announcement(&message));
                Ok(true)
            }
            // A training that failed after its start has a log, which can be followed.
            (Status::Failed, WaitGoal::Started)
                if job.pods.iter().any(|pod| pod.started_at.is_some()) =>
            {
                Ok(true)
            }
            // The file sets `replicas: 0`.
            (Status::Paused, _) if job.kind.serves() => Ok(true),
            (Status::Failed, _) => {
                let message = format!("job `{}` failed: {}", created.job_id, created.message);
                Err(failure_error(self.connection, job, ErrorName::JobEnded, message).await)
            }
            _ => Ok(false),
        }
    }

    /// Returns the UIDs of the pods that existed before this run.
    fn older_pods(&self, job: &Job, created: &Created) -> BTreeSet<String> {
        match created.action {
            Some("updated" | "replaced") => job
                .pods
                .iter()
                .filter(|pod| is_older(pod, self.context.now()))
                .map(|pod| pod.uid.clone())
                .collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Builds the error for a failed list: a timeout if an outage lasted until the deadline.
    fn unanswered(&self, failure: Failure, created: &Created) -> Error {
        let is_over = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline);
        if !failure.is_transient() || !is_over {
            return failure.into();
        }
        let seconds = self.start.elapsed().as_secs();
        let message = format!("timed out after {seconds} s: the API server does not respond");
        Error::new(ErrorName::Timeout, message)
            .cause(failure.to_string())
            .note(format!(
                "job `{}` exists and is not affected",
                created.job_id
            ))
    }

    fn timed_out(&self, created: &Created, state: &State) -> Error {
        let message = format!(
            "timed out after {} s: job `{}` is {state}",
            self.start.elapsed().as_secs(),
            created.job_id
        );
        let error = Error::new(ErrorName::Timeout, message);
        state
            .message
            .iter()
            .fold(error, Error::cause)
            .note("the job still exists and is not affected")
            .hint(format!(
                "gpuctl describe job {}/{}",
                created.namespace, created.job_id
            ))
    }
}

/// Returns true if a pod is more than 10 s old, and so older than the submission.
fn is_older(pod: &Pod, now: Timestamp) -> bool {
    pod.created_at
        .is_none_or(|at| now.duration_since(at).as_secs() > 10)
}

/// Reasons of the kubelet's events while it cannot mount a volume, or while the volume is attached
/// to another node.
const MOUNT_FAILURES: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];

/// Time that a mount may fail before the failure counts as an error.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(30);
/// Like `MOUNT_TIMEOUT`, for a disk that may still be attached to another node.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(300);

/// Time since the mounts of a job have been failing.
#[derive(Default)]
struct FailingMounts {
    since: Option<Instant>,
}

impl FailingMounts {
    /// Returns the reason of a failing mount, and the time when the failure becomes an error.
    fn observe<'s>(&mut self, state: &'s State) -> Option<(&'s str, Instant)> {
        let reason = state
            .reason
            .as_deref()
            .filter(|reason| MOUNT_FAILURES.contains(reason) && state.status == Status::Pending);
        let Some(reason) = reason else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        Some((reason, since + mount_timeout(reason)))
    }
}

fn mount_timeout(reason: &str) -> Duration {
    if reason == "FailedAttachVolume" {
        ATTACH_TIMEOUT
    } else {
        MOUNT_TIMEOUT
    }
}

/// Describes the state after the wait, such as `running on gpu-a-02 after 4 s`.
fn describe_result(job: &Job, state: &State, after: Duration) -> String {
    let nodes: BTreeSet<&str> = job
        .current_pods()
        .into_iter()
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    let place = match nodes.len() {
        0 => String::new(),
        1..=3 => format!(" on {}", nodes.into_iter().collect::<Vec<_>>().join(", ")),
        count => format!(" on {count} nodes"),
    };
    format!("{state}{place} after {} s", after.as_secs())
}

/// Builds the error for a job that failed or cannot start, with the last lines of its log.
async fn failure_error(
    connection: &Connection,
    job: &Job,
    name: ErrorName,
    message: String,
) -> Error {
    let error = Error::new(name, message);
    let lines = connection.logs().last_lines(job, 5).await;
    let error = lines
        .iter()
        .fold(error, |error, line| error.note(format!("log: {line}")));
    let verb = if lines.is_empty() {
        "describe job"
    } else {
        "logs"
    };
    error.hint(format!("gpuctl {verb} {}/{}", job.namespace, job.name))
}

/// Describes the phase of most pods, such as `scheduling`, `pulling` or `running 3/4`.
fn describe_phase(job: &Job, state: &State) -> String {
    if state.status != Status::Pending {
        return state.to_string();
    }
    let pods = job.current_pods();
    let unscheduled = pods.iter().filter(|pod| pod.node.is_none()).count();
    let pulling = pods
        .iter()
        .filter(|pod| pod.node.is_some() && pod.phase == PodPhase::Pending)
        .count();
    if unscheduled > 0 || pods.is_empty() {
        format!("scheduling, {state}")
    } else if pulling > 0 && state.running == 0 {
        format!("pulling, {state}")
    } else {
        format!("running {}/{}", state.running, state.wanted)
    }
}

/// Implements `job.gang_timeout`: a gang that cannot be placed completely releases its GPUs for a
/// while, so that another gang can be placed.
struct GangTimeout<'a> {
    since: Option<Instant>,
    /// The job that is paused now, if any.
    paused: &'a RefCell<Option<Job>>,
    deadline: Option<Instant>,
}

impl GangTimeout<'_> {
    /// Returns the time when the gang releases its GPUs.
    fn due(&self, job: &Job) -> Option<Instant> {
        self.since
            .and_then(|since| Some(since + gang_timeout(job)?))
    }

    async fn step(
        &mut self,
        connection: &Connection,
        job: &Job,
        state: &State,
    ) -> Result<(), Error> {
        // A queue system itself decides when its jobs run.
        if job.queued || state.reason.as_deref() != Some("WaitingForPeers") {
            self.since = None;
            return Ok(());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(limit) = gang_timeout(job).filter(|limit| since.elapsed() >= *limit) else {
            return Ok(());
        };
        // Store the job first, so that it is resumed even if the request to suspend it is
        // interrupted.
        self.since = None;
        self.paused.replace(Some(job.clone()));
        connection.jobs().suspend(job, true).await?;
        // Two gangs that pause at the same time must resume at different times, so the length of
        // the pause depends on the name.
        let offset = job
            .name
            .bytes()
            .fold(0_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1000);
        let pause = limit.min(Duration::from_secs(30)) / 2 + Duration::from_millis(5 * offset);
        let remaining = self.deadline.map_or(pause, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        tokio::time::sleep(pause.min(remaining)).await;
        connection.jobs().suspend(job, false).await?;
        self.paused.take();
        Ok(())
    }
}

fn gang_timeout(job: &Job) -> Option<Duration> {
    let parsed = parse("", job.source.as_deref()?).ok()?;
    parsed
        .documents
        .into_iter()
        .find_map(|document| match document {
            Document::Job(job) => job.training.gang_timeout,
            _ => None,
        })
}
