//! Builds the output schemas of tools from those of `gpuctl schema --output`. Clients validate
//! structured content against them, including errors and later pages.

use gpuctl_view::program::answers;
use serde_json::{Map, Value, json};

use super::tools::AgentTool;
use super::truncation::TRUNCATED;

/// Builds the JSON Schema of a tool's structured content, or `None` for a tool with text answers
/// only.
pub(super) fn output_schema(tool: &AgentTool) -> Option<Map<String, Value>> {
    if !tool.has_json {
        return None;
    }
    let change = tool.change.as_ref();
    let command = change.map_or(tool.command, |change| change.preview);
    let mut definitions = Map::new();
    let mut shapes = answer_shapes(&answer_name(command), &mut definitions);
    let errors = answer_shapes(answers::ERROR, &mut definitions);
    shapes.push(json!({
        "description": "Several errors",
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"anyOf": errors}}},
        "required": ["items"]
    }));
    shapes.extend(errors);
    shapes.extend(own_shapes());
    if change.is_some() {
        shapes.push(json!({
            "description": "The result of a confirmed change",
            "type": "object",
            "properties": {
                "tool": {"const": tool.name},
                "done": {"type": "boolean"},
                "exitCode": {"type": ["integer", "null"]}
            },
            "required": ["tool", "done", "exitCode"]
        }));
    }
    // Protocol versions up to 2025-11-25 require `type` here.
    let schema = json!({
        "type": "object",
        "properties": {TRUNCATED: truncated()},
        "anyOf": shapes,
        "$defs": definitions
    });
    schema.as_object().cloned()
}

/// Schemas of the server's own answers.
fn own_shapes() -> [Value; 2] {
    let message = json!({
        "description": "An error of the server",
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"]
    });
    let text = json!({
        "description": "A later page, or an answer whose JSON is too large",
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "page": {"type": "integer", "minimum": 1},
            "pages": {"type": "integer", "minimum": 1}
        },
        "required": ["text"]
    });
    [message, text]
}

fn truncated() -> Value {
    json!({
        "description": "Lists that are shortened because the answer is too large",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "list": {"type": "string", "description": "A JSON pointer"},
                "shown": {"type": "integer"},
                "total": {"type": "integer"}
            },
            "required": ["list", "shown", "total"]
        }
    })
}

/// Returns a command's name in the table of answers: the words before the options.
fn answer_name(command: &[&str]) -> String {
    let words: Vec<&str> = command
        .iter()
        .copied()
        .take_while(|word| !word.starts_with('-'))
        .collect();
    answers::name(&words.join(" "))
}

/// Returns the schemas of a command's answer and adds their definitions. Wraps a list in `items`,
/// as the answer does.
fn answer_shapes(name: &str, definitions: &mut Map<String, Value>) -> Vec<Value> {
    let Some(Value::Object(mut schema)) = answers::schema(name) else {
        return Vec::new();
    };
    if let Some(Value::Object(mut own)) = schema.shift_remove("$defs") {
        own.values_mut().for_each(without_descriptions);
        definitions.extend(own);
    }
    let mut shapes = match schema.shift_remove("anyOf") {
        Some(Value::Array(shapes)) => shapes,
        _ => {
            schema.retain(|keyword, _| !matches!(keyword.as_str(), "$schema" | "title"));
            vec![Value::Object(schema)]
        }
    };
    for shape in &mut shapes {
        without_descriptions(shape);
        if shape["type"] == "array" {
            *shape = json!({
                "type": "object", "properties": {"items": shape}, "required": ["items"]
            });
        }
    }
    shapes
}

/// Removes descriptions, which are two fifths of a schema, because clients may put all schemas into
/// the context window. `gpuctl schema --output` prints them in full.
fn without_descriptions(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        Value::Object(keywords) => {
            // A property named `description` has a schema instead of a text.
            keywords.retain(|keyword, value| keyword != "description" || !value.is_string());
            keywords.values_mut().for_each(without_descriptions);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::tools;
    use super::super::tools::WriteArea;
    use super::*;

    const AREAS: [WriteArea; 4] = [
        WriteArea::Jobs,
        WriteArea::Pools,
        WriteArea::Quotas,
        WriteArea::Defaults,
    ];

    fn schema(name: &str) -> Value {
        let tool = tools(&AREAS).find(|tool| tool.name == name).unwrap();
        output_schema(tool).unwrap().into()
    }

    #[test]
    fn every_tool_with_json_has_a_schema_for_all_its_answers() {
        let error = json!({
            "error": "NotFound", "kind": "not_found", "message": "m", "causes": [], "notes": [],
            "hints": [], "file": null, "line": null, "column": null
        });
        for tool in tools(&AREAS) {
            let Some(schema) = output_schema(tool).map(Value::from) else {
                assert_eq!(tool.name, "example");
                continue;
            };
            assert_eq!(schema["type"], "object", "{}", tool.name);
            let name = answer_name(tool.change.as_ref().map_or(tool.command, |c| c.preview));
            let shapes = answer_shapes(&name, &mut Map::new());
            assert!(!shapes.is_empty(), "{name}");
            let validator = jsonschema::validator_for(&schema).unwrap();
            for valid in [
                error.clone(),
                json!({"items": [error, error]}),
                json!({"message": "the server ends"}),
                json!({"text": "t", "page": 2, "pages": 3}),
            ] {
                assert!(validator.is_valid(&valid), "{}: {valid}", tool.name);
            }
            let done = json!({"tool": tool.name, "done": true, "exitCode": 0});
            assert_eq!(
                validator.is_valid(&done),
                tool.change.is_some(),
                "{}",
                tool.name
            );
            for invalid in [
                json!({}),
                json!([]),
                json!({"nonsense": 1}),
                json!({"text": 1}),
            ] {
                assert!(!validator.is_valid(&invalid), "{}: {invalid}", tool.name);
            }
        }
    }

    #[test]
    fn a_list_is_wrapped_and_a_shortened_list_is_named() {
        let fit = jsonschema::validator_for(&schema("fit")).unwrap();
        assert!(fit.is_valid(&json!({"total": 0, "items": []})));
        assert!(!fit.is_valid(&json!([])));
        let validator = jsonschema::validator_for(&schema("list_jobs")).unwrap();
        let list = |truncated: Value| json!({"text": "t", "truncated": truncated});
        let named = json!([{"list": "/items", "shown": 1, "total": 2}]);
        assert!(validator.is_valid(&list(named)));
        assert!(!validator.is_valid(&list(json!(["/items"]))));
    }

    #[test]
    fn only_texts_that_describe_are_removed() {
        let mut schema = json!({
            "description": "a pool",
            "properties": {"description": {"type": "string", "description": "its text"}}
        });
        without_descriptions(&mut schema);
        assert_eq!(
            schema,
            json!({"properties": {"description": {"type": "string"}}})
        );
    }
}
