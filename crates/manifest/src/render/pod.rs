//! Builds the pod template of every kind of job. Also builds a bare pod for a dry run, because a
//! dry run of a Job does not validate its pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, LocalObjectReference, Pod, PodSpec, PodTemplateSpec, ResourceRequirements,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::command::{Words, words};
use super::environment::variables;
use super::labels::{self, annotations, priority_class_name, priority_value};
use super::placement::{NodeChoice, choose};
use super::storage::{PodStorage, storage};
use super::tolerations::with_site;
use super::{Object, Refusal, Target, checkpoint, fabric, overlay, security, servers, supervisor};
use crate::spec::{JobDocument, Priority};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::{JobKind, OWN_CONTAINER};

/// A rendered pod template, and the objects that its pods need.
pub(super) struct RenderedTemplate {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The pod spec as JSON, with the user's overlay merged.
    pub spec: Value,
    /// Objects that must exist before a pod can start.
    pub objects: Vec<Object>,
    pub choice: NodeChoice,
    pub warnings: Vec<String>,
}

impl RenderedTemplate {
    /// Builds the template without the pod spec, which the caller adds as JSON.
    pub(super) fn body(&self) -> PodTemplateSpec {
        PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(self.labels.clone()),
                annotations: Some(self.annotations.clone()).filter(|map| !map.is_empty()),
                ..ObjectMeta::default()
            }),
            spec: None,
        }
    }
}

/// Merges the `pod:` block into the pod spec and returns warnings.
fn merge_overlay(spec: &mut Value, job: &JobDocument) -> Vec<String> {
    let Some(overlay) = &job.pod else {
        return Vec::new();
    };
    let mut overlay = overlay.clone();
    let mut warnings: Vec<String> = remove_enforced(&mut overlay, job).into_iter().collect();
    let replaced = overlay::merge(spec, &overlay);
    if !replaced.is_empty() {
        warnings.push(format!(
            "the `pod:` block overrides {}",
            replaced.join(", ")
        ));
    }
    warnings
}

/// Builds the pods' annotations, which keep autoscalers from evicting a training to remove its
/// node.
fn template_annotations(job: &JobDocument) -> BTreeMap<String, String> {
    let mut annotations = annotations(job);
    if job.kind == JobKind::Training {
        for key in [
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
            "karpenter.sh/do-not-disrupt",
        ] {
            let value = if key.ends_with("evict") {
                "false"
            } else {
                "true"
            };
            annotations
                .entry(key.to_owned())
                .or_insert_with(|| value.to_owned());
        }
    }
    annotations
}

/// Builds the template of `job` for the given number of pods. `fields` are pod spec fields of the
/// job's kind; the user's overlay is merged after them.
pub(super) fn template(
    job: &JobDocument,
    target: &Target,
    pods: u32,
    fields: Value,
) -> Result<RenderedTemplate, Refusal> {
    let choice = choose(job, target)?;
    let words = supervisor::wrap(
        job,
        checkpoint::resume(job, servers::connect(job, words(job)?))?,
        target,
    )?;
    let labels = labels::labels(job, target, choice.gpu_type.as_ref());
    let storage = storage(job, target, &labels, pods, choice.candidates.len())?;
    let mut warnings = [
        choice.warnings.clone(),
        words.warnings.clone(),
        storage.warnings.clone(),
    ]
    .concat();
    let (devices, warning) = fabric::devices(job, target, &choice);
    warnings.extend(warning);
    let mut objects: Vec<Object> = job
        .priority
        .iter()
        .filter(|_| !target.without_priority)
        .filter_map(priority_class)
        .collect();
    objects.extend(storage.objects.iter().cloned());
    objects.extend(
        choice
            .claim
            .as_ref()
            .map(|claim| claim.template(job, target, &labels)),
    );
    let spec = pod_spec(job, target, &choice, &words, storage, devices);
    let mut spec = serde_json::to_value(spec).expect("a pod spec is JSON");
    overlay::merge(&mut spec, &fields);
    warnings.extend(merge_overlay(&mut spec, job));
    if fabric::uses_host_network(job) && spec["dnsPolicy"].is_null() {
        // On the host network, the default policy uses the node's resolver, which cannot resolve
        // names of Services.
        spec["dnsPolicy"] = "ClusterFirstWithHostNet".into();
    }
    Ok(RenderedTemplate {
        labels,
        annotations: template_annotations(job),
        spec,
        objects,
        choice,
        warnings,
    })
}

