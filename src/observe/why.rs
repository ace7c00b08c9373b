//! Reads what `why` needs to know of one job, several reads at a time, and hands it to the
//! diagnosis. What may not be read is left out.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join, join_all, join4};

use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::lookup::{self, Purpose};
use crate::observe::first_error::first_error;
use crate::observe::ranks::{self, Questions};
use crate::observe::{peers, starts, workloads};
use gpuctl_cluster::{Connection, LogQuery, OtherPods, requests, unless_forbidden};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_demand::DeviceClaims;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::{
    Inventory, Job, JobKind, Node, Nodes, Pod, PodPhase, Queue, QueueSystem, State, Status,
};
use gpuctl_diagnosis::{
    Answer, ClaimFact, Facts, HolderTime, LastWord, PendingPod, RankAnswers, Situation, Subject,
    diagnose, waits_for_room,
};
use gpuctl_manifest::render::PodRules;
use gpuctl_view::format::text::count;

/// A job with the answer about it.
pub(crate) struct Found {
    pub subject: Subject,
    pub job: Job,
    pub answer: Answer,
}

/// Nodes and what is free on them, which one run reads once.
pub(crate) struct Place {
    nodes: Nodes,
    room: Option<Room>,
}

impl Place {
    pub(crate) async fn of(connection: &Connection) -> Result<Self, Error> {
        let nodes = connection.nodes().await?;
        let room = match &nodes {
            Nodes::Listed(nodes) => connection.room(nodes).await?,
            Nodes::Published(_) | Nodes::Hidden => None,
        };
        Ok(Self { nodes, room })
    }

    /// Returns the same place with what is offered of the devices that a pod claims, and adds them
    /// to its requests; `None` where it claims none.
    fn with_devices(&self, devices: &DeviceClaims, requests: &mut Amounts) -> Option<Self> {
        let Nodes::Listed(nodes) = &self.nodes else {
            return None;
        };
        if !matches!(devices, DeviceClaims::Compared(_)) {
            return None;
        }
        let (mut nodes, mut room) = (nodes.clone(), self.room.clone());
        devices.add_to(requests, &mut nodes, room.as_mut());
        Some(Self {
            nodes: Nodes::Listed(nodes),
            room,
        })
    }

    /// Knows the nodes alone: for a job whose pods all have one.
    async fn of_nodes(connection: &Connection) -> Result<Self, Error> {
        Ok(Self {
            nodes: connection.nodes().await?,
            room: None,
        })
    }
}

/// Pods whose logs are read, and for how long, to tell what they said last.
const LOGS_READ: usize = 64;
const LOGS_WITHIN: Duration = Duration::from_secs(5);
/// Jobs that are looked into at the same time.
const AT_ONCE: usize = 8;
/// The exit code of a container that SIGKILL ended.
const KILLED: i32 = 137;

/// Finds what was named, a job of ours first, then a pod, then a workload of anybody's.
pub(crate) async fn subject(connection: &Connection, text: &str) -> Result<(Subject, Job), Error> {
    let parts: Vec<&str> = text.split('/').collect();
    let by_kind = parts.len() == 3 || matches!(parts[..], [first, _] if is_kind(first));
    let missing = if by_kind {
        Error::new(ErrorName::NotFound, format!("there is no `{text}`"))
            .hint("`gpuctl get workloads` lists what there is")
    } else {
        match lookup::job(connection, text, Purpose::Read).await {
            Ok(job) => {
                return Ok((
                    Subject {
                        kind: job.kind.word().to_owned(),
                        ours: true,
                    },
                    job,
                ));
            }
            // Who may not list every kind of job may still see a pod.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Access) => error,
            Err(error) => return Err(error),
        }
    };
    let (kind, namespace, name) = match parts.as_slice() {
        [name] => (None, connection.namespace.as_str(), *name),
        [first, name] if is_kind(first) => (Some(*first), connection.namespace.as_str(), *name),
        [namespace, name] => (None, *namespace, *name),
        [namespace, kind, name] => (Some(*kind), *namespace, *name),
        _ => return Err(missing),
    };
    let kind = kind.map(|kind| kind.trim_end_matches('s').to_ascii_lowercase());
    if kind.as_deref().is_none_or(|kind| kind == "pod")
        && let Some(job) = unless_forbidden(connection.pod_as_job(namespace, name).await)?.flatten()
    {
        return Ok((
            Subject {
                kind: "pod".to_owned(),
                ours: false,
            },
            job,
        ));
    }
    if let Some((job, word)) = unless_forbidden(
        connection
            .workload_as_job(kind.as_deref(), namespace, name)
            .await,
    )?
    .flatten()
    {
        let ours = job
            .labels
            .get(MANAGED_BY)
            .is_some_and(|manager| manager == MANAGED_BY_US);
        return Ok((
            Subject {
                kind: word.to_owned(),
                ours,
            },
            job,
        ));
    }
    let place = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    let Some(owners) = unless_forbidden(connection.owners(place, OtherPods::Named).await)? else {
        return Err(missing);
    };
    let found = owners.forest.workloads(&Inventory::default());
    let Ok(workload) = workloads::named(&found, text) else {
        return Err(missing);
    };
    let pods: BTreeSet<String> = workload
        .pods
        .iter()
        .map(|pod| pod.name.to_string())
        .collect();
    let job = connection.pods_as_job(&workload.top, &pods).await?;
    Ok((
        Subject {
            kind: workload.top.kind.to_ascii_lowercase(),
            ours: false,
        },
        job,
    ))
}

