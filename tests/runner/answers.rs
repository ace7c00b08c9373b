//! Holds every document of `-o json` that a test gets against the schema that `gpuctl schema
//! --output` prints for it: an independent validator judges, and a field that the schema does not
//! name is wrong as well.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, OnceLock};

use gpuctl::generated::commands_with_answer;
use gpuctl_view::program::answers::schema;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::Run;

/// Returns the command that these arguments call: of the first words that are one, the longest.
fn command_of(arguments: &[String]) -> Option<&'static str> {
    static COMMANDS: LazyLock<Vec<String>> = LazyLock::new(commands_with_answer);
    let at = |place: usize| {
        let is_here = |command: &&str| {
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
            .filter(is_here)
            .max_by_key(|command| command.len())
    };
    // What a namespace is called is no command.
    let is_value = |place: &usize| *place > 0 && arguments[place - 1] == "-n";
    (0..arguments.len())
        .filter(|place| !is_value(place))
        .find_map(at)
}

/// Forbids what the schema does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.contains_key("properties") && !map.contains_key("additionalProperties") {
                map.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

/// Returns every way in which a value is not what the schema of this name says.
fn wrongs(name: &str, value: &Value) -> Vec<String> {
    static VALIDATORS: OnceLock<Mutex<HashMap<String, Validator>>> = OnceLock::new();
    let mut known = VALIDATORS
        .get_or_init(Mutex::default)
        .lock()
        .expect("no test panics while it validates");
    let validator = known.entry(name.to_owned()).or_insert_with(|| {
        let mut schema = schema(name).expect("the name is one of ours");
        close(&mut schema);
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
    let wrongs = wrongs(name, value);
    assert!(
        wrongs.is_empty(),
        "the answer of {arguments:?} is not as `gpuctl schema --output {name}` says: {wrongs:#?}\n{value:#}"
    );
}

/// Checks what a run printed, where it was asked for JSON.
pub fn hold(arguments: &[String], run: &Run) {
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
    // A stream of lines is no document.
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
