//! The JSON Schema accepts the same documents as gpuctl's parser: the files of this project, and
//! documents with arbitrary values in arbitrary fields. An independent validator and an independent
//! YAML parser check it.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use gpuctl_manifest::spec::parse;
use gpuctl_manifest::spec::reference::{KINDS, fields_of_kind};
use gpuctl_manifest::spec::schema::{BEYOND, schema};
use gpuctl_manifest::spec::shape::{Field, Shape};
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::Value;

/// A generated document: nested maps with raw YAML as values.
#[derive(Clone, Debug)]
enum Yaml {
    Map(Vec<(String, Yaml)>),
    Raw(String),
}

impl Yaml {
    fn text(&self) -> String {
        match self {
            Self::Raw(text) => text.clone(),
            Self::Map(entries) => {
                let parts: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{key}: {}", value.text()))
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
        }
    }

    fn set(&mut self, path: &[String], value: Option<Self>) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        let Self::Map(entries) = self else { return };
        let Some((key, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            entries.retain(|(name, _)| name != key);
            entries.extend(value.map(|value| (key.clone(), value)));
            return;
        }
        if !entries.iter().any(|(name, _)| name == key) {
            entries.push((key.clone(), Self::Map(Vec::new())));
        }
        if let Some((_, inner)) = entries.iter_mut().find(|(name, _)| name == key) {
            inner.set(rest, value);
        }
    }
}

/// Values that are valid in some fields and invalid in others.
const VALUES: [&str; 94] = [
    "''",
    "a",
    "A",
    "a-b",
    "a_b",
    "a.b",
    "'a b'",
    "-a",
    "a-",
    "1a",
    "1",
    "0",
    "2",
    "-1",
    "1.5",
    "007",
    "'8'",
    "'0'",
    "100",
    "101",
    "1024",
    "1025",
    "10000",
    "10001",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "true",
    "True",
    "'true'",
    "FALSE",
    "'yes'",
    "null",
    "~",
    "128Gi",
    "128",
    "500m",
    "0.5",
    "'0.5'",
    "'1.0'",
    "0Gi",
    ".5Gi",
    "5.Ki",
    "1Ei",
    "1e3Gi",
    "+5Gi",
    "5n",
    "10E",
    "2k",
    "30s",
    "90m",
    "60m",
    "61m",
    "1h",
    "2h",
    "3600s",
    "3601s",
    "'59m30s'",
    "1d",
    "0d",
    "/",
    "/data",
    "/etc",
    "//etc",
    "/./etc/x",
    "/etcetera",
    "/a/../b",
    "/var",
    "/var/",
    "/var/lib",
    "/var/log",
    "/run/x",
    "/x.sock",
    "/x.sock/",
    "'/a:b'",
    "data/train.py",
    "'..'",
    "a100-80g",
    "nvidia",
    "NVIDIA-A100-SXM4-80GB",
    "rtx",
    "[]",
    "[a]",
    "[a, b]",
    "[null]",
    "[[a]]",
    "{}",
    "{a: b}",
    "{a: null}",
    "clusterip",
    "TCP",
    "readwritemany",
    "v1",
];

/// Values for fields that hold lists and maps.
const COLLECTIONS: [&str; 39] = [
    "{name: X}",
    "[{name: A, value: 1}]",
    "[{name: A, secret: s, key: k}]",
    "[{name: A, value: 1, secret: s}]",
    "[{value: 1}]",
    "[{name: '', value: 1}]",
    "[{name: A, configMap: c, config_map: d}]",
    "[{name: A, value: null, secret: s}]",
    "{'A=B': 1}",
    "[{path: /data}]",
    "[{path: /etc}]",
    "[{path: /etc, emptyDir: true}]",
    "[{path: /etc, emptyDir: false}]",
    "[{path: /a, pvc: c, size: 1Gi}]",
    "[{path: /a, host_path: /proc}]",
    "[{path: /a, host_path: /srv, read_only: true}]",
    "[/data, /mnt]",
    "[{pvc: c}]",
    "[{path: a, pvc: c}]",
    "[{path: /a, size: 5, access_mode: readwriteonce}]",
    "[{path: /a, size: 5Gi, access_mode: readwriteonce}]",
    "[{path: /a, type: FILE}]",
    "{path: /health}",
    "{path: health}",
    "{path: /h, port: 0}",
    "{node-1: {gpu-type: a100}}",
    "{node-1: null, node-2: {}}",
    "{Node: {}}",
    "{team-a: {gpu: 4, cpu: 500m}}",
    "{team-a: {gpu: -1}}",
    "{default: {gpu: 1}}",
    "{example.com/team: a_b, app.kubernetes.io/name: x}",
    "[{key: example.com/a, value: b}]",
    "[{key: a, operator: exists, value: b}]",
    "[{key: a, operator: Equal, effect: NoExecute}]",
    "[{operator: Exists}]",
    "[{key: 'a b'}]",
    "{infer: {priority: high, limits: {gpu: 4}}, b: {}}",
    "{infer: {priorities: high}}",
];

/// Collects the path of every field of a kind, in every spelling.
fn paths(fields: &'static [Field], before: &[String], collected: &mut Vec<Vec<String>>) {
    for field in fields {
        for name in field.names {
            let mut path = before.to_vec();
            path.push((*name).to_owned());
            collected.push(path.clone());
            if let Shape::Block(inner) = field.shape {
                paths(inner, &path, collected);
            }
        }
    }
}

fn base(kind: &str) -> Yaml {
    let raw = |text: &str| Yaml::Raw(text.to_owned());
    let mut document = Yaml::Map(vec![
        ("kind".to_owned(), raw(kind)),
        ("version".to_owned(), raw("v0.1")),
    ]);
    let mut set = |path: &str, value: &str| {
        document.set(
            &path.split('.').map(ToOwned::to_owned).collect::<Vec<_>>(),
            Some(raw(value)),
        );
    };
    match kind {
        "pool" => set("pool.name", "p"),
        "defaults" => set("all.queue", "q"),
        "quota" => {
            set("quota.name", "q");
            set("namespace", "{team-a: {gpu: 1}}");
        }
        _ => {
            set("job.name", "a");
            set("environment.image", "image");
            set("resources.gpu", "1");
            if kind != "training" {
                set("service.port", "8000");
            }
        }
    }
    document
}

/// Whether a problem is of a rule that a JSON Schema cannot express.
fn is_inexpressible(problems: &[gpuctl_manifest::spec::Problem]) -> bool {
    let rules = [
        "is greater than maxReplicas",
        "is more than `memory`",
        "requires memory and a whole number of CPUs",
        "does not allow root",
        "is mounted twice",
        "is set twice",
        "two files have the same path",
        "is in two pools",
        "is enforced but not set",
        "`pool` cannot be set in the defaults of a pool",
        "cannot be resolved",
        "must be at most one hour",
        "is the same",
        "are the same field",
    ];
    problems
        .iter()
        .any(|problem| rules.iter().any(|rule| problem.message.contains(rule)))
}

/// The validator of a kind, compiled once.
fn validator_of(kind: &str) -> &'static Validator {
    static ALL: OnceLock<BTreeMap<&'static str, Validator>> = OnceLock::new();
    let make = || {
        KINDS
            .map(|(kind, _)| {
                (
                    kind,
                    jsonschema::validator_for(&schema(Some(kind))).unwrap(),
                )
            })
            .into_iter()
            .collect()
    };
    &ALL.get_or_init(make)[kind]
}

