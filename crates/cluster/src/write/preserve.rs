//! Preserves live fields that re-applying an unchanged file must not overwrite: the placement,
//! device claims, earlier defaults, and a number of pods that others set.

use serde_json::Value;

use super::keep_placement::{keep_gang, keep_placement};
use gpuctl_core::model::contract::labels::{
    DEFAULTS, REPLICAS, SHARED_MEMORY_VOLUME, SUPERVISOR_FILE, SUPERVISOR_HASH, SUPERVISOR_VOLUME,
};
use gpuctl_manifest::render::{CACHES, Object, Rendered};

/// Message for changed site defaults that are not applied until the file changes.
pub const SITE_DEFAULTS_WAIT: &str = "changed site defaults";

/// The inputs of a job that are unchanged since its creation.
#[derive(Clone, Copy)]
pub(crate) struct Sameness {
    /// Whether the file is unchanged, so that the placement is preserved.
    pub source: bool,
    /// Whether the job keeps its earlier defaults until the file changes.
    pub defaults: bool,
}

/// Returns the owner to apply with the fields that others have set, and the names of the defaults
/// that it does not get.
pub(crate) fn settled(
    root: &Object,
    live: &Value,
    rendered: &Rendered,
    sameness: Sameness,
) -> (Object, Vec<&'static str>) {
    let mut root = root.clone();
    let mut waiting = Vec::new();
    if sameness.source {
        each_template(&mut root.body, live, |body, live| {
            // New site defaults have their own tolerations, so do not preserve the placement with
            // them.
            if sameness.defaults || site_defaults(live) == site_defaults(body) {
                keep_placement(body, live);
            }
            if sameness.defaults {
                waiting.extend(
                    keep_site_defaults(body, live).unwrap_or_else(|| keep_defaults(body, live)),
                );
                waiting.extend(keep_supervision(body, live));
            }
        });
        waiting.dedup();
    }
    keep_size(&mut root, live, rendered);
    keep_program_hash(&mut root, live);
    (root, waiting)
}

/// Paths of the pod templates in an owner. LeaderWorkerSets have one for the leader of a replica
/// and one for its workers.
const TEMPLATES: [&str; 3] = [
    "/spec/template",
    "/spec/leaderWorkerTemplate/leaderTemplate",
    "/spec/leaderWorkerTemplate/workerTemplate",
];

/// Calls `settle` with each pod template of an owner, moved to `/spec/template`.
fn each_template(body: &mut Value, live: &Value, mut settle: impl FnMut(&mut Value, &Value)) {
    let original = body.clone();
    let mut templates = Vec::new();
    for path in TEMPLATES {
        let (Some(template), Some(live_template)) = (original.pointer(path), live.pointer(path))
        else {
            continue;
        };
        let (mut view, mut live_view) = (original.clone(), live.clone());
        (view["spec"]["template"], live_view["spec"]["template"]) =
            (template.clone(), live_template.clone());
        settle(&mut view, &live_view);
        templates.push((path, view["spec"]["template"].take()));
        if let Some(spec) = view["spec"]
            .as_object_mut()
            .filter(|_| path != TEMPLATES[0])
        {
            spec.remove("template");
        }
        *body = view;
    }
    for (path, template) in templates {
        if let Some(target) = body.pointer_mut(path) {
            *target = template;
        }
    }
}

