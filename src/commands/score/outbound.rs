//! Sends scores to external systems: an AI for its opinion, a chat, and a control system. Their
//! responses do not change scores.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::anyhow;
use futures::stream::{self, StreamExt};
use jiff::tz::TimeZone;
use serde_json::json;

use crate::commands::score::analysis::Analysis;
use crate::commands::score::settings::{AiPlan, ControlPlan, NotifyPlan, Settings};
use crate::config::state_folder;
use crate::context::Context;
use crate::outbound::ai::KeyRefused;
use crate::outbound::chat::Robot;
use crate::outbound::sent_messages::SentMessages;
use crate::outbound::{Caller, OutboundCall, RetryPolicy};
use gpuctl_cluster::read_only;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::facts::reading::PodKey;
use gpuctl_core::stats::score::ai_question;
use gpuctl_core::stats::score::opinion;
use gpuctl_core::stats::score::opinion::{Activity, Opinion};
use gpuctl_core::stats::score::pod_devices::{PodDeviceCount, devices_by_pod};
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::Band;
use gpuctl_view::score::list::{control_body, item};
use gpuctl_view::score::message::message;

/// Asks the AI about the devices with the lowest scores, for at most `timeout` in total. Skips
/// devices without a score.
pub(crate) async fn add_opinions(
    settings: &Settings,
    analysis: &mut Analysis,
    timeout: Option<Duration>,
    context: &Context,
) {
    let Some(plan) = &settings.ai else { return };
    let rules = analysis.rules;
    let mut devices = held_by_score(&mut analysis.devices);
    if devices.len() > plan.max_devices {
        context.terminal.detail(&format!(
            "{} of {} GPUs are sent to the AI; --ai-max sets the limit",
            plan.max_devices,
            devices.len()
        ));
        devices.truncate(plan.max_devices);
    }
    let caller = match Caller::new() {
        Ok(caller) => caller,
        Err(error) => return context.terminal.warn(&format!("no opinion: {error}")),
    };
    let (total, failures) = (devices.len(), RefCell::new(Vec::new()));
    let (done, key_refused) = (Cell::new(0), Cell::new(false));
    let requests = stream::iter(devices).for_each_concurrent(settings.workers, async |device| {
        let prompt = ai_question::question(device, &rules, plan.redact).to_string();
        // A rejected key is rejected for every device.
        let answer = if key_refused.get() {
            Err(anyhow!("the API key was rejected"))
        } else {
            ask_for_opinion(plan, &caller, &prompt).await
        };
        match answer {
            Ok(opinion) => {
                // A confident opinion only spares a device from reports. The score does not change.
                device.spared =
                    opinion.verdict == Activity::Active && opinion.confidence >= plan.threshold;
                device.opinion = Some(opinion);
            }
            Err(error) => {
                key_refused.set(key_refused.get() || error.is::<KeyRefused>());
                failures.borrow_mut().push(error.to_string());
            }
        }
        done.set(done.get() + 1);
    });
    let timeout = timeout.unwrap_or(Duration::MAX);
    if tokio::time::timeout(timeout, requests).await.is_err() {
        let unanswered = (done.get()..total).map(|_| {
            format!(
                "{} did not respond within {timeout:?}",
                plan.ai.address.origin()
            )
        });
        failures.borrow_mut().extend(unanswered);
    }
    let failures = failures.into_inner();
    if let Some(first) = failures.first() {
        context.terminal.warn(&format!(
            "the AI gave no opinion on {} of {total} GPUs, whose scores are unchanged: {first}",
            failures.len()
        ));
    }
}

/// Held devices with a score, in increasing order of score.
fn held_by_score(devices: &mut [Scored]) -> Vec<&mut Scored> {
    let mut held: Vec<&mut Scored> = devices
        .iter_mut()
        .filter(|device| device.reading.held == Some(true) && device.score.band != Band::Unknown)
        .collect();
    held.sort_by(|a, b| {
        a.score
            .value
            .unwrap_or(f64::MAX)
            .total_cmp(&b.score.value.unwrap_or(f64::MAX))
    });
    held
}

async fn ask_for_opinion(plan: &AiPlan, caller: &Caller, prompt: &str) -> anyhow::Result<Opinion> {
    let request = plan
        .ai
        .call(&ai_question::instruction(&plan.language), prompt);
    let retry_policy = RetryPolicy {
        timeout: plan.timeout,
        retries: plan.retries,
        // A question has no side effects, so it may be sent twice.
        repeatable: true,
    };
    let text = plan
        .ai
        .message(&caller.post(&request, retry_policy).await?)?;
    opinion::read(&text).map_err(|error| {
        anyhow!(
            "unexpected response from the AI at {}: {error}",
            plan.ai.address.origin()
        )
    })
}

