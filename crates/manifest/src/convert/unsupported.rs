//! Explains why some files cannot be converted, and reports their images and GPUs as a starting
//! point.

use serde_json::Value;

use super::ConvertError;

/// Kinds of other systems, the reason why gpuctl cannot convert each, and the closest alternative.
const KINDS: [(&str, &str, &str); 7] = [
    (
        "CronJob",
        "gpuctl jobs run once; `gpuctl help cron` shows how to submit one from cron or CI",
        "training",
    ),
    (
        "RayJob",
        "a Ray cluster has a head and several kinds of workers, but a gpuctl job has pods of one kind",
        "training",
    ),
    (
        "RayCluster",
        "it is a cluster to submit jobs to, not a job",
        "training",
    ),
    (
        "RayService",
        "Ray Serve places its replicas within a Ray cluster",
        "inference",
    ),
    (
        "LeaderWorkerSet",
        "its leaders and workers differ, but all replicas of a gpuctl service are identical",
        "inference",
    ),
    (
        "InferenceService",
        "KServe selects the server by model format from the runtimes that its administrator installed",
        "inference",
    ),
    (
        "StatefulSet",
        "it gives each pod its own storage and name, which gpuctl supports only for notebooks",
        "notebook",
    ),
];

/// Explains why a well-known kind cannot be converted.
pub(super) fn refuse_known_kind(object: &Value) -> Option<ConvertError> {
    let kind = object["kind"].as_str()?;
    let (_, reason, template) = KINDS.iter().find(|(name, ..)| *name == kind)?;
    Some(refusal(
        &format!("kind `{kind}` is not supported: {reason}"),
        template,
        object,
    ))
}

/// Recognizes a Docker Compose file.
pub(super) fn is_compose(object: &Value) -> bool {
    object["kind"].is_null()
        && object["services"]
            .as_object()
            .is_some_and(|services| !services.is_empty())
}

/// Explains why a Docker Compose file cannot be converted.
pub(super) fn compose(object: &Value) -> ConvertError {
    let names: Vec<&str> = object["services"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let message = format!(
        "Docker Compose files are not supported: the services ({}) find each other on one machine, but each would become a separate job",
        names.join(", ")
    );
    refusal(&message, "inference", object)
}

fn refusal(message: &str, suggested: &str, object: &Value) -> ConvertError {
    let (mut images, mut gpus, mut contents) = (Vec::new(), 0, Vec::new());
    collect(object, &mut images, &mut gpus);
    images.sort_unstable();
    images.dedup();
    if !images.is_empty() {
        contents.push(format!("images: {}", images.join(", ")));
    }
    if gpus > 0 {
        contents.push(format!("GPUs in the largest container: {gpus}"));
    }
    let read = if contents.is_empty() {
        String::new()
    } else {
        format!("; the source uses {}", contents.join("; "))
    };
    ConvertError::new(
        message,
        format!("create a starting file with `gpuctl init {suggested}`{read}"),
    )
}

/// Collects the images and the highest GPU count of a document, at any depth.
fn collect(value: &Value, images: &mut Vec<String>, gpus: &mut u64) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("image", Value::String(image)) => images.push(image.clone()),
                    (key, value) if key.ends_with("/gpu") => {
                        let count = value
                            .as_u64()
                            .or_else(|| value.as_str()?.parse().ok())
                            .unwrap_or(0);
                        *gpus = (*gpus).max(count);
                    }
                    _ => collect(value, images, gpus),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, images, gpus)),
        _ => {}
    }
}
