//! Renders `eff`: the GPU use of a workload, with a bar for each device and advice.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{Mebibytes, Percent, Watts};
use gpuctl_core::stats::history::gpu_hours::{Advice, GpuHours, Works};
use gpuctl_core::stats::history::part_hours::PartHours;
use gpuctl_core::stats::history::serving_hours::ServingHours;
use gpuctl_core::stats::history::top_owner::TopOwner;

use super::serving_hours::ServingHoursItem;
use crate::TextStyle;
use crate::format::coverage::rounded;
use crate::format::parts::PartHoursItem;
use crate::format::text::{blocks, clean, count};

/// The GPU use of one workload.
pub struct Efficiency {
    pub top: TopOwner,
    /// When the workload was created, if that was before the range that was read.
    pub began_before: Option<Timestamp>,
    /// When it first held a device; `to` is when it last held one.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub wait_seconds: f64,
    pub account: GpuHours,
    pub works: Works,
    pub advice: Vec<Advice>,
    /// Request metrics, if the workload is a server that exports them.
    pub serving: Option<ServingHours>,
    /// Number of samples from all devices that were dropped because their values are physically
    /// impossible.
    pub dropped: u64,
}

/// Formats advice as a kind, a sentence, and a change to the job file.
fn advice_text(advice: &Advice) -> (&'static str, String, Option<String>) {
    match advice {
        Advice::FewerGpus {
            idle,
            all: total,
            alone: only_job,
        } => {
            // Suggest a number only for a single pod, because the sum does not show how many GPUs
            // each pod needs.
            let patch = only_job.then(|| format!("resources:\n  gpu: {}\n", total - idle));
            (
                "fewer-gpus",
                format!("{idle} of {total} GPUs were idle"),
                patch,
            )
        }
        Advice::Slice { memory_peak } => {
            let gib = memory_peak.gibibytes().ceil();
            (
                "slice",
                format!(
                    "peak memory of {gib} GiB and low utilization: a GPU slice would be enough"
                ),
                Some("resources:\n  gpu: 1\n  gpu_share: 0.125\n".to_owned()),
            )
        }
        Advice::Straggler {
            device,
            power,
            others: peer_power,
        } => (
            "straggler",
            format!(
                "{device} drew {power:.0} W, its peers {peer_power:.0} W: it may slow them down"
            ),
            None,
        ),
        Advice::NoRequests { idle, held } => {
            let message = format!(
                "no requests in {idle:.1} of {held:.1} GPU-hours: use fewer replicas, or a queue-based autoscaler"
            );
            ("no-requests", message, None)
        }
        Advice::Stuck { devices, power } => {
            let message = format!(
                "{} at 100% and {power:.0} W: busy waiting, as when a rank hangs",
                count(*devices as u64, "GPU")
            );
            ("stuck", message, None)
        }
    }
}

/// The JSON output of `eff`.
#[derive(JsonSchema, Serialize)]
pub struct EfficiencyDocument<'a> {
    namespace: &'a str,
    name: &'a str,
    kind: &'a str,
    /// When the workload was created, if that was before the range that was read, so that its earlier
    /// hours are missing.
    began_before_range: Option<Timestamp>,
    /// When it first held a device.
    from: Option<Timestamp>,
    /// When it last held a device.
    to: Option<Timestamp>,
    wait_seconds: f64,
    held_gpu_hours: f64,
    used_gpu_hours: Option<f64>,
    wasted_gpu_hours: Option<f64>,
    unknown_gpu_hours: f64,
    /// Part of the held time without samples from kube-state-metrics. The same pods existed before
    /// and after.
    bridged_gpu_hours: f64,
    /// GPU-hours that its pods may have held while kube-state-metrics had no samples. Not part of
    /// the held time.
    unseen_gpu_hours: f64,
    /// In percent, from 0 to 100.
    utilization: Option<Percent>,
    energy_kwh: Option<f64>,
    /// Percentage of the held time, including parts, for which the energy was measured. The energy
    /// of parts is unknown.
    energy_coverage_percent: Option<Percent>,
    gpu_parts: Vec<PartHoursItem>,
    /// Request metrics, if it is a server that exports them.
    serving: Option<ServingHoursItem>,
    /// Percentage of the held and the unseen GPU-hours that was measured.
    coverage_percent: Option<Percent>,
    devices: Vec<DeviceItem>,
    advice: Vec<AdviceItem>,
    /// Number of samples from its devices with values outside the physically possible range.
    samples_dropped: u64,
}

