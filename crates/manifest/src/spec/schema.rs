//! Generates the JSON Schema (draft 2020-12) of manifests from the reference table.
//!
//! The schema accepts the same files as the code that reads manifests, except that a schema cannot
//! compare two values. `BEYOND` lists the missing rules.

use serde_json::{Map, Value, json};

use super::reference::{
    AUTOSCALING, HEALTH_CHECK, KINDS, POOL_NODE, QUOTA, RESOURCES, SECURITY, SECURITY_LEVELS,
    VARIABLE, fields_of_kind,
};
use super::schema_patterns::{
    AMOUNT, CONTROL, EXPONENT, OBJECT, RDMA, UNITS, absolute_path, gpu_type, host_path,
    ignore_case, label_key, label_text, nullable, number_or_pattern, pattern, text, up_to,
    whole_number,
};
use super::shape::{Field, Shape, spellings};

/// Errors that the schema does not detect.
pub const BEYOND: [&str; 11] = [
    "minReplicas above maxReplicas",
    "shm above memory",
    "qos without whole CPUs and memory",
    "root under the restricted level",
    "two workdirs, two files or two variables of one name",
    "a node in two pools",
    "a field that is enforced but not set",
    "a pool in the defaults of a pool",
    "a placeholder that names nothing",
    "a delay of several units that comes to more than an hour",
    "numbers in scientific notation, with a sign, or whole ones with a fraction such as 1.0",
];

/// Generates the schema of one kind, or of all kinds.
pub fn schema(kind: Option<&str>) -> Value {
    let mut schema = match kind {
        Some(kind) => schema_of_kind(kind),
        None => {
            json!({"oneOf": KINDS.iter().map(|(kind, _)| schema_of_kind(kind)).collect::<Vec<_>>()})
        }
    };
    let title = kind.map_or_else(|| "gpuctl".to_owned(), |kind| format!("gpuctl {kind}"));
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = title.into();
    without_empty_rules(&mut schema);
    schema
}

/// Removes empty `allOf` lists, which JSON Schema forbids.
fn without_empty_rules(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map
                .get("allOf")
                .and_then(Value::as_array)
                .is_some_and(Vec::is_empty)
            {
                map.remove("allOf");
            }
            map.values_mut().for_each(without_empty_rules);
        }
        Value::Array(list) => list.iter_mut().for_each(without_empty_rules),
        _ => {}
    }
}

fn schema_of_kind(kind: &str) -> Value {
    let mut schema = block(fields_of_kind(kind), kind);
    let words = if matches!(kind, "pool" | "resource") {
        json!(["pool", "resource"])
    } else {
        json!([kind])
    };
    schema["properties"]["kind"] = json!({"enum": words, "description": "Kind of the document."});
    schema["required"]
        .as_array_mut()
        .expect("a block has a list")
        .insert(0, "kind".into());
    let rules = schema["allOf"].as_array_mut().expect("a block has a list");
    rules.extend(match kind {
        "quota" => quota_rules(),
        "pool" | "resource" | "defaults" => Vec::new(),
        kind => job_rules(kind),
    });
    schema
}

/// Builds the schema of a map that allows only these fields.
fn block(fields: &[Field], kind: &str) -> Value {
    let (mut properties, mut required, mut rules) = (Map::new(), Vec::new(), Vec::new());
    for field in fields.iter().filter(|field| field.applies_to(kind)) {
        let is_needed = field.is_needed(kind);
        let mut value = shape(&field.shape, field.name(), kind);
        // `version` may be missing, but not null.
        if !is_needed && !matches!((field.name(), &field.shape), ("version", Shape::Word(_))) {
            value = nullable(value);
        }
        value["description"] = field.about.into();
        for name in field.names {
            properties.insert((*name).to_owned(), value.clone());
        }
        if is_needed {
            required.push(Value::from(field.name()));
        }
        for (index, spelling) in field.names.iter().enumerate() {
            rules.extend(
                field.names[index + 1..]
                    .iter()
                    .map(|other| json!({"not": {"required": [spelling, other]}})),
            );
        }
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false, "allOf": rules})
}

