//! Reads `kind: defaults`. Values are checked against a job only when the job inherits them.

use super::defaults_document::{Defaults, SiteDefaults};
use super::defaults_scope::{label_key, scope};
use super::fields::Reader;
use super::loader_variables::{is_selector, weakens_pods};
use super::reference;
use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::Problem;
use gpuctl_core::model::JobKind;

pub(super) fn defaults(
    reader: &mut Reader,
    root: &YamlNode,
    source: String,
) -> Option<SiteDefaults> {
    let mut document = reader.map(root, "", reference::DEFAULTS)?;
    document.take(reader, "kind");
    document.take(reader, "version");
    let all = document
        .take(reader, "all")
        .and_then(|node| scope(reader, node, "all"))
        .unwrap_or_default();
    let kinds = document
        .take(reader, "kinds")
        .map_or_else(Vec::new, |node| kinds(reader, node));
    let pools = document
        .take(reader, "pools")
        .map_or_else(Vec::new, |node| pools(reader, node));
    let gpu_type_labels = document
        .take(reader, "gpu_type_labels")
        .map_or_else(Vec::new, |node| {
            let items = reader.list_or_one(node);
            items
                .into_iter()
                .filter_map(|item| label_key(reader, item, "gpu_type_labels"))
                .collect()
        });
    let allow_env = document
        .take(reader, "allow_env")
        .map_or_else(Vec::new, |node| {
            let items = reader.list_or_one(node);
            items
                .into_iter()
                .filter_map(|item| pattern(reader, item))
                .collect()
        });
    document.finish(reader);
    let site = SiteDefaults {
        all,
        kinds,
        pools,
        gpu_type_labels,
        allow_env,
        source,
    };
    warn_about_withheld(reader, root, &site);
    Some(site)
}

/// Parses an entry of `allow_env`. Rejects a single `*`, which would silently allow every variable.
fn pattern(reader: &mut Reader, node: &YamlNode) -> Option<String> {
    let text = reader.text(node, "allow_env")?;
    let name = text.value.strip_suffix('*').unwrap_or(&text.value);
    if name.is_empty() || name.contains(['*', '=', '?', '[']) {
        let note = "write a variable name, or a prefix followed by `*`";
        reader.problems.push(Problem::warning(
            text.at,
            format!("`{}` is not a valid variable name or prefix", text.value),
            note,
        ));
    }
    Some(text.value)
}

/// Warns the administrator about values that jobs will not inherit.
fn warn_about_withheld(reader: &mut Reader, root: &YamlNode, site: &SiteDefaults) {
    let scopes = || site.all_scopes();
    let variables = scopes().flat_map(|set| &set.env).filter_map(|variable| {
        let note = format!("allow_env: [{}]", variable.name);
        site.withholds_variable(&variable.name)
            .map(|reason| (reason, note))
    });
    let labels = scopes()
        .flat_map(|set| &set.labels)
        .filter(|(key, _)| is_selector(key));
    let labels = labels.map(|(key, _)| {
        (
            format!("jobs do not get the label `{key}` because Services use it to select pods"),
            RENAME.to_owned(),
        )
    });
    let annotations = scopes()
        .flat_map(|set| &set.annotations)
        .filter(|(key, _)| weakens_pods(key));
    let annotations = annotations.map(|(key, _)| {
        (
            format!(
                "jobs do not get the annotation `{key}` because it weakens container isolation"
            ),
            "remove it".to_owned(),
        )
    });
    let warnings: std::collections::BTreeSet<(String, String)> =
        variables.chain(labels).chain(annotations).collect();
    reader.problems.extend(
        warnings
            .into_iter()
            .map(|(message, note)| Problem::warning(root.at, message, note)),
    );
}

const RENAME: &str = "use a key with your own prefix, such as example.com/team";

fn kinds(reader: &mut Reader, node: &YamlNode) -> Vec<(JobKind, Defaults)> {
    let Some(mut fields) = reader.map(node, "kinds", reference::KIND_SCOPES) else {
        return Vec::new();
    };
    let mut kinds = Vec::new();
    for &kind in JobKind::ALL {
        let node = fields.take(reader, kind.word());
        kinds.extend(
            node.and_then(|node| scope(reader, node, kind.word()))
                .map(|set| (kind, set)),
        );
    }
    fields.finish(reader);
    kinds
}

fn pools(reader: &mut Reader, node: &YamlNode) -> Vec<(String, Defaults)> {
    let YamlValue::Map(entries) = &node.value else {
        reader.map(node, "pools", &[]);
        return Vec::new();
    };
    let mut pools = Vec::new();
    for entry in entries {
        let key = YamlNode {
            at: entry.key_at,
            value: YamlValue::Scalar {
                text: entry.key.clone(),
                plain: false,
            },
        };
        let name = reader.object_name(&key, "pools");
        let set = scope(reader, &entry.value, "pools");
        if let Some(pool) = set.as_ref().and_then(|set| set.pool.as_ref()) {
            let problem = Problem::error(
                pool.at,
                "`pool` cannot be set in the defaults of a pool",
                "set `pool` under `all` or a kind",
            );
            reader.problems.push(problem);
        }
        pools.extend(name.zip(set).map(|(name, set)| (name.value, set)));
    }
    pools
}
