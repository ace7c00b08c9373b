//! Reads one scope of `kind: defaults`: all jobs, or the jobs of one kind or pool.

use super::defaults_document::{Defaults, SiteLimits};
use super::fields::{Fields, Reader};
use super::reference::{self, ENFORCEABLE};
use super::site_share::SiteToleration;
use super::tree::{YamlNode, YamlValue};
use super::values::{EnvValue, EnvVariable, Priority};
use super::{environment, job, security};
use gpuctl_core::error::Problem;
use gpuctl_core::model::secrets::is_secret_name;

/// Reads a field with several values, or returns an empty list if the field is missing.
fn read_list<T>(
    reader: &mut Reader,
    fields: &mut Fields<'_>,
    name: &'static str,
    read: impl FnOnce(&mut Reader, &YamlNode) -> Vec<T>,
) -> Vec<T> {
    fields
        .take(reader, name)
        .map_or_else(Vec::new, |node| read(reader, node))
}

fn annotations(reader: &mut Reader, node: &YamlNode) -> Vec<(String, String)> {
    reader
        .text_map(node, "annotations")
        .into_iter()
        .map(|(key, value)| (key.value, value.value))
        .collect()
}

fn tolerations(reader: &mut Reader, node: &YamlNode) -> Vec<SiteToleration> {
    let items = reader.list(node, "tolerations");
    items
        .into_iter()
        .filter_map(|item| toleration(reader, item))
        .collect()
}

pub(super) fn scope(reader: &mut Reader, node: &YamlNode, path: &'static str) -> Option<Defaults> {
    let mut fields = reader.map(node, path, reference::SCOPE)?;
    let values = source_values(node);
    let mut text = |reader: &mut Reader, name| {
        fields
            .take(reader, name)
            .and_then(|node| reader.text(node, name))
            .map(|text| text.value)
    };
    let (queue, priority, storage_class) = (
        text(reader, "queue"),
        text(reader, "priority"),
        text(reader, "storage_class"),
    );
    let mut time = |reader: &mut Reader, name| {
        fields
            .take(reader, name)
            .and_then(|node| reader.duration(node, name))
    };
    let (grace_period, max_runtime) = (time(reader, "grace_period"), time(reader, "max_runtime"));
    let keep_for = time(reader, "keep_for");
    let pool = fields
        .take(reader, "pool")
        .and_then(|node| reader.object_name(node, "pool"));
    let (image_pull_secrets, image_pull_policy) = environment::pulling(reader, &mut fields);
    let labels = read_list(reader, &mut fields, "labels", job::labels);
    let annotations = read_list(reader, &mut fields, "annotations", annotations);
    let env = read_list(reader, &mut fields, "env", env_without_secrets);
    let shm = fields
        .take(reader, "shm")
        .and_then(|node| reader.bytes(node, "shm"))
        .map(|text| text.value);
    let security = security::security(reader, &mut fields);
    let tolerations = read_list(reader, &mut fields, "tolerations", tolerations);
    let node_selector = read_list(reader, &mut fields, "node_selector", node_labels);
    let limits = fields
        .take(reader, "limits")
        .and_then(|node| limits(reader, node))
        .unwrap_or_default();
    let enforced = read_list(reader, &mut fields, "enforced", |reader, node| {
        enforced(reader, node, &values)
    });
    fields.finish(reader);
    let priority = priority.map(|text| Priority::parse(&text));
    // `max_runtime: 0` means no limit.
    let max_runtime = max_runtime.filter(|time| !time.is_zero());
    Some(Defaults {
        pool,
        queue,
        priority,
        grace_period,
        max_runtime,
        keep_for,
        labels,
        annotations,
        image_pull_secrets,
        image_pull_policy,
        env,
        shm,
        security,
        storage_class,
        tolerations,
        node_selector,
        limits,
        enforced,
        source_values: values,
    })
}

/// Reads variables and warns about secrets, because every user of the cluster may read the
/// defaults.
fn env_without_secrets(reader: &mut Reader, node: &YamlNode) -> Vec<EnvVariable> {
    let env = environment::variables(reader, node);
    for variable in &env {
        if matches!(variable.value, EnvValue::Text(_)) && is_secret_name(&variable.name) {
            let message = format!(
                "every user can read `{}` in the site's defaults",
                variable.name
            );
            let note = format!(
                "store it in a Secret: {{name: {}, secret: NAME}}",
                variable.name
            );
            reader
                .problems
                .push(Problem::warning(node.at, message, note));
        }
    }
    env
}

/// Collects the set fields with their canonical names, in the order of the field reference.
fn source_values(node: &YamlNode) -> Vec<(&'static str, serde_json::Value)> {
    let YamlValue::Map(entries) = &node.value else {
        return Vec::new();
    };
    let set = |names: &[&str]| {
        entries
            .iter()
            .find(|entry| {
                names.contains(&entry.key.as_str()) && !matches!(entry.value.value, YamlValue::Null)
            })
            .map(|entry| entry.value.to_json())
    };
    let fields = reference::SCOPE
        .iter()
        .filter(|field| field.name() != "enforced");
    fields
        .filter_map(|field| Some((field.name(), set(field.names)?)))
        .collect()
}