fn shape(shape: &Shape, name: &str, kind: &str) -> Value {
    match shape {
        Shape::Text => text(),
        Shape::Image => json!({"anyOf": [pattern(r"^\S+$"), {"type": ["number", "boolean"]}]}),
        Shape::Label => {
            let longest = if kind == "notebook" {
                52
            } else if kind == "training" {
                61
            } else {
                63
            };
            json!({"type": "string", "pattern": "^[a-z](?:[-a-z0-9]*[a-z0-9])?$", "maxLength": longest})
        }
        Shape::ObjectName => number_or_pattern(OBJECT),
        Shape::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| ignore_case(word)).collect();
            pattern(&format!("^(?:{})$", words.join("|")))
        }
        // A notebook has exactly one pod.
        Shape::Whole(_, _) if name == "replicas" && kind == "notebook" => whole_number(1, 1),
        Shape::Whole(min, max) => whole_number(*min, *max),
        Shape::Boolean => {
            json!({"anyOf": [{"type": "boolean"}, pattern(&format!("^(?:{}|{})$", ignore_case("true"), ignore_case("false")))]})
        }
        Shape::Bytes => pattern(&format!("^{AMOUNT}{UNITS}$")),
        Shape::Cpu => {
            json!({"anyOf": [{"type": "number", "minimum": 0}, pattern(&format!("^{AMOUNT}(?:m|{EXPONENT})?$"))]})
        }
        Shape::Duration => pattern("^(?:[0-9]+[smhd])+$"),
        Shape::ShortDuration => {
            let single = format!("0*(?:{}s|{}m|[01]h|0d)", up_to(3600), up_to(60));
            pattern(&format!("^(?:{single}|0*{}m0*{}s)$", up_to(59), up_to(60)))
        }
        Shape::AbsolutePath if name == "host_path" => pattern(&host_path()),
        Shape::AbsolutePath => pattern(&absolute_path()),
        Shape::ModelPath => {
            json!({"anyOf": [{"type": ["number", "boolean"]}, pattern("^(?!/)"), pattern(&host_path())]})
        }
        Shape::UrlPath => pattern("^/"),
        Shape::Share => {
            let fraction = json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1});
            let written = pattern(r"^(?:0*\.[0-9]*[1-9][0-9]*|0*1(?:\.0*)?)$");
            json!({"anyOf": [fraction, written, pattern(&format!("^(?=[^a-zA-Z]*[1-9]){AMOUNT}{UNITS}$"))]})
        }
        Shape::Rdma => pattern(RDMA),
        Shape::GpuType => gpu_type(),
        Shape::Command => json!({"anyOf": [text(), {"type": "array", "items": text()}]}),
        Shape::Variables => variables(),
        Shape::Security => json!({"anyOf": [{"enum": SECURITY_LEVELS}, block(SECURITY, kind)]}),
        Shape::HealthCheck => json!({"anyOf": [pattern("^/"), block(HEALTH_CHECK, kind)]}),
        Shape::Files => files(),
        Shape::Labels => labels(),
        Shape::TextMap => json!({"type": "object", "additionalProperties": nullable(text())}),
        Shape::OneOrMany(one) => {
            let one = self::shape(one, name, kind);
            json!({"anyOf": [one, {"type": "array", "items": one}]})
        }
        Shape::Workdirs(fields) => {
            json!({"type": "array", "items": {"anyOf": [pattern(&host_path()), workdir(fields, kind)]}})
        }
        Shape::Block(fields) => block(fields, kind),
        Shape::Overlay => json!({"type": "object"}),
        Shape::PoolNodes => {
            let names = POOL_NODE.iter().flat_map(|field| field.names);
            let properties: Map<String, Value> = names
                .map(|name| ((*name).to_owned(), nullable(gpu_type())))
                .collect();
            let one = json!({"type": "object", "additionalProperties": false, "properties": properties, "maxProperties": 1});
            let map = json!({"type": "object", "propertyNames": {"pattern": OBJECT}, "additionalProperties": nullable(one)});
            json!({"anyOf": [map, {"type": "array", "items": number_or_pattern(OBJECT), "uniqueItems": true}]})
        }
        Shape::ByName(fields) => {
            json!({"type": "object", "propertyNames": {"pattern": OBJECT}, "additionalProperties": block(fields, kind)})
        }
        Shape::ListOf(fields) => json!({"type": "array", "items": item(fields, kind)}),
        Shape::LabelKey => {
            json!({"anyOf": [pattern(&label_key()), {"type": "number", "minimum": 0}, {"type": "boolean"}]})
        }
        Shape::NodeLabels => {
            json!({"type": "object", "propertyNames": {"pattern": label_key()}, "additionalProperties": label_text()})
        }
    }
}

