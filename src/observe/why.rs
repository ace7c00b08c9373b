//! Reads the facts about a job for `why` concurrently and diagnoses them. Omits facts that the user
//! may not read.

use std::collections::BTreeSet;

use futures::future::{join, join_all};

use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::observe::log_evidence::log_evidence;
use crate::observe::node_capacity::NodeCapacity;
use crate::observe::ranks::{self, RankQueries};
use crate::observe::why_reads::{ApiReads, device_claims, has_unscheduled_pod, pending_pod};
use crate::observe::{peers, starts};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::{Job, Node, Queue, QueueSystem, State, Status};
use gpuctl_diagnosis::{
    Answer, ClaimFact, Facts, HolderTime, PendingPod, RankAnswers, RunningFacts, Situation,
    Subject, diagnose, waits_for_capacity,
};

/// A job with its diagnosis.
pub(crate) struct DiagnosedJob {
    pub subject: Subject,
    pub job: Job,
    pub answer: Answer,
}

impl DiagnosedJob {
    /// Whether both are about the same object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let key = |diagnosed: &Self| {
            let Self { subject, job, .. } = diagnosed;
            (
                subject.kind.clone(),
                job.namespace.clone(),
                job.name.clone(),
            )
        };
        key(self) == key(other)
    }
}

/// Number of jobs to diagnose concurrently.
const MAX_CONCURRENT: usize = 8;

/// Diagnoses why a job waits, failed or is slow.
pub(crate) async fn diagnose_job(
    connection: &Connection,
    subject: Subject,
    job: Job,
    capacity: Option<&NodeCapacity>,
    queries: RankQueries,
    context: &Context,
) -> Result<DiagnosedJob, Error> {
    let reads = ApiReads::read(connection, &job, capacity.is_none()).await?;
    let is_single = reads.capacity.is_some();
    let capacity = capacity
        .or(reads.capacity.as_ref())
        .expect("nodes come from the caller or were read");
    let devices = device_claims(connection, &job, reads.unplaced.as_ref(), &capacity.nodes).await;
    let has_spec = reads.unplaced.as_ref().is_none_or(|pod| pod.spec.is_some());
    let mut pending = reads.unplaced.map(|pod| pending_pod(pod, &job));
    // Devices from dynamic resource allocation count as another resource of the nodes.
    let with_devices = pending
        .as_mut()
        .and_then(|pending| capacity.with_devices(&devices, &mut pending.requests));
    let capacity = with_devices.as_ref().unwrap_or(capacity);
    let (running, rank_answers) = running(context, connection, &job, queries).await?;
    let queue = if has_unscheduled_pod(&job) {
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
        nodes: &capacity.nodes,
        // Without its spec, the pod's requests cannot be compared with the free capacity.
        capacity: capacity.free_resources.as_ref().filter(|_| has_spec),
        claims,
        devices,
        quotas: reads.quotas,
        queue,
        namespace_terminating: reads.namespace_terminating,
        holders: Vec::new(),
        faults: Vec::new(),
        running,
        last_messages: Vec::new(),
        rank_answers,
    };
    let mut answer = diagnose_in_steps(&mut facts, capacity, context, connection).await?;
    // Forecast only a single job: each job of a list would read the same history again.
    if let (true, true, Some(pod)) = (is_single, waits_for_capacity(&answer), &facts.pending) {
        // Free capacity alone determines the start only without a queue, a gang or requirements
        // that were not evaluated.
        let is_unconstrained =
            answer.not_evaluated.is_empty() && pod.group.is_none() && job.queue.is_none();
        answer.start =
            forecast_start(context, connection, &facts, pod, capacity, is_unconstrained).await?;
    }
    drop(facts);
    Ok(DiagnosedJob {
        subject,
        job,
        answer,
    })
}

/// Reads the metrics of a running job and, if requested, queries its ranks.
async fn running(
    context: &Context,
    connection: &Connection,
    job: &Job,
    queries: RankQueries,
) -> Result<(Option<RunningFacts>, RankAnswers), Error> {
    if State::from_job(job).status == Status::Running {
        let (running, rank_answers) = join(
            peers::running(context, connection, job),
            ranks::query_ranks(connection, job, queries),
        )
        .await;
        return Ok((running?, rank_answers));
    }
    let mut answers = RankAnswers::default();
    if queries.ras || queries.stacks {
        answers
            .silent
            .push("its ranks: it is not running, so none were queried".to_owned());
    }
    Ok((None, answers))
}

/// Diagnoses the job, reads the further facts that the answer needs, and diagnoses it again.
async fn diagnose_in_steps(
    facts: &mut Facts<'_>,
    capacity: &NodeCapacity,
    context: &Context,
    connection: &Connection,
) -> Result<Answer, Error> {
    let mut answer = diagnose(facts);
    let holders: Vec<HolderTime> = answer
        .causes
        .iter()
        .flat_map(|cause| cause.holders.clone())
        .collect();
    if !holders.is_empty() {
        let capacity = capacity.free_resources.as_ref();
        let holders = holders.into_iter();
        facts.holders =
            join_all(holders.map(|holder| add_times(connection, capacity, holder))).await;
        answer = diagnose(facts);
    }
    // Logs and device errors take long to read, so read them only for failed jobs.
    if answer.situation == Situation::Dead {
        let (log_evidence, faults) = join(
            log_evidence(connection, facts.job),
            peers::faults(context, connection, facts.job),
        )
        .await;
        (facts.last_messages, facts.faults) = (log_evidence.unwrap_or_default(), faults?);
        answer = diagnose(facts);
    }
    Ok(answer)
}

