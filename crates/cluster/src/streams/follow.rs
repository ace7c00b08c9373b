//! Follows the logs of all pods of a job until the job ends. Pods that start later are added, and a
//! restarted rank continues in its new pod.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use gpuctl_core::model::contract::refusal::RefusalCause;
use gpuctl_core::model::{Container, Job, Pod, State};

use crate::{Failure, Follower, JobFilter, LogLine, LogQuery, OutageRetry, handles::LogsApi};

/// The number of reported restarts of each pod.
type Restarts = BTreeMap<String, u32>;

/// The pods that were present in earlier polls of a followed job.
#[derive(Default)]
struct SeenPods {
    /// The newest pod of each rank.
    ranks: BTreeMap<Option<u32>, String>,
    /// Pods whose logs are followed or were skipped because they ended before the command started.
    followed: BTreeSet<String>,
    restarts: Restarts,
}

impl SeenPods {
    /// Updates the pods, and returns notes on the changes since the last poll.
    fn update(
        &mut self,
        job: Option<&Job>,
        pods: &[Pod],
        is_first: bool,
        serves: bool,
    ) -> Vec<String> {
        // Skip the pods of earlier attempts. The pods of later attempts will be followed.
        let present: BTreeSet<String> = job
            .into_iter()
            .flat_map(Job::current_pods)
            .map(|pod| pod.name.clone())
            .collect();
        if is_first {
            self.followed.extend(
                pods.iter()
                    .filter(|pod| !present.contains(&pod.name))
                    .map(|pod| pod.name.clone()),
            );
        }
        changes(pods, &present, is_first, serves, &mut self.restarts)
    }

    /// Records the pod of a rank, and returns a note if it replaces an earlier pod.
    fn succession(&mut self, pod: &Pod, pods: &[Pod], is_first: bool) -> Option<String> {
        let predecessor = self
            .ranks
            .insert(pod.rank, pod.name.clone())
            .filter(|_| pod.rank.is_some() && !is_first)?;
        Some(format!(
            "{} continues in {}: {}",
            display_name(pod),
            pod.name,
            end_cause(pods, &predecessor)
        ))
    }
}

/// A log line, or a note about the stream.
#[derive(Clone, Debug)]
pub enum LogEvent {
    Line {
        pod: String,
        rank: Option<u32>,
        line: LogLine,
    },
    /// A note, for example that a pod was replaced or a stream broke.
    Note(String),
}

const FIRST_BACKOFF: Duration = Duration::from_millis(300);
const POLL_INTERVAL: Duration = Duration::from_millis(1500);
/// How long to read the log of an ended pod. The kubelet closes the log at its end, but a proxy on
/// the path may keep the connection open.
const GRACE: Duration = Duration::from_millis(1000);
/// How long to follow pods that have not ended although their job has, for example on a lost node.
const STRAGGLERS: Duration = Duration::from_secs(30);