fn is_kind(text: &str) -> bool {
    const KINDS: [&str; 5] = ["pod", "job", "deployment", "statefulset", "leaderworkerset"];
    KINDS.contains(&text.trim_end_matches('s').to_ascii_lowercase().as_str())
}

/// Reads what is known of a job and finds out why.
pub(crate) async fn found(
    connection: &Connection,
    subject: Subject,
    job: Job,
    place: Option<&Place>,
    questions: Questions,
    context: &Context,
) -> Result<Found, Error> {
    let waits = job
        .pods
        .iter()
        .any(|pod| pod.node.is_none() && !pod.ended());
    let starts = job.pods.iter().any(|pod| pod.phase == PodPhase::Pending);
    let own_place = async {
        match place {
            Some(_) => Ok(None),
            None if waits => Place::of(connection).await.map(Some),
            None if starts => Place::of_nodes(connection).await.map(Some),
            None => Ok(Some(Place {
                nodes: Nodes::Hidden,
                room: None,
            })),
        }
    };
    let quotas = async {
        let none_made =
            job.pods.iter().all(Pod::ended) && job.create_failure.is_none() && !job.suspended;
        if none_made {
            connection
                .quotas(Some(&job.namespace))
                .await
                .unwrap_or_default()
        } else {
            Vec::new()
        }
    };
    let (events, unplaced, own_place, quotas) = join4(
        connection.job_events(&job),
        connection.unplaced(&job),
        own_place,
        quotas,
    )
    .await;
    let mut events = unless_forbidden(events)?;
    if let (Some(events), Some(node)) = (&mut events, killed_on(&job)) {
        events.extend(connection.node_events(node).await.unwrap_or_default());
    }
    let own_place = own_place?;
    let is_single = own_place.is_some();
    let place = place
        .or(own_place.as_ref())
        .expect("a place is given or read");
    let unplaced = unplaced?;
    let spec = unplaced.as_ref().and_then(|pod| pod.spec.as_ref());
    let claims_made = unplaced.as_ref().is_some_and(|pod| pod.claims_made);
    let devices = match spec.filter(|spec| spec["resourceClaims"].is_array()) {
        Some(spec) if matches!(place.nodes, Nodes::Listed(_)) => {
            let told = connection.device_claims(&job.namespace, spec, &[]).await;
            told.unwrap_or_else(|failure| {
                DeviceClaims::NotEvaluated(format!("device claims: {failure}"))
            })
        }
        Some(_) => DeviceClaims::NotEvaluated("device claims: you may not list nodes".to_owned()),
        None => DeviceClaims::None,
    };
    // A claim that was made needs its template no more.
    let devices = match devices {
        DeviceClaims::TemplateMissing(_) if claims_made => {
            DeviceClaims::NotEvaluated("device claims whose template is gone".to_owned())
        }
        other => other,
    };
    let is_read = unplaced.as_ref().is_none_or(|pod| pod.spec.is_some());
    let mut pending = unplaced.map(|pod| {
        let of_model = job.pods.iter().find(|one| one.name == pod.name);
        let spec = pod.spec.unwrap_or_default();
        let whole = serde_json::json!({"spec": spec});
        let grouped = spec["schedulingGroup"].is_object() && job.kind == JobKind::Training;
        // Volcano makes a group of the pods of any Job, and places so many of them together.
        let members = pod.group.as_ref().and_then(|group| group.members);
        PendingPod {
            created_at: pod.created_at,
            rules: PodRules::of(&spec),
            requests: requests(&whole),
            nominated: pod.nominated,
            unscheduled: of_model.and_then(|one| one.unscheduled.clone()),
            together: if grouped {
                u64::from(job.pods_wanted)
            } else {
                members.unwrap_or(1)
            },
            name: pod.name,
            group: pod.group,
        }
    });
    let with_devices = pending
        .as_mut()
        .and_then(|pending| place.with_devices(&devices, &mut pending.requests));
    let place = with_devices.as_ref().unwrap_or(place);
    let (running, asked) = if State::of(&job).status == Status::Running {
        join(
            peers::running(context, connection, &job),
            ranks::asked(connection, &job, questions),
        )
        .await
    } else {
        let silent = if questions.ras || questions.stacks {
            vec!["its ranks: it does not run, so none was asked".to_owned()]
        } else {
            Vec::new()
        };
        (
            Ok(None),
            RankAnswers {
                silent,
                ..RankAnswers::default()
            },
        )
    };
    let running = running?;
    let queue = if waits {
        queue_of_volcano(connection, &job).await
    } else {
        None
    };
    let names: BTreeSet<&str> = pending
        .iter()
        .flat_map(|pod| pod.rules.volume_claims())
        .collect();
    let claims = join_all(
        names
            .into_iter()
            .map(|name| claim(connection, &job.namespace, name)),
    )
    .await;
    let mut facts = Facts {
        now: context.now(),
        subject: &subject,
        job: &job,
        events: events.as_deref(),
        pending,
        nodes: &place.nodes,
        // What a pod asks for that may not be read cannot be compared with what is free.
        room: place.room.as_ref().filter(|_| is_read),
        claims,
        devices,
        quotas,
        queue,
        holders: Vec::new(),
        faults: Vec::new(),
        running,
        last_words: Vec::new(),
        asked,
    };
    let mut answer = diagnose(&facts);
    let held: Vec<HolderTime> = answer
        .causes
        .iter()
        .flat_map(|cause| cause.holders.clone())
        .collect();
    if !held.is_empty() {
        facts.holders = join_all(
            held.into_iter()
                .map(|holder| times(connection, place.room.as_ref(), holder)),
        )
        .await;
        answer = diagnose(&facts);
    }
    if answer.situation == Situation::Dead {
        let (words, faults) = join(
            last_words(connection, &job),
            peers::faults(context, connection, &job),
        )
        .await;
        (facts.last_words, facts.faults) = (words.unwrap_or_default(), faults?);
        answer = diagnose(&facts);
    }
    // For many jobs at once the past would be read many times over.
    if let (true, true, Some(pod)) = (is_single, waits_for_room(&answer), &facts.pending) {
        // Queues, gangs and what was not compared decide as well.
        let alone = answer.not_evaluated.is_empty() && pod.group.is_none() && job.queue.is_none();
        answer.start = start(context, connection, &facts, pod, place, alone).await?;
    }
    drop(facts);
    Ok(Found {
        subject,
        job,
        answer,
    })
}

