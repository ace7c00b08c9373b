//! Tests the command lines that are built from arguments.

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
        "create -f - --only-kind=job --namespace=ml"
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
            "a non-negative integer",
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
            "`overview` has no argument `confirm`",
        ),
        (
            "delete_job",
            json!({"job": "a", "page": 2}),
            "`delete_job` has no argument `page`",
        ),
    ] {
        let error = call(name, arguments).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_page_is_a_positive_integer() {
    let page = |value: Value| tool("list_jobs").page(json!({"page": value}).as_object().unwrap());
    assert_eq!((page(json!(3)), page(Value::Null)), (Ok(3), Ok(1)));
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
