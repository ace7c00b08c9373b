//! Converts dstack configurations: tasks become trainings, services become inferences. The fields
//! follow dstack's reference of `.dstack.yml`.

use serde_json::{Map, Value, json};

use super::script::{Script, ScriptContext, command, translate};
use super::{ConvertError, Converted, FieldMap, SourceFields, accelerators};
use gpuctl_core::model::GpuType;

/// Returns true if the map's `type` is one of dstack's and it has no `kind`, unlike Kubernetes
/// objects.
pub(super) fn is_configuration(object: &Value) -> bool {
    let types = [
        "task",
        "service",
        "dev-environment",
        "fleet",
        "volume",
        "gateway",
    ];
    object["kind"].is_null()
        && object["type"]
            .as_str()
            .is_some_and(|kind| types.contains(&kind))
}

/// Converts one configuration.
pub(super) fn convert(object: &Value, image: Option<&str>) -> Result<Converted, ConvertError> {
    let kind = runnable_kind(object)?;
    let mut omitted = Vec::new();
    let (mut job, mut environment, mut resources, mut service) = (
        FieldMap::default(),
        FieldMap::default(),
        FieldMap::default(),
        FieldMap::default(),
    );
    let name = object["name"].as_str().unwrap_or("dstack-run").to_owned();
    job.put("name", Some(name.clone().into()));
    let mut fields = SourceFields::new(kind, object, &mut omitted);
    fields.take("type");
    fields.take("name");
    let own_image = fields.take("image").as_str().map(ToOwned::to_owned);
    let (commands, variables) = (fields.take("commands"), fields.take("env"));
    let (requested, nodes) = (
        fields.take("resources"),
        fields.take("nodes").as_u64().unwrap_or(1),
    );
    if kind == "service" {
        put_service(&mut fields, &mut service);
    } else {
        job.put("max_runtime", fields.take("max_duration"));
    }
    for key in [
        "python",
        "nvcc",
        "backends",
        "regions",
        "spot_policy",
        "max_price",
        "fleets",
        "idle_duration",
        "creation_policy",
    ] {
        fields.take(key);
    }
    fields.finish();
    put_resources(kind, &requested, nodes, &mut resources, &mut omitted);
    let Some(image) = image.map(ToOwned::to_owned).or(own_image) else {
        return Err(ConvertError::new(
            "the configuration does not specify an image",
            "specify one with `--image IMAGE`",
        ));
    };
    let script = script_of(&commands, &name);
    omitted.extend(script.omitted);
    environment.put("image", Some(image.into()));
    environment.put(
        "command",
        Some(command(&script.text)).filter(|_| !script.text.is_empty()),
    );
    environment.put("env", Some(environment_of(&variables, &mut omitted)));
    let mut document = FieldMap::default();
    let target = if kind == "task" {
        "training"
    } else {
        "inference"
    };
    document.put("kind", Some(target.into()));
    document.put("version", Some("v0.1".into()));
    document.put("job", job.value());
    document.put("environment", environment.value());
    document.put("resources", resources.value());
    document.put("service", service.value());
    Ok(Converted {
        document: document.value(),
        from: format!("dstack/{name}"),
        omitted,
    })
}

/// Returns the type of a task or a service. Refuses the other types, which do not run a command.
fn runnable_kind(object: &Value) -> Result<&str, ConvertError> {
    let kind = object["type"].as_str().unwrap_or_default();
    match kind {
        "task" | "service" => Ok(kind),
        "dev-environment" => Err(ConvertError::new(
            "a dstack dev environment runs an editor server",
            "create a notebook file with `gpuctl init notebook`, then open a shell with `gpuctl exec NAME`",
        )),
        other => {
            let message = format!("a dstack {other} describes machines, not a program to run");
            Err(ConvertError::new(
                message,
                "use the existing nodes, which `gpuctl get nodes` lists",
            ))
        }
    }
}

/// Reads the port and the replicas of a service.
fn put_service(fields: &mut SourceFields<'_>, service: &mut FieldMap) {
    // `port: 8000`, or `80:8000` with a different outer port.
    let port = fields.take("port");
    let port = port
        .as_u64()
        .or_else(|| port.as_str()?.rsplit(':').next()?.parse().ok());
    service.put("port", port.map(Value::from));
    let replicas = fields.take("replicas");
    service.put("replicas", replicas.as_u64().map(Value::from));
    if replicas.as_u64().is_none() && !replicas.is_null() {
        fields.omit("replicas: set the range with `autoscaling:`");
    }
}

