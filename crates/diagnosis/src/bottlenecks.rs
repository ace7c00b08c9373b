//! Finds bottlenecks other than the GPUs: a link with errors, a network port that is down, or CPU
//! throttling while GPUs wait.

use super::answer::Cause;
use super::facts::{Facts, RunningFacts};
use super::ranks::rank_of;
use super::refused;
use gpuctl_core::model::DeviceId;
use gpuctl_core::model::facts::state::pod_name;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::score::bottlenecks::{LinkErrors, PortFault};

/// Utilization in percent above which a GPU counts as busy, so that it is not waiting for the CPU.
const BUSY: f64 = 90.0;
/// Maximum number of further links or pods listed in the evidence.
const NAMED: usize = 3;

/// Returns the causes for the job's bottlenecks, the worst of each kind first.
pub(super) fn causes(facts: &Facts<'_>, running: &RunningFacts) -> Vec<Cause> {
    let Some(bottlenecks) = &running.bottlenecks else {
        return Vec::new();
    };
    let describe = |node: &str| Some(format!("gpuctl describe node {node}"));
    let mut causes = Vec::new();
    if let Some((first, more)) = bottlenecks.ports.split_first() {
        let cause = Cause::new("nic", port(first), "prometheus")
            .helps("see its node", describe(&first.node));
        causes.push(more.iter().take(NAMED).fold(cause, |cause, bottleneck| {
            cause.and(port(bottleneck), "prometheus")
        }));
    }
    if let Some((first, more)) = bottlenecks.links.split_first() {
        let cause = Cause::new("link-errors", link(facts, running, first), "prometheus");
        let cause = more.iter().take(NAMED).fold(cause, |cause, bottleneck| {
            cause.and(link(facts, running, bottleneck), "prometheus")
        });
        causes.push(cause.helps("see its node", describe(&first.node)));
    }
    let waits = |pod: &str| utilization(running, pod).filter(|percent| *percent < BUSY);
    let mut held = bottlenecks
        .withheld
        .iter()
        .filter_map(|(pod, share)| Some((pod, share * 100.0, waits(pod)?)));
    if let Some((pod, percent, utilization)) = held.next() {
        let pods = facts
            .job
            .pods
            .iter()
            .find(|bottleneck| bottleneck.name == *pod)
            .map_or_else(|| pod.clone(), pod_name);
        let limit = facts
            .job
            .cpu
            .as_deref()
            .map_or(String::new(), |limit| format!(" of {limit}"));
        let text = format!(
            "its CPU limit{limit} throttled {pods} in {percent:.0} % of the CPU periods within ten minutes, and its GPUs are at {utilization:.0} % utilization"
        );
        let more = held.count();
        let cause = Cause::new("cpu-starved", text, "prometheus").helps(
            "raise its CPU limit",
            Some(refused::set(facts, "resources.cpu=AMOUNT")),
        );
        let ranks = if more == 1 {
            "1 further rank"
        } else {
            &format!("{more} further ranks")
        };
        causes.push(if more > 0 {
            cause.and(format!("the same is true of {ranks}"), "prometheus")
        } else {
            cause
        });
    }
    causes
}

fn port(fault: &PortFault) -> String {
    let PortFault {
        node,
        port,
        failures,
    } = fault;
    match failures {
        None => format!("network port {port} on {node} is down, but active on its peers"),
        Some(times) => format!(
            "network port {port} on {node} lost its link {times:.0} times within ten minutes"
        ),
    }
}

fn link(facts: &Facts<'_>, running: &RunningFacts, errors: &LinkErrors) -> String {
    let device = DeviceId::whole(errors.index);
    let trace = running
        .traces
        .iter()
        .find(|trace| trace.node == errors.node && trace.id() == device);
    let rank = trace.map_or("a pod".to_owned(), |trace| rank_of(facts.job, trace).0);
    format!(
        "{rank} on {}/{device}: {:.0} {} within ten minutes",
        errors.node, errors.errors, errors.what
    )
}

/// Returns the mean utilization of a pod's devices in percent, or `None` without samples.
fn utilization(running: &RunningFacts, pod: &str) -> Option<f64> {
    let traces = running
        .traces
        .iter()
        .filter(|trace| trace.pods.iter().any(|(_, name)| name == pod));
    let values: Vec<f64> = traces
        .flat_map(|trace| trace.curve(Quantity::Utilization))
        .map(|point| point.value)
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
