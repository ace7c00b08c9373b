//! Renders the table of fields for `explain`, `init` and the reference in the documentation.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_manifest::spec::reference::{HEALTH_CHECK, KINDS, SECURITY, fields_of_kind};
use gpuctl_manifest::spec::shape::{Field, Shape};

use super::defaults::DefaultsList;

/// The object that a path refers to.
#[derive(Clone, Copy, Debug)]
pub enum FieldLookup {
    /// The document of a kind.
    Document(&'static str),
    Field(&'static str, &'static Field),
}

/// Returns the path of each field without its kind, and without duplicates.
pub fn paths() -> Vec<String> {
    fn walk(fields: &[Field], kind: &str, parent: &str, paths: &mut Vec<String>) {
        for field in fields.iter().filter(|field| field.applies_to(kind)) {
            let path = if parent.is_empty() {
                field.name().to_owned()
            } else {
                format!("{parent}.{}", field.name())
            };
            if let Shape::Block(inner) = field.shape {
                walk(inner, kind, &path, paths);
            }
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    for (kind, _) in KINDS {
        walk(fields_of_kind(kind), kind, "", &mut paths);
    }
    paths
}

/// Looks up a path with or without its kind, such as `training.resources.gpu` or `resources.gpu`.
///
/// Returns the unknown part and the valid names in its place as an error.
pub fn find(path: &str) -> Result<FieldLookup, (String, Vec<&'static str>)> {
    let mut parts: Vec<&str> = path.split('.').collect();
    let kinds = KINDS.map(|(kind, _)| kind);
    let given = kinds
        .into_iter()
        .find(|kind| *kind == parts[0])
        // Accept `resource` as another name of the kind `pool`.
        .or((parts[0] == "resource").then_some("pool"));
    // `quota` and `pool` are names of kinds and of fields, as in `pool.quota.maxJobs`. Treat the
    // first part as a field if the second part is not a field of the kind.
    let named_alike = |kind: &&str| {
        below(fields_of_kind(kind), kind, kind)
            && !below(fields_of_kind(kind), parts.get(1).unwrap_or(kind), kind)
    };
    let nested = given
        .as_ref()
        .is_some_and(|kind| parts.len() > 1 && named_alike(kind));
    let kind = match given {
        Some(kind) => {
            if !nested {
                parts.remove(0);
            }
            kind
        }
        // Without a kind, use the first kind that has a field with the name of the first part.
        None => kinds
            .into_iter()
            .find(|kind| below(fields_of_kind(kind), parts[0], kind))
            .unwrap_or("training"),
    };
    let (mut fields, mut lookup) = (fields_of_kind(kind), FieldLookup::Document(kind));
    for part in parts {
        let Some(field) = fields
            .iter()
            .find(|field| field.applies_to(kind) && field.names.contains(&part))
        else {
            let mut suggestions: Vec<&str> = fields
                .iter()
                .filter(|field| field.applies_to(kind))
                .map(Field::name)
                .collect();
            if matches!(lookup, FieldLookup::Document(_)) && given.is_none() {
                suggestions.extend(kinds);
            }
            return Err((part.to_owned(), suggestions));
        };
        lookup = FieldLookup::Field(kind, field);
        fields = inner(field);
    }
    Ok(lookup)
}

fn below(fields: &[Field], name: &str, kind: &str) -> bool {
    fields
        .iter()
        .any(|field| field.applies_to(kind) && field.names.contains(&name))
}

fn inner(field: &Field) -> &'static [Field] {
    match field.shape {
        Shape::Block(fields)
        | Shape::Workdirs(fields)
        | Shape::ByName(fields)
        | Shape::ListOf(fields) => fields,
        Shape::HealthCheck => HEALTH_CHECK,
        Shape::Security => SECURITY,
        _ => &[],
    }
}

fn what(shape: &Shape) -> String {
    match shape {
        Shape::Text | Shape::Image => "text".to_owned(),
        Shape::Label => "name: lower-case letters, digits, `-`".to_owned(),
        Shape::ObjectName => "object name".to_owned(),
        Shape::Word(words) => words.join(" | "),
        Shape::Whole(low, u32::MAX) => format!("whole number, at least {low}"),
        Shape::Whole(low, high) => format!("whole number from {low} to {high}"),
        Shape::Boolean => "true | false".to_owned(),
        Shape::Bytes => "size with a unit, such as 64Gi".to_owned(),
        Shape::Cpu => "CPUs, such as 8 or 500m".to_owned(),
        Shape::Duration => "duration, such as 30s or 12h".to_owned(),
        Shape::ShortDuration => "duration of at most 1h".to_owned(),
        Shape::AbsolutePath => "absolute path".to_owned(),
        Shape::ModelPath => "absolute path, or text".to_owned(),
        Shape::UrlPath => "path starting with /".to_owned(),
        Shape::Share => "fraction up to 1, or bytes".to_owned(),
        Shape::GpuType => "GPU type".to_owned(),
        Shape::Command => "list of words, or one string".to_owned(),
        Shape::Variables => "map, or list of {name, …}".to_owned(),
        Shape::HealthCheck => "path, or map".to_owned(),
        Shape::Security => "restricted, or map".to_owned(),
        Shape::Files => "list of files, or map path: file".to_owned(),
        Shape::Labels | Shape::NodeLabels | Shape::TextMap | Shape::Block(_) | Shape::Overlay => {
            "map".to_owned()
        }
        Shape::OneOrMany(inner) => format!("{}, or a list", what(inner)),
        Shape::Workdirs(_) => "list of maps, or of paths".to_owned(),
        Shape::PoolNodes => "list of nodes, or map node: {gpu-type}".to_owned(),
        Shape::ByName(_) => "map of maps, by name".to_owned(),
        Shape::ListOf(_) => "list of maps".to_owned(),
        Shape::Rdma => "auto, or NAME:COUNT of a node's resource".to_owned(),
        Shape::LabelKey => "label key".to_owned(),
    }
}

fn list(fields: &[Field], kind: &str) -> String {
    let mut text = "\nFIELDS:\n".to_owned();
    for field in fields.iter().filter(|field| field.applies_to(kind)) {
        let needed = if field.is_needed(kind) {
            " -required-"
        } else {
            ""
        };
        text.push_str(&format!(
            "  {} <{}>{needed}\n    {}\n",
            field.name(),
            what(&field.shape),
            field.about
        ));
    }
    text
}

/// Renders a field like `kubectl explain`.
pub fn explained(path: &str, lookup: FieldLookup) -> String {
    match lookup {
        FieldLookup::Document(kind) => {
            let about = KINDS
                .iter()
                .find(|(name, _)| *name == kind)
                .map_or("", |(_, about)| about);
            format!(
                "KIND:  {kind}\n\nDESCRIPTION:\n  {about}\n{}",
                list(fields_of_kind(kind), kind)
            )
        }
        FieldLookup::Field(kind, field) => {
            let needed = if field.is_needed(kind) {
                " -required-"
            } else {
                ""
            };
            let mut text = format!(
                "KIND:  {kind}\nFIELD: {path} <{}>{needed}\n\nDESCRIPTION:\n  {}\n",
                what(&field.shape),
                field.about
            );
            if field.names.len() > 1 {
                text.push_str(&format!(
                    "\nALSO WRITTEN: {}\n",
                    field.names[1..].join(", ")
                ));
            }
            if !field.sample.is_empty() {
                text.push_str(&format!(
                    "\nEXAMPLE:\n  {}: {}\n",
                    field.name(),
                    sample(field, kind, path)
                ));
            }
            if !inner(field).is_empty() {
                text.push_str(&list(inner(field), kind));
            }
            text
        }
    }
}

/// The JSON output of `explain`.
#[derive(JsonSchema, Serialize)]
pub struct Explanation<'a> {
    kind: &'a str,
    /// The requested path; `null` for a complete document.
    field: Option<&'a str>,
    /// The description of the field itself.
    #[serde(flatten)]
    about: Option<FieldItem<'a>>,
    /// Names of the fields that it contains.
    fields: Vec<&'a str>,
    /// The site's defaults for this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<DefaultsList<'a>>,
}

#[derive(JsonSchema, Serialize)]
struct FieldItem<'a> {
    r#type: String,
    required: bool,
    description: &'a str,
    /// All accepted spellings of the name.
    spellings: &'a [&'a str],
    example: Option<String>,
}

