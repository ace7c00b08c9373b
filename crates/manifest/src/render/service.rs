//! Renders `kind: inference` and `kind: compute`: a Deployment, or a LeaderWorkerSet for replicas
//! on several nodes, behind a Service. The probes leave a model time to load. A rollout never waits
//! for GPUs that only the service's own old pods can free.

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::labels::{metadata, root_annotations};
use super::pod::{RenderedTemplate, probe, template};
use super::queue::queue;
use super::servers::spans_nodes;
use super::{Object, Refusal, Rendered, Target, autoscaler, exposure, groups};
use crate::spec::{JobDocument, Service, VolumeAccess, WorkdirSource, port};
use gpuctl_core::model::JobKind;
use gpuctl_core::model::contract::labels::JOB;

/// Seconds that a model server may take to start. Weights load over the network at about 100 MB/s.
const MODEL_START: u64 = 1800;
/// Seconds that a program without a model may take to start.
const PLAIN_START: u64 = 600;
/// Seconds that scheduling and pulling the image may take before a rollout counts as failed.
const PLACEMENT: u64 = 900;
const PERIOD: u64 = 10;

pub(super) fn render(job: &JobDocument, target: &Target) -> Result<Rendered, Refusal> {
    let service = job
        .service
        .as_ref()
        .expect("the reader demands a service of this kind");
    let mut warnings = Vec::new();
    let port = container_port(job, service, &mut warnings);
    let autoscaling = job
        .autoscaling
        .as_ref()
        .filter(|autoscaling| autoscaling.enabled);
    let max_replicas = autoscaling
        .map_or(service.replicas, |autoscaling| autoscaling.max_replicas)
        .max(1);
    let fields = json!({"containers": [container(job, service, port)], "terminationGracePeriodSeconds": grace_seconds(job, service)});
    if replicas(job) != service.replicas {
        warnings.push(format!(
            "replicas: {} is outside the autoscaling range; starting with {}",
            service.replicas,
            replicas(job)
        ));
    }
    let template = template(job, target, max_replicas * job.resources.node_count, fields)?;
    warnings.splice(0..0, template.warnings.clone());
    let mut root = workload(job, service, target, &template, max_replicas)?;
    queue(job, target, &mut root)?;
    let probe = probe(job, target, &template);
    let RenderedTemplate {
        labels,
        mut objects,
        choice,
        ..
    } = template;
    objects.push(exposure::service(job, target, &labels, service, port));
    objects.extend(exposure::ingress(
        job,
        target,
        &labels,
        service,
        &mut warnings,
    ));
    if let Some(autoscaling) = autoscaling {
        objects.push(autoscaler::autoscaler(
            job,
            target,
            &labels,
            autoscaling,
            &mut warnings,
        ));
    }
    objects.push(root);
    Ok(Rendered {
        objects,
        probe,
        choice,
        warnings,
    })
}

/// Builds the Deployment or LeaderWorkerSet, which owns the pods.
fn workload(
    job: &JobDocument,
    service: &Service,
    target: &Target,
    template: &RenderedTemplate,
    max_replicas: u32,
) -> Result<Object, Refusal> {
    if spans_nodes(job) {
        groups::leader_worker_set(job, target, template, replicas(job))
    } else {
        let mut deployment = Object::new(
            &deployment(job, service, target, template, max_replicas),
            "deployments",
        );
        deployment.body["spec"]["template"]["spec"] = template.spec.clone();
        Ok(deployment)
    }
}

/// Returns the initial number of replicas: `service.replicas`, within the autoscaler's bounds.
// `replicas: 0` pauses a service, and an autoscaler must not resume it.
pub(super) fn replicas(job: &JobDocument) -> u32 {
    let replicas = job.service.as_ref().map_or(1, |service| service.replicas);
    match job
        .autoscaling
        .as_ref()
        .filter(|autoscaling| autoscaling.enabled && replicas > 0)
    {
        Some(autoscaling) => replicas.clamp(autoscaling.min_replicas, autoscaling.max_replicas),
        None => replicas,
    }
}

