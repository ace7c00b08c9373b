//! Tests which fields of two objects differ, and that secrets are masked.

use serde_json::json;

use super::*;

#[test]
fn changed_fields_are_named_without_secrets() {
    let yaml = |token: &str| {
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i, env: {{HF_TOKEN: {token}, OTHER_TOKEN: stays}}}}\nservice: {{port: 1}}\n"
        )
    };
    let with_token = |value: &str| {
        json!({"spec": {"replicas": 1, "containers": [{"name": "main", "image": "a:1",
        "env": [{"name": "HF_TOKEN", "value": value}, {"name": "OTHER_TOKEN", "value": "stays"}]}]}})
    };
    let (live, mut desired) = (with_token("hf_old"), with_token("hf_new"));
    desired["spec"]["replicas"] = json!(2);
    desired["spec"]["containers"][0]["image"] = json!("a:2");
    let lines = changes(
        &live,
        &desired,
        &Masks::for_change(&yaml("hf_old"), &yaml("hf_new")),
    );
    let secret = "spec.containers.main.env.HF_TOKEN.value: *** (before) → *** (after)";
    assert_eq!(
        lines,
        [
            secret,
            "spec.containers.main.image: a:1 → a:2",
            "spec.replicas: 1 → 2"
        ]
    );
    let no_masks = Masks::default();
    assert_eq!(
        changes(&json!({"a": 1}), &json!({}), &no_masks),
        ["a: 1 → -"]
    );
    assert!(requested_changes(&json!({"a": 1}), &json!({}), &no_masks).is_empty());
}
