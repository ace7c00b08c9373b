//! Reads the `job:` and `resources:` blocks of all kinds of jobs.

use super::document::{JobDocument, JobResources, Training, longest_name};
use super::fields::{Fields, Located, Reader};
use super::service_document::{Autoscaling, Service};
use super::site_share::SiteShare;
use super::tree::YamlNode;
use super::values::{Priority, Restart};
use super::{
    environment, overlay, reference, resources, restart, secrets, security, service, storage,
};
use gpuctl_core::error::Problem;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::{GangMode, JobKind, QueueSystem};

/// The fields of the `job:` block.
struct Head {
    name: Option<Located<String>>,
    namespace: Option<Located<String>>,
    description: Option<String>,
    priority: Option<Priority>,
    labels: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
    queue: Option<String>,
    queue_system: Option<QueueSystem>,
    grace_period: Option<std::time::Duration>,
    training: Training,
}

pub(super) fn job(
    reader: &mut Reader,
    root: &YamlNode,
    kind: JobKind,
    version: String,
    source: String,
) -> Option<JobDocument> {
    let mut document = reader.map(root, "", reference::DOCUMENT)?;
    document.take(reader, "kind");
    document.take(reader, "version");
    let head = head(reader, &mut document, kind);
    let environment = environment::environment(reader, &mut document);
    let model = environment::model(reader, &mut document);
    let resources = resources::resources(reader, &mut document, kind);
    let workdirs = storage::workdirs(reader, &mut document);
    let security = security::security(reader, &mut document);
    let files = storage::files(reader, &mut document);
    let pod = document.take(reader, "pod").and_then(|node| {
        reader.map(node, "pod", &[])?;
        overlay::check(reader, node);
        Some(node.to_json())
    });
    let (service, autoscaling) = serving(reader, &mut document, kind, &resources);
    let checkpoint = restart::checkpoint(reader, &mut document, kind);
    document.finish(reader);
    let (head, environment) = (head?, environment?);
    let training = Training {
        checkpoint,
        ..head.training
    };
    let name = head.name?;
    check_name_length(reader, &name, kind, resources.node_count);
    Some(JobDocument {
        kind,
        version,
        source,
        name,
        generated: None,
        namespace: head.namespace,
        description: head.description,
        priority: head.priority,
        labels: head.labels,
        annotations: head.annotations,
        queue: head.queue,
        queue_system: head.queue_system,
        image: environment.image,
        image_pull_secrets: environment.image_pull_secrets,
        image_pull_policy: environment.image_pull_policy,
        command: environment.command,
        args: environment.args,
        env: environment.env,
        working_dir: environment.working_dir,
        model,
        resources,
        workdirs,
        security,
        pod,
        files,
        grace_period: head.grace_period,
        training,
        service,
        autoscaling,
        site: SiteShare::default(),
    })
}

/// Reads `service`, which trainings do not have, and `autoscaling`, which notebooks do not have
/// either.
fn serving(
    reader: &mut Reader,
    document: &mut Fields<'_>,
    kind: JobKind,
    resources: &JobResources,
) -> (Option<Service>, Option<Autoscaling>) {
    if kind == JobKind::Training {
        let note = "remove it, or use `kind: inference` to serve requests";
        document.refuse(
            reader,
            "service",
            "a training cannot have a `service`",
            note,
        );
        document.refuse(
            reader,
            "autoscaling",
            "a training cannot have `autoscaling`",
            "set `resources.node_count` instead",
        );
        (None, None)
    } else {
        let service = service::service(reader, document, kind != JobKind::Notebook);
        if kind == JobKind::Notebook {
            document.refuse(
                reader,
                "autoscaling",
                "a notebook cannot have `autoscaling`",
                "a notebook always has one pod; use `kind: inference` to scale",
            );
        }
        let at = document.position_of("autoscaling");
        let autoscaling = service::autoscaling(reader, document);
        if let (Some(at), Some(autoscaling)) = (at, &autoscaling) {
            service::check_metrics(reader, autoscaling, resources, at);
        }
        (service, autoscaling)
    }
}

fn check_name_length(reader: &mut Reader, name: &Located<String>, kind: JobKind, node_count: u32) {
    let longest = longest_name(kind, node_count);
    if name.value.len() > longest {
        let message = format!(
            "`{}` has {} characters; a {kind} name can have at most {longest}",
            name.value,
            name.value.len()
        );
        reader.problems.push(
            Problem::error(
                name.at,
                message,
                "shorten it, because pod names add a suffix",
            )
            .with_id("name-length"),
        );
    }
}

