//! Reads the `resources:` block of a job.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{JobResources, Rdma, Share};
use super::fields::{Fields, Located, Reader, WrittenGpuType};
use super::reference;
use super::schema_patterns::RDMA;
use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem};
use gpuctl_core::model::JobKind;
use gpuctl_core::model::values::quantity;

pub(super) fn resources(
    reader: &mut Reader,
    document: &mut Fields<'_>,
    kind: JobKind,
) -> JobResources {
    let Some(node) = document.take(reader, "resources") else {
        return JobResources::default();
    };
    let Some(mut fields) = reader.map(node, "resources", reference::RESOURCES) else {
        return JobResources::default();
    };
    let pool = fields
        .take(reader, "pool")
        .and_then(|node| reader.object_name(node, "pool"));
    let no_pool = pool.as_ref().is_some_and(|pool| pool.value == "default");
    let gpu_node = fields.take(reader, "gpu");
    let gpu = gpu_node.and_then(|node| gpu_count(reader, node));
    let gpu_type = fields
        .take(reader, "gpu-type")
        .and_then(|node| reader.gpu_type(node));
    let gpu_share = fields
        .take(reader, "gpu_share")
        .and_then(|node| share(reader, node));
    let cpu = fields
        .take(reader, "cpu")
        .and_then(|node| reader.cpu(node, "cpu"));
    let memory = fields
        .take(reader, "memory")
        .and_then(|node| reader.bytes(node, "memory"));
    let shm = fields
        .take(reader, "shm")
        .and_then(|node| reader.bytes(node, "shm"));
    shm_within_memory(reader, shm.as_ref(), memory.as_ref());
    let qos = fields.take(reader, "qos");
    let guaranteed = qos
        .and_then(|node| reader.word(node, "qos", &["guaranteed"]))
        .is_some();
    if let Some(node) = qos.filter(|_| guaranteed) {
        check_guaranteed(reader, node.at, cpu.as_ref(), memory.as_ref());
    }
    // `gpu_share` without `gpu` requests a share of one GPU.
    let gpu = if gpu_node.is_none() && gpu_share.is_some() {
        Some(1)
    } else {
        gpu
    };
    if gpu.unwrap_or(0) == 0 && gpu_node.is_none_or(|_| gpu.is_some()) {
        without_gpus(reader, gpu_type.as_ref(), gpu_share.as_ref());
    }
    let node_count = node_count(reader, &mut fields, kind);
    let rdma = network_devices(reader, &mut fields, kind);
    let exclude_nodes = fields
        .take(reader, "exclude_nodes")
        .map_or_else(Vec::new, |node| {
            let items = reader.list_or_one(node);
            items
                .into_iter()
                .filter_map(|item| Some(reader.object_name(item, "exclude_nodes")?.value))
                .collect()
        });
    fields.finish(reader);
    JobResources {
        pool: pool.filter(|_| !no_pool),
        no_pool,
        gpu: gpu.unwrap_or(0),
        gpu_at: gpu_node.map(|node| node.at),
        gpu_type,
        gpu_share,
        cpu: cpu.map(|text| text.value),
        memory: memory.map(|text| text.value),
        shm: shm.map(|text| text.value),
        guaranteed,
        rdma,
        exclude_nodes,
        node_count: node_count.unwrap_or(1),
    }
}

static RDMA_FORM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(RDMA).expect("the pattern is tested"));

/// Reads `gpu`. For a fraction or a GPU type, names the field to use instead.
fn gpu_count(reader: &mut Reader, node: &YamlNode) -> Option<u32> {
    let note = match &node.value {
        YamlValue::Scalar { text, .. } => other_gpu_field(text),
        _ => None,
    };
    let Some(note) = note else {
        return reader.whole_number(node, "gpu", 0..=1024);
    };
    let text = reader.text(node, "gpu")?.value;
    let message = format!("`gpu` must be a whole number from 0 to 1024, not `{text}`");
    reader.problems.push(Problem::error(node.at, message, note));
    None
}

fn other_gpu_field(text: &str) -> Option<String> {
    // In Slurm and SkyPilot, a value has the form TYPE:COUNT.
    if let Some((kind, count)) = text.split_once(':') {
        let count: u32 = count.parse().ok()?;
        return Some(format!("write `gpu: {count}` and `gpu-type: {kind}`"));
    }
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())?;
    (number > 0.0 && number.fract() > 0.0)
        .then(|| "`gpu_share: 0.5` requests a part of one GPU; `gpu` counts whole GPUs".to_owned())
}

/// Refuses the other GPU fields if the job has no GPUs.
fn without_gpus(
    reader: &mut Reader,
    gpu_type: Option<&Located<WrittenGpuType>>,
    gpu_share: Option<&Located<Share>>,
) {
    let requested = gpu_type
        .map(|text| ("gpu-type", text.at))
        .or(gpu_share.map(|share| ("gpu_share", share.at)));
    if let Some((name, at)) = requested {
        reader.problems.push(Problem::error(
            at,
            format!("`{name}` requires GPUs"),
            "set the number of GPUs: `gpu: 1`",
        ));
    }
}

