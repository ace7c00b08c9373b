//! Preserves where the pods of a live job run, how they claim devices, and which scheduler places
//! them.

use serde_json::Value;

use gpuctl_core::model::contract::labels::{
    GPU_TYPE, KUEUE_TOPOLOGY, VOLCANO_GROUP_SIZE, VOLCANO_QUEUE,
};

/// Preserves the placement. The cluster's nodes and the user's permissions determine it and may
/// have changed, but that must not restart a job whose file is unchanged.
pub(super) fn keep_placement(body: &mut Value, live: &Value) {
    for key in ["affinity", "tolerations"] {
        let pointer = format!("/spec/template/spec/{key}");
        let Some(spec) = body
            .pointer_mut("/spec/template/spec")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        match live.pointer(&pointer) {
            Some(value) => spec.insert(key.to_owned(), value.clone()),
            None => spec.remove(key),
        };
    }
    keep_claims(body, live);
    keep_gang(body, live);
    for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
        keep_type(body, labels, live);
    }
}

/// Preserves whether pods request devices with claims or as an extended resource.
fn keep_claims(body: &mut Value, live: &Value) {
    const CLAIMS: &str = "/spec/template/spec/resourceClaims";
    let (live_claims, claims) = (live.pointer(CLAIMS), body.pointer(CLAIMS));
    if live_claims.is_none() && claims.is_none() || live_claims == claims {
        return;
    }
    let resources = live
        .pointer("/spec/template/spec/containers/0/resources")
        .cloned();
    let claims = live_claims.cloned();
    let Some(spec) = body
        .pointer_mut("/spec/template/spec")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    match claims {
        Some(claims) => spec.insert("resourceClaims".to_owned(), claims),
        None => spec.remove("resourceClaims"),
    };
    if let (Some(resources), Some(container)) = (
        resources,
        spec.get_mut("containers")
            .and_then(|containers| containers.get_mut(0)),
    ) {
        container["resources"] = resources;
    }
}

/// Preserves the scheduler and the pod group. The cluster may now serve a kind of group that it did
/// not serve when the job was created.
pub(super) fn keep_gang(body: &mut Value, live: &Value) {
    let Some(template) = body.pointer_mut("/spec/template") else {
        return;
    };
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for (key, default) in [
        ("schedulingGroup", None),
        // The API server sets this default.
        ("schedulerName", Some("default-scheduler")),
    ] {
        match live
            .pointer(&format!("/spec/template/spec/{key}"))
            .filter(|value| default.is_none() || value.as_str() != default)
        {
            Some(value) => spec.insert(key.to_owned(), value.clone()),
            None => spec.remove(key),
        };
    }
    let annotations = |body: &Value, key: &str| {
        body.pointer("/metadata/annotations")
            .and_then(|annotations| annotations.get(key))
            .cloned()
    };
    for key in [VOLCANO_QUEUE, VOLCANO_GROUP_SIZE] {
        let live_value = annotations(live, key);
        if let Some(annotations) = body
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            match live_value {
                Some(value) => annotations.insert(key.to_owned(), value),
                None => annotations.remove(key),
            };
        }
    }
    let Some(template) = body.pointer_mut("/spec/template") else {
        return;
    };
    keep_topology(template, live);
    // Earlier versions did not set Volcano's queue on the pods of trainings, whose pod template is
    // immutable.
    let queue = live
        .pointer("/spec/template/metadata/annotations")
        .and_then(|annotations| annotations.get(VOLCANO_QUEUE));
    if let Some(annotations) = template
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
        .filter(|_| queue.is_none())
    {
        annotations.remove(VOLCANO_QUEUE);
    }
}

/// Preserves whether Kueue places the pods by topology, because the user may not be able to read
/// the topology.
fn keep_topology(template: &mut Value, live: &Value) {
    let live_topology = live
        .pointer("/spec/template/metadata/annotations")
        .and_then(|annotations| annotations.get(KUEUE_TOPOLOGY));
    match live_topology {
        Some(key) => template["metadata"]["annotations"][KUEUE_TOPOLOGY] = key.clone(),
        None => {
            if let Some(annotations) = template
                .pointer_mut("/metadata/annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove(KUEUE_TOPOLOGY);
            }
        }
    }
}

/// Preserves which label holds the GPU type.
pub(crate) fn keep_type(body: &mut Value, labels: &str, owner: &Value) {
    let Some(target) = body.pointer_mut(labels).and_then(Value::as_object_mut) else {
        return;
    };
    match owner
        .pointer(labels)
        .and_then(|labels| labels.get(GPU_TYPE))
    {
        Some(value) => target.insert(GPU_TYPE.to_owned(), value.clone()),
        None => target.remove(GPU_TYPE),
    };
}