/// Preserves the number of pods, and whether they run, if they are controlled by others.
fn keep_size(root: &mut Object, live: &Value, rendered: &Rendered) {
    let Some(spec) = root.body["spec"].as_object_mut() else {
        return;
    };
    // Pausing the job sets `suspend`, and so does a queue.
    spec.remove("suspend");
    // A pause sets `parallelism` to 0 if the user may not write Kueue's Workload.
    if spec.contains_key("parallelism")
        && live.pointer("/spec/parallelism") == Some(&Value::from(0))
    {
        spec.insert("parallelism".to_owned(), 0.into());
    }
    let Some(replicas) = spec.get("replicas").cloned() else {
        return;
    };
    let live_size = live
        .pointer("/spec/replicas")
        .cloned()
        .unwrap_or(Value::Null);
    let has_stored_size = live
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(REPLICAS))
        .is_some();
    let paused = has_stored_size && live_size == 0;
    let scaled = rendered
        .objects
        .iter()
        .any(|object| object.kind() == "HorizontalPodAutoscaler");
    if paused {
        spec.insert("replicas".to_owned(), live_size);
        root.body["metadata"]["annotations"][REPLICAS] = replicas.to_string().into();
    } else if scaled && size_is_of_others(live) {
        spec.remove("replicas");
    } else if scaled && !live_size.is_null() {
        // No other manager owns the field yet, so omitting it would reset it to 1.
        spec.insert("replicas".to_owned(), live_size);
    }
}

/// Returns the site defaults that an owner was created with.
pub(crate) fn site_defaults(body: &Value) -> Option<Value> {
    body.pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(DEFAULTS))
        .cloned()
}

/// Returns true if the job uses the object. An unchanged job does not use a claim template or pod
/// group that its live objects lack, because it keeps its scheduler and its way of claiming
/// devices.
pub(crate) fn is_still_used(object: &Object, live: &Value, same_source: bool) -> bool {
    let field = match object.plural {
        "resourceclaimtemplates" => "/spec/resourceClaims",
        "podgroups" => "/spec/schedulingGroup",
        _ if is_supervisor(object) => return !same_source || is_supervised(live),
        // The pod template of a Job is immutable, so a Job without a token can never use these
        // objects.
        "secrets" | "networkpolicies" => {
            return !same_source && live["kind"] != "Job" || has_token(live);
        }
        _ => return true,
    };
    !same_source
        || TEMPLATES
            .iter()
            .any(|path| live.pointer(&format!("{path}{field}")).is_some())
}

/// Preserves the pods if the site's defaults have changed since the job was created. Returns the
/// names of the changes that are not applied.
fn keep_site_defaults(body: &mut Value, live: &Value) -> Option<Vec<&'static str>> {
    let (previous, current) = (site_defaults(live), site_defaults(body));
    if previous == current {
        return None;
    }
    let annotations = body["metadata"]["annotations"].as_object_mut()?;
    match previous {
        Some(previous) => annotations.insert(DEFAULTS.to_owned(), previous),
        None => annotations.remove(DEFAULTS),
    };
    keep_gang(body, live);
    body["spec"]["template"] = live.pointer("/spec/template")?.clone();
    // Preserve the labels too, because they include the pool and the queue.
    body["metadata"]["labels"] = live.pointer("/metadata/labels")?.clone();
    let spec = body["spec"].as_object_mut()?;
    match live.pointer("/spec/ttlSecondsAfterFinished") {
        Some(time) => spec.insert("ttlSecondsAfterFinished".to_owned(), time.clone()),
        None => spec.remove("ttlSecondsAfterFinished"),
    };
    Some(vec![SITE_DEFAULTS_WAIT])
}