/// Reads `node_count`, and refuses it for kinds with one pod per replica.
fn node_count(reader: &mut Reader, fields: &mut Fields<'_>, kind: JobKind) -> Option<u32> {
    if matches!(kind, JobKind::Training | JobKind::Inference) {
        fields
            .take(reader, "node_count")
            .and_then(|node| reader.whole_number(node, "node_count", 1..=10_000))
    } else {
        fields.refuse(
            reader,
            "node_count",
            &format!("`node_count` is for trainings and inference, not for `kind: {kind}`"),
            if kind == JobKind::Compute {
                "use `service.replicas`"
            } else {
                "remove it; a notebook always has one pod"
            },
        );
        None
    }
}

/// Reads `rdma`, and refuses it for kinds other than trainings.
fn network_devices(reader: &mut Reader, fields: &mut Fields<'_>, kind: JobKind) -> Option<Rdma> {
    if kind == JobKind::Training {
        fields
            .take(reader, "rdma")
            .and_then(|node| rdma(reader, node))
    } else {
        fields.refuse(
            reader,
            "rdma",
            &format!("`rdma` is for trainings, not for `kind: {kind}`"),
            "use `pod:` for other kinds",
        );
        None
    }
}

/// Reads `auto`, `NAME` or `NAME:COUNT`.
fn rdma(reader: &mut Reader, node: &YamlNode) -> Option<Rdma> {
    let text = reader.text(node, "rdma")?;
    if !RDMA_FORM.is_match(&text.value) {
        let message = format!(
            "`rdma` must be `auto` or NAME:COUNT of a node's resource, not `{}`",
            text.value
        );
        reader.problems.push(Problem::error(
            text.at,
            message,
            "use a value such as rdma/hca_shared_devices_a:1",
        ));
        return None;
    }
    if text.value == "auto" {
        return Some(Rdma::Auto);
    }
    let (name, count) = text.value.split_once(':').unwrap_or((&text.value, "1"));
    Some(Rdma::Named {
        name: name.to_owned(),
        count: count.parse().ok()?,
    })
}

/// Checks `qos: guaranteed`. The Guaranteed class of Kubernetes requires limits equal to requests
/// for CPU and memory, and the kubelet's static CPU policy pins only whole CPUs.
fn check_guaranteed(
    reader: &mut Reader,
    at: FilePosition,
    cpu: Option<&Located<String>>,
    memory: Option<&Located<String>>,
) {
    let has_whole_cpus = cpu
        .and_then(|cpu| quantity::milli(&cpu.value))
        .is_some_and(|milli| milli > 0 && milli % 1000 == 0);
    if !has_whole_cpus || memory.is_none() {
        let message = "`qos: guaranteed` requires memory and a whole number of CPUs";
        reader.problems.push(Problem::error(
            at,
            message,
            "set both, such as `cpu: 8` and `memory: 64Gi`",
        ));
    }
}

/// Refuses a `/dev/shm` that is larger than `memory`, because its content counts against the
/// container's memory limit.
fn shm_within_memory(
    reader: &mut Reader,
    shm: Option<&Located<String>>,
    memory: Option<&Located<String>>,
) {
    let (Some(shm), Some(memory)) = (shm, memory) else {
        return;
    };
    if quantity::milli(&shm.value) > quantity::milli(&memory.value) {
        let message = format!("`shm` {} is more than `memory` {}", shm.value, memory.value);
        reader.problems.push(Problem::error(
            shm.at,
            message,
            "/dev/shm counts against the memory",
        ));
    }
}

fn share(reader: &mut Reader, node: &YamlNode) -> Option<Located<Share>> {
    let text = reader.text(node, "gpu_share")?;
    let fraction = text.value.parse::<f64>().ok();
    // A fraction of a byte is a mistake, as it is in `memory`.
    let memory = quantity::has_unit(&text.value)
        && !text.value.ends_with(['n', 'u', 'm'])
        && quantity::whole(&text.value).is_some_and(|bytes| bytes > 0);
    let value = match fraction {
        Some(fraction) if fraction > 0.0 && fraction <= 1.0 => Share::Fraction(fraction),
        None if memory => Share::Memory(text.value),
        _ => {
            let message = format!(
                "`gpu_share` must be a fraction above 0 and up to 1, or an amount of GPU memory, not `{}`",
                text.value
            );
            reader.problems.push(Problem::error(
                text.at,
                message,
                "use a value such as 0.5 or 10Gi",
            ));
            return None;
        }
    };
    Some(Located { value, at: text.at })
}