/// Forecasts the start of a job from past starts and from the deadlines of running jobs.
async fn forecast_start(
    context: &Context,
    connection: &Connection,
    facts: &Facts<'_>,
    pod: &PendingPod,
    capacity: &NodeCapacity,
    is_unconstrained: bool,
) -> Result<Option<StartForecast>, Error> {
    let may_run = |node: &&Node| {
        pod.rules.unmet_label(node).is_none() && pod.rules.untolerated_taint(node).is_none()
    };
    let nodes: Vec<&Node> = capacity.nodes.all().iter().filter(may_run).collect();
    let names: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let waited = pod
        .created_at
        .map_or(0.0, |at| facts.now.duration_since(at).as_secs_f64());
    let forecast =
        starts::forecast(context, connection, facts.job.gpus().0, &names, waited).await?;
    // Do not estimate from free capacity that other waiting pods may take first.
    let Some(capacity) = capacity
        .free_resources
        .as_ref()
        .filter(|capacity| is_unconstrained && !capacity.has_rivals(&facts.full_name(), &nodes))
    else {
        return Ok(forecast);
    };
    let schedulable = nodes.into_iter().filter(|node| node.schedulable);
    let load = schedulable.filter_map(|node| {
        let placed = capacity.placed.get(&node.name).cloned().unwrap_or_default();
        Some((
            node.name.clone(),
            (capacity.free.get(&node.name)?.clone(), placed),
        ))
    });
    let pending_pods = facts
        .job
        .current_pods()
        .into_iter()
        .filter(|pod| pod.node.is_none() && !pod.ended())
        .count() as u64;
    let room_by = connection
        .jobs()
        .capacity_by(
            &pod.requests,
            pending_pods.max(pod.together),
            &load.collect(),
        )
        .await;
    Ok(StartForecast::bounded(forecast, room_by, facts.now))
}

/// Reads the job's Volcano queue, or returns `None` if the user may not read it.
async fn queue_of_volcano(connection: &Connection, job: &Job) -> Option<Queue> {
    // `queued` jobs are admitted by Kueue.
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

/// Adds the start time and deadline of a job that holds capacity.
async fn add_times(
    connection: &Connection,
    free_resources: Option<&ClusterCapacity>,
    holder: HolderTime,
) -> HolderTime {
    let Some((namespace, name)) = holder.name.split_once('/') else {
        return holder;
    };
    let placed = free_resources
        .into_iter()
        .flat_map(|free_resources| free_resources.placed.values().flatten())
        .filter(|pod| pod.holder == holder.name);
    let lifetime = connection
        .jobs()
        .lifetime(
            namespace,
            name,
            placed.filter_map(|pod| pod.started_at).max(),
        )
        .await;
    HolderTime {
        since: lifetime.since,
        ends_by: lifetime.ends_by,
        ..holder
    }
}

/// Reads the state of the pending pod's volume claims.
async fn claims(
    connection: &Connection,
    job: &Job,
    pending: Option<&PendingPod>,
) -> Vec<ClaimFact> {
    let names: BTreeSet<&str> = pending
        .into_iter()
        .flat_map(|pod| pod.rules.volume_claims())
        .collect();
    let read_claim = async |name: &str| ClaimFact {
        name: name.to_owned(),
        state: connection.jobs().claim_state(&job.namespace, name).await,
    };
    join_all(names.into_iter().map(read_claim)).await
}

/// Diagnoses several gpuctl jobs, reading the nodes only once. Queries the ranks of running jobs if
/// requested.
pub(crate) async fn diagnose_all(
    connection: &Connection,
    jobs: Vec<Job>,
    queries: RankQueries,
    context: &Context,
) -> Result<Vec<DiagnosedJob>, Error> {
    let with_subject = |job: Job| {
        let subject = Subject {
            kind: job.kind.word().to_owned(),
            is_managed: true,
        };
        (subject, job)
    };
    let jobs = jobs.into_iter().map(with_subject).collect();
    diagnose_subjects(connection, jobs, queries, context).await
}

/// Diagnoses several jobs and other workloads, reading the nodes only once.
pub(crate) async fn diagnose_subjects(
    connection: &Connection,
    jobs: Vec<(Subject, Job)>,
    queries: RankQueries,
    context: &Context,
) -> Result<Vec<DiagnosedJob>, Error> {
    let capacity = NodeCapacity::read(connection).await?;
    let diagnoses = jobs.into_iter().map(|(subject, job)| {
        diagnose_job(connection, subject, job, Some(&capacity), queries, context)
    });
    let answers = OrderedConcurrent::new(diagnoses, MAX_CONCURRENT)
        .all()
        .await;
    let mut diagnosed_jobs = Vec::new();
    // Show the other jobs even if one job cannot be read.
    let mut last_error = None;
    for answer in answers {
        match answer {
            Ok(diagnosed) => diagnosed_jobs.push(diagnosed),
            Err(error) => {
                context
                    .terminal
                    .warn(&format!("a job was skipped: {error}"));
                last_error = Some(error);
            }
        }
    }
    match last_error {
        Some(error) if diagnosed_jobs.is_empty() => Err(error),
        _ => Ok(diagnosed_jobs),
    }
}
