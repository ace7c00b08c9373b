//! JSON Schemas of answers, which are the outputs of commands with `-o json`.
//!
//! The program embeds the schemas as text, because the code that generates them is several times as
//! large.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::format::errors::ErrorDocument;

/// Generates the schema of a type.
pub type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// Generates the schema of `T`. Function pointers to it serve as the [`MakeSchema`] of a command.
pub fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns the name of a command's answer.
pub fn name(command: &str) -> String {
    command.replace(' ', "-")
}

/// Name of the error answer, which every command can print.
pub const ERROR: &str = "error";

/// The output of [`from_types`], stored in the repository.
const TEXT: &str = include_str!("../../../../schemas/answers.json");

/// Returns the schema of an answer.
pub fn schema(name: &str) -> Option<Value> {
    let mut schemas: Map<String, Value> = serde_json::from_str(TEXT).expect("the schemas are JSON");
    schemas.remove(name)
}

/// Generates the JSON text with the schemas of these commands and of the error answer, sorted by
/// name with one answer per line.
pub fn from_types(commands: &[(String, &[MakeSchema])]) -> String {
    let mut answers: Vec<(&str, &[MakeSchema])> = vec![(ERROR, &[shape::<ErrorDocument<'_>>])];
    answers.extend(
        commands
            .iter()
            .map(|(command, shapes)| (command.as_str(), *shapes)),
    );
    answers.sort_unstable_by_key(|(command, _)| *command);
    let line = |(command, shapes): &(&str, &[MakeSchema])| {
        format!("{}: {}", json!(name(command)), of_types(command, shapes))
    };
    let lines: Vec<String> = answers.iter().map(line).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn of_types(command: &str, shapes: &[MakeSchema]) -> Value {
    // With the serialization contract, fields with `skip_serializing_if` are optional.
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let shapes: Vec<Value> = shapes
        .iter()
        .map(|shape| shape(&mut generator).to_value())
        .collect();
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!(format!("gpuctl {command}")));
    match shapes.as_slice() {
        [Value::Object(object)] => schema.extend(object.clone()),
        schemas => drop(schema.insert("anyOf".to_owned(), json!(schemas))),
    }
    schema.insert("$defs".to_owned(), json!(generator.take_definitions(true)));
    Value::Object(schema)
}

/// Returns the schema of a line that a command prints with `--watch`: a row of the answer, or the
/// entire answer if it has no rows. If options select one of several answers, the schema accepts
/// each of them.
pub fn line(name: &str) -> Option<Value> {
    let answer_schema = schema(name)?;
    let shapes = answer_schema["anyOf"].as_array().map_or_else(
        || vec![&answer_schema],
        |alternatives| alternatives.iter().collect(),
    );
    let line = |shape: &Value| {
        let definition = shape["$ref"]
            .as_str()
            .and_then(|pointer| answer_schema.pointer(pointer.strip_prefix('#')?))
            .unwrap_or(shape);
        // The rows are the answer itself, or its field `items` or `data`.
        let rows = [
            "/items",
            "/properties/items/items",
            "/properties/data/items",
        ];
        let row = rows
            .into_iter()
            .find_map(|pointer| definition.pointer(pointer));
        row.cloned()
            .unwrap_or_else(|| json!({"$ref": shape["$ref"]}))
    };
    Some(json!({
        "$schema": answer_schema["$schema"],
        "title": format!("a line of {} --watch", answer_schema["title"].as_str().unwrap_or_default()),
        "anyOf": shapes.into_iter().map(line).collect::<Vec<_>>(),
        "properties": {"deleted": {"const": true, "description": "The row was deleted; this is its last state."}},
        "$defs": answer_schema["$defs"],
    }))
}