/// Joins the commands and translates them as one script, because dstack runs them in one shell.
fn script_of(commands: &Value, name: &str) -> Script {
    let lines: Vec<&str> = commands
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    translate(
        &lines.join("\n"),
        &ScriptContext {
            name,
            one_task_per_pod: true,
            cpus: None,
        },
    )
}

/// Reads the resources of each node.
fn put_resources(
    kind: &str,
    requested: &Value,
    nodes: u64,
    resources: &mut FieldMap,
    omitted: &mut Vec<String>,
) {
    let mut fields = SourceFields::new(&format!("{kind}.resources"), requested, omitted);
    let (gpu, cpu, memory, shm) = (
        fields.take("gpu"),
        fields.take("cpu"),
        fields.take("memory"),
        fields.take("shm_size"),
    );
    fields.take("disk");
    fields.finish();
    gpus(&gpu, resources, omitted);
    // A range, such as `8..` or `8..16`, requests at least its lower bound.
    let minimum = |value: &Value| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), ToOwned::to_owned);
        text.split("..")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    resources.put("cpu", minimum(&cpu).parse::<u64>().ok().map(Value::from));
    let memory = minimum(&memory).to_ascii_uppercase();
    resources.put(
        "memory",
        memory
            .strip_suffix("GB")
            .map(|size| format!("{size}Gi").into()),
    );
    resources.put("node_count", Some(json!(nodes)).filter(|_| nodes > 1));
    if !shm.is_null() {
        omitted.push(format!(
            "{kind}.resources.shm_size: set `resources.shm` instead"
        ));
    }
}

/// Parses `8`, or the lower bound of `2..8`.
fn lower_bound(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str()?.split("..").next()?.trim().parse().ok())
}

/// Parses `A100:8`, `A100:80GB:8` or `{name, count, memory}`.
fn gpus(value: &Value, resources: &mut FieldMap, omitted: &mut Vec<String>) {
    let (kind, count) = match value {
        Value::Null => (None, 0),
        Value::Object(map) if map.contains_key("name") || map.contains_key("count") => (
            map.get("name")
                .and_then(Value::as_str)
                .map(ToOwned::to_owned),
            map.get("count")
                .map_or(1, |count| lower_bound(count).unwrap_or(1)),
        ),
        Value::String(text) => {
            let parts: Vec<&str> = text.split(':').collect();
            let count = parts
                .iter()
                .find_map(|part| part.split("..").next()?.parse::<u64>().ok());
            let is_name = |part: &&&str| {
                part.chars().any(|c| c.is_ascii_alphabetic())
                    && !part.to_ascii_uppercase().ends_with("GB")
            };
            (
                parts.iter().find(is_name).map(|part| (*part).to_owned()),
                count.unwrap_or(1),
            )
        }
        other => accelerators(other).map_or_else(
            || (None, other.as_u64().unwrap_or(1)),
            |(kind, count)| (Some(kind), count),
        ),
    };
    resources.put("gpu", Some(count.into()));
    match kind.as_deref().map(|kind| (kind, GpuType::parse(kind))) {
        Some((_, Some(kind))) => resources.put("gpu-type", Some(kind.to_string().into())),
        Some((kind, None)) => {
            omitted.push(format!("resources.gpu: `{kind}` is not a known GPU type"));
        }
        None => {}
    }
}

/// Parses `[K=V, SECRET]` or a map. Omits a name without a value, because dstack reads its value
/// from the caller's environment.
fn environment_of(value: &Value, omitted: &mut Vec<String>) -> Value {
    if value.is_object() || value.is_null() {
        return value.clone();
    }
    let mut map = Map::new();
    for entry in value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        match entry.split_once('=') {
            Some((key, value)) => {
                map.insert(key.to_owned(), value.into());
            }
            None => omitted.push(format!(
                "env.{entry}: run `gpuctl create secret NAME --from-env {entry}`, and set `env: [{{name: {entry}, secret: NAME}}]`"
            )),
        }
    }
    Value::Object(map)
}
