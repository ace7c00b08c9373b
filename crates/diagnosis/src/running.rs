//! Diagnoses a running job: whether it hangs and which rank its peers wait for, or whether a device
//! is slower than its peers and why.

use super::answer::{Cause, Situation};
use super::durations::time_since;
use super::facts::{Facts, RunningFacts};
use super::{bottlenecks, ranks};
use gpuctl_core::model::{Job, JobKind};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::score::peers::{Deviation, PeerReport, ThrottleReason, throttled_by};

/// Seconds for which idle GPUs may be due to a checkpoint or an evaluation that the log does not
/// mention, as of Hugging Face's Trainer with its default log level.
const UNLOGGED: f64 = 600.0;
/// After a phase and more than this number of lines, the phase may have ended.
const LINES: usize = 20;

/// Returns the problem of a running job, or `None` if it has none.
pub(super) fn causes(facts: &Facts<'_>) -> Option<(Situation, Vec<Cause>)> {
    let running = facts.running.as_ref()?;
    // Check only trainings: GPUs of a service spin while it waits for requests, and its steps may
    // stop.
    if facts.job.kind == JobKind::Training
        && let Some(cause) = stuck(facts, running)
    {
        return Some((Situation::Stuck, vec![with(cause, silence(facts))]));
    }
    let report = &running.report;
    let mut slow: Vec<Cause> = report
        .deviations
        .iter()
        .filter_map(|deviation| slower(facts.job, running, deviation))
        .collect();
    // List bottlenecks before stragglers, because they explain why a rank is slower.
    let before = slow
        .iter()
        .position(|cause| cause.word == "straggler")
        .unwrap_or(slow.len());
    slow.splice(before..before, bottlenecks::causes(facts, running));
    (!slow.is_empty()).then_some((Situation::Slow, slow))
}

/// Explains why a training makes no progress, or returns `None` if it does.
fn stuck(facts: &Facts<'_>, running: &RunningFacts) -> Option<Cause> {
    // A job that saves or evaluates does not hang, and its peers wait for it.
    let stalled = running
        .stalled(facts.now)
        .filter(|_| running.phase().is_none());
    let is_stalled = stalled.is_some();
    let moves = running.cadence.is_some() && !is_stalled;
    let report = &running.report;
    // A response may be missing because it is late, and a process that RAS gave up may no longer
    // belong to a rank. Require both before trusting RAS.
    let given_up = || {
        let report = facts.rank_answers.ras.as_ref();
        report.is_some_and(|report| !report.dead.is_empty() && !report.missing_ranks.is_empty())
    };
    if !moves
        && (is_stalled || given_up())
        && let Some(missing) = ranks::missing(facts)
    {
        return Some(ranks::with_ranks(facts, missing));
    }
    let stalled = stalled?;
    if report.sampled > 1 {
        if let Some(node) = report.silent_nodes.first() {
            let text = format!(
                "the GPUs of {node} have had no metrics for two minutes, and no rank makes progress"
            );
            return Some(
                Cause::new("node-frozen", text, "prometheus")
                    .helps("see the node", Some(format!("gpuctl describe node {node}"))),
            );
        }
        if report.spinning.len() * 2 > report.sampled {
            return Some(ranks::with_ranks(facts, hang(facts, running)));
        }
        if report.idle.len() == report.sampled && stalled > UNLOGGED {
            let text = format!(
                "its {} GPUs are idle, and it no longer logs steps",
                report.sampled
            );
            let logs = format!("gpuctl logs {} --tail 20", facts.full_name());
            return Some(
                Cause::new("silent", text, "prometheus")
                    .helps("see its last log lines", Some(logs)),
            );
        }
    }
    ranks::standstill(facts)
}

/// Returns the situation of a job without a known problem. It is unknown if some evidence
/// contradicts progress.
pub(super) fn quiet(facts: &Facts<'_>) -> Situation {
    if doubt(facts).is_some() {
        Situation::Unknown
    } else {
        Situation::Fine
    }
}

