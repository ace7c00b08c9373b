//! Gathers the facts about one job for `why`, concurrently, and passes them to the diagnosis. Facts
//! that the user may not read are omitted.

use std::collections::BTreeSet;

use futures::future::{join, join_all};

use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::observe::last_words::last_words;
use crate::observe::node_room::NodeRoom;
use crate::observe::ranks::{self, Questions};
use crate::observe::why_reads::{ApiReads, device_claims, pending_pod, waits};
use crate::observe::{peers, starts};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::{Job, Node, Queue, QueueSystem, State, Status};
use gpuctl_diagnosis::{
    Answer, ClaimFact, Facts, HolderTime, PendingPod, RankAnswers, RunningFacts, Situation,
    Subject, diagnose, waits_for_room,
};

/// A job with its diagnosis.
pub(crate) struct Found {
    pub subject: Subject,
    pub job: Job,
    pub answer: Answer,
}

/// Jobs diagnosed concurrently.
const AT_ONCE: usize = 8;

/// Gathers the facts about a job and diagnoses why it waits, failed or is slow.
pub(crate) async fn found(
    connection: &Connection,
    subject: Subject,
    job: Job,
    room: Option<&NodeRoom>,
    questions: Questions,
    context: &Context,
) -> Result<Found, Error> {
    let reads = ApiReads::of(connection, &job, room.is_none()).await?;
    let is_single = reads.room.is_some();
    let room = room
        .or(reads.room.as_ref())
        .expect("nodes come from the caller or were read");
    let devices = device_claims(connection, &job, reads.unplaced.as_ref(), &room.nodes).await;
    let is_read = reads.unplaced.as_ref().is_none_or(|pod| pod.spec.is_some());
    let mut pending = reads.unplaced.map(|pod| pending_pod(pod, &job));
    // Devices of dynamic resource allocation are compared like any other resource.
    let with_devices = pending
        .as_mut()
        .and_then(|pending| room.with_devices(&devices, &mut pending.requests));
    let room = with_devices.as_ref().unwrap_or(room);
    let (running, asked) = running(context, connection, &job, questions).await?;
    let queue = if waits(&job) {
        queue_of_volcano(connection, &job).await
    } else {
        None
    };
    let claims = claims(connection, &job, pending.as_ref()).await;
    let mut facts = Facts {
        now: context.now(),
        subject: &subject,
        job: &job,
        events: reads.events.as_deref(),
        pending,
        nodes: &room.nodes,
        // Without the pod's spec, its requests cannot be compared with the free capacity.
        room: room.room.as_ref().filter(|_| is_read),
        claims,
        devices,
        quotas: reads.quotas,
        queue,
        holders: Vec::new(),
        faults: Vec::new(),
        running,
        last_words: Vec::new(),
        asked,
    };
    let mut answer = diagnose_in_steps(&mut facts, room, context, connection).await?;
    // Forecast only for a single job: for many jobs the same history would be read again for each.
    if let (true, true, Some(pod)) = (is_single, waits_for_room(&answer), &facts.pending) {
        // Free capacity alone determines the start only without a queue, a gang and requirements
        // that were not evaluated.
        let alone = answer.not_evaluated.is_empty() && pod.group.is_none() && job.queue.is_none();
        answer.start = start(context, connection, &facts, pod, room, alone).await?;
    }
    drop(facts);
    Ok(Found {
        subject,
        job,
        answer,
    })
}

/// Reads the metrics of a running job, and queries its ranks if requested.
async fn running(
    context: &Context,
    connection: &Connection,
    job: &Job,
    questions: Questions,
) -> Result<(Option<RunningFacts>, RankAnswers), Error> {
    if State::of(job).status == Status::Running {
        let (running, asked) = join(
            peers::running(context, connection, job),
            ranks::asked(connection, job, questions),
        )
        .await;
        return Ok((running?, asked));
    }
    let mut answers = RankAnswers::default();
    if questions.ras || questions.stacks {
        answers
            .silent
            .push("its ranks: it is not running, so none was queried".to_owned());
    }
    Ok((None, answers))
}

