//! Converts SkyPilot tasks: resources, `setup` and `run`. The fields follow SkyPilot's YAML
//! reference.

use serde_json::{Value, json};

use super::script::{ScriptContext, command, translate};
use super::{ConvertError, Converted, FieldMap, SourceFields, accelerators};
use gpuctl_core::model::GpuType;
use gpuctl_core::model::values::whole;

/// Fields that select a cloud or its machines, and do not apply to an existing cluster.
const CLOUD: [&str; 7] = [
    "cloud",
    "infra",
    "region",
    "zone",
    "use_spot",
    "disk_size",
    "disk_tier",
];

/// Returns true if the map has a `run` script, and neither `kind` nor `type`, which the other
/// formats have.
pub(super) fn is_task(object: &Value) -> bool {
    object["kind"].is_null() && object["type"].is_null() && object["run"].is_string()
}

/// Converts one task.
pub(super) fn convert(object: &Value, image: Option<&str>) -> Result<Converted, ConvertError> {
    let mut omitted = Vec::new();
    let (mut job, mut environment, mut resources) = (
        FieldMap::default(),
        FieldMap::default(),
        FieldMap::default(),
    );
    let name = object["name"]
        .as_str()
        .unwrap_or("sky-task")
        .to_ascii_lowercase()
        .replace('_', "-");
    job.put("name", Some(name.clone().into()));
    let mut task = SourceFields::new("task", object, &mut omitted);
    task.take("name");
    let (requested, nodes) = (
        task.take("resources"),
        task.take("num_nodes").as_u64().unwrap_or(1),
    );
    let variables = task.take("envs");
    let (setup, run) = (task.take("setup"), task.take("run"));
    omit_unsupported(&mut task);
    task.finish();
    let mut fields = SourceFields::new("task.resources", &requested, &mut omitted);
    let accelerators = fields.take("accelerators");
    let own_image = fields
        .take("image_id")
        .as_str()
        .and_then(|text| text.strip_prefix("docker:"))
        .map(ToOwned::to_owned);
    let (cpus, memory) = (fields.take("cpus"), fields.take("memory"));
    resources.put(
        "cpu",
        amount(&cpus, "")
            .and_then(|cpus| cpus.parse::<f64>().ok())
            .map(|cpus| json!(whole::to_u64(cpus.ceil()))),
    );
    resources.put("memory", amount(&memory, "Gi").map(Value::from));
    CLOUD.iter().for_each(|key| drop(fields.take(key)));
    fields.finish();
    put_accelerators(&accelerators, &mut resources, &mut omitted);
    resources.put("node_count", Some(json!(nodes)).filter(|_| nodes > 1));
    let Some(image) = image.map(ToOwned::to_owned).or(own_image) else {
        return Err(ConvertError::new(
            "the task does not specify a container image",
            "specify one with `--image IMAGE`",
        ));
    };
    let text = [
        setup.as_str().unwrap_or_default(),
        run.as_str().unwrap_or_default(),
    ]
    .join("\n");
    let script = translate(
        &text,
        &ScriptContext {
            name: &name,
            one_task_per_pod: true,
            cpus: None,
        },
    );
    if setup.is_string() {
        omitted.push(
            "task.setup: gpuctl runs it before every start; an image that includes it starts faster"
                .to_owned(),
        );
    }
    omitted.extend(script.omitted);
    environment.put("image", Some(image.into()));
    environment.put("command", Some(command(&script.text)));
    environment.put("env", variables);
    let document = json!({
        "kind": "training", "version": "v0.1", "job": job.value(), "environment": environment.value(), "resources": resources.value(),
    });
    Ok(Converted {
        document,
        from: format!("sky/{name}"),
        omitted,
    })
}

/// Records fields without an equivalent, and what to use instead.
fn omit_unsupported(task: &mut SourceFields<'_>) {
    for (key, reason) in [
        (
            "workdir",
            "pods cannot access local files; use the image, `files:` or a workdir",
        ),
        (
            "file_mounts",
            "mount directories and claims with `storage.workdirs`",
        ),
        ("service", "`gpuctl init inference` creates a service file"),
    ] {
        if !task.take(key).is_null() {
            task.omit(&format!("{key}: {reason}"));
        }
    }
    let secrets = task.take("secrets");
    for key in secrets
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        task.omit(&format!(
            "secrets.{key}: run `gpuctl create secret NAME --from-env {key}`, and set `env: [{{name: {key}, secret: NAME}}]`"
        ));
    }
}

/// Parses `8`, `8+` or a number, and appends a unit.
fn amount(value: &Value, unit: &str) -> Option<String> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned);
    let digits = text.trim_end_matches('+');
    digits
        .parse::<f64>()
        .is_ok()
        .then(|| format!("{digits}{unit}"))
}

/// Reads the number and type of GPUs per node.
fn put_accelerators(requested: &Value, resources: &mut FieldMap, omitted: &mut Vec<String>) {
    if requested.as_array().is_some_and(|list| list.len() > 1)
        || requested.as_object().is_some_and(|map| map.len() > 1)
    {
        omitted.push("task.resources.accelerators: only the first type is used".to_owned());
    }
    match accelerators(requested) {
        Some((kind, count)) => {
            match GpuType::parse(&kind) {
                Some(kind) => resources.put("gpu-type", Some(kind.to_string().into())),
                None => omitted.push(format!(
                    "task.resources.accelerators: `{kind}` is not a known GPU type"
                )),
            }
            resources.put("gpu", Some(count.into()));
        }
        None => {
            if !requested.is_null() {
                omitted.push(format!(
                    "task.resources.accelerators: `{requested}` is not a whole number of GPUs of one type"
                ));
            }
            resources.put("gpu", Some(0.into()));
        }
    }
}
