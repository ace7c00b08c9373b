//! Tests which fields of two objects differ, and that secrets are masked.

use serde_json::json;

use super::*;

#[test]
fn fields_are_named_and_secrets_are_not_told() {
    let yaml = |token: &str| {
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i, env: {{HF_TOKEN: {token}, OTHER_TOKEN: stays}}}}\nservice: {{port: 1}}\n"
        )
    };
    let of_env = |value: &str| {
        json!({"spec": {"replicas": 1, "containers": [{"name": "main", "image": "a:1",
        "env": [{"name": "HF_TOKEN", "value": value}, {"name": "OTHER_TOKEN", "value": "stays"}]}]}})
    };
    let (live, mut wanted) = (of_env("hf_old"), of_env("hf_new"));
    wanted["spec"]["replicas"] = json!(2);
    wanted["spec"]["containers"][0]["image"] = json!("a:2");
    let found = changes(&live, &wanted, &Masks::of(&yaml("hf_old"), &yaml("hf_new")));
    let secret = "spec.containers.main.env.HF_TOKEN.value: *** (before) → *** (after)";
    assert_eq!(
        found,
        [
            secret,
            "spec.containers.main.image: a:1 → a:2",
            "spec.replicas: 1 → 2"
        ]
    );
    let none = Masks::default();
    assert_eq!(changes(&json!({"a": 1}), &json!({}), &none), ["a: 1 → -"]);
    assert!(changes_asked_for(&json!({"a": 1}), &json!({}), &none).is_empty());
}