fn agree(text: &str, validator: &Validator) -> Result<bool, String> {
    let Ok(value) = serde_saphyr::from_str::<Value>(text) else {
        return Ok(false);
    };
    let (parsed, schema_accepts) = (parse("", text), validator.is_valid(&value));
    let problems = match &parsed {
        Ok(_) => String::new(),
        Err(problems) if is_inexpressible(&problems.list) => return Ok(false),
        Err(problems) => problems
            .list
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<_>>()
            .join("; "),
    };
    if parsed.is_ok() == schema_accepts {
        return Ok(true);
    }
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| error.to_string().chars().take(300).collect())
        .collect();
    Err(format!(
        "{text}\nparser: {}\nschema: {errors:?}",
        if parsed.is_ok() {
            "accepts it"
        } else {
            problems.as_str()
        }
    ))
}

#[test]
fn schema_and_parser_agree_about_the_files_of_the_project() {
    let validator = jsonschema::validator_for(&schema(None)).unwrap();
    let mut compared = 0;
    let mut files = Vec::new();
    for folder in ["examples", "tests/spec/contract"] {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in folder
                .read_dir()
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    files.push(entry);
                }
            }
        }
    }
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "yaml"))
    {
        let text = std::fs::read_to_string(file).unwrap();
        // Templates are not documents yet, and gpuctl's parser rejects tabs.
        let documents = text
            .split("\n---")
            .filter(|text| text.contains("kind:") && !text.contains("{{") && !text.contains('\t'));
        for document in documents {
            compared += usize::from(
                agree(document, &validator)
                    .unwrap_or_else(|error| panic!("{}: {error}", file.display())),
            );
        }
    }
    assert!(compared >= 8, "{compared} documents were compared");
}