/// Tells when the job starts, by what the past and the deadlines of those that run say.
async fn start(
    context: &Context,
    connection: &Connection,
    facts: &Facts<'_>,
    pod: &PendingPod,
    place: &Place,
    alone: bool,
) -> Result<Option<StartForecast>, Error> {
    let may_run = |node: &&Node| {
        pod.rules.off_selector(node).is_none() && pod.rules.not_tolerated(node).is_none()
    };
    let nodes: Vec<&Node> = place.nodes.all().iter().filter(may_run).collect();
    let names: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let waited = pod
        .created_at
        .map_or(0.0, |at| facts.now.duration_since(at).as_secs_f64());
    let past = starts::forecast(context, connection, facts.job.gpus().0, &names, waited).await?;
    // What others that wait take of the room is not known.
    let Some(room) = place
        .room
        .as_ref()
        .filter(|room| alone && !room.has_rivals(&facts.full_name(), &nodes))
    else {
        return Ok(past);
    };
    let open = nodes.into_iter().filter(|node| node.schedulable);
    let load = open.filter_map(|node| {
        let placed = room.placed.get(&node.name).cloned().unwrap_or_default();
        Some((
            node.name.clone(),
            (room.free.get(&node.name)?.clone(), placed),
        ))
    });
    let alive = facts
        .job
        .current_pods()
        .into_iter()
        .filter(|pod| pod.node.is_none() && !pod.ended())
        .count() as u64;
    let room_by = connection
        .room_by(&pod.requests, alive.max(pod.together), &load.collect())
        .await;
    Ok(StartForecast::bounded(past, room_by, facts.now))
}

