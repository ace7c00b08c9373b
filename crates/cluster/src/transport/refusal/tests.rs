//! Tests for `refusal.rs`.

use super::*;

fn failure(body: &str) -> String {
    #[derive(Debug, Deserialize)]
    struct Sized {
        #[serde(rename = "size")]
        _size: u8,
    }
    let error = serde_json::from_str::<Sized>(body).unwrap_err();
    unreadable_answer("https://a", body.as_bytes(), &error).to_string()
}

#[test]
fn an_undecodable_object_is_named() {
    let object =
        r#"{"kind": "Job", "metadata": {"name": "a", "namespace": "b"}, "size": "CANARY"}"#;
    assert_eq!(
        failure(object),
        "Job b/a has a field with a wrong type or an invalid value, at byte 77 of its JSON"
    );
    let node = r#"{"kind": "Node", "metadata": {"name": "a"}, "size": 1000}"#;
    assert_eq!(
        failure(node),
        "Node a has a field with a wrong type or an invalid value, at byte 56 of its JSON"
    );
    for body in [
        r#"{"login": "here", "size": ""}"#,
        "<html>",
        r#"{"kind": "Job", "metadata": {"name": "a"}, "si"#,
    ] {
        assert!(
            failure(body).starts_with("https://a is not a Kubernetes API server: "),
            "{body}"
        );
    }
}