#[test]
fn samples_of_every_field_are_valid() {
    for (kind, _) in KINDS {
        let mut all = Vec::new();
        samples(fields_of_kind(kind), kind, &[], &mut all);
        for (path, sample) in all {
            let mut document = base(kind);
            if !["pool", "quota", "defaults"].contains(&kind) {
                document.set(
                    &["resources".to_owned(), "memory".to_owned()],
                    Some(Yaml::Raw("64Gi".into())),
                );
            }
            document.set(&path, Some(Yaml::Raw(sample)));
            let text = document.text();
            // A field that needs other fields may be rejected only because they are missing.
            if let Err(problems) = parse("", &text) {
                let allowed = [
                    "without GPUs",
                    "maxReplicas",
                    "no target",
                    "twice",
                    "`storage.workdirs.path` is missing",
                    "`checkpoint.path` is missing",
                    "requires `resources.cpu`",
                    "requires memory and a whole number of CPUs",
                    "is enforced but not set",
                ];
                let all = problems
                    .list
                    .iter()
                    .all(|problem| allowed.iter().any(|part| problem.message.contains(part)));
                assert!(all, "{text}: {:?}", problems.list);
            }
        }
    }
}

fn samples(
    fields: &'static [Field],
    kind: &str,
    before: &[String],
    collected: &mut Vec<(Vec<String>, String)>,
) {
    for field in fields.iter().filter(|field| field.applies_to(kind)) {
        let mut path = before.to_vec();
        path.push(field.name().to_owned());
        if let Shape::Block(inner) = field.shape {
            samples(inner, kind, &path, collected);
        } else {
            collected.push((path, field.sample.replace("NAME", "a")));
        }
    }
}

#[test]
fn schema_and_parser_agree_about_every_value_in_every_field() {
    let (mut compared, mut valid, mut differing) = (0, 0, Vec::new());
    for (kind, _) in KINDS {
        let validator = validator_of(kind);
        let mut all = Vec::new();
        paths(fields_of_kind(kind), &[], &mut all);
        for path in &all {
            for value in VALUES.iter().chain(&COLLECTIONS) {
                let mut document = base(kind);
                document.set(path, Some(Yaml::Raw((*value).to_owned())));
                match agree(&document.text(), validator) {
                    Ok(true) => {
                        compared += 1;
                        valid += usize::from(parse("", &document.text()).is_ok());
                    }
                    Ok(false) => {}
                    Err(error) => differing.push(error),
                }
            }
        }
    }
    assert!(
        differing.is_empty(),
        "{} of {compared}:\n{}",
        differing.len(),
        differing
            .iter()
            .take(12)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n\n")
    );
    assert!(
        compared > 20_000 && valid > 2_000,
        "{compared} documents compared, {valid} of them valid"
    );
    assert_eq!(
        BEYOND.len(),
        11,
        "documented rules that a schema cannot express; `is_inexpressible` skips them"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schema_and_parser_agree_about_several_changes_at_once(
        kind in 0..KINDS.len(),
        changes in prop::collection::vec((0_usize..10_000, 0_usize..10_000, prop::bool::weighted(0.1)), 1..6),
    ) {
        let kind = KINDS[kind].0;
        let mut all = vec![vec!["unknown".to_owned()], vec!["kind".to_owned()]];
        paths(fields_of_kind(kind), &[], &mut all);
        let mut document = base(kind);
        for (path, value, absent) in changes {
            let values: Vec<&str> = VALUES.iter().chain(&COLLECTIONS).copied().collect();
            let value = Yaml::Raw(values[value % values.len()].to_owned());
            document.set(&all[path % all.len()], (!absent).then_some(value));
        }
        if let Err(error) = agree(&document.text(), validator_of(kind)) {
            return Err(TestCaseError::fail(error));
        }
    }
}