impl LogsApi<'_> {
    /// Follows the pods of `job` that `includes` accepts until the job ends or is deleted. Returns
    /// the job's last state.
    pub async fn follow(
        self,
        job: &Job,
        query: &LogQuery,
        includes: impl Fn(&Pod) -> bool,
        sink: &RefCell<impl FnMut(LogEvent)>,
    ) -> Result<Option<State>, Failure> {
        let filter = JobFilter::by_name(&job.namespace, &job.name);
        let (alive, watching) = watch::channel(BTreeSet::<String>::new());
        let mut tasks = FuturesUnordered::new();
        let mut seen_pods = SeenPods::default();
        let mut last_state = None;
        let retry = OutageRetry::new(|failure| {
            sink.borrow_mut()(LogEvent::Note(format!("{failure}; retrying")));
        });
        let mut ended_since = None;
        loop {
            // Keep printing lines while the API server answers the list request.
            let list = retry.ask(|| self.0.jobs().list(&filter));
            tokio::pin!(list);
            let live = loop {
                tokio::select! {
                    listed = &mut list => break listed?.jobs.pop(),
                    Some(result) = tasks.next(), if !tasks.is_empty() => result?,
                }
            };
            let pods: Vec<Pod> = live.as_ref().map_or_else(Vec::new, |job| job.pods.clone());
            let is_first = last_state.is_none();
            for note in seen_pods.update(live.as_ref(), &pods, is_first, job.kind.serves()) {
                sink.borrow_mut()(LogEvent::Note(note));
            }
            let has_ended = live
                .as_ref()
                .is_none_or(|job| State::from_job(job).status.is_final());
            let stragglers_dropped =
                has_ended && ended_since.get_or_insert_with(Instant::now).elapsed() > STRAGGLERS;
            let running = pods
                .iter()
                .filter(|pod| !pod.ended() && !stragglers_dropped)
                .map(|pod| pod.name.clone())
                .collect();
            let _ = alive.send(running);
            for pod in pods.iter().filter(|pod| includes(pod) && has_log(pod)) {
                if !seen_pods.followed.insert(pod.name.clone()) {
                    continue;
                }
                if let Some(note) = seen_pods.succession(pod, &pods, is_first) {
                    sink.borrow_mut()(LogEvent::Note(note));
                }
                // Read the log of a pod that starts later from its beginning.
                let query = if is_first {
                    query.clone()
                } else {
                    query.whole_log()
                };
                tasks.push(self.follow_pod(
                    &job.namespace,
                    pod.clone(),
                    query,
                    watching.clone(),
                    sink,
                ));
            }
            last_state = live.as_ref().map(State::from_job).or(last_state);
            if has_ended && tasks.is_empty() {
                return Ok(last_state);
            }
            tokio::select! {
                Some(result) = tasks.next(), if !tasks.is_empty() => result?,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    async fn follow_pod(
        self,
        namespace: &str,
        pod: Pod,
        query: LogQuery,
        mut alive: watch::Receiver<BTreeSet<String>>,
        sink: &RefCell<impl FnMut(LogEvent)>,
    ) -> Result<(), Failure> {
        let mut follower = Follower::default();
        let has_output = Cell::new(false);
        let emit = |line| {
            has_output.set(true);
            sink.borrow_mut()(LogEvent::Line {
                pod: pod.name.clone(),
                rank: pod.rank,
                line,
            });
        };
        let (mut backoff, mut noted) = (FIRST_BACKOFF, false);
        loop {
            let mut pod_names = alive.clone();
            let pod_ended = async {
                // Ignore the error: the sender lives as long as the caller's loop.
                let _ = pod_names.wait_for(|names| !names.contains(&pod.name)).await;
                tokio::time::sleep(GRACE).await;
            };
            let result = tokio::select! {
                result = self.resume(namespace, &pod.name, &query, true, &mut follower, emit) => result,
                () = pod_ended => Ok(()),
            };
            match result {
                Err(failure) if failure.is_not_found() => return Ok(()),
                Err(failure)
                    if matches!(failure.code(), Some(401 | 403))
                        || names_no_container(&failure) =>
                {
                    return Err(failure);
                }
                // A 400 means that the container has not started yet, so do not print a note.
                Err(failure)
                    if failure.code().is_some_and(|code| code != 400)
                        && !std::mem::replace(&mut noted, true) =>
                {
                    sink.borrow_mut()(LogEvent::Note(format!("{}: {failure}; retrying", pod.name)));
                }
                // Reset the backoff only after new lines, because a container in a crash loop
                // prints nothing for minutes.
                Ok(()) if has_output.replace(false) => backoff = FIRST_BACKOFF,
                Ok(()) | Err(_) => {}
            }
            if !alive.borrow_and_update().contains(&pod.name) {
                return self
                    .drain(namespace, &pod, &query, &mut follower, emit)
                    .await;
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(Duration::from_secs(8));
        }
    }

    /// Reads the rest of an ended pod's log after its stream broke. Returns nothing if the pod no
    /// longer exists.
    async fn drain(
        self,
        namespace: &str,
        pod: &Pod,
        query: &LogQuery,
        follower: &mut Follower,
        mut emit: impl FnMut(LogLine),
    ) -> Result<(), Failure> {
        const TRIES: u32 = 10;
        for attempt in 1.. {
            match self
                .resume(namespace, &pod.name, query, false, follower, &mut emit)
                .await
            {
                Err(failure) if failure.is_transient() && attempt < TRIES => {
                    tokio::time::sleep(FIRST_BACKOFF * attempt).await;
                }
                Err(failure) if !failure.is_not_found() && failure.code() != Some(400) => {
                    return Err(failure);
                }
                _ => break,
            }
        }
        Ok(())
    }
}

/// Returns true if the API server answered 400 because the pod has no such container. Any other 400
/// means that the container has not started.
pub fn names_no_container(failure: &Failure) -> bool {
    failure.code() == Some(400) && failure.cause() == Some(RefusalCause::NoSuchContainer)
}

/// Returns true once a container has started, because before that the pod has no log.
fn has_log(pod: &Pod) -> bool {
    let has_output = |container: &Container| {
        container.running || container.terminated.is_some() || container.last_ended.is_some()
    };
    pod.ended() || pod.containers.iter().any(has_output)
}

fn display_name(pod: &Pod) -> String {
    pod.rank
        .map_or_else(|| pod.name.clone(), |rank| format!("rank {rank}"))
}

fn end_cause(pods: &[Pod], predecessor: &str) -> String {
    let ending = pods
        .iter()
        .find(|pod| pod.name == predecessor)
        .and_then(|pod| {
            let evicted = pod
                .disrupted
                .as_ref()
                .map(|reason| format!("{predecessor} was evicted ({reason})"));
            evicted.or_else(|| {
                pod.containers
                    .iter()
                    .find_map(|container| container.terminated.as_ref())
                    .map(|end| {
                        format!(
                            "{predecessor} exited with code {} ({})",
                            end.code, end.reason
                        )
                    })
            })
        });
    ending.unwrap_or_else(|| format!("{predecessor} no longer exists"))
}

/// Describes containers that restarted in place and service pods that were added or removed since
/// the last poll.
fn changes(
    pods: &[Pod],
    present: &BTreeSet<String>,
    first: bool,
    serves: bool,
    restarts: &mut Restarts,
) -> Vec<String> {
    let mut notes = Vec::new();
    for pod in pods.iter().filter(|pod| present.contains(&pod.name)) {
        let previous = restarts.insert(pod.name.clone(), pod.restarts());
        let cause = pod.containers.iter().find_map(|container| {
            container
                .last_ended
                .as_ref()
                .or(container.terminated.as_ref())
        });
        match previous {
            None if serves && !first => notes.push(format!("{} joins", pod.name)),
            Some(previous) if previous < pod.restarts() => notes.push(match cause {
                Some(end) => format!("{} restarted (exit {}, {})", pod.name, end.code, end.reason),
                None => format!("{} restarted", pod.name),
            }),
            _ => {}
        }
    }
    let removed: Vec<String> = restarts
        .keys()
        .filter(|name| !present.contains(*name))
        .cloned()
        .collect();
    for name in removed {
        restarts.remove(&name);
        if serves {
            notes.push(format!("{name} no longer exists"));
        }
    }
    notes
}
