//! The JSON Schema of every answer of `-o json`. The program says which command prints which types,
//! and keeps the text that is made of them: the code that makes it is several times as large.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::format::errors::ErrorDocument;

/// Makes the schema of one type.
pub type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// Returns the function that makes the schema of a type.
pub fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns the name of a command's answer.
pub fn name(command: &str) -> String {
    command.replace(' ', "-")
}

/// The name of the answer that every command may have.
pub const ERROR: &str = "error";

/// What [`from_types`] made.
const TEXT: &str = include_str!("../../../../schemas/answers.json");

/// Returns the schema of an answer by its name; `None` where no command has it.
pub fn schema(name: &str) -> Option<Value> {
    let mut all: Map<String, Value> = serde_json::from_str(TEXT).expect("the schemas are JSON");
    all.remove(name)
}

/// Returns the schemas of these commands, and of an error, which every command may print, as the
/// text of a JSON object: an answer on each line, in the order of the alphabet.
pub fn from_types(commands: &[(String, &[MakeSchema])]) -> String {
    let mut all: Vec<(&str, &[MakeSchema])> = vec![(ERROR, &[shape::<ErrorDocument<'_>>])];
    all.extend(
        commands
            .iter()
            .map(|(command, shapes)| (command.as_str(), *shapes)),
    );
    all.sort_unstable_by_key(|(command, _)| *command);
    let line = |(command, shapes): &(&str, &[MakeSchema])| {
        format!("{}: {}", json!(name(command)), of_types(command, shapes))
    };
    let lines: Vec<String> = all.iter().map(line).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn of_types(command: &str, shapes: &[MakeSchema]) -> Value {
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
        [Value::Object(one)] => schema.extend(one.clone()),
        several => drop(schema.insert("anyOf".to_owned(), json!(several))),
    }
    schema.insert("$defs".to_owned(), json!(generator.take_definitions(true)));
    Value::Object(schema)
}

/// Returns the schema of a line that a command prints with `--watch`, by the name of its answer: a
/// row, or the whole answer where it has no rows. Any of them where options choose between several.
pub fn line(name: &str) -> Option<Value> {
    let whole = schema(name)?;
    let shapes = whole["anyOf"]
        .as_array()
        .map_or_else(|| vec![&whole], |several| several.iter().collect());
    let line = |shape: &Value| {
        let found = shape["$ref"]
            .as_str()
            .and_then(|place| whole.pointer(place.strip_prefix('#')?))
            .unwrap_or(shape);
        let rows = [
            "/items",
            "/properties/items/items",
            "/properties/data/items",
        ];
        let row = rows.into_iter().find_map(|place| found.pointer(place));
        row.cloned()
            .unwrap_or_else(|| json!({"$ref": shape["$ref"]}))
    };
    Some(json!({
        "$schema": whole["$schema"],
        "title": format!("a line of {} --watch", whole["title"].as_str().unwrap_or_default()),
        "anyOf": shapes.into_iter().map(line).collect::<Vec<_>>(),
        "properties": {"deleted": {"const": true, "description": "The row is gone, and this is how it was."}},
        "$defs": whole["$defs"],
    }))
}