fn pod_spec(
    job: &JobDocument,
    target: &Target,
    choice: &NodeChoice,
    words: &Words,
    storage: PodStorage,
    devices: BTreeMap<String, Quantity>,
) -> PodSpec {
    let default_grace = (job.kind == JobKind::Training).then_some(60);
    let grace = job
        .grace_period
        .map(|period| i64::try_from(period.as_secs()).unwrap_or(i64::MAX))
        .or(default_grace);
    let secret = |name: &String| LocalObjectReference { name: name.clone() };
    let priority = job
        .priority
        .as_ref()
        .filter(|priority| !target.without_priority || priority_value(priority).is_none());
    PodSpec {
        affinity: choice.affinity.clone(),
        tolerations: list(with_site(choice.tolerations.clone(), job)),
        node_selector: Some(
            job.site
                .node_selector
                .iter()
                .cloned()
                .collect::<BTreeMap<_, _>>(),
        )
        .filter(|map| !map.is_empty()),
        // For a Service named `vllm`, service links would set VLLM_PORT=tcp://… and crash vLLM.
        enable_service_links: Some(false),
        automount_service_account_token: Some(false),
        image_pull_secrets: list(job.image_pull_secrets.iter().map(secret).collect()),
        priority_class_name: priority.map(|priority| priority_class_name(priority).to_owned()),
        termination_grace_period_seconds: grace,
        security_context: security::pod_context(job),
        resource_claims: choice
            .claim
            .as_ref()
            .map(|claim| vec![claim.pod_claim(job)]),
        volumes: list(storage.volumes),
        containers: vec![Container {
            name: OWN_CONTAINER.to_owned(),
            image: Some(job.image.clone()),
            image_pull_policy: job.image_pull_policy.map(ToOwned::to_owned),
            command: words.command.clone(),
            args: words.args.clone(),
            env: list(variables(job, target, words.launcher)),
            working_dir: job.working_dir.clone(),
            resources: Some(resources(job, choice, devices)),
            volume_mounts: list(storage.mounts),
            security_context: fabric::security(job, security::container_context(job)),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

/// Removes the fields of `pod:` that the site enforces, and returns warnings.
fn remove_enforced(overlay: &mut Value, job: &JobDocument) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(fields) = overlay.as_object_mut() else {
        return warnings;
    };
    if job.site.tolerations_enforced && fields.remove("tolerations").is_some() {
        warnings.push("ignoring `pod.tolerations`: the site enforces its own".to_owned());
    }
    if let Some(selector) = fields
        .get_mut("nodeSelector")
        .and_then(Value::as_object_mut)
        .filter(|_| job.site.node_selector_enforced)
    {
        for (key, value) in &job.site.node_selector {
            if selector
                .remove(key)
                .is_some_and(|current| current != value.as_str())
            {
                warnings.push(format!(
                    "ignoring `pod.nodeSelector.{key}`: the site enforces `{value}`"
                ));
            }
        }
    }
    warnings
}

fn list<T>(items: Vec<T>) -> Option<Vec<T>> {
    Some(items).filter(|items| !items.is_empty())
}

/// Builds requests and limits. Memory is not compressible, so its limit equals its request. CPU is
/// compressible, so it has no limit unless the file asks for one.
fn resources(
    job: &JobDocument,
    choice: &NodeChoice,
    devices: BTreeMap<String, Quantity>,
) -> ResourceRequirements {
    let (mut requests, mut limits) = (BTreeMap::new(), choice.resources.clone());
    limits.extend(devices);
    if let Some(cpu) = &job.resources.cpu {
        requests.insert("cpu".to_owned(), Quantity(cpu.clone()));
        if job.resources.guaranteed {
            limits.insert("cpu".to_owned(), Quantity(cpu.clone()));
        }
    }
    if let Some(memory) = &job.resources.memory {
        requests.insert("memory".to_owned(), Quantity(memory.clone()));
        limits.insert("memory".to_owned(), Quantity(memory.clone()));
    }
    let non_empty = |map: BTreeMap<String, Quantity>| Some(map).filter(|map| !map.is_empty());
    let claims = choice
        .claim
        .as_ref()
        .map(|claim| vec![claim.container_claim()]);
    ResourceRequirements {
        claims,
        requests: non_empty(requests),
        limits: non_empty(limits),
    }
}

/// Builds the PriorityClass of a priority. The class never preempts, because a queued training must
/// not stop a running one.
fn priority_class(priority: &Priority) -> Option<Object> {
    let class = PriorityClass {
        metadata: ObjectMeta {
            name: Some(priority_class_name(priority).to_owned()),
            labels: Some(BTreeMap::from([(
                MANAGED_BY.to_owned(),
                MANAGED_BY_US.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        value: priority_value(priority)?,
        preemption_policy: Some("Never".to_owned()),
        description: Some("priority of jobs submitted with gpuctl".to_owned()),
        global_default: None,
    };
    Some(Object {
        shared: true,
        ..Object::new(&class, "priorityclasses")
    })
}

/// Builds a bare pod from the template, with a name that no pod of the job has.
pub(super) fn probe(job: &JobDocument, target: &Target, template: &RenderedTemplate) -> Object {
    let pod = Pod {
        metadata: ObjectMeta {
            name: Some(format!(
                "{}-gpuctl-probe",
                job.id()
                    .chars()
                    .take(40)
                    .collect::<String>()
                    .trim_end_matches('-')
            )),
            namespace: Some(target.namespace.clone()),
            labels: Some(template.labels.clone()),
            annotations: Some(template.annotations.clone()),
            ..ObjectMeta::default()
        },
        spec: None,
        status: None,
    };
    let mut object = Object::new(&pod, "pods");
    object.body["spec"] = template.spec.clone();
    if let Value::Object(spec) = &mut object.body["spec"] {
        spec.entry("restartPolicy")
            .or_insert_with(|| "Never".into());
        // The variables that refer to the index annotation stay: only a controller sets the
        // annotation, but a dry run does not resolve variables.
        spec.remove("subdomain");
    }
    object
}
