//! Sends scores to external systems: asks an AI for its opinion, sends a chat message, posts to a
//! control system. No response changes a score.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
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
use gpuctl_core::stats::score::ai_question;
use gpuctl_core::stats::score::opinion;
use gpuctl_core::stats::score::opinion::{Activity, Opinion};
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::{Band, Thresholds};
use gpuctl_view::score::list::{control_body, item};
use gpuctl_view::score::message::message;

/// Asks for opinions on the devices with the lowest scores, for at most `within` altogether.
/// Devices without a score are skipped.
pub(crate) async fn ask(
    settings: &Settings,
    analysis: &mut Analysis,
    within: Option<Duration>,
    context: &Context,
) {
    let Some(plan) = &settings.ai else { return };
    let rules = analysis.rules;
    let mut asked = held_by_score(&mut analysis.devices);
    if asked.len() > plan.most {
        context.terminal.detail(&format!(
            "{} of {} GPUs are sent to the AI; --ai-max sets the limit",
            plan.most,
            asked.len()
        ));
        asked.truncate(plan.most);
    }
    let caller = match Caller::new() {
        Ok(caller) => caller,
        Err(told) => return context.terminal.warn(&format!("no opinion: {told}")),
    };
    let (total, failed) = (asked.len(), RefCell::new(Vec::new()));
    let (done, key_refused) = (Cell::new(0), Cell::new(false));
    let all = stream::iter(asked).for_each_concurrent(settings.workers, async |device| {
        let question = ai_question::question(device, &rules, plan.redact).to_string();
        // A server that rejects the key rejects it for every device.
        let asked = if key_refused.get() {
            Err(anyhow!("the API key was rejected"))
        } else {
            ask_for_opinion(plan, &caller, &question).await
        };
        match asked {
            Ok(opinion) => {
                // Only a confident opinion spares a device. Its score stays the same.
                device.spared =
                    opinion.verdict == Activity::Active && opinion.confidence >= plan.threshold;
                device.opinion = Some(opinion);
            }
            Err(told) => {
                key_refused.set(key_refused.get() || told.is::<KeyRefused>());
                failed.borrow_mut().push(told.to_string());
            }
        }
        done.set(done.get() + 1);
    });
    let within = within.unwrap_or(Duration::MAX);
    if tokio::time::timeout(within, all).await.is_err() {
        let late = (done.get()..total).map(|_| {
            format!(
                "{} did not answer within {within:?}",
                plan.ai.address.origin()
            )
        });
        failed.borrow_mut().extend(late);
    }
    let failed = failed.into_inner();
    if let Some(first) = failed.first() {
        context.terminal.warn(&format!(
            "no opinion on {} of {total} GPUs, whose scores are unchanged: {first}",
            failed.len()
        ));
    }
}

/// Selects the held devices that have a score, lowest first.
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

async fn ask_for_opinion(
    plan: &AiPlan,
    caller: &Caller,
    question: &str,
) -> anyhow::Result<Opinion> {
    let call = plan
        .ai
        .call(&ai_question::instruction(&plan.language), question);
    let patience = RetryPolicy {
        timeout: plan.timeout,
        retries: plan.retries,
        // A question has no effects, so it may be sent twice.
        repeatable: true,
    };
    let text = plan.ai.message(&caller.post(&call, patience).await?)?;
    opinion::read(&text).map_err(|error| {
        anyhow!(
            "unexpected response from the AI at {}: {error}",
            plan.ai.address.origin()
        )
    })
}

