//! Reads the `service:` and `autoscaling:` blocks.

use std::time::Duration;

use super::document::JobResources;
use super::fields::{Fields, Reader};
use super::reference;
use super::service_document::{Autoscaling, HealthCheck, Service};
use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem};

/// Longest stabilization window that the API server accepts (`stabilizationWindowSeconds` in
/// autoscaling/v2).
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

pub(super) fn service(
    reader: &mut Reader,
    document: &mut Fields<'_>,
    port_needed: bool,
) -> Option<Service> {
    let node = if port_needed {
        document.need(
            reader,
            "service",
            "it needs at least `port:`, the port that the program listens on",
        )?
    } else {
        document.take(reader, "service")?
    };
    let mut fields = reader.map(node, "service", reference::SERVICE)?;
    let replicas = fields
        .take(reader, "replicas")
        .and_then(|node| reader.whole_number(node, "replicas", 0..=10_000));
    let port = if port_needed {
        fields.need(reader, "port", "the port that the program listens on")
    } else {
        fields.take(reader, "port")
    };
    let port = port.and_then(|node| self::port(reader, node, "port"));
    let target = fields
        .take(reader, "targetPort")
        .and_then(|node| self::port(reader, node, "targetPort"));
    let protocol = fields
        .take(reader, "protocol")
        .and_then(|node| reader.word(node, "protocol", &["TCP", "UDP", "SCTP"]));
    let exposure = fields
        .take(reader, "type")
        .and_then(|node| reader.word(node, "type", &["ClusterIP", "NodePort", "LoadBalancer"]))
        .unwrap_or("ClusterIP");
    let host = fields
        .take(reader, "host")
        .and_then(|node| reader.text(node, "host"))
        .map(|host| host.value);
    let health_check = fields
        .take(reader, "health_check")
        .and_then(|node| health_check(reader, node));
    let timeout = fields
        .take(reader, "timeout")
        .and_then(|node| reader.duration(node, "timeout"));
    let request_limit = fields
        .take(reader, "request_limit")
        .and_then(|node| reader.whole_number(node, "request_limit", 1..=u32::MAX));
    fields.finish(reader);
    if !port_needed && replicas.is_some_and(|replicas| replicas != 1) {
        let note = "remove `replicas`; `gpuctl pause job NAME` frees its GPU";
        reader.problems.push(Problem::error(
            node.at,
            "a notebook must have exactly one replica",
            note,
        ));
    }
    Some(Service {
        replicas: replicas.unwrap_or(1),
        port,
        target_port: target,
        protocol,
        exposure,
        host,
        health_check,
        timeout,
        request_limit,
    })
}

fn port(reader: &mut Reader, node: &YamlNode, name: &str) -> Option<u16> {
    reader
        .whole_number(node, name, 1..=65_535)
        .and_then(|port| u16::try_from(port).ok())
}

fn health_check(reader: &mut Reader, node: &YamlNode) -> Option<HealthCheck> {
    if let YamlValue::Scalar { .. } = node.value {
        let path = path(reader, node)?;
        return Some(HealthCheck {
            path,
            port: None,
            initial_delay: None,
            period: None,
        });
    }
    let mut fields = reader.map(node, "service.health_check", reference::HEALTH_CHECK)?;
    let path = fields
        .need(reader, "path", "such as /health")
        .and_then(|node| path(reader, node));
    let port = fields
        .take(reader, "port")
        .and_then(|node| port(reader, node, "port"));
    let initial_delay = fields
        .take(reader, "initial_delay")
        .and_then(|node| reader.duration(node, "initial_delay"));
    let period = fields
        .take(reader, "period")
        .and_then(|node| reader.duration(node, "period"));
    fields.finish(reader);
    Some(HealthCheck {
        path: path?,
        port,
        initial_delay,
        period,
    })
}

fn path(reader: &mut Reader, node: &YamlNode) -> Option<String> {
    let text = reader.text(node, "health_check")?;
    if !text.value.starts_with('/') {
        reader.problems.push(Problem::error(
            text.at,
            format!("`{}` is not a path", text.value),
            "start it with `/`",
        ));
        return None;
    }
    Some(text.value)
}