#[derive(JsonSchema, Serialize)]
struct DeviceItem {
    node: String,
    device: String,
    /// In percent, from 0 to 100.
    utilization: Option<Percent>,
    memory_peak_gib: Option<f64>,
    memory_total_gib: Option<f64>,
    power_watts: Option<Watts>,
    measured_hours: f64,
    /// True if other pods use the device too, so that its values include theirs.
    shared: bool,
}

#[derive(JsonSchema, Serialize)]
struct AdviceItem {
    /// One of `fewer-gpus`, `slice`, `straggler`, `no-requests` and `stuck`.
    kind: &'static str,
    message: String,
    /// The suggested change to the job file, in YAML.
    patch: Option<String>,
}

pub fn document(efficiency: &Efficiency) -> EfficiencyDocument<'_> {
    let Efficiency {
        top,
        began_before,
        from,
        to,
        wait_seconds,
        account,
        works,
        advice,
        dropped,
        serving,
    } = efficiency;
    let gib = |memory: Mebibytes| rounded(memory.gibibytes());
    let devices = works.iter().map(|((node, device), work)| DeviceItem {
        node: node.clone(),
        device: device.to_string(),
        utilization: work.utilization().map(rounded),
        memory_peak_gib: work.memory_peak.map(gib),
        memory_total_gib: work.memory_total.map(gib),
        power_watts: work.power().map(rounded),
        measured_hours: rounded(work.seconds / 3600.0),
        shared: work.shared,
    });
    EfficiencyDocument {
        namespace: &top.namespace,
        name: &top.name,
        kind: &top.kind,
        began_before_range: *began_before,
        from: *from,
        to: *to,
        wait_seconds: wait_seconds.round(),
        held_gpu_hours: rounded(account.held),
        used_gpu_hours: account.used().map(rounded),
        wasted_gpu_hours: account.wasted().map(rounded),
        unknown_gpu_hours: rounded(account.unknown()),
        bridged_gpu_hours: rounded(account.bridged),
        unseen_gpu_hours: rounded(account.unseen),
        utilization: account.utilization().map(rounded),
        energy_kwh: account.energy.map(rounded),
        energy_coverage_percent: account.energy_coverage().map(rounded),
        gpu_parts: account.parts.iter().map(PartHoursItem::from).collect(),
        serving: serving.as_ref().map(ServingHoursItem::from),
        coverage_percent: account.covered().map(rounded),
        devices: devices.collect(),
        advice: advice
            .iter()
            .map(advice_text)
            .map(|(kind, message, patch)| AdviceItem {
                kind,
                message,
                patch,
            })
            .collect(),
        samples_dropped: *dropped,
    }
}

fn span(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the life of a job"
    )]
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0}s"),
        1..60 => format!("{minutes}m"),
        _ => format!("{}h {}m", minutes / 60, minutes % 60),
    }
}

/// Renders the line for the parts with this name.
fn part_line(name: &str, hours: &PartHours) -> String {
    let worth = hours.equivalent.map_or_else(
        || "of unknown size".to_owned(),
        |gpu_hours| format!("equal to {gpu_hours:.1} GPU-hours"),
    );
    let used_text = match hours.used().zip(hours.utilization()) {
        Some((used, Percent(utilization))) => {
            format!(", {used:.1} slice-hours used ({utilization:.0}%)")
        }
        None => String::new(),
    };
    // The used hours are those of parts, like the held ones, and not GPU-hours.
    format!(
        "  {}   {:.1} slice-hours held, {worth}{used_text}\n",
        clean(name),
        hours.held
    )
}