fn head(reader: &mut Reader, document: &mut Fields<'_>, kind: JobKind) -> Option<Head> {
    let node = document.need(reader, "job", "it needs at least `name:`")?;
    let mut fields = reader.map(node, "job", reference::JOB)?;
    let name = fields
        .need(reader, "name", "the name of the job and its objects")
        .and_then(|node| reader.dns_label(node, "name", 63));
    let namespace = fields
        .take(reader, "namespace")
        .and_then(|node| reader.object_name(node, "namespace"));
    let description = fields
        .take(reader, "description")
        .and_then(|node| reader.text(node, "description"))
        .map(|text| text.value);
    let priority = fields
        .take(reader, "priority")
        .and_then(|node| reader.text(node, "priority"))
        .map(|text| Priority::parse(&text.value));
    let labels = fields
        .take(reader, "labels")
        .map_or_else(Vec::new, |node| labels(reader, node));
    let annotations = fields
        .take(reader, "annotations")
        .map_or_else(Vec::new, |node| annotations(reader, node));
    let queue = fields
        .take(reader, "queue")
        .and_then(|node| reader.text(node, "queue"))
        .map(|text| text.value);
    let system = fields
        .take(reader, "queue_system")
        .and_then(|node| reader.word(node, "queue_system", &QueueSystem::WORDS));
    let queue_system = system.and_then(|word| {
        QueueSystem::ALL
            .into_iter()
            .find(|system| system.word() == word)
    });
    let grace_period = fields
        .take(reader, "grace_period")
        .and_then(|node| reader.duration(node, "grace_period"));
    let training = if kind == JobKind::Training {
        training(reader, &mut fields)
    } else {
        Training::default()
    };
    fields.finish(reader);
    Some(Head {
        name,
        namespace,
        description,
        priority,
        labels,
        annotations,
        queue,
        queue_system,
        grace_period,
        training,
    })
}

fn annotations(reader: &mut Reader, node: &YamlNode) -> Vec<(String, String)> {
    let pairs = reader.text_map(node, "job.annotations");
    for (key, value) in pairs
        .iter()
        .filter(|(_, value)| secrets::is_mask(&value.value))
    {
        let message = format!(
            "the value of `{}` was masked when this file was printed, and is lost",
            key.value
        );
        reader.problems.push(Problem::error(
            value.at,
            message,
            "write the value, or remove the annotation",
        ));
    }
    pairs
        .into_iter()
        .map(|(key, value)| (key.value, value.value))
        .collect()
}

fn training(reader: &mut Reader, fields: &mut Fields<'_>) -> Training {
    let mut number = |reader: &mut Reader, name: &'static str, range| {
        fields
            .take(reader, name)
            .and_then(|node| reader.whole_number(node, name, range))
    };
    let epochs = number(reader, "epochs", 1..=u32::MAX);
    let batch_size = number(reader, "batch_size", 1..=u32::MAX);
    let retries = number(reader, "retries", 0..=100);
    let restart = restart::restart(reader, fields, retries);
    let gang = fields
        .take(reader, "gang")
        .and_then(|node| reader.word(node, "gang", &GangMode::WORDS));
    let gang = gang.map_or_else(GangMode::default, GangMode::from_word);
    let topology = fields
        .take(reader, "topology")
        .and_then(|node| reader.text(node, "topology"))
        .filter(|text| {
            let is_label = is_label_key(&text.value);
            if !is_label {
                let message = format!(
                    "`topology` must be `rack`, `block` or a node label, not `{}`",
                    text.value
                );
                reader.problems.push(Problem::error(
                    text.at,
                    message,
                    "use a label such as topology.kubernetes.io/rack",
                ));
            }
            is_label
        });
    let mut duration = |reader: &mut Reader, name: &'static str| {
        fields
            .take(reader, name)
            .and_then(|node| reader.duration(node, name))
    };
    Training {
        epochs,
        batch_size,
        retries: if restart == Some(Restart::Never) {
            0
        } else {
            retries.unwrap_or(3)
        },
        restart,
        hang_timeout: duration(reader, "hang_timeout").filter(|time| !time.is_zero()),
        checkpoint: None,
        max_runtime: duration(reader, "max_runtime").filter(|time| !time.is_zero()),
        gang,
        topology,
        gang_timeout: duration(reader, "gang_timeout"),
        keep_for: duration(reader, "keep_for"),
    }
}

/// Reads the user's labels. Rejects keys that are reserved for gpuctl or Kubernetes.
pub(super) fn labels(reader: &mut Reader, node: &YamlNode) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    for (key, value) in reader.text_map(node, "job.labels") {
        let prefix = key.value.split_once('/').map(|(prefix, _)| prefix);
        // Kubernetes reserves `kubernetes.io/` and its subdomains. The other keys belong to gpuctl.
        let reserved = key.value == POOL_LABEL
            || prefix.is_some_and(|prefix| {
                prefix == "gpuctl"
                    || prefix == "app.kubernetes.io"
                    || prefix.ends_with("kubernetes.io")
            });
        if reserved {
            reader.problems.push(Problem::error(
                key.at,
                format!("the label `{}` is reserved", key.value),
                "choose another key",
            ));
        } else if !is_label_key(&key.value) {
            reader.problems.push(Problem::error(
                key.at,
                format!("`{}` is not a valid label key", key.value),
                "use at most 63 letters, digits, `-`, `_` or `.`",
            ));
        } else if !is_label_value(&value.value) {
            let note =
                "use at most 63 letters, digits, `-`, `_` or `.`; put longer text in `annotations`";
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

/// Returns true if Kubernetes accepts `key` as a label key, with or without a prefix.
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let host = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    prefix
        .is_none_or(|prefix| !prefix.is_empty() && prefix.len() <= 253 && prefix.chars().all(host))
        && !name.is_empty()
        && is_label_value(name)
}

/// Returns true if Kubernetes accepts `value` as a label value.
pub fn is_label_value(value: &str) -> bool {
    gpuctl_core::model::contract::labels::is_label_value(value)
}