fn whole_number(
    reader: &mut Reader,
    fields: &mut Fields<'_>,
    name: &'static str,
    range: std::ops::RangeInclusive<u32>,
) -> Option<u32> {
    fields
        .take(reader, name)
        .and_then(|node| reader.whole_number(node, name, range))
}

/// Reads a duration of at most an hour.
fn delay(reader: &mut Reader, fields: &mut Fields<'_>, name: &'static str) -> Option<Duration> {
    let node = fields.take(reader, name)?;
    let delay = reader.duration(node, name)?;
    if delay > LONGEST_DELAY {
        reader.problems.push(Problem::error(
            node.at,
            format!("`{name}` must be at most one hour"),
            "use a value such as 5m",
        ));
    }
    Some(delay)
}

pub(super) fn autoscaling(reader: &mut Reader, document: &mut Fields<'_>) -> Option<Autoscaling> {
    let node = document.take(reader, "autoscaling")?;
    let mut fields = reader.map(node, "autoscaling", reference::AUTOSCALING)?;
    let at = fields.at;
    let enabled = fields
        .take(reader, "enabled")
        .and_then(|node| reader.boolean(node, "enabled"))
        .unwrap_or(true);
    // A HorizontalPodAutoscaler on pod metrics cannot scale to zero, because there are no metrics
    // without pods.
    let min = whole_number(reader, &mut fields, "minReplicas", 1..=10_000).unwrap_or(1);
    let max_node = fields.take(reader, "maxReplicas");
    let max = max_node.and_then(|node| reader.whole_number(node, "maxReplicas", 1..=10_000));
    let gpu = whole_number(reader, &mut fields, "targetGPUUtilization", 1..=100);
    let memory = whole_number(reader, &mut fields, "targetMemoryUtilization", 1..=100);
    let cpu = whole_number(reader, &mut fields, "targetCPUUtilization", 1..=100);
    let queue = whole_number(reader, &mut fields, "targetQueueLength", 1..=10_000);
    let scale_up_delay = delay(reader, &mut fields, "scaleUpDelay");
    let down = delay(reader, &mut fields, "scaleDownDelay");
    fields.finish(reader);
    if enabled && max.is_none() && max_node.is_none() {
        reader.problems.push(Problem::error(
            at,
            "`autoscaling.maxReplicas` is missing",
            "set the maximum number of replicas",
        ));
    }
    let max = max.unwrap_or(min);
    if min > max {
        reader.problems.push(
            Problem::error(
                at,
                format!("minReplicas {min} is greater than maxReplicas {max}"),
                "",
            )
            .with_id("replica-range"),
        );
        return None;
    }
    if enabled && gpu.or(memory).or(cpu).or(queue).is_none() {
        let note = "set targetGPUUtilization, targetMemoryUtilization, targetCPUUtilization or targetQueueLength";
        reader
            .problems
            .push(Problem::error(at, "autoscaling has no target", note));
        return None;
    }
    Some(Autoscaling {
        enabled,
        min_replicas: min,
        max_replicas: max,
        gpu_utilization: gpu,
        memory_utilization: memory,
        cpu_utilization: cpu,
        queue_length: queue,
        scale_up_delay,
        scale_down_delay: down,
    })
}

/// Checks that the job requests the resource of each target.
pub(super) fn check_metrics(
    reader: &mut Reader,
    autoscaling: &Autoscaling,
    resources: &JobResources,
    at: FilePosition,
) {
    let gpus = autoscaling
        .gpu_utilization
        .or(autoscaling.memory_utilization)
        .is_some();
    if autoscaling.enabled && gpus && resources.gpu == 0 {
        let note = "use targetCPUUtilization, or set `resources.gpu`";
        reader.problems.push(Problem::error(
            at,
            "autoscaling on GPU metrics requires GPUs",
            note,
        ));
    }
    // Kubernetes defines CPU utilization as a percentage of the request.
    if autoscaling.enabled && autoscaling.cpu_utilization.is_some() && resources.cpu.is_none() {
        let note = "set `resources.cpu`: utilization is a percentage of it";
        reader.problems.push(Problem::error(
            at,
            "targetCPUUtilization requires `resources.cpu`",
            note,
        ));
    }
}