/// Sends a chat message about low devices that were not reported recently.
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
    let about = |device: &Scored| {
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
    let new: Vec<&Scored> = low
        .iter()
        .copied()
        .filter(|device| !memory.was_sent(&about(device), now, repeat))
        .collect();
    let local = analysis.at.to_zoned(TimeZone::system());
    let minute =
        u16::try_from(i32::from(local.hour()) * 60 + i32::from(local.minute())).unwrap_or(0);
    // Nothing is recorded as sent during quiet hours, so these devices are reported afterwards.
    let told: Vec<String> = if plan.quiet_hours.is_some_and(|hours| hours.contains(minute)) {
        context
            .terminal
            .detail("nothing is sent during quiet hours");
        Vec::new()
    } else if new.is_empty() {
        Vec::new()
    } else {
        let sent = send(plan, &new, analysis, context).await;
        let named = sent.map_err(|told| {
            Error::new(ErrorName::NotifyFailed, "the message was not sent").cause(told)
        })?;
        // Devices that did not fit into the message are reported in the next one.
        new.iter().take(named).map(|device| about(device)).collect()
    };
    if told.is_empty() {
        return Ok(());
    }
    if let Err(told) = memory.record(&told, now, repeat) {
        context.terminal.warn(&format!(
            "cannot remember the message, the next run will send it again: {told}"
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
    let (text, named) = message(low, threshold, robot.max_length());
    let gpus: Vec<_> = low.iter().map(|device| item(device, analysis.at)).collect();
    let payload = json!({"text": "", "timestamp": analysis.at, "threshold": threshold, "count": gpus.len(), "gpus": gpus});
    let call = robot.call(
        &plan.address,
        plan.secret.as_deref(),
        context.now().as_millisecond(),
        &text,
        payload,
    );
    let patience = RetryPolicy {
        timeout: plan.timeout,
        retries: 2,
        repeatable: false,
    };
    let answer = Caller::new()?.post(&call, patience).await?;
    robot.check_accepted(&plan.address, &answer)?;
    context.terminal.detail(&format!(
        "reported to {}: {} low GPUs",
        plan.address.origin(),
        low.len()
    ));
    Ok(named)
}

/// Posts every low device with complete data to a control system. Without `--execute`, prints what
/// it would post.
///
/// Posts nothing more once `ending` is set.
pub(crate) async fn control(
    plan: &ControlPlan,
    workers: usize,
    analysis: &Analysis,
    ending: &Cell<bool>,
    context: &Context,
) -> Result<(), Error> {
    let (certain, doubtful) = low_devices(plan, analysis);
    let shown = plan.address.origin();
    if !doubtful.is_empty() {
        context.terminal.warn(&format!(
            "{} low GPUs are skipped: their data are incomplete or shorter than the window",
            doubtful.len()
        ));
    }
    let bodies: Vec<String> = certain
        .iter()
        .map(|device| control_body(device, analysis.at))
        .collect();
    if !plan.execute {
        bodies.iter().for_each(|body| {
            context
                .terminal
                .report(&format!("would post to {shown}: {body}"));
        });
        if !bodies.is_empty() {
            context.terminal.warn(&format!(
                "nothing was posted to {shown}: --execute posts {} calls",
                bodies.len()
            ));
        }
        return Ok(());
    }
    if let Some(by) = context.read_only() {
        return Err(read_only(
            "`--execute` may reclaim GPUs, but gpuctl is in read-only mode".to_owned(),
            &by,
        ));
    }
    let total = bodies.len();
    let failed = post(plan, bodies, workers, ending).await?;
    context.terminal.note(&format!(
        "posted {} of {total} low GPUs to {shown}",
        total - failed.len()
    ));
    if failed.is_empty() {
        return Ok(());
    }
    let error = Error::new(
        ErrorName::ControlFailed,
        "some low GPUs could not be posted",
    );
    Err(failed
        .into_iter()
        // Report an error once, even if many calls failed with it.
        .collect::<BTreeSet<_>>()
        .into_iter()
        .fold(error, Error::cause))
}

/// Selects the low devices to report: those with complete data, and separately the others.
fn low_devices<'a>(
    plan: &ControlPlan,
    analysis: &'a Analysis,
) -> (Vec<&'a Scored>, Vec<&'a Scored>) {
    let Thresholds { idle, low, .. } = analysis.rules.thresholds;
    let below = if plan.idle_alone { idle } else { low };
    // Do not post serving pods by default: an idle server may get a request at any moment.
    let serves = |device: &&Scored| device.serving.is_some() && !plan.with_serving;
    let meant = |device: &&Scored| {
        device.is_low() && !serves(device) && (!plan.idle_alone || device.score.band == Band::Idle)
    };
    analysis
        .devices
        .iter()
        .filter(meant)
        .partition(|device| device.is_certain(below))
}

/// Posts the bodies concurrently. Returns the errors.
async fn post(
    plan: &ControlPlan,
    bodies: Vec<String>,
    workers: usize,
    ending: &Cell<bool>,
) -> Result<Vec<String>, Error> {
    let caller = Caller::new().map_err(|told| Error::new(ErrorName::ControlFailed, told))?;
    let patience = RetryPolicy {
        timeout: plan.timeout,
        retries: 2,
        repeatable: false,
    };
    let posted = stream::iter(bodies).map(async |body| {
        if ending.get() {
            return Err(anyhow!("not posted: the command is ending"));
        }
        let call = OutboundCall {
            address: plan.address.clone(),
            headers: plan.headers.clone(),
            body,
        };
        let answer = caller.post(&call, patience).await?;
        if (200..300).contains(&answer.code) {
            Ok(())
        } else {
            Err(anyhow!("{} answers {}", plan.address.origin(), answer.code))
        }
    });
    Ok(posted
        .buffered(workers)
        .filter_map(async |result| Some(result.err()?.to_string()))
        .collect()
        .await)
}