/// Returns true if an old pod must end before a new one can start, because they cannot share a GPU
/// or a volume.
fn exclusive(job: &JobDocument, pods: u32) -> bool {
    let one_node = |access: VolumeAccess| {
        matches!(
            access,
            VolumeAccess::ReadWriteOnce | VolumeAccess::ReadWriteOncePod
        )
    };
    job.resources.gpu > 0
        || job.workdirs.iter().any(|workdir| match &workdir.source {
            WorkdirSource::Claim { .. } => !workdir.read_only,
            WorkdirSource::Size { access, .. } => access.map_or(pods <= 1, one_node),
            _ => false,
        })
}

/// Returns the container's port. The file takes precedence over the command, because a program may
/// get its port in ways that gpuctl does not recognize.
fn container_port(job: &JobDocument, service: &Service, warnings: &mut Vec<String>) -> u16 {
    let service_port = service
        .target_port
        .or(service.port)
        .expect("the reader demands a port");
    if let Some(command_port) = port::from_command(job)
        .filter(|command_port| *command_port != service_port && service.target_port.is_none())
    {
        warnings.push(format!(
            "the command uses port {command_port}, but `service.port` is {service_port}: set `targetPort: {command_port}` if it listens there"
        ));
    }
    service_port
}

/// Returns the seconds that requests in progress have to finish: the service's timeout, but at
/// least Kubernetes' default grace period.
fn grace_seconds(job: &JobDocument, service: &Service) -> u64 {
    let timeout = service
        // The default of `terminationGracePeriodSeconds` is 30.
        .timeout
        .map_or(30, |timeout| timeout.as_secs().max(30));
    job.grace_period.map_or(timeout, |period| period.as_secs())
}

fn start_budget(job: &JobDocument) -> u64 {
    if job.kind == JobKind::Inference {
        MODEL_START
    } else {
        PLAIN_START
    }
}

/// Builds ports and probes. Without a health check, an open port is the only sign of readiness, and
/// a closed port alone does not justify a restart.
fn container(job: &JobDocument, service: &Service, container_port: u16) -> Value {
    let protocol = service.protocol.unwrap_or("TCP");
    let mut container = json!({"name": "main", "ports": [{"name": exposure::PORT, "containerPort": container_port, "protocol": protocol}]});
    let Some(check) = &service.health_check else {
        if protocol == "TCP" {
            container["readinessProbe"] = json!({"tcpSocket": {"port": container_port}, "periodSeconds": PERIOD, "timeoutSeconds": 5});
        }
        return container;
    };
    let get = json!({"path": check.path, "port": check.port.unwrap_or(container_port)});
    let period = check
        .period
        .map_or(PERIOD, |period| period.as_secs().max(1));
    let probe = |timeout: u64, failures: u64| json!({"httpGet": get, "periodSeconds": period, "timeoutSeconds": timeout, "failureThreshold": failures});
    let mut startup = probe(5, start_budget(job).div_ceil(period));
    if let Some(delay) = check.initial_delay {
        startup["initialDelaySeconds"] = json!(delay.as_secs());
    }
    container["startupProbe"] = startup;
    container["readinessProbe"] = probe(5, 3);
    // A server that is busy with a long batch responds late, but restarting it would not help.
    container["livenessProbe"] = probe(10, 6);
    container
}

fn deployment(
    job: &JobDocument,
    service: &Service,
    target: &Target,
    template: &RenderedTemplate,
    max_replicas: u32,
) -> Deployment {
    let mut meta = metadata(job, target, job.id(), &template.labels);
    meta.annotations = Some(root_annotations(job, target));
    let delay = service
        .health_check
        .as_ref()
        .and_then(|check| check.initial_delay)
        .map_or(0, |delay| delay.as_secs());
    let deadline = start_budget(job) + delay + PLACEMENT;
    Deployment {
        metadata: meta,
        spec: Some(DeploymentSpec {
            replicas: Some(i32::try_from(replicas(job)).expect("at most 10,000 replicas")),
            selector: LabelSelector {
                match_labels: Some([(JOB.to_owned(), job.id().to_owned())].into()),
                ..LabelSelector::default()
            },
            // An old pod ends only after its successor is ready. A surge pod would wait forever if
            // all GPUs are in use, or if only one node can mount the volume. Therefore replace pods
            // one by one.
            strategy: exclusive(job, max_replicas).then(|| DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(0)),
                    max_unavailable: Some(IntOrString::Int(1)),
                }),
            }),
            progress_deadline_seconds: Some(i32::try_from(deadline).unwrap_or(i32::MAX)),
            template: template.body(),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}
