//! Converts workloads with several pods: JobSets and MPIJobs.

use serde_json::{Value, json};

use super::object::{check_pod_metadata, document, head, name_of, seconds};
use super::{ConvertError, Converted, FieldMap, SourceFields, pod};

/// Converts a JobSet with one replicated job.
pub(super) fn job_set(object: &Value) -> Result<Converted, ConvertError> {
    let mut omitted = Vec::new();
    let mut job = head(object, &mut omitted)?;
    let mut spec = SourceFields::new("spec", &object["spec"], &mut omitted);
    let sets = spec.take("replicatedJobs");
    let sets = sets.as_array().cloned().unwrap_or_default();
    let [set] = sets.as_slice() else {
        let names: Vec<&str> = sets.iter().filter_map(|set| set["name"].as_str()).collect();
        let message = format!(
            "its {} replicated jobs ({}) have different pods, but a gpuctl job has pods of one kind",
            sets.len(),
            names.join(", ")
        );
        return Err(ConvertError::new(
            message,
            "convert each `spec.replicatedJobs[].template` separately, as a batch/v1 Job",
        ));
    };
    let policy = spec.take("failurePolicy");
    job.put(
        "retries",
        policy["maxRestarts"]
            .as_u64()
            .map(|retries| retries.min(100).into()),
    );
    job.put("keep_for", seconds(&spec.take("ttlSecondsAfterFinished")));
    for key in ["network", "successPolicy", "suspend"] {
        spec.take(key);
    }
    spec.finish();
    let path = format!(
        "spec.replicatedJobs[{}].template.spec",
        set["name"].as_str().unwrap_or("0")
    );
    let mut fields = SourceFields::new(&path, &set["template"]["spec"], &mut omitted);
    let (completions, parallelism) = (
        fields.take("completions").as_u64(),
        fields.take("parallelism").as_u64(),
    );
    let template = fields.take("template");
    for key in ["completionMode", "backoffLimit"] {
        fields.take(key);
    }
    let max_runtime = seconds(&fields.take("activeDeadlineSeconds"));
    job.put("max_runtime", max_runtime);
    fields.finish();
    let replicas = set["replicas"].as_u64().unwrap_or(1);
    let pods = replicas.saturating_mul(completions.or(parallelism).unwrap_or(1));
    check_pod_metadata(&template, object, &format!("{path}.template"), &mut omitted);
    let pod = pod::read(
        &template["spec"],
        &format!("{path}.template.spec"),
        &mut omitted,
    );
    let nodes = if pods > 1 { json!(pods) } else { Value::Null };
    let document = document("training", job, pod, &[("node_count", nodes)]);
    Ok(Converted {
        document,
        from: format!("JobSet/{}", name_of(object)?),
        omitted,
    })
}

/// Reads retries, times and the queue of an MPIJob.
fn put_run_policy(job: &mut FieldMap, policy: &Value, omitted: &mut Vec<String>) {
    let mut run = SourceFields::new("spec.runPolicy", policy, omitted);
    job.put(
        "retries",
        run.take("backoffLimit")
            .as_u64()
            .map(|retries| retries.min(100).into()),
    );
    job.put("max_runtime", seconds(&run.take("activeDeadlineSeconds")));
    job.put("keep_for", seconds(&run.take("ttlSecondsAfterFinished")));
    let scheduling = run.take("schedulingPolicy");
    job.put("queue", scheduling["queue"].clone());
    run.take("cleanPodPolicy");
    run.finish();
}

/// Converts an MPIJob: its workers become the pods, and they run the launcher's command.
pub(super) fn mpi_job(object: &Value) -> Result<Converted, ConvertError> {
    let mut omitted = Vec::new();
    let mut job = head(object, &mut omitted)?;
    let mut spec = SourceFields::new("spec", &object["spec"], &mut omitted);
    let (replicas, policy) = (spec.take("mpiReplicaSpecs"), spec.take("runPolicy"));
    for key in [
        "slotsPerWorker",
        "sshAuthMountPath",
        "mpiImplementation",
        "launcherCreationPolicy",
    ] {
        spec.take(key);
    }
    spec.finish();
    put_run_policy(&mut job, &policy, &mut omitted);
    let (launcher, worker) = (&replicas["Launcher"], &replicas["Worker"]);
    if worker.is_null() {
        return Err(ConvertError::new(
            "it has no Worker replicas",
            "add `spec.mpiReplicaSpecs.Worker`",
        ));
    }
    let nodes = worker["replicas"].as_u64().unwrap_or(1);
    let mut template = worker["template"].clone();
    let command = |key: &str| launcher["template"]["spec"]["containers"][0][key].clone();
    if template["spec"]["containers"][0].is_object() {
        for key in ["command", "args"] {
            template["spec"]["containers"][0][key] = command(key);
        }
    }
    let words = [command("command"), command("args")]
        .map(|list| list.to_string())
        .concat();
    if words.contains("mpirun") || words.contains("mpiexec") {
        omitted.push("spec.mpiReplicaSpecs.Launcher: mpirun starts its processes over SSH, which these pods do not have; start the program with torchrun".to_owned());
    }
    let pod = pod::read(
        &template["spec"],
        "spec.mpiReplicaSpecs.Worker.template.spec",
        &mut omitted,
    );
    let document = document(
        "training",
        job,
        pod,
        &[(
            "node_count",
            if nodes > 1 { json!(nodes) } else { Value::Null },
        )],
    );
    Ok(Converted {
        document,
        from: format!("MPIJob/{}", name_of(object)?),
        omitted,
    })
}