pub fn text(efficiency: &Efficiency, style: TextStyle) -> String {
    let mut text = format!(
        "{}\n{}\n",
        heading(efficiency),
        hours_line(&efficiency.account)
    );
    for (name, hours) in &efficiency.account.parts {
        text.push_str(&part_line(name, hours));
    }
    if let Some(serving) = &efficiency.serving {
        text.push_str(&serving_line(serving));
    }
    text.push_str(&device_lines(&efficiency.works, style));
    for (_, message, patch) in efficiency.advice.iter().map(advice_text) {
        text.push_str(&format!("  advice  {}\n", clean(&message)));
        for line in patch.iter().flat_map(|patch| patch.lines()) {
            text.push_str(&format!("          {line}\n"));
        }
    }
    let share = efficiency
        .account
        .covered()
        .map_or(0.0, |Percent(share)| share);
    let dropped = if efficiency.dropped > 0 {
        format!(" ({} dropped)", count(efficiency.dropped, "sample"))
    } else {
        String::new()
    };
    text.push_str(&format!(
        "  based on {share:.0}% of the GPU-hours, {}{dropped}\n",
        count(efficiency.works.len() as u64, "GPU")
    ));
    text
}

fn heading(efficiency: &Efficiency) -> String {
    let ran = efficiency.from.zip(efficiency.to).map_or_else(
        || "never ran".to_owned(),
        |(from, to)| {
            format!(
                "held GPUs for {}",
                span(to.duration_since(from).as_secs_f64())
            )
        },
    );
    clean(&format!(
        "{}/{}   {}   {ran}, waited {}",
        efficiency.top.namespace,
        efficiency.top.name,
        efficiency.top.kind,
        span(efficiency.wait_seconds)
    ))
    .into_owned()
}

/// Renders the GPU-hours and energy on one line.
fn hours_line(account: &GpuHours) -> String {
    let mut text = format!("  GPU-hours   {:.1} held", account.held);
    if let Some((used, wasted)) = account
        .used()
        .zip(account.wasted())
        .filter(|_| account.held > 0.0)
    {
        text.push_str(&format!(", {used:.1} used, {wasted:.1} wasted"));
    }
    // Omit smaller values, which would be rounded to 0.0.
    if account.unknown() >= 0.05 {
        text.push_str(&format!(", {:.1} not measured", account.unknown()));
    }
    if account.bridged >= 0.05 {
        text.push_str(&format!(", {:.1} bridged", account.bridged));
    }
    if account.unseen >= 0.05 {
        text.push_str(&format!("; up to {:.1} more unseen", account.unseen));
    }
    if let Some(energy) = account.energy {
        text.push_str(&format!("   energy {energy:.1} kWh"));
        if let Some(Percent(share)) = account.partial_energy() {
            text.push_str(&format!(" of {share:.0}% of the held time"));
        }
    }
    text
}

fn serving_line(serving: &ServingHours) -> String {
    let rate = serving
        .tokens_per_gpu_hour()
        .map_or(String::new(), |rate| format!(", {rate:.0} per GPU-hour"));
    format!(
        "  requests    {:.0} tokens generated{rate}; \
         no requests in {:.1} of {:.1} GPU-hours\n",
        serving.generated_tokens, serving.idle, serving.held
    )
}

/// Renders a line with a bar for each device.
fn device_lines(works: &Works, style: TextStyle) -> String {
    let width = works
        .keys()
        .map(|(node, device)| node.len() + device.to_string().len() + 1)
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for ((node, device), work) in works {
        let name = clean(&format!("{node}/{device}")).into_owned();
        let bar = work.utilization().map_or_else(
            || format!("{:20}    -", ""),
            |value| format!("{} {value:>4.0}%", blocks(value, 20, style)),
        );
        let total = work.memory_total.map_or(String::new(), |total| {
            format!(" of {:.0}", total.gibibytes())
        });
        let memory = work.memory_peak.map_or_else(
            || "-".to_owned(),
            |peak| format!("{:.1}{total} GiB", peak.gibibytes()),
        );
        let shared = if work.shared {
            "   shared: the values include other pods"
        } else {
            ""
        };
        text.push_str(&format!(
            "  {name:<width$}  {bar}   memory {memory}{shared}\n"
        ));
    }
    text
}