/// Sends a chat message about low-scoring devices that were not reported recently.
pub(crate) async fn notify(
    plan: &NotifyPlan,
    memory: &mut Option<SentMessages>,
    analysis: &Analysis,
    context: &Context,
) -> Result<(), Error> {
    let low: Vec<&Scored> = analysis
        .devices
        .iter()
        .filter(|device| device.is_low())
        .collect();
    let key = |device: &Scored| {
        let (namespace, pod) = device.holder();
        format!(
            "{} {}/{}",
            device.id().unwrap_or_default(),
            namespace.unwrap_or_default(),
            pod.unwrap_or_default()
        )
    };
    let (now, repeat) = (
        analysis.at.as_second(),
        i64::try_from(plan.repeat.as_secs()).unwrap_or(i64::MAX),
    );
    let memory =
        memory.get_or_insert_with(|| SentMessages::open(&plan.address, state_folder().as_deref()));
    let unreported: Vec<&Scored> = low
        .iter()
        .copied()
        .filter(|device| !memory.was_sent(&key(device), now, repeat))
        .collect();
    let local_time = analysis.at.to_zoned(TimeZone::system());
    let minute = u16::try_from(i32::from(local_time.hour()) * 60 + i32::from(local_time.minute()))
        .unwrap_or(0);
    // During quiet hours, devices are not recorded as reported, so that a later message includes
    // them.
    let sent_keys: Vec<String> = if plan.quiet_hours.is_some_and(|hours| hours.contains(minute)) {
        context
            .terminal
            .detail("nothing is sent during quiet hours");
        Vec::new()
    } else if unreported.is_empty() {
        Vec::new()
    } else {
        let result = send(plan, &unreported, analysis, context).await;
        let named_count = result.map_err(|error| {
            Error::new(ErrorName::NotifyFailed, "the message was not sent").cause(error)
        })?;
        // The next message includes devices that did not fit.
        unreported
            .iter()
            .take(named_count)
            .map(|device| key(device))
            .collect()
    };
    if sent_keys.is_empty() {
        return Ok(());
    }
    if let Err(error) = memory.record(&sent_keys, now, repeat) {
        context.terminal.warn(&format!(
            "cannot record the message as sent, so the next run will send it again: {error}"
        ));
    }
    Ok(())
}

async fn send(
    plan: &NotifyPlan,
    low: &[&Scored],
    analysis: &Analysis,
    context: &Context,
) -> anyhow::Result<usize> {
    let robot = Robot::from_setting(&plan.format, &plan.address);
    let threshold = analysis.rules.thresholds.low;
    let (text, named_count) = message(low, threshold, robot.max_length());
    let gpus: Vec<_> = low.iter().map(|device| item(device, analysis.at)).collect();
    let payload = json!({"text": "", "timestamp": analysis.at, "threshold": threshold, "count": gpus.len(), "gpus": gpus});
    let request = robot.call(
        &plan.address,
        plan.secret.as_deref(),
        context.now().as_millisecond(),
        &text,
        payload,
    );
    let retry_policy = RetryPolicy {
        timeout: plan.timeout,
        retries: 2,
        repeatable: false,
    };
    let response = Caller::new()?.post(&request, retry_policy).await?;
    robot.check_accepted(&plan.address, &response)?;
    context.terminal.detail(&format!(
        "reported to {}: {} low GPUs",
        plan.address.origin(),
        low.len()
    ));
    Ok(named_count)
}

/// Posts low-scoring devices with complete data to a control system. Without `--execute`, prints
/// the posts instead. Stops once `is_ending` is set.
pub(crate) async fn control(
    plan: &ControlPlan,
    workers: usize,
    analysis: &Analysis,
    is_ending: &Cell<bool>,
    context: &Context,
) -> Result<(), Error> {
    let pods = counted_pods(plan, analysis);
    let low = low_devices(plan, analysis, &pods);
    let shown_address = plan.address.origin();
    warn_of_skipped(&low, context);
    let bodies: Vec<String> = low
        .complete
        .iter()
        .map(|device| {
            let pod = device.reading.holders.first();
            let count = pod.and_then(|pod| pods.get(pod)).copied();
            control_body(device, count.unwrap_or_default(), analysis.at)
        })
        .collect();
    if !plan.execute {
        bodies.iter().for_each(|body| {
            context
                .terminal
                .report(&format!("would post to {shown_address}: {body}"));
        });
        if !bodies.is_empty() {
            context.terminal.warn(&format!(
                "nothing was posted to {shown_address}: use --execute to post {} calls",
                bodies.len()
            ));
        }
        return Ok(());
    }
    if let Some(read_only_reason) = context.read_only() {
        return Err(read_only(
            "`--execute` may reclaim GPUs, but gpuctl is in read-only mode".to_owned(),
            &read_only_reason,
        ));
    }
    let total = bodies.len();
    let failed = post(plan, bodies, workers, is_ending).await?;
    context.terminal.note(&format!(
        "posted {} of {total} low GPUs to {shown_address}",
        total - failed.len()
    ));
    if failed.is_empty() {
        return Ok(());
    }
    let error = Error::new(ErrorName::ControlFailed, "failed to post some low GPUs");
    Err(failed
        .into_iter()
        // Report an error that many calls share only once.
        .collect::<BTreeSet<_>>()
        .into_iter()
        .fold(error, Error::cause))
}