/// Describes evidence against progress that proves no cause. The text continues a sentence that
/// starts with the name of the job.
pub(super) fn doubt(facts: &Facts<'_>) -> Option<String> {
    // GPUs of a service spin while it waits for requests.
    let running = facts
        .running
        .as_ref()
        .filter(|_| facts.job.kind == JobKind::Training)?;
    if let Some(phase) = phase(facts, running) {
        return Some(phase);
    }
    if let Some(silence) = silence(facts) {
        return Some(format!(" logged {silence}; the cause is unknown"));
    }
    // Steps that continue in the log prove progress, whatever the power is.
    if running.cadence.is_some() {
        return None;
    }
    let report = &running.report;
    if report.spinning.len() * 2 > report.sampled {
        return Some(format!(
            ": {}, too little for work; its log has no steps, so it is unknown whether it makes \
             progress",
            spinning(report)
        ));
    }
    if let Some(node) = report.silent_nodes.first() {
        return Some(format!(
            ": the GPUs of {node} have had no metrics for two minutes, while others have; its log \
             has no steps, so it is unknown whether it makes progress"
        ));
    }
    let last = running.log.as_ref()?.last_at?;
    let is_quiet = facts.now.duration_since(last).as_secs_f64() > UNLOGGED;
    (is_quiet && report.sampled > 0 && report.idle.len() == report.sampled).then(|| {
        format!(
            ": its {} idle, and its last log line is {} old; it is unknown whether it makes \
             progress",
            gpus(report.sampled),
            time_since(last, facts.now)
        )
    })
}

/// Describes the phase of a training that has made no step yet or has stopped making steps.
fn phase(facts: &Facts<'_>, running: &RunningFacts) -> Option<String> {
    let phase = running.phase()?;
    let is_first_rank = running.log.as_ref().is_some_and(|log| log.phase.is_some());
    let rank = match running.blocking_device().filter(|_| !is_first_rank) {
        Some(device) => format!(": {}", ranks::rank_of(facts.job, &running.traces[device]).0),
        None => String::new(),
    };
    let duration = phase.since.map_or(String::new(), |since| {
        format!(" for {}", time_since(since, facts.now))
    });
    let doing = format!("{rank} has been {}{duration}", phase.phase.doing());
    let steps = match (running.stalled(facts.now), &running.cadence) {
        (Some(_), Some(cadence)) => {
            format!(
                "its last step was {} ago",
                time_since(cadence.last, facts.now)
            )
        }
        (None, None) if phase.lines_after <= LINES => "its log has no training step yet".to_owned(),
        _ => return None,
    };
    Some(format!("{doing} («{}»); {steps}", phase.line))
}

fn gpus(number: usize) -> String {
    match number {
        1 => "GPU is".to_owned(),
        number => format!("{number} GPUs are"),
    }
}

/// Describes how long ago a training logged its last step. Returns `None` if it makes progress or
/// logs no steps.
pub(super) fn silence(facts: &Facts<'_>) -> Option<String> {
    let running = facts
        .running
        .as_ref()
        .filter(|_| facts.job.kind == JobKind::Training)?;
    let (seconds, cadence) = (running.stalled(facts.now)?, running.cadence.as_ref()?);
    Some(format!(
        "no step for {seconds:.0} s; a step takes {:.0} s",
        cadence.seconds
    ))
}

/// Describes data that was not collected, with the command to collect it.
pub(super) fn missing_stacks_note(facts: &Facts<'_>) -> String {
    format!("rank stack traces (`{}` collects them)", stacks(facts))
}

fn with(cause: Cause, silence: Option<String>) -> Cause {
    match silence {
        Some(silence) => cause.and(silence, "logs"),
        None => cause,
    }
}

