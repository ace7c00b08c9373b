//! Sets the names, labels and annotations by which `describe`, `get` and `delete` find objects
//! later.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Target;
use crate::spec::{JobDocument, Priority};
use gpuctl_core::model::GpuType;
use gpuctl_core::model::contract::labels::{
    DEFAULTS, DESCRIPTION, GPU_TYPE, JOB, KIND, MANAGED_BY, MANAGED_BY_US, NAME, POOL_LABEL,
    SOURCE, USER, VERSION,
};

type LabelMap = BTreeMap<String, String>;

/// Labels of every object and pod of a job.
pub(super) fn labels(job: &JobDocument, target: &Target, gpu_type: Option<&GpuType>) -> LabelMap {
    let mut labels: LabelMap = job.labels.iter().cloned().collect();
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    set(MANAGED_BY, MANAGED_BY_US);
    set(JOB, job.id());
    set(KIND, job.kind.word());
    if let Some(pool) = &job.resources.pool {
        set(POOL_LABEL, &pool.value);
    }
    if let Some(user) = target
        .user
        .as_deref()
        .map(label_value)
        .filter(|user| !user.is_empty())
    {
        set(USER, &user);
    }
    if let Some(gpu_type) = gpu_type {
        set(GPU_TYPE, &label_value(&gpu_type.to_string()));
    }
    labels
}

/// Returns the user's annotations, which every object and pod gets.
pub(super) fn annotations(job: &JobDocument) -> LabelMap {
    job.annotations.iter().cloned().collect()
}

/// Annotations of the root object only.
pub(super) fn root_annotations(job: &JobDocument, target: &Target) -> LabelMap {
    let mut annotations = annotations(job);
    let mut set = |key: &str, value: &str| annotations.insert(key.to_owned(), value.to_owned());
    set(SOURCE, &job.source);
    set(VERSION, &job.version);
    if !job.site.inherited.is_empty() {
        let values: BTreeMap<&str, &str> = job
            .site
            .inherited
            .iter()
            .map(|inherited| (inherited.field.as_str(), inherited.mark.as_str()))
            .collect();
        set(
            DEFAULTS,
            &serde_json::to_string(&values).expect("text is JSON"),
        );
    }
    if let Some(description) = &job.description {
        set(DESCRIPTION, description);
    }
    if let Some(user) = &target.user {
        set(USER, user);
    }
    if job.generated.is_some() {
        set(NAME, &job.name.value);
    }
    annotations
}

/// Metadata of an object that belongs to the job.
pub(super) fn metadata(
    job: &JobDocument,
    target: &Target,
    name: &str,
    labels: &LabelMap,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(target.namespace.clone()),
        labels: Some(labels.clone()),
        annotations: Some(annotations(job)).filter(|map| !map.is_empty()),
        ..ObjectMeta::default()
    }
}

/// Converts text to a label value. Replaces characters such as the `@` and `:` of user names, which
/// label values cannot contain.
pub fn label_value(text: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
            c
        } else {
            '_'
        }
    };
    let value: String = text.chars().map(allowed).take(63).collect();
    value
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

/// Returns the PriorityClass of a priority: one that gpuctl creates, or the user's own class.
pub fn priority_class_name(priority: &Priority) -> &str {
    match priority {
        Priority::High => "gpuctl-high",
        Priority::Medium => "gpuctl-medium",
        Priority::Low => "gpuctl-low",
        Priority::Class(name) => name,
    }
}

/// Returns the value of the PriorityClass, or `None` if gpuctl does not create the class.
pub(super) fn priority_value(priority: &Priority) -> Option<i32> {
    match priority {
        Priority::High => Some(1000),
        Priority::Medium => Some(0),
        Priority::Low => Some(-10),
        Priority::Class(_) => None,
    }
}
