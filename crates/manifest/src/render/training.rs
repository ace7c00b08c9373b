//! Renders `kind: training`: an Indexed Job behind a headless Service, one pod per node.

use k8s_openapi::api::batch::v1::{Job as BatchJob, JobSpec};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use serde_json::{Value, json};

use super::labels::{metadata, root_annotations};
use super::pod::{RenderedTemplate, probe, template};
use super::{Object, Refusal, Rendered, Target, overlay, queue, supervisor, topology};
use crate::spec::JobDocument;
use gpuctl_core::model::contract::labels::{JOB, KUEUE_TOPOLOGY, RETRIES, SUPERVISOR_HASH};
use gpuctl_core::model::{Gang, GangMode};

pub(super) fn render(job: &JobDocument, target: &Target) -> Result<Rendered, Refusal> {
    let nodes = job.resources.node_count;
    let supervised = supervisor::supervises(job);
    let topology_key = topology::label(job, target)?;
    let mut fields = pod_fields(job, target);
    overlay::merge(
        &mut fields,
        &topology::pod_fields(
            job,
            topology_key
                .as_deref()
                .filter(|key| !topology::is_kueues(key, target)),
        ),
    );
    let template = template(job, target, nodes, fields)?;
    let mut root = Object::new(&batch_job(job, target, &template), "jobs");
    root.body["spec"]["template"]["spec"] = template.spec.clone();
    queue::queue(job, target, &mut root)?;
    if let Some(key) = topology_key.filter(|key| topology::is_kueues(key, target)) {
        root.body["spec"]["template"]["metadata"]["annotations"][KUEUE_TOPOLOGY] = key.into();
    }
    let mut warnings = template.warnings.clone();
    if nodes == 1 && !matches!(job.training.gang, GangMode::Auto | GangMode::None) {
        warnings.push("`job.gang` has no effect on a single node".to_owned());
    }
    let placed_together = target
        .gang
        .as_ref()
        .is_some_and(|gang| *gang != Gang::Kueue);
    warnings.extend(supervisor::limit_notes(job, supervised, placed_together));
    let probe = probe(job, target, &template);
    let mut objects = template.objects;
    objects.extend(queue::pod_group(job, target, &template.labels));
    objects.push(Object::new(
        &service(job, target, &template.labels),
        "services",
    ));
    objects.push(root);
    Ok(Rendered {
        objects,
        probe,
        choice: template.choice,
        warnings,
    })
}

/// Pod spec fields that only trainings have.
fn pod_fields(job: &JobDocument, target: &Target) -> Value {
    let mut fields = json!({"restartPolicy": "Never", "subdomain": job.id()});
    if let Some(limit) = job
        .training
        .max_runtime
        .filter(|_| !supervisor::supervises(job))
    {
        // A Job's deadline includes its waiting time. A pod's deadline starts only when the pod
        // starts on its node.
        fields["activeDeadlineSeconds"] = json!(limit.as_secs());
    }
    overlay::merge(&mut fields, &queue::pod_fields(job, target));
    fields
}

fn batch_job(job: &JobDocument, target: &Target, template: &RenderedTemplate) -> BatchJob {
    let nodes = i32::try_from(job.resources.node_count).expect("at most 10,000 nodes");
    let retries = i32::try_from(job.training.retries).expect("at most 100 retries");
    let mut meta = metadata(job, target, job.id(), &template.labels);
    let mut annotations = root_annotations(job, target);
    annotations.insert(RETRIES.to_owned(), job.training.retries.to_string());
    if supervisor::supervises(job) {
        annotations.insert(SUPERVISOR_HASH.to_owned(), supervisor::program_hash());
    }
    meta.annotations = Some(annotations);
    BatchJob {
        metadata: meta,
        spec: Some(JobSpec {
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(nodes),
            parallelism: Some(nodes),
            // Count retries per rank. With a common limit, ranks that crash together would use up
            // all retries at once.
            backoff_limit_per_index: Some(retries),
            // A training needs all its ranks, so the Job fails once one rank has used up its
            // retries.
            max_failed_indexes: Some(0),
            pod_failure_policy: Some(supervisor::failure_policy(supervisor::supervises(job))),
            // Start a new pod only after the old one has ended: two pods of one rank must never
            // write to the same checkpoint.
            pod_replacement_policy: Some("Failed".to_owned()),
            ttl_seconds_after_finished: job
                .training
                .keep_for
                .map(|time| i32::try_from(time.as_secs()).unwrap_or(i32::MAX)),
            template: template.body(),
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// Builds the headless Service. It also publishes pods that are not ready, because ranks look up
/// rank 0 while it starts.
fn service(
    job: &JobDocument,
    target: &Target,
    labels: &std::collections::BTreeMap<String, String>,
) -> Service {
    Service {
        metadata: metadata(job, target, job.id(), labels),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some([(JOB.to_owned(), job.id().to_owned())].into()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