/// Describes the devices that are fully utilized with little power.
fn spinning(report: &PeerReport) -> String {
    let watts = report
        .spinning_watts
        .map_or(String::new(), |watts| format!(" at {watts:.0} W"));
    let earlier = report.earlier_watts.map_or(String::new(), |watts| {
        format!(", and drew {watts:.0} W before the last step")
    });
    format!(
        "{} of {} GPUs show full utilization{watts}{earlier}",
        report.spinning.len(),
        report.sampled
    )
}

fn hang(facts: &Facts<'_>, running: &RunningFacts) -> Cause {
    let text = format!("{}: they wait in a collective", spinning(&running.report));
    let Some(device) = running.blocking_device() else {
        return Cause::new("collective-hang", text, "prometheus")
            .helps("see the stack traces of its ranks", Some(stacks(facts)));
    };
    let (rank, place) = ranks::rank_of(facts.job, &running.traces[device]);
    let mut cause = Cause::new(
        "collective-hang",
        format!("{text} for {rank}"),
        "prometheus",
    );
    let last = |quantity| {
        running.traces[device]
            .curve(quantity)
            .last()
            .map(|point| point.value)
    };
    let numbers = [
        (last(Quantity::Utilization), "% utilization"),
        (last(Quantity::Power), "W"),
    ];
    let numbers: Vec<String> = numbers
        .into_iter()
        .filter_map(|(value, unit)| Some(format!("{:.0} {unit}", value?)))
        .collect();
    cause = cause.and(
        format!("differs: {rank} on {place}: {}", numbers.join(", ")),
        "prometheus",
    );
    if let Some((time, line)) = &running.last_line {
        cause = cause
            .and(format!("its log ends with «{}»", line.trim()), "logs")
            .when(*time);
    }
    if facts.rank_answers.places().is_empty() {
        cause.helps("see the stack traces of its ranks", Some(stacks(facts)))
    } else {
        cause
    }
}

/// Returns the command that collects the ranks' stack traces.
fn stacks(facts: &Facts<'_>) -> String {
    let (job, subject) = (facts.job, facts.subject);
    let name = if subject.is_managed {
        facts.full_name()
    } else {
        format!("{}/{}/{}", job.namespace, subject.kind, job.name)
    };
    format!("gpuctl why {name} --stacks")
}

fn slower(job: &Job, running: &RunningFacts, deviation: &Deviation) -> Option<Cause> {
    let trace = &running.traces[deviation.device];
    let (rank, place) = ranks::rank_of(job, trace);
    let percent = (deviation.value / deviation.peers.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
    let (name, unit) = match deviation.quantity {
        Quantity::Clock => ("SM clock", "MHz"),
        Quantity::TensorActive => ("tensor activity", "%"),
        Quantity::SmActive => ("SM activity", "%"),
        _ => ("power", "W"),
    };
    let numbers = format!(
        "{name} {:.0} {unit}, its peers {:.0} ({percent:+.0} %)",
        deviation.value, deviation.peers
    );
    let node = &trace.node;
    let describe = Some(format!("gpuctl describe node {node}"));
    if deviation.quantity != Quantity::Clock {
        let text = format!("{rank} on {place} differs from its peers: {numbers}");
        return Some(Cause::new("straggler", text, "prometheus").helps("see its node", describe));
    }
    // A device that is faster than its peers delays no rank.
    if percent > 0.0 {
        return None;
    }
    let (word, why) = match throttled_by(trace) {
        Some(ThrottleReason::Thermal) => ("thermal", ", thermal throttle"),
        Some(ThrottleReason::Power) => ("power-capped", ", power limit"),
        Some(ThrottleReason::Slowdown) => ("clock-throttled", ", hardware slowdown"),
        None => ("clock-throttled", ""),
    };
    Some(
        Cause::new(
            word,
            format!("{rank} on {place}: {numbers}{why}"),
            "prometheus",
        )
        .helps("see its node", describe),
    )
}
