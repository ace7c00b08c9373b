//! Tests that arguments become the right command line.

use super::super::catalog::tools;
use super::*;

fn tool(name: &str) -> &'static AgentTool {
    tools(&[WriteArea::Jobs])
        .find(|tool| tool.name == name)
        .unwrap()
}

fn call(name: &str, arguments: Value) -> Result<Call, ArgumentError> {
    let tool = tool(name);
    tool.call(tool.command, arguments.as_object().unwrap())
}

#[test]
fn arguments_are_never_options() {
    let call_of_logs = call(
        "logs",
        json!({"job": "--as=admin", "grep": "-x --kubeconfig /etc", "tail": 5}),
    )
    .unwrap();
    let words = [
        "logs",
        "--tail=5",
        "--grep=-x --kubeconfig /etc",
        "--",
        "--as=admin",
    ];
    assert_eq!(call_of_logs.words, words);
    let words = [
        "logs",
        "--tail=5",
        "--grep=-x --kubeconfig /etc",
        "--output=json",
        "--",
        "--as=admin",
    ];
    assert_eq!(call_of_logs.as_json().words, words);
    let create = call(
        "create_job",
        json!({"manifest": "kind: training", "namespace": "ml", "confirm": "x"}),
    )
    .unwrap();
    assert_eq!(
        create.words.join(" "),
        "create -f - --no-local-files --only-kind=job --namespace=ml"
    );
    assert_eq!(create.input, "kind: training");
}

#[test]
fn wrong_arguments_are_refused() {
    for (name, arguments, message) in [
        ("logs", json!({}), "`logs` needs `job`"),
        (
            "logs",
            json!({"job": 5}),
            "`job` of `logs` must be a string, not 5",
        ),
        (
            "logs",
            json!({"job": "a", "tail": -1}),
            "an integer from 0 to 4294967295, not -1",
        ),
        (
            "logs",
            json!({"job": "a", "rank": 4_294_967_296_u64}),
            "an integer from 0 to 4294967295",
        ),
        (
            "logs",
            json!({"job": "a", "tail": 1.5}),
            "an integer from 0 to 4294967295, not 1.5",
        ),
        ("free", json!({"slots": 0}), "an integer from 1 to 1000000"),
        (
            "list_jobs",
            json!({"status": "done"}),
            "must be one of pending, running, succeeded",
        ),
        ("example", json!({"kind": ["training"]}), "must be a string"),
        (
            "overview",
            json!({"x\n[page 1 of 1]": 1}),
            r#"has no argument "x\n[page 1 of 1]""#,
        ),
        (
            "logs",
            json!({"job": "a", "previous": "yes"}),
            "true or false",
        ),
        ("logs", json!({"job": "a\0b"}), "NUL"),
        (
            "overview",
            json!({"confirm": true}),
            "`overview` has no argument \"confirm\"",
        ),
        (
            "delete_job",
            json!({"job": "a", "page": 2}),
            "`delete_job` has no argument \"page\"",
        ),
    ] {
        let error = call(name, arguments).unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains("\nhint: "),
            "{error}"
        );
    }
}

#[test]
fn a_page_is_a_positive_integer() {
    let page = |value: Value| tool("list_jobs").page(json!({"page": value}).as_object().unwrap());
    assert_eq!((page(json!(3)), page(Value::Null)), (Ok(3), Ok(1)));
    assert_eq!(page(json!(2.0)), Ok(2));
    for invalid in [
        json!(0),
        json!(-1),
        json!("2"),
        json!(1.5),
        json!(true),
        json!([1]),
        json!(1e30),
    ] {
        assert!(page(invalid.clone()).is_err(), "{invalid}");
    }
}

#[test]
fn arguments_are_checked_as_their_schema_says() {
    let values = [
        json!(0),
        json!(1),
        json!(2.0),
        json!(-1),
        json!(1.5),
        json!(5_000_000_000_u64),
        json!(1e300),
        json!(true),
        json!("2"),
        json!("training"),
        json!("pending"),
        json!([]),
        json!({}),
    ];
    for tool in tools(&[WriteArea::Jobs]) {
        let schema = Value::Object(tool.schema());
        let validator = jsonschema::validator_for(&schema).unwrap();
        let valid: Map<String, Value> = tool
            .parameters
            .iter()
            .filter(|parameter| parameter.is_required)
            .map(|parameter| {
                let text = parameter.choices.first().unwrap_or(&"x");
                (parameter.name.to_owned(), json!(text))
            })
            .collect();
        let names = schema["properties"].as_object().unwrap().keys();
        for name in names.map(String::as_str).chain(["unknown"]) {
            for value in &values {
                let mut arguments = valid.clone();
                arguments.insert(name.to_owned(), value.clone());
                let accepted = tool.call(tool.command, &arguments).is_ok()
                    && (tool.change.is_some() || tool.page(&arguments).is_ok())
                    && tool.confirmation(&arguments).is_ok();
                let arguments = Value::Object(arguments);
                assert_eq!(
                    accepted,
                    validator.is_valid(&arguments),
                    "{} {arguments}",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn only_a_word_confirms() {
    let confirmation = |value: Value| {
        let arguments = json!({ "confirm": value });
        tool("create_job")
            .confirmation(arguments.as_object().unwrap())
            .map(|word| word.map(ToOwned::to_owned))
    };
    assert_eq!(confirmation(json!("x")), Ok(Some("x".to_owned())));
    assert_eq!(confirmation(Value::Null), Ok(None));
    for invalid in [json!(true), json!(1), json!({}), json!(["x"])] {
        let error = confirmation(invalid).unwrap_err().to_string();
        assert!(
            error.contains("`confirm` of `create_job` must be the word"),
            "{error}"
        );
    }
}

#[test]
fn masked_values_cannot_be_submitted() {
    let masked = "# Some values are masked as [redacted].\njob: {name: a}\nenvironment:\n  \
                  command: MOTD=[redacted] train\n";
    let arguments = |manifest: &str| json!({ "manifest": manifest });
    let refused = call("create_job", arguments(masked));
    assert_eq!(refused, Err(ArgumentError::Masked));
    assert!(call("fit", arguments(masked)).is_ok());
    let replaced = masked.replace("MOTD=[redacted]", "MOTD=x");
    assert!(call("create_job", arguments(&replaced)).is_ok());
}
