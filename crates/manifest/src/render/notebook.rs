//! Renders `kind: notebook`: a StatefulSet with one pod behind a Service. The pod keeps its name
//! and its volumes while paused.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::labels::{metadata, root_annotations};
use super::pod::{RenderedTemplate, probe, template};
use super::queue::queue;
use super::{Object, Refusal, Rendered, Target, exposure};
use crate::spec::{JobDocument, Service, port};
use gpuctl_core::model::contract::labels::JOB;

/// Jupyter's default port, for notebooks that do not set one.
const JUPYTER: u16 = 8888;

pub(super) fn render(job: &JobDocument, target: &Target) -> Result<Rendered, Refusal> {
    let service = job.service.clone().unwrap_or_default();
    let mut warnings = Vec::new();
    let listen_port = listen_port(job, &service, &mut warnings);
    if port::listens_on_loopback(job) {
        let message = "jupyter listens only inside its pod: `gpuctl open` can reach it, but the service cannot; add `--ip=0.0.0.0`";
        warnings.push(message.to_owned());
    }
    let template = template(
        job,
        target,
        1,
        json!({"containers": [container(&service, listen_port)]}),
    )?;
    warnings.splice(0..0, template.warnings.clone());
    let mut root = Object::new(&stateful_set(job, target, &template), "statefulsets");
    root.body["spec"]["template"]["spec"] = template.spec.clone();
    queue(job, target, &mut root)?;
    let probe = probe(job, target, &template);
    let RenderedTemplate {
        labels,
        mut objects,
        choice,
        ..
    } = template;
    objects.push(exposure::service(
        job,
        target,
        &labels,
        &service,
        listen_port,
    ));
    objects.extend(exposure::ingress(
        job,
        target,
        &labels,
        &service,
        &mut warnings,
    ));
    objects.push(root);
    Ok(Rendered {
        objects,
        probe,
        choice,
        warnings,
    })
}

/// Returns the port on which the notebook listens, from `targetPort`, the command or
/// `service.port`.
fn listen_port(job: &JobDocument, service: &Service, warnings: &mut Vec<String>) -> u16 {
    let command_port = port::from_command(job);
    let listen_port = service
        .target_port
        .or(command_port)
        .or(service.port)
        .unwrap_or(JUPYTER);
    if let (Some(port), Some(command)) = (service.port, command_port)
        && port != command
        && service.target_port.is_none()
    {
        warnings.push(format!(
            "the command listens on {command}; `service.port` {port} forwards to it"
        ));
    }
    listen_port
}

/// Builds the container. The port is probed only if the file sets a health check, because `gpuctl
/// open` also reaches a notebook that listens on localhost only.
fn container(service: &Service, listen_port: u16) -> Value {
    let mut container = json!({"name": "main", "ports": [{"name": exposure::PORT, "containerPort": listen_port, "protocol": "TCP"}]});
    if let Some(check) = &service.health_check {
        let period = check.period.map_or(10, |period| period.as_secs().max(1));
        container["readinessProbe"] = json!({
            "httpGet": {"path": check.path, "port": check.port.unwrap_or(listen_port)}, "periodSeconds": period, "timeoutSeconds": 5,
        });
    }
    container
}

fn stateful_set(job: &JobDocument, target: &Target, template: &RenderedTemplate) -> StatefulSet {
    let mut meta = metadata(job, target, job.id(), &template.labels);
    meta.annotations = Some(root_annotations(job, target));
    StatefulSet {
        metadata: meta,
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(job.id().to_owned()),
            selector: LabelSelector {
                match_labels: Some([(JOB.to_owned(), job.id().to_owned())].into()),
                ..LabelSelector::default()
            },
            template: template.body(),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}