fn variables() -> Value {
    let name = format!("^[^={CONTROL}]+$");
    let value = nullable(text());
    let fields = VARIABLE
        .iter()
        .flat_map(|field| field.names)
        .map(|name| ((*name).to_owned(), value.clone()));
    let mut properties: Map<String, Value> = fields.collect();
    properties.insert(
        "name".to_owned(),
        json!({"anyOf": [{"type": ["number", "boolean"]}, pattern(&name)]}),
    );
    let maps = spellings(VARIABLE, "configmap");
    let rules = [
        one_spelling(maps),
        at_most_one(&[&["value"], &["secret"], maps]),
    ]
    .concat();
    let item = json!({"type": "object", "properties": properties, "required": ["name"], "additionalProperties": false,
        "allOf": rules});
    let map = json!({"type": "object", "propertyNames": {"pattern": name}, "additionalProperties": value});
    json!({"anyOf": [map, {"type": "array", "items": item}]})
}

fn one_spelling(names: &[&str]) -> Vec<Value> {
    let pairs = names.iter().enumerate().flat_map(|(index, first)| {
        names[index + 1..]
            .iter()
            .map(move |second| (*first, *second))
    });
    pairs
        .map(|(first, second)| json!({"not": {"required": [first, second]}}))
        .collect()
}

/// Builds a schema that requires one of these spellings with a value other than null.
fn requires_one(names: &[&str]) -> Value {
    let required =
        |name: &&str| json!({"required": [name], "properties": {*name: {"not": {"type": "null"}}}});
    json!({"anyOf": names.iter().map(required).collect::<Vec<_>>()})
}

/// Builds rules that allow at most one of these fields.
fn at_most_one(fields: &[&[&str]]) -> Vec<Value> {
    let pairs = fields.iter().enumerate().flat_map(|(index, first)| {
        fields[index + 1..]
            .iter()
            .map(move |second| (*first, *second))
    });
    pairs
        .map(|(first, second)| json!({"not": {"allOf": [requires_one(first), requires_one(second)]}}))
        .collect()
}

fn workdir(fields: &[Field], kind: &str) -> Value {
    let mut schema = block(fields, kind);
    let names = |name: &'static str| spellings(fields, name);
    let empty = names("emptyDir");
    // `emptyDir: false` does not count as a source.
    let is_empty = {
        let truth =
            json!({"anyOf": [{"const": true}, pattern(&format!("^{}$", ignore_case("true")))]});
        let is_true = |name: &&str| json!({"required": [name], "properties": {*name: truth}});
        json!({"anyOf": empty.iter().map(is_true).collect::<Vec<_>>()})
    };
    let sources = [
        names("host_path"),
        names("pvc"),
        names("size"),
        names("configmap"),
        names("secret"),
    ];
    let rules = schema["allOf"].as_array_mut().expect("a block has a list");
    rules.extend(at_most_one(&sources));
    rules.extend(
        sources
            .iter()
            .map(|source| json!({"not": {"allOf": [requires_one(source), is_empty]}})),
    );
    // A workdir without a source mounts the node's directory `path`.
    let mut any: Vec<Value> = sources.iter().map(|source| requires_one(source)).collect();
    any.push(is_empty);
    rules.push(json!({"if": {"not": {"anyOf": any}}, "then": {"properties": {"path": pattern(&host_path())}}}));
    schema
}

fn files() -> Value {
    let local = json!({"anyOf": [{"type": ["number", "boolean"]}, pattern(&format!(r"^(?:.*/)?(?!\.\.$)[^/:{CONTROL}]*$"))]});
    let target = format!(r"^(?!(?:.*/)?\.\.(?:/|$))[^:{CONTROL}]*$");
    let map = json!({"type": "object", "propertyNames": {"pattern": target}, "additionalProperties": nullable(text())});
    json!({"anyOf": [map, local, {"type": "array", "items": local}]})
}

fn labels() -> Value {
    let key = format!(
        r"^(?!(?:gpuctl|[^/]*kubernetes\.io)/){}",
        label_key().trim_start_matches('^')
    );
    json!({"type": "object", "propertyNames": {"pattern": key}, "additionalProperties": label_text()})
}

/// Builds the schema of a map in a list. The rule for `Exists`, which excludes a value, only
/// affects tolerations.
fn item(fields: &[Field], kind: &str) -> Value {
    let mut schema = block(fields, kind);
    let exists = json!({"required": ["operator"], "properties": {"operator": pattern(&format!("^{}$", ignore_case("Exists")))}});
    let rules = schema["allOf"].as_array_mut().expect("a block has a list");
    rules.push(json!({"not": {"allOf": [exists, requires_one(&["value"])]}}));
    schema
}

