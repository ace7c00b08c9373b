//! Converts batch/v1 Jobs, Deployments with their Services, Kubeflow PyTorchJobs and MPIJobs, and
//! JobSets.

use serde_json::{Value, json};

use super::object::{check_pod_metadata, document, head, name_of, seconds};
use super::pod;
use super::sets::{job_set, mpi_job};
use super::unsupported::refuse_known_kind;
use super::{ConvertError, Converted, FieldMap, SourceFields};

/// Hint for unsupported files, which lists the supported formats.
const TAKEN: &str =
    "use a Job, Deployment, PyTorchJob, MPIJob, JobSet, Slurm script, or SkyPilot or dstack task";

/// Converts every workload among the objects. Deployments take their port from a Service.
pub(super) fn convert(objects: &[Value]) -> Result<Vec<Converted>, ConvertError> {
    let mut jobs = Vec::new();
    let mut used = Vec::new();
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        match kind {
            "Job" => jobs.push(job(object)?),
            "PyTorchJob" => jobs.push(pytorch_job(object)?),
            "JobSet" => jobs.push(job_set(object)?),
            "MPIJob" => jobs.push(mpi_job(object)?),
            "Deployment" => {
                let service = service_of(object, objects);
                used.extend(service.map(|service| service["metadata"]["name"].clone()));
                jobs.push(deployment(object, service)?);
            }
            "Service" => {}
            "" => return Err(ConvertError::new("it has no `kind`", TAKEN)),
            other => {
                if let Some(error) = refuse_known_kind(object) {
                    return Err(error);
                }
                let message = format!("kind `{other}` is not supported");
                return Err(ConvertError::new(message, TAKEN));
            }
        }
    }
    let Some(first) = jobs.first_mut() else {
        return Err(ConvertError::new("it contains no workload", TAKEN));
    };
    for service in objects
        .iter()
        .filter(|object| object["kind"] == "Service" && !used.contains(&object["metadata"]["name"]))
    {
        first.omitted.push(format!(
            "Service/{}",
            service["metadata"]["name"].as_str().unwrap_or("?")
        ));
    }
    Ok(jobs)
}

/// Returns the target port of a Service, and resolves a port name to its number.
fn target(service: &Value, ports: &[Value]) -> Value {
    let target = &service["spec"]["ports"][0]["targetPort"];
    match target.as_str() {
        Some(name) => ports
            .iter()
            .find(|port| port["name"] == name)
            .map_or(Value::Null, |port| port["containerPort"].clone()),
        None => target.clone(),
    }
}

fn job(object: &Value) -> Result<Converted, ConvertError> {
    let mut omitted = Vec::new();
    let mut job = head(object, &mut omitted)?;
    let mut spec = SourceFields::new("spec", &object["spec"], &mut omitted);
    let template = spec.take("template");
    let (completions, parallelism) = (
        spec.take("completions").as_u64(),
        spec.take("parallelism").as_u64(),
    );
    let indexed = spec.take("completionMode") == "Indexed";
    let pods = completions.or(parallelism).unwrap_or(1);
    if pods > 1
        && (!indexed
            || completions.is_some_and(|count| parallelism.is_some_and(|at_once| at_once != count)))
    {
        spec.omit(
            "completions: these pods run independently and not all at once, but gpuctl runs all pods together",
        );
    }
    job.put(
        "retries",
        spec.take("backoffLimit")
            .as_u64()
            .map(|retries| retries.min(100).into()),
    );
    job.put("max_runtime", seconds(&spec.take("activeDeadlineSeconds")));
    job.put("keep_for", seconds(&spec.take("ttlSecondsAfterFinished")));
    for key in [
        "selector",
        "manualSelector",
        "backoffLimitPerIndex",
        "podReplacementPolicy",
    ] {
        spec.take(key);
    }
    spec.finish();
    check_pod_metadata(&template, object, "spec.template", &mut omitted);
    let pod = pod::read(&template["spec"], "spec.template.spec", &mut omitted);
    let document = document(
        "training",
        job,
        pod,
        &[(
            "node_count",
            if pods > 1 { json!(pods) } else { Value::Null },
        )],
    );
    Ok(Converted {
        document,
        from: format!("Job/{}", name_of(object)?),
        omitted,
    })
}

/// Finds the Service that selects a Deployment's pods.
fn service_of<'o>(deployment: &Value, objects: &'o [Value]) -> Option<&'o Value> {
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    objects
        .iter()
        .filter(|object| object["kind"] == "Service")
        .find(|service| {
            let selector = service["spec"]["selector"].as_object();
            selector.is_some_and(|selector| {
                !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value)
            })
        })
}

fn deployment(object: &Value, service: Option<&Value>) -> Result<Converted, ConvertError> {
    let mut omitted = Vec::new();
    let job = head(object, &mut omitted)?;
    let mut spec = SourceFields::new("spec", &object["spec"], &mut omitted);
    let template = spec.take("template");
    let replicas = spec.take("replicas");
    for key in [
        "selector",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        spec.take(key);
    }
    spec.finish();
    let pod = pod::read(&template["spec"], "spec.template.spec", &mut omitted);
    let mut block = FieldMap::default();
    block.put("replicas", replicas);
    let first = pod
        .ports
        .first()
        .map_or(Value::Null, |port| port["containerPort"].clone());
    let listens = service
        .map(|service| target(service, &pod.ports))
        .filter(|port| !port.is_null())
        .unwrap_or(first);
    let used_port = listens.clone();
    put_ports(&mut block, listens, service, object)?;
    let other_ports = pod
        .ports
        .iter()
        .filter(|port| port["containerPort"] != used_port);
    omitted.extend(other_ports.map(|port| {
        format!(
            "spec.template.spec.containers[0].ports[{}]",
            port["containerPort"]
        )
    }));
    check_pod_metadata(&template, object, "spec.template", &mut omitted);
    if let Some(service) = service {
        put_service(&mut block, service, &mut omitted);
    }
    block.put("health_check", pod.health.clone());
    let kind = if pod.gpus > 0 { "inference" } else { "compute" };
    let document = document(kind, job, pod, &[("service", block.value())]);
    Ok(Converted {
        document,
        from: format!("Deployment/{}", name_of(object)?),
        omitted,
    })
}