pub fn document(path: &str, lookup: FieldLookup) -> Explanation<'_> {
    let names = |fields: &'static [Field], kind: &str| {
        fields
            .iter()
            .filter(|field| field.applies_to(kind))
            .map(Field::name)
            .collect::<Vec<_>>()
    };
    match lookup {
        FieldLookup::Document(kind) => Explanation {
            kind,
            field: None,
            about: None,
            fields: names(fields_of_kind(kind), kind),
            defaults: None,
        },
        FieldLookup::Field(kind, field) => Explanation {
            kind,
            field: Some(path),
            about: Some(FieldItem {
                r#type: what(&field.shape),
                required: field.is_needed(kind),
                description: field.about,
                spellings: field.names,
                example: Some(sample(field, kind, path)).filter(|text| !text.is_empty()),
            }),
            fields: names(inner(field), kind),
            defaults: None,
        },
    }
}

/// Returns an example value for a field.
pub(super) fn sample(field: &Field, kind: &str, path: &str) -> String {
    // A starter file must run unchanged.
    let example = match (kind, path) {
        ("training", "environment.command") => {
            "[python, -c, \"import torch; print(torch.cuda.get_device_name(0))\"]"
        }
        ("training", "environment.image") => "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
        ("inference", "environment.image") => "vllm/vllm-openai:v0.11.0",
        ("inference", "environment.command") => {
            "[vllm, serve, Qwen/Qwen2.5-0.5B-Instruct, --port, \"8000\"]"
        }
        ("notebook", "environment.image") => "quay.io/jupyter/pytorch-notebook:cuda12-python-3.12",
        ("compute", "environment.image") => "python:3.12-slim",
        ("compute", "environment.command") => "[python, -m, http.server, \"8000\"]",
        ("pool", "nodes") => "[] # names, as `gpuctl get nodes` lists them",
        _ => field.sample,
    };
    example.replace("NAME", &format!("my-{kind}"))
}