/// Builds a schema that applies `schema` to a field of the document. The field must be a map.
fn in_block(field: &str, schema: &Value) -> Value {
    json!({"required": [field], "properties": {field: {"allOf": [{"type": "object"}, schema]}}})
}

fn job_rules(kind: &str) -> Vec<Value> {
    let some_gpu = json!({"required": ["gpu"], "properties": {"gpu": {"not": {"anyOf": [{"type": "null"}, {"const": 0}, pattern(r"^\+?0+$")]}}}});
    // `gpu_share` without `gpu` requests a share of one GPU.
    let no_number =
        json!({"not": {"required": ["gpu"], "properties": {"gpu": {"not": {"type": "null"}}}}});
    let some_or_one = json!({"anyOf": [no_number, &some_gpu]});
    let shares = spellings(RESOURCES, "gpu_share");
    let type_alone = json!({"allOf": [requires_one(spellings(RESOURCES, "gpu-type")), {"not": requires_one(shares)}]});
    let mut rules = vec![
        json!({"if": in_block("resources", &type_alone), "then": in_block("resources", &some_gpu)}),
        json!({"if": in_block("resources", &requires_one(shares)), "then": in_block("resources", &some_or_one)}),
    ];
    if kind == "training" {
        // Pod names end with the rank. The more pods a job has, the shorter its name must be.
        for (nodes, longest) in [(11, 60), (101, 59), (1001, 58)] {
            let many = |name: &&str| json!({"required": [name], "properties": {*name: whole_number(nodes, 10_000)}});
            let many = json!({"anyOf": spellings(RESOURCES, "node_count").iter().map(many).collect::<Vec<_>>()});
            let short_name = json!({"properties": {"name": {"maxLength": longest}}});
            rules.push(
                json!({"if": in_block("resources", &many), "then": in_block("job", &short_name)}),
            );
        }
    }
    if kind == "inference" {
        let many = |name: &&str| json!({"required": [name], "properties": {*name: whole_number(2, 10_000)}});
        let many = json!({"anyOf": spellings(RESOURCES, "node_count").iter().map(many).collect::<Vec<_>>()});
        rules.push(
            json!({"if": in_block("resources", &many), "then": in_block("job", &json!({"properties": {"name": {"maxLength": 46}}}))}),
        );
    }
    if matches!(kind, "inference" | "compute") {
        let disabled =
            json!({"anyOf": [{"const": false}, pattern(&format!("^{}$", ignore_case("false")))]});
        let enabled =
            json!({"not": {"required": ["enabled"], "properties": {"enabled": disabled}}});
        let target = |name: &'static str| requires_one(spellings(AUTOSCALING, name));
        let gpu = target("targetGPUUtilization");
        let memory = target("targetMemoryUtilization");
        let cpu = target("targetCPUUtilization");
        let queue = target("targetQueueLength");
        let whole = json!({"allOf": [target("maxReplicas"), {"anyOf": [gpu, memory, cpu, queue]}]});
        rules.push(
            json!({"if": in_block("autoscaling", &enabled), "then": in_block("autoscaling", &whole)}),
        );
        let scaled_on_gpus = in_block(
            "autoscaling",
            &json!({"allOf": [enabled, {"anyOf": [gpu, memory]}]}),
        );
        rules.push(json!({"if": scaled_on_gpus, "then": in_block("resources", &some_gpu)}));
        let scaled_on_cpu = in_block("autoscaling", &json!({"allOf": [enabled, cpu]}));
        rules.push(
            json!({"if": scaled_on_cpu, "then": in_block("resources", &requires_one(&["cpu"]))}),
        );
    }
    rules
}

fn quota_rules() -> Vec<Value> {
    let spaces = spellings(QUOTA, "namespace");
    let named_spaces = |space: &&str| in_block(space, &json!({"required": ["default"]}));
    let named_spaces = json!({"anyOf": spaces.iter().map(named_spaces).collect::<Vec<_>>()});
    let has_limits = json!({"anyOf": [requires_one(spaces), requires_one(&["default"])]});
    vec![
        has_limits,
        json!({"not": {"allOf": [named_spaces, requires_one(&["default"])]}}),
    ]
}