/// Low devices that a control system may reclaim, and those that it may not.
struct LowDevices<'a> {
    complete: Vec<&'a Scored>,
    incomplete: usize,
    /// Devices of pods with other devices that do not qualify.
    partial: usize,
}

fn warn_of_skipped(low: &LowDevices<'_>, context: &Context) {
    let warn = |devices: usize, reason: &str| {
        if devices > 0 {
            let message = format!("{devices} low GPUs were skipped: {reason}");
            context.terminal.warn(&message);
        }
    };
    let reason = "their data is incomplete or covers less than the window";
    warn(low.incomplete, reason);
    let reason = "their pods use other GPUs, or have others that do not qualify \
                  (--control-partial posts them)";
    warn(low.partial, reason);
}

/// Selects devices to reclaim, whether or not their scores are certain.
/// Excludes serving pods by default: an idle server may receive a request at any moment.
fn is_selected(plan: &ControlPlan, device: &Scored) -> bool {
    let is_serving = device.serving.is_some() && !plan.with_serving;
    device.is_low() && !is_serving && (!plan.only_idle || device.score.band == Band::Idle)
}

/// Counts the devices of each pod, and those that the control system may reclaim.
fn counted_pods<'a>(
    plan: &ControlPlan,
    analysis: &'a Analysis,
) -> BTreeMap<&'a PodKey, PodDeviceCount> {
    let limit = plan.limit(&analysis.rules.thresholds);
    devices_by_pod(&analysis.devices, &analysis.held, |device| {
        is_selected(plan, device) && device.is_certain(limit)
    })
}

/// Selects low-scoring devices. A control system may end the whole pod, so a pod is excluded by
/// default if one of its devices does not qualify.
fn low_devices<'a>(
    plan: &ControlPlan,
    analysis: &'a Analysis,
    pods: &BTreeMap<&PodKey, PodDeviceCount>,
) -> LowDevices<'a> {
    let limit = plan.limit(&analysis.rules.thresholds);
    let uses_others = |device: &&Scored| {
        let mut counts = device.reading.holders.iter().map(|pod| pods.get(pod));
        let is_actionable = |count: &PodDeviceCount| count.is_actionable();
        !plan.with_partial && !counts.all(|count| count.is_some_and(is_actionable))
    };
    let (complete, incomplete): (Vec<&Scored>, Vec<&Scored>) = analysis
        .devices
        .iter()
        .filter(|device| is_selected(plan, device))
        .partition(|device| device.is_certain(limit));
    let (partial, complete): (Vec<&Scored>, Vec<&Scored>) =
        complete.into_iter().partition(uses_others);
    LowDevices {
        complete,
        incomplete: incomplete.len(),
        partial: partial.len(),
    }
}

/// Posts the bodies concurrently and returns the errors.
async fn post(
    plan: &ControlPlan,
    bodies: Vec<String>,
    workers: usize,
    is_ending: &Cell<bool>,
) -> Result<Vec<String>, Error> {
    let caller = Caller::new().map_err(|error| Error::new(ErrorName::ControlFailed, error))?;
    let retry_policy = RetryPolicy {
        timeout: plan.timeout,
        retries: 2,
        repeatable: false,
    };
    let responses = stream::iter(bodies).map(async |body| {
        if is_ending.get() {
            return Err(anyhow!("not posted: the command is shutting down"));
        }
        let request = OutboundCall {
            address: plan.address.clone(),
            headers: plan.headers.clone(),
            body,
        };
        let response = caller.post(&request, retry_policy).await?;
        if (200..300).contains(&response.code) {
            Ok(())
        } else {
            Err(anyhow!(
                "{} returned {}",
                plan.address.origin(),
                response.code
            ))
        }
    });
    Ok(responses
        .buffered(workers)
        .filter_map(async |result| Some(result.err()?.to_string()))
        .collect()
        .await)
}
