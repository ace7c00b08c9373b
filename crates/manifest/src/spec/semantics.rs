//! Implements the semantic checks. Each function compares several fields of a job.

use std::sync::LazyLock;

use regex::Regex;

use gpuctl_core::model::JobKind;

use super::document::{Command, JobDocument};
use super::secrets::secret_fields;

/// A problem, with the field that causes it.
pub(super) struct Finding {
    pub field: &'static str,
    pub message: String,
    pub note: String,
}

fn finding(field: &'static str, message: String, note: impl Into<String>) -> Finding {
    Finding {
        field,
        message,
        note: note.into(),
    }
}

/// Returns the name of the field that starts the program.
fn command_field(job: &JobDocument) -> &'static str {
    if job.command == Command::Image {
        "environment.args"
    } else {
        "environment.command"
    }
}

fn gpu_count(count: u64) -> String {
    if count == 1 {
        "1 GPU".to_owned()
    } else {
        format!("{count} GPUs")
    }
}

/// Finds the number after a flag. `flags` is a pattern with the flag's spellings.
fn number(line: &str, flags: &str) -> Option<u64> {
    let pattern = Regex::new(&format!(r#"(?:^|[\s"'])(?:{flags})[= ]"?(\d+)\b"#))
        .expect("the pattern is tested");
    pattern.captures(line)?[1].parse().ok()
}

pub(super) fn nproc(job: &JobDocument) -> Option<Finding> {
    let (line, gpus) = (job.line(), u64::from(job.resources.gpu));
    let processes = number(&line, "--nproc[_-]per[_-]node")?;
    (gpus > 0 && processes != gpus).then(|| {
        let message = format!(
            "the command starts {processes} processes per node, but a pod has {}",
            gpu_count(gpus)
        );
        finding(
            command_field(job),
            message,
            format!("use `--nproc_per_node={gpus}`, or omit it"),
        )
    })
}

pub(super) fn num_processes(job: &JobDocument) -> Option<Finding> {
    let line = job.line();
    let processes = number(&line, "--num[_-]processes").filter(|_| line.contains("accelerate"))?;
    let gpus = u64::from(job.resources.gpu) * u64::from(job.resources.node_count);
    (gpus > 0 && processes != gpus).then(|| {
        let message = format!(
            "the command starts {processes} processes in total, but the job has {}",
            gpu_count(gpus)
        );
        finding(
            command_field(job),
            message,
            format!("use `--num_processes={gpus}`, or omit it"),
        )
    })
}

pub(super) fn tensor_parallel(job: &JobDocument) -> Option<Finding> {
    let (line, gpus) = (job.line(), u64::from(job.resources.gpu));
    let tensor = number(
        &line,
        "--tensor[_-]parallel[_-]size|-tp|--tp|--tp-size|--num-shard",
    )?;
    let stages = number(&line, "--pipeline[_-]parallel[_-]size|-pp|--pp-size").unwrap_or(1);
    // Each data-parallel copy needs its own GPUs.
    let copies = number(&line, "--data[_-]parallel[_-]size|-dp|--dp-size|--dp").unwrap_or(1);
    let needed = tensor * stages * copies;
    // On several nodes, the model may be split across pods, so a different number can be correct.
    (gpus > 0 && needed != gpus && job.resources.node_count == 1).then(|| {
        let message = format!(
            "the command splits the model across {}, but a pod has {gpus}",
            gpu_count(needed)
        );
        finding(
            command_field(job),
            message,
            format!("set `gpu: {needed}`, or use a tensor-parallel size of {gpus}"),
        )
    })
}

pub(super) fn port(job: &JobDocument) -> Option<Finding> {
    let service = job
        .service
        .as_ref()
        .filter(|service| service.target_port.is_none())?;
    let (service_port, command_port) = (service.port?, super::port::from_command(job)?);
    (service_port != command_port).then(|| {
        let message =
            format!("the command uses port {command_port}, but `service.port` is {service_port}");
        finding(
            "service.port",
            message,
            format!("set `targetPort: {command_port}` if it listens there"),
        )
    })
}

pub(super) fn file_as_directory(job: &JobDocument) -> Option<Finding> {
    static ENDING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"/[^/]*\.([a-zA-Z][a-zA-Z0-9]{0,5})$").expect("the pattern is tested")
    });
    let extension_of = |path: &str| ENDING.captures(path).map(|captures| captures[1].to_owned());
    job.workdirs
        .iter()
        .filter(|workdir| !workdir.file)
        .find_map(|workdir| {
            let extension = extension_of(&workdir.path)?;
            let message = format!(
                "`{}` looks like a file, but is mounted as a directory",
                workdir.path
            );
            Some(finding(
                "storage.workdirs",
                message,
                format!("`.{extension}` is not a known data file extension; set `type: file` or `type: directory`"),
            ))
        })
}