/// Diagnoses, reads the facts that the first diagnosis needs in addition, and diagnoses again.
async fn diagnose_in_steps(
    facts: &mut Facts<'_>,
    room: &NodeRoom,
    context: &Context,
    connection: &Connection,
) -> Result<Answer, Error> {
    let mut answer = diagnose(facts);
    let held: Vec<HolderTime> = answer
        .causes
        .iter()
        .flat_map(|cause| cause.holders.clone())
        .collect();
    if !held.is_empty() {
        let room = room.room.as_ref();
        let held = held.into_iter();
        facts.holders = join_all(held.map(|holder| times(connection, room, holder))).await;
        answer = diagnose(facts);
    }
    // Logs and device errors are slow to read, so read them only for a job that has failed.
    if answer.situation == Situation::Dead {
        let (words, faults) = join(
            last_words(connection, facts.job),
            peers::faults(context, connection, facts.job),
        )
        .await;
        (facts.last_words, facts.faults) = (words.unwrap_or_default(), faults?);
        answer = diagnose(facts);
    }
    Ok(answer)
}

/// Forecasts when the job starts, from past starts and from the deadlines of running jobs.
async fn start(
    context: &Context,
    connection: &Connection,
    facts: &Facts<'_>,
    pod: &PendingPod,
    room: &NodeRoom,
    alone: bool,
) -> Result<Option<StartForecast>, Error> {
    let may_run = |node: &&Node| {
        pod.rules.unmet_label(node).is_none() && pod.rules.untolerated_taint(node).is_none()
    };
    let nodes: Vec<&Node> = room.nodes.all().iter().filter(may_run).collect();
    let names: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let waited = pod
        .created_at
        .map_or(0.0, |at| facts.now.duration_since(at).as_secs_f64());
    let past = starts::forecast(context, connection, facts.job.gpus().0, &names, waited).await?;
    // It is unknown how much of the capacity other waiting pods will take.
    let Some(room) = room
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
        .jobs()
        .room_by(&pod.requests, alive.max(pod.together), &load.collect())
        .await;
    Ok(StartForecast::bounded(past, room_by, facts.now))
}

/// Reads the Volcano queue of a job; `None` also if the user may not read it.
async fn queue_of_volcano(connection: &Connection, job: &Job) -> Option<Queue> {
    // `queued` means that Kueue decides when the job runs.
    let name = job.queue.as_deref().filter(|_| !job.queued)?;
    let served = connection.queues().served().await.ok()?;
    let (queues, _) = connection
        .queues()
        .list(&served, Some(&job.namespace))
        .await
        .ok()?;
    queues
        .into_iter()
        .find(|queue| queue.system == QueueSystem::Volcano && queue.name == name)
}

/// Adds the start time and the deadline of a job that holds capacity.
async fn times(connection: &Connection, room: Option<&Room>, holder: HolderTime) -> HolderTime {
    let Some((namespace, name)) = holder.name.split_once('/') else {
        return holder;
    };
    let placed = room
        .into_iter()
        .flat_map(|room| room.placed.values().flatten())
        .filter(|pod| pod.holder == holder.name);
    let life = connection
        .jobs()
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

/// Reads the states of the volume claims that the pending pod uses.
async fn claims(
    connection: &Connection,
    job: &Job,
    pending: Option<&PendingPod>,
) -> Vec<ClaimFact> {
    let names: BTreeSet<&str> = pending
        .into_iter()
        .flat_map(|pod| pod.rules.volume_claims())
        .collect();
    let read = async |name: &str| ClaimFact {
        name: name.to_owned(),
        state: connection.jobs().claim_state(&job.namespace, name).await,
    };
    join_all(names.into_iter().map(read)).await
}

/// Diagnoses every gpuctl job in `jobs`, sharing one read of the nodes.
pub(crate) async fn all(
    connection: &Connection,
    jobs: Vec<Job>,
    context: &Context,
) -> Result<Vec<Found>, Error> {
    let room = NodeRoom::of(connection).await?;
    let read = jobs.into_iter().map(|job| {
        let subject = Subject {
            kind: job.kind.word().to_owned(),
            ours: true,
        };
        found(
            connection,
            subject,
            job,
            Some(&room),
            Questions::default(),
            context,
        )
    });
    let answers = SideBySide::new(read, AT_ONCE).all().await;
    let mut found = Vec::new();
    // A job that cannot be read must not hide the others.
    let mut last = None;
    for answer in answers {
        match answer {
            Ok(one) => found.push(one),
            Err(error) => {
                context
                    .terminal
                    .warn(&format!("a job was skipped: {error}"));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}