/// Sets the ports of a service. `listens` is the container's port.
fn put_ports(
    block: &mut FieldMap,
    listens: Value,
    service: Option<&Value>,
    deployment: &Value,
) -> Result<(), ConvertError> {
    let port = service.map_or(Value::Null, |service| {
        service["spec"]["ports"][0]["port"].clone()
    });
    match (port.is_null(), listens.is_null()) {
        (true, true) => {
            let message = format!(
                "Deployment/{} does not specify a port",
                name_of(deployment)?
            );
            return Err(ConvertError::new(
                message,
                "add the port that its container listens on: `ports: [{containerPort: …}]`",
            ));
        }
        (true, false) => block.put("port", listens),
        (false, _) => {
            block.put(
                "targetPort",
                Some(listens).filter(|listens| *listens != port),
            );
            block.put("port", port);
        }
    }
    Ok(())
}

/// Converts the type of a Deployment's Service, and records what the job's Service cannot express,
/// such as annotations and further ports.
fn put_service(block: &mut FieldMap, service: &Value, omitted: &mut Vec<String>) {
    let mut spec = SourceFields::new("Service.spec", &service["spec"], omitted);
    for key in [
        "type",
        "selector",
        "ports",
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
    ] {
        spec.take(key);
    }
    spec.finish();
    let annotations = service["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten();
    omitted.extend(annotations.map(|(key, _)| format!("Service.metadata.annotations[{key}]")));
    block.put(
        "type",
        Some(service["spec"]["type"].clone()).filter(|kind| kind != "ClusterIP"),
    );
    let ports = service["spec"]["ports"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    omitted.extend(
        ports
            .iter()
            .skip(1)
            .map(|port| format!("Service.spec.ports[{}]", port["port"])),
    );
}

/// Reads retries, times and the queue of a PyTorchJob.
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
    run.take("cleanPodPolicy");
    let mut scheduling = run.take("schedulingPolicy");
    job.put("queue", scheduling["queue"].take());
    run.finish();
    // gpuctl starts all pods together, so `minAvailable` is redundant.
    let mut policy = SourceFields::new("spec.runPolicy.schedulingPolicy", &scheduling, omitted);
    policy.take("minAvailable");
    policy.finish();
}

/// Returns true if the pods of the master and of the workers run the same program.
fn are_alike(master: &Value, worker: &Value) -> bool {
    let is_same = |key: &str| {
        master["template"]["spec"]["containers"][0][key]
            == worker["template"]["spec"]["containers"][0][key]
    };
    let [master_spec, worker_spec] = [master, worker].map(|role| {
        let mut spec = role["template"]["spec"].clone();
        spec.as_object_mut().map(|spec| spec.remove("containers"));
        spec
    });
    [
        "image",
        "command",
        "args",
        "resources",
        "env",
        "volumeMounts",
    ]
    .iter()
    .all(|key| is_same(key))
        && master_spec == worker_spec
}

fn pytorch_job(object: &Value) -> Result<Converted, ConvertError> {
    let mut omitted = Vec::new();
    let mut job = head(object, &mut omitted)?;
    let mut spec = SourceFields::new("spec", &object["spec"], &mut omitted);
    let replicas = spec.take("pytorchReplicaSpecs");
    let policy = spec.take("runPolicy");
    if !spec.take("nprocPerNode").is_null() {
        spec.omit("nprocPerNode: torchrun starts one process per GPU");
    }
    spec.finish();
    put_run_policy(&mut job, &policy, &mut omitted);
    let (master, worker) = (&replicas["Master"], &replicas["Worker"]);
    let count = |role: &Value| {
        if role.is_null() {
            0
        } else {
            role["replicas"].as_u64().unwrap_or(1)
        }
    };
    let nodes = count(master) + count(worker);
    let (first, role) = if master.is_null() {
        (worker, "Worker")
    } else {
        (master, "Master")
    };
    if nodes == 0 {
        return Err(ConvertError::new(
            "it has neither a Master nor a Worker",
            "add one under `spec.pytorchReplicaSpecs`",
        ));
    }
    let path = format!("spec.pytorchReplicaSpecs.{role}.template.spec");
    let pod = pod::read(&first["template"]["spec"], &path, &mut omitted);
    check_pod_metadata(
        &first["template"],
        object,
        &format!("spec.pytorchReplicaSpecs.{role}.template"),
        &mut omitted,
    );
    if count(master) > 0 && count(worker) > 0 && !are_alike(master, worker) {
        omitted.push(
            "spec.pytorchReplicaSpecs.Worker.template: all pods use the Master's template"
                .to_owned(),
        );
    }
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
        from: format!("PyTorchJob/{}", name_of(object)?),
        omitted,
    })
}
