//! Parses YAML manifests into documents, or reports every problem with its line and column.

pub mod checks;
mod defaults;
mod defaults_document;
mod defaults_scope;
pub mod document;
mod environment;
mod field_values;
mod fields;
mod foreign;
mod inherit;
mod job;
mod limits;
mod loader_variables;
mod other_names;
mod overlay;
mod overrides;
mod placeholder;
mod pool;
mod pool_document;
pub mod port;
pub mod preset;
pub mod reference;
mod resources;
mod restart;
pub mod schema;
mod schema_patterns;
mod secrets;
mod security;
mod semantics;
mod service;
mod service_document;
pub mod shape;
mod site_share;
mod storage;
mod tabs;
mod tree;
mod tree_json;
mod tree_search;
mod unquoted;
mod values;
mod variables;

pub use defaults_document::{DefaultRow, Defaults, SiteDefaults, SiteLimits};
pub use document::{
    AttachedFile, Checkpoint, Command, Document, JobDocument, JobResources, Model, Parsed, Rdma,
    Share, Training, VolumeAccess, Workdir, WorkdirSource,
};
pub use fields::{Located, WrittenGpuType, nearest};
pub use gpuctl_core::error::{FilePosition, Problem, Problems, Severity};
pub use gpuctl_core::model::secrets::is_secret_name;
pub use inherit::inherit;
pub use job::{is_label_key, is_label_value};
pub use limits::over_limits;
pub use overrides::Override;
pub use pool_document::{Pool, PoolNode, PoolQuota, Quota, QuotaLimits};
pub use secrets::{masked, notebook_token, source_secrets as secrets_in};
pub use security::Security;
pub use service_document::{Autoscaling, HealthCheck, Service};
pub use site_share::{Inherited, SiteShare, SiteToleration};
pub use tree_search::reference_position;

pub use values::{EnvValue, EnvVariable, Priority, Restart};
pub use variables::without_variables;

use fields::Reader;
use gpuctl_core::model::JobKind;
use tree::{Entry, YamlDocument, YamlNode, YamlValue};

/// Size limit of a manifest in bytes. Larger files are refused before they are read.
pub const FILE_BYTES: u64 = 1 << 20;

const KINDS: [&str; 8] = [
    "training",
    "inference",
    "notebook",
    "compute",
    "resource",
    "pool",
    "quota",
    "defaults",
];

/// Parses every document of one file, with warnings. A single error makes the whole file fail.
pub fn parse(file: &str, text: &str) -> Result<Parsed, Problems> {
    parse_with(file, text, &[])
}

/// Like `parse`, but first applies `overrides` to every document.
pub fn parse_with(file: &str, text: &str, overrides: &[Override]) -> Result<Parsed, Problems> {
    let (documents, problems) = read(file, text, overrides);
    if problems.are_fatal() {
        Err(problems)
    } else {
        Ok(Parsed {
            documents,
            warnings: problems,
        })
    }
}

/// Reads all valid documents and collects every problem of the file. If the file has an error, the
/// documents only serve to find further problems.
pub fn read(file: &str, text: &str, overrides: &[Override]) -> (Vec<Document>, Problems) {
    let mut reader = Reader::default();
    // Editors on Windows may write a byte order mark at the start of a file.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut trees = tree::read(text, &mut reader.problems);
    if foreign::is_script(text) {
        reader.problems = vec![foreign::script(file, text)];
        trees.clear();
    }
    let broken = reader
        .problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    if trees.is_empty() && !broken {
        let at = FilePosition {
            line: 1,
            column: 1,
            width: 1,
        };
        reader.problems.push(Problem::error(
            at,
            "the file contains no documents",
            "begin with `kind: training`",
        ));
    }
    let documents: Vec<Document> = trees
        .into_iter()
        .filter_map(|tree| document(&mut reader, tree, overrides))
        .collect();
    pool::nodes_in_two_pools(&mut reader, &documents);
    reader
        .problems
        .sort_by_key(|problem| (problem.at, problem.message.clone()));
    reader.problems.dedup();
    (
        documents,
        Problems {
            file: file.to_owned(),
            text: text.to_owned(),
            list: reader.problems,
        },
    )
}

fn document(reader: &mut Reader, tree: YamlDocument, overrides: &[Override]) -> Option<Document> {
    let YamlDocument {
        mut root,
        mut source,
    } = tree;
    if !overrides.is_empty() {
        overrides::apply(&mut root, overrides, &mut reader.problems);
        source = overrides::write(&root);
    }
    let YamlValue::Map(entries) = &root.value else {
        let message = format!(
            "a document must be a map of fields that begins with `kind:`, not {}",
            root.description()
        );
        reader.problems.push(Problem::error(
            root.at,
            message,
            "`gpuctl init training` prints a complete file",
        ));
        return None;
    };
    let word = kind_word(reader, &root, entries)?;
    placeholder::resolve(&mut root, &mut reader.problems);
    let version = version(reader, &root);
    match word.as_str() {
        "resource" | "pool" => pool::pool(reader, &root).map(|pool| Document::Pool(Box::new(pool))),
        "quota" => pool::quota(reader, &root).map(|quota| Document::Quota(Box::new(quota))),
        "defaults" => defaults::defaults(reader, &root, source)
            .map(|defaults| Document::Defaults(Box::new(defaults))),
        word => {
            let kind: JobKind = word.parse().expect("the other kinds are jobs");
            job::job(reader, &root, kind, version, source).map(|job| Document::Job(Box::new(job)))
        }
    }
}

/// Reads and checks `kind`.
fn kind_word(reader: &mut Reader, root: &YamlNode, entries: &[Entry]) -> Option<String> {
    let kind = entries
        .iter()
        .find(|entry| entry.key == "kind")
        .map(|entry| entry.value.clone());
    let Some(kind) = kind else {
        reader.problems.push(foreign::missing_kind(root, entries));
        return None;
    };
    let word = reader.text(&kind, "kind")?.value;
    if !KINDS.contains(&word.as_str()) {
        // A document with `apiVersion` is a Kubernetes object, so suggest `gpuctl convert` instead
        // of a similar kind.
        let foreign = entries.iter().any(|entry| entry.key == "apiVersion");
        let near = nearest(&word, &KINDS).or_else(|| other_names::kind(&word));
        let note = near.filter(|_| !foreign).map_or_else(
            || format!("one of {}", KINDS.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        let note = if foreign {
            "this is a Kubernetes manifest; convert it with `gpuctl convert FILE`".to_owned()
        } else {
            note
        };
        reader.problems.push(Problem::error(
            kind.at,
            format!("unknown kind `{word}`"),
            note,
        ));
        return None;
    }
    Some(word)
}

/// Reads `version`, which defaults to `v0.1`. The reader of each kind takes the field again.
fn version(reader: &mut Reader, root: &YamlNode) -> String {
    let YamlValue::Map(entries) = &root.value else {
        return "v0.1".to_owned();
    };
    let Some(entry) = entries.iter().find(|entry| entry.key == "version") else {
        let at = FilePosition {
            width: 1,
            ..root.at
        };
        reader.problems.push(
            Problem::warning(
                at,
                "`version` is missing; assuming v0.1",
                "write `version: v0.1`",
            )
            .with_id("version"),
        );
        return "v0.1".to_owned();
    };
    reader
        .word(&entry.value, "version", &["v0.1", "v1"])
        .unwrap_or("v0.1")
        .to_owned()
}

#[cfg(test)]
mod tests;