pub(super) fn request_limit(job: &JobDocument) -> Option<Finding> {
    let service = job
        .service
        .as_ref()
        .filter(|service| service.request_limit.is_some() && service.host.is_none())?;
    let message = format!(
        "nothing enforces `request_limit: {}`",
        service.request_limit?
    );
    Some(finding(
        "service.request_limit",
        message,
        "set `service.host` to get an Ingress, or remove it",
    ))
}

pub(super) fn image_tag(job: &JobDocument) -> Option<Finding> {
    let replicas = job.service.as_ref().map_or(1, |service| service.replicas);
    let replicas = job.autoscaling.as_ref().map_or(replicas, |autoscaling| {
        replicas.max(autoscaling.max_replicas)
    });
    let pods = replicas * job.resources.node_count;
    // The host of a registry may have a port, so look for the tag after the last slash.
    let last = job.image.rsplit('/').next().unwrap_or_default();
    let fixed = last.contains('@') || last.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    (pods > 1 && !fixed).then(|| {
        let message = format!("`{}` has no fixed tag, and {pods} pods run it", job.image);
        finding(
            "environment.image",
            message,
            "use a version tag, such as `image:1.2.3`, or a digest",
        )
    })
}

pub(super) fn deprecated_launcher(job: &JobDocument) -> Option<Finding> {
    let line = job.line();
    line.contains("torch.distributed.launch").then(|| {
        finding(
            command_field(job),
            "`torch.distributed.launch` is deprecated".to_owned(),
            "use `torchrun`",
        )
    })
}

pub(super) fn plain_secret(job: &JobDocument) -> Option<Finding> {
    // A notebook's token is shared with its user on purpose, so it is not a leaked secret.
    let token = super::notebook_token(job);
    let (field, _) = secret_fields(job)
        .into_iter()
        .find(|(_, secret)| Some(secret) != token.as_ref())?;
    let message = "the file contains a value that looks like a token or password".to_owned();
    Some(finding(
        field,
        message,
        "store it with `gpuctl create secret`, and use `{name, secret, key}` in `env`",
    ))
}

pub(super) fn memory_target(job: &JobDocument) -> Option<Finding> {
    let autoscaling = job
        .autoscaling
        .as_ref()
        .filter(|autoscaling| autoscaling.enabled)?;
    autoscaling.memory_utilization?;
    let text = format!("{} {}", job.image, job.line()).to_ascii_lowercase();
    let greedy = [
        "vllm",
        "sglang",
        "text-generation-inference",
        "tensorrt_llm",
        "lmdeploy",
    ]
    .iter()
    .find(|name| text.contains(**name))?;
    let message = format!(
        "{greedy} allocates nearly all GPU memory at startup, so memory utilization never falls"
    );
    Some(finding(
        "autoscaling.targetMemoryUtilization",
        message,
        "scale on `targetGPUUtilization` or `targetQueueLength`",
    ))
}

pub(super) fn health_check(job: &JobDocument) -> Option<Finding> {
    let service = job
        .service
        .as_ref()
        .filter(|service| job.kind == JobKind::Inference && service.health_check.is_none())?;
    (service.protocol.unwrap_or("TCP") == "TCP").then(|| {
        let message =
            "without `health_check`, requests arrive before the model is loaded".to_owned();
        finding(
            "service",
            message,
            "add a check, such as `health_check: /health`",
        )
    })
}