/// Returns the queue of a job that Volcano schedules; `None` also where it may not be read.
async fn queue_of_volcano(connection: &Connection, job: &Job) -> Option<Queue> {
    let name = job.queue.as_deref().filter(|_| !job.queued)?;
    let served = connection.served_queueing().await.ok()?;
    let (queues, _) = connection
        .queues(&served, Some(&job.namespace))
        .await
        .ok()?;
    queues
        .into_iter()
        .find(|queue| queue.system == QueueSystem::Volcano && queue.name == name)
}

/// Returns the node of a container that was killed and not by a limit of its own: the node may have
/// run out of memory.
fn killed_on(job: &Job) -> Option<&str> {
    let killed = |pod: &&Pod| {
        pod.containers
            .iter()
            .filter_map(|one| one.terminated.as_ref())
            .any(|end| end.code == KILLED && end.reason != "OOMKilled")
    };
    job.pods.iter().find(killed)?.node.as_deref()
}

/// Returns what the logs of the pods that ended tell of their end: the first error, and the work
/// since the last checkpoint.
async fn last_words(connection: &Connection, job: &Job) -> Option<Vec<LastWord>> {
    let present = job
        .current_pods()
        .into_iter()
        .filter(|pod| pod.ended() && pod.started_at.is_some());
    let ended: Vec<Pod> = present.take(LOGS_READ).cloned().collect();
    let container = ended.first()?.own_container().to_owned();
    let query = LogQuery {
        container,
        ..LogQuery::default()
    };
    let read = tokio::time::timeout(
        LOGS_WITHIN,
        first_error(connection, &job.namespace, &ended, &query),
    )
    .await
    .ok()?;
    let mut words = Vec::new();
    if let Some(first) = read.first {
        let who = first
            .pod
            .rank
            .map_or(first.pod.name.clone(), |rank| format!("rank {rank}"));
        let more = if first.same > 0 {
            format!(" (the same on {} more)", first.same)
        } else {
            String::new()
        };
        words.push(LastWord {
            text: format!(
                "the first error in the logs, of {who}: {}{more}",
                first.error.line.trim()
            ),
            at: first.error.at,
        });
    }
    let ended_at = ended.iter().filter_map(|pod| pod.ended_at).max();
    if let Some((checkpoint, end)) = read
        .checkpoint
        .zip(ended_at)
        .filter(|(checkpoint, end)| end > checkpoint)
    {
        let minutes = u64::try_from((end.as_second() - checkpoint.as_second()) / 60).unwrap_or(0);
        let text = format!(
            "{} of work since the last line about a checkpoint",
            count(minutes, "minute")
        );
        words.push(LastWord {
            text,
            at: Some(checkpoint),
        });
    }
    Some(words)
}

async fn times(connection: &Connection, room: Option<&Room>, holder: HolderTime) -> HolderTime {
    let Some((namespace, name)) = holder.name.split_once('/') else {
        return holder;
    };
    let placed = room
        .into_iter()
        .flat_map(|room| room.placed.values().flatten())
        .filter(|pod| pod.holder == holder.name);
    let life = connection
        .life(
            namespace,
            name,
            placed.filter_map(|pod| pod.started_at).max(),
        )
        .await;
    HolderTime {
        since: life.since,
        ends_by: life.ends_by,
        ..holder
    }
}

async fn claim(connection: &Connection, namespace: &str, name: &str) -> ClaimFact {
    ClaimFact {
        name: name.to_owned(),
        state: connection.claim_state(namespace, name).await,
    }
}

/// Finds out about every job of ours that waits or is dead, those with most GPUs first.
pub(crate) async fn all(
    connection: &Connection,
    jobs: Vec<Job>,
    context: &Context,
) -> Result<Vec<Found>, Error> {
    let place = Place::of(connection).await?;
    let read = jobs.into_iter().map(|job| {
        let subject = Subject {
            kind: job.kind.word().to_owned(),
            ours: true,
        };
        found(
            connection,
            subject,
            job,
            Some(&place),
            Questions::default(),
            context,
        )
    });
    let answers = SideBySide::new(read, AT_ONCE).all().await;
    let mut found = Vec::new();
    let mut last = None;
    for answer in answers {
        match answer {
            Ok(one) => found.push(one),
            Err(error) => {
                context
                    .terminal
                    .warn(&format!("a job was left out: {error}"));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}