/// Renders the reference of all fields as Markdown.
pub fn markdown() -> String {
    const JOBS: [&str; 4] = ["training", "inference", "notebook", "compute"];
    let mut text = String::from(
        "# The specification file\n\nThis page is generated from the table of fields behind `gpuctl explain`, `gpuctl init` and\n\
         `gpuctl schema`; `gpuctl explain FIELD` prints one of them with an example. A file can contain\n\
         several documents, separated by `---`.\n",
    );
    for (title, kinds) in [
        ("Jobs", &JOBS[..]),
        ("Pools", &["pool"][..]),
        ("Quotas", &["quota"][..]),
        ("Site defaults", &["defaults"][..]),
    ] {
        text.push_str(&format!("\n## {title}\n\n"));
        for (kind, about) in KINDS.iter().filter(|(kind, _)| kinds.contains(kind)) {
            text.push_str(&format!("- `kind: {kind}`: {about}\n"));
        }
        text.push_str("\n| Field | Value | Meaning |\n|---|---|---|\n");
        let mut seen = BTreeSet::new();
        for kind in kinds {
            rows(fields_of_kind(kind), "", kind, kinds, &mut seen, &mut text);
        }
    }
    text
}

/// Adds table rows for the fields that are not in `seen`, and for their nested fields.
fn rows(
    fields: &[Field],
    prefix: &str,
    kind: &'static str,
    kinds: &[&'static str],
    seen: &mut BTreeSet<String>,
    text: &mut String,
) {
    for field in fields.iter().filter(|field| field.applies_to(kind)) {
        let path = format!("{prefix}{}", field.name());
        if seen.insert(path.clone()) {
            let restricted_kinds: Vec<&str> = kinds
                .iter()
                .copied()
                .filter(|kind| field.applies_to(kind))
                .collect();
            let restriction = if restricted_kinds.len() == kinds.len() {
                String::new()
            } else {
                format!(" Only {}.", restricted_kinds.join(", "))
            };
            let spellings = &field.names[1..];
            let alternatives = if spellings.is_empty() {
                String::new()
            } else {
                format!(" (also `{}`)", spellings.join("`, `"))
            };
            let cell = |text: &str| text.replace('|', "\\|");
            let about = cell(field.about);
            text.push_str(&format!(
                "| `{path}`{alternatives} | {} | {about}{restriction} |\n",
                cell(&what(&field.shape))
            ));
        }
        rows(inner(field), &format!("{path}."), kind, kinds, seen, text);
    }
}

#[cfg(test)]
mod tests;