fn enforced(
    reader: &mut Reader,
    node: &YamlNode,
    values: &[(&'static str, serde_json::Value)],
) -> Vec<&'static str> {
    let mut enforced = Vec::new();
    for item in reader.list_or_one(node) {
        let Some(field) = reader.word(item, "enforced", &ENFORCEABLE) else {
            continue;
        };
        if values.iter().any(|(name, _)| *name == field) {
            enforced.push(field);
        } else {
            let note = format!("set `{field}` in the same scope, or remove it from `enforced`");
            reader.problems.push(Problem::error(
                item.at,
                format!("`{field}` is enforced but not set"),
                note,
            ));
        }
    }
    enforced
}

fn limits(reader: &mut Reader, node: &YamlNode) -> Option<SiteLimits> {
    let mut fields = reader.map(node, "limits", reference::SITE_LIMITS)?;
    let mut whole = |reader: &mut Reader, name, least| {
        fields
            .take(reader, name)
            .and_then(|node| reader.whole_number(node, name, least..=u32::MAX))
    };
    let (gpu, node_count, replicas) = (
        whole(reader, "gpu", 0),
        whole(reader, "node_count", 1),
        whole(reader, "replicas", 0),
    );
    let cpu = fields
        .take(reader, "cpu")
        .and_then(|node| reader.cpu(node, "cpu"))
        .map(|text| text.value);
    let memory = fields
        .take(reader, "memory")
        .and_then(|node| reader.bytes(node, "memory"))
        .map(|text| text.value);
    let max_runtime = fields
        .take(reader, "max_runtime")
        .and_then(|node| reader.duration(node, "max_runtime"));
    fields.finish(reader);
    let max_runtime = max_runtime.filter(|time| !time.is_zero());
    Some(SiteLimits {
        gpu,
        node_count,
        replicas,
        cpu,
        memory,
        max_runtime,
    })
}

fn toleration(reader: &mut Reader, node: &YamlNode) -> Option<SiteToleration> {
    let mut fields: Fields<'_> = reader.map(node, "tolerations", reference::TOLERATION)?;
    let key = fields
        .need(reader, "key", "the taint key")
        .and_then(|node| label_key(reader, node, "key"));
    let operator = fields.take(reader, "operator").and_then(|node| {
        Some((
            reader.word(node, "operator", &["Exists", "Equal"])?,
            node.at,
        ))
    });
    let value = fields
        .take(reader, "value")
        .and_then(|node| reader.text(node, "value"));
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let effect = fields
        .take(reader, "effect")
        .and_then(|node| reader.word(node, "effect", &effects));
    fields.finish(reader);
    if let (Some(("Exists", _)), Some(value)) = (operator, &value) {
        let note = "remove `value`, or write `operator: Equal`";
        reader.problems.push(Problem::error(
            value.at,
            "`operator: Exists` does not accept a value",
            note,
        ));
    }
    // In Kubernetes, a toleration without `operator` means `Equal`. In defaults, a toleration
    // without a value tolerates every value, as `Exists` does.
    let any = operator.is_none_or(|(word, _)| word == "Exists") && value.is_none();
    let value = if any {
        None
    } else {
        Some(value.map_or_else(String::new, |text| text.value))
    };
    Some(SiteToleration {
        key: key?,
        value,
        effect: effect.unwrap_or("NoSchedule"),
    })
}

pub(super) fn label_key(reader: &mut Reader, node: &YamlNode, name: &str) -> Option<String> {
    let text = reader.text(node, name)?;
    if !job::is_label_key(&text.value) {
        let note = "use at most 63 letters, digits, `-`, `_` or `.`, optionally after a prefix such as example.com/";
        reader.problems.push(Problem::error(
            text.at,
            format!("`{}` is not a valid label key", text.value),
            note,
        ));
        return None;
    }
    Some(text.value)
}

fn node_labels(reader: &mut Reader, node: &YamlNode) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    for (key, value) in reader.text_map(node, "node_selector") {
        if !job::is_label_key(&key.value) {
            let note = "use at most 63 letters, digits, `-`, `_` or `.`, optionally after a prefix such as example.com/";
            reader.problems.push(Problem::error(
                key.at,
                format!("`{}` is not a valid label key", key.value),
                note,
            ));
        } else if !job::is_label_value(&value.value) {
            let note = "use at most 63 letters, digits, `-`, `_` or `.`";
            reader.problems.push(Problem::error(
                value.at,
                format!("`{}` is not a valid label value", value.value),
                note,
            ));
        } else {
            labels.push((key.value, value.value));
        }
    }
    labels
}
