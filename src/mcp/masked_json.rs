//! Masks secrets in answers in JSON form.

use serde_json::{Map, Value};

use super::mask::{self, TextSource};
use gpuctl_local::bundle::{REDACTED, redact};

/// Fields that contain a whole YAML document.
const DOCUMENTS: [&str; 2] = ["yamlContent", "source"];

/// Masks an answer in JSON form.
pub(super) fn mask_json(answer: &mut Value, source: TextSource) {
    if source == TextSource::Program {
        return;
    }
    let mut documents = Vec::new();
    prepare(answer, source, &mut documents);
    redact(answer);
    restore(answer, &documents);
}

/// Masks YAML documents and replaces each by a number, because `redact` would treat it as plain
/// text.
fn prepare(value: &mut Value, source: TextSource, documents: &mut Vec<String>) {
    match value {
        Value::String(line) => *line = mask::text(line, source.for_field()),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| prepare(item, source, documents)),
        Value::Object(fields) => {
            hide_default(fields);
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(document) if DOCUMENTS.contains(&name.as_str()) => {
                        documents.push(mask::yaml(document));
                        *value = (documents.len() - 1).into();
                    }
                    value => prepare(value, source, documents),
                }
            }
        }
        _ => {}
    }
}

fn restore(value: &mut Value, documents: &[String]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| restore(item, documents)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let document = value
                    .as_u64()
                    .filter(|_| DOCUMENTS.contains(&name.as_str()));
                match document.and_then(|index| documents.get(usize::try_from(index).ok()?)) {
                    Some(document) => *value = document.as_str().into(),
                    None => restore(value, documents),
                }
            }
        }
        _ => {}
    }
}

/// Masks the value of a variable in the site's defaults: `{"field": "environment.env.NAME",
/// "value": …}`.
fn hide_default(fields: &mut Map<String, Value>) {
    let is_variable =
        |field: &str| field == "env" || field.ends_with(".env") || field.contains("env.");
    if !fields
        .get("field")
        .and_then(Value::as_str)
        .is_some_and(is_variable)
    {
        return;
    }
    match fields.get_mut("value") {
        Some(Value::Object(variables)) => {
            variables
                .values_mut()
                .filter(|value| !value.is_object())
                .for_each(|value| *value = REDACTED.into());
        }
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => {
            items
                .iter_mut()
                .filter_map(|item| item.get_mut("value"))
                .for_each(|value| *value = REDACTED.into());
        }
        Some(value) if !value.is_null() => *value = REDACTED.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SUBMITTED: &str = "kind: training
job: {name: a}
environment:
  # PASSPHRASE=CANARY
  image: busybox
  command: [sh, -c, 'MY_PW=CANARY wandb login CANARY && export X=CANARY; train --lr=0.1 --token CANARY']
  env: [{name: PASSPHRASE, value: CANARY}, {name: HF_TOKEN, secret: hub, key: token}, {name: N, value: \"CANARY 2\"}]
  imagePullSecret: registry
";

    #[test]
    fn json_is_masked_like_text() {
        let mut answer = json!({
            "jobId": "a", "yamlContent": SUBMITTED, "source": null,
            "defaults": [{"field": "environment.env.MOTD", "value": "CANARY"}, {"field": "env", "value": {"A": "CANARY"}}],
            "changes": ["spec.template.spec.containers.main.env.A.value: CANARY → CANARY"],
            "lines": [{"message": "wandb login CANARY"}, {"message": "PASSPHRASE=CANARY"}],
            "env": [{"name": "A", "value": "CANARY"}], "resources": {"gpu": 0},
        });
        mask_json(&mut answer, TextSource::Description);
        let masked = answer.to_string();
        assert!(!masked.contains("CANARY"), "{masked}");
        assert!(masked.contains("secret: hub"), "{masked}");
        assert_eq!(
            (&answer["source"], &answer["resources"]["gpu"]),
            (&Value::Null, &json!(0))
        );
        assert!(
            answer["yamlContent"]
                .as_str()
                .unwrap()
                .contains("PASSPHRASE")
        );
    }

    #[test]
    fn fields_of_json_keep_their_origin() {
        let masked = |source| {
            let mut answer = json!({"taints": ["dedicated=gpu:NoSchedule", "MOTD=CANARY"]});
            mask_json(&mut answer, source);
            answer["taints"].clone()
        };
        assert_eq!(
            masked(TextSource::Labels),
            json!(["dedicated=gpu:NoSchedule", "MOTD=[redacted]"])
        );
        assert_eq!(
            masked(TextSource::Cluster),
            json!(["dedicated=[redacted]", "MOTD=[redacted]"])
        );
        let mut preview = json!({"changes": ["spec.initContainers: - → [{\"env\":[{\"name\":\"MOTD\",\"value\":\"CANARY\"}]}]"]});
        mask_json(&mut preview, TextSource::Manifest);
        assert!(!preview.to_string().contains("CANARY"), "{preview}");
    }
}
