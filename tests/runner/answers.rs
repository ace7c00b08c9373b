//! Validates every `-o json` document that tests receive against its schema, as printed by
//! `gpuctl schema --output`. The validator is independent of gpuctl, and rejects fields that the
//! schema does not declare.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, OnceLock};

use gpuctl::generated::commands_with_answer;
use gpuctl_view::program::answers::schema;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::Run;

/// Finds the command that these arguments call: the longest match at the first position where any
/// command matches.
fn command_of(arguments: &[String]) -> Option<&'static str> {
    static COMMANDS: LazyLock<Vec<String>> = LazyLock::new(commands_with_answer);
    let command_at = |place: usize| {
        let matches = |command: &&str| {
            let words: Vec<&str> = command.split(' ').collect();
            arguments[place..]
                .iter()
                .map(String::as_str)
                .take(words.len())
                .eq(words.iter().copied())
        };
        COMMANDS
            .iter()
            .map(String::as_str)
            .filter(matches)
            .max_by_key(|command| command.len())
    };
    // The value of `-n` could look like a command.
    let is_value = |place: &usize| *place > 0 && arguments[place - 1] == "-n";
    (0..arguments.len())
        .filter(|place| !is_value(place))
        .find_map(command_at)
}

/// Forbids fields that the schema does not declare.
fn forbid_unknown_fields(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(forbid_unknown_fields);
            // Unlike `additionalProperties`, this also accepts properties declared in a `$ref` or
            // `allOf` next to `properties` (JSON Schema 2020-12, core, section 11.3).
            if map.contains_key("properties") && !map.contains_key("additionalProperties") {
                map.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(forbid_unknown_fields),
        _ => {}
    }
}

/// Lists how the value violates the schema with this name.
fn violations(name: &str, value: &Value) -> Vec<String> {
    static VALIDATORS: OnceLock<Mutex<HashMap<String, Validator>>> = OnceLock::new();
    let mut validators = VALIDATORS
        .get_or_init(Mutex::default)
        .lock()
        .expect("no test panics while it validates");
    let validator = validators.entry(name.to_owned()).or_insert_with(|| {
        let mut schema = schema(name).expect("the schema exists");
        forbid_unknown_fields(&mut schema);
        jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .expect("a schema is valid")
    });
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

fn check(name: &str, value: &Value, arguments: &[String]) {
    let violations = violations(name, value);
    assert!(
        violations.is_empty(),
        "the answer of {arguments:?} violates `gpuctl schema --output {name}`: {violations:#?}\n{value:#}"
    );
}

/// Checks the output of a run with `-o json`.
pub fn check_output(arguments: &[String], run: &Run) {
    let joined = ["-ojson", "-o=json", "--output=json"];
    let is_json = arguments
        .windows(2)
        .any(|pair| pair == ["-o", "json"] || pair == ["--output", "json"])
        || arguments
            .iter()
            .any(|argument| joined.contains(&argument.as_str()));
    let Some(command) = command_of(arguments).filter(|_| is_json) else {
        return;
    };
    let name = command.replace(' ', "-");
    // A stream of JSON lines is not a single document.
    if let Ok(value) = serde_json::from_str::<Value>(&run.out) {
        check(&name, &value, arguments);
    }
    for line in run
        .err
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        if line["error"].is_string() {
            check("error", &line, arguments);
        }
    }
}