/// Removes defaults that an earlier version did not set when it created the job, because defaults
/// alone must not restart a job. Returns the names of the removed defaults.
fn keep_defaults(body: &mut Value, live: &Value) -> Vec<&'static str> {
    let mut waiting = Vec::new();
    let live = live.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    let Some(spec) = body
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
    else {
        return waiting;
    };
    let has_name = |item: &Value, name: &str| item["name"] == name;
    let contains = |list: &Value, name: &str| {
        list.as_array()
            .is_some_and(|items| items.iter().any(|item| has_name(item, name)))
    };
    if !contains(&live["volumes"], SHARED_MEMORY_VOLUME) {
        let mut drop_from = |list: Option<&mut Value>| {
            if let Some(items) = list.and_then(Value::as_array_mut) {
                let length = items.len();
                items.retain(|item| !has_name(item, SHARED_MEMORY_VOLUME));
                if items.len() < length && waiting.is_empty() {
                    waiting.push("a larger `/dev/shm`");
                }
            }
        };
        drop_from(spec.get_mut("volumes"));
        drop_from(
            spec.get_mut("containers")
                .and_then(|containers| containers.get_mut(0))
                .and_then(|main| main.get_mut("volumeMounts")),
        );
    }
    let live_variables = live.pointer("/containers/0/env").unwrap_or(&Value::Null);
    if let Some(variables) = spec
        .get_mut("containers")
        .and_then(|containers| containers.pointer_mut("/0/env"))
        .and_then(Value::as_array_mut)
    {
        let length = variables.len();
        variables.retain(|variable| {
            !CACHES
                .iter()
                .any(|(name, _)| has_name(variable, name) && !contains(live_variables, name))
        });
        if variables.len() < length {
            waiting.push("model cache folders");
        }
    }
    // Remove only the group, because the user set the other fields.
    if live["securityContext"]["fsGroup"].is_null()
        && let Some(context) = spec
            .get_mut("securityContext")
            .and_then(Value::as_object_mut)
        && context.remove("fsGroup").is_some()
    {
        context.remove("fsGroupChangePolicy");
        if context.is_empty() {
            spec.remove("securityContext");
        }
        waiting.push("the group of its claims");
    }
    waiting
}

/// Returns true if the object is the program that synchronizes ranks. It must exist as long as its
/// Job, because all ranks of a training must run the same program.
pub(crate) fn is_supervisor(object: &Object) -> bool {
    object.plural == "configmaps"
        && object
            .body
            .pointer("/data")
            .is_some_and(|data| data.get(SUPERVISOR_FILE).is_some())
}

pub(crate) fn is_supervised(owner: &Value) -> bool {
    supervisor_volume(owner).is_some()
}

/// Returns true if the ranks of a Job share a token. Jobs of earlier versions have none.
pub(crate) fn has_token(owner: &Value) -> bool {
    supervisor_volume(owner).is_some_and(|volume| volume.get("projected").is_some())
}

fn supervisor_volume(owner: &Value) -> Option<&Value> {
    let volumes = owner
        .pointer("/spec/template/spec/volumes")
        .and_then(Value::as_array)?;
    volumes
        .iter()
        .find(|volume| volume["name"] == SUPERVISOR_VOLUME)
}

/// Preserves the hash of the program that the Job was created with and still uses.
fn keep_program_hash(root: &mut Object, live: &Value) {
    let Some(annotations) = root
        .body
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    match program_hash(live) {
        Some(hash) => annotations.insert(SUPERVISOR_HASH.to_owned(), hash.into()),
        None => annotations.remove(SUPERVISOR_HASH),
    };
}

/// Returns the hash of the program that a Job was created with. Jobs of earlier versions have none.
pub(crate) fn program_hash(owner: &Value) -> Option<&str> {
    owner
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(SUPERVISOR_HASH))
        .and_then(Value::as_str)
}

/// Preserves the ranks' start command and failure policy, because they belong to the program of the
/// version that created the job. Returns the name of the change that is not applied.
fn keep_supervision(body: &mut Value, live: &Value) -> Option<&'static str> {
    let command = |body: &Value| {
        body.pointer("/spec/template/spec/containers/0/command")
            .cloned()
    };
    let (was_supervised, is_now_supervised) = (is_supervised(live), is_supervised(body));
    if !was_supervised && !is_now_supervised || command(body) == command(live) {
        return None;
    }
    body["spec"]["template"] = live.pointer("/spec/template")?.clone();
    body["spec"]["podFailurePolicy"] = live.pointer("/spec/podFailurePolicy")?.clone();
    (!was_supervised).then_some("ranks that restart together")
}

/// Returns true if another field manager, such as an autoscaler, owns the number of pods.
fn size_is_of_others(live: &Value) -> bool {
    // The autoscaler writes `replicas` through the `scale` subresource, as another field manager.
    let entries = live
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    entries
        .filter(|entry| entry["manager"] != "gpuctl")
        .any(|entry| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some())
}

#[cfg(test)]
mod tests;
