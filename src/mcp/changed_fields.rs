//! Masks lines of a preview that show a changed field, such as `spec.replicas: 1 → 2`. A value can
//! be a whole container as JSON, whose variables are not part of the path. Long values are cut off.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Value, json};

use gpuctl_local::bundle::{REDACTED, redact};

const ARROW: &str = " → ";
/// Ellipsis at the end of a truncated value.
const CUT: char = '…';

/// Matches the text before a path (such as the object or `caused by:`), the path and both values. A
/// path starts with a field of an object, or contains a dot and follows only the object.
static CHANGE: LazyLock<Regex> = LazyLock::new(|| {
    let field =
        "(?:spec|data|metadata|status|rules|subjects|roleRef|type|immutable|binaryData|stringData)";
    let path = format!(r"(?:(?:.*?[ \t])??{field}(?:\.\S+)?|[ \t]*(?:\S+ )?[A-Za-z]\w*\.\S+)");
    Regex::new(&format!("(?m)^({path}: )(.* → .*)$")).expect("the pattern is valid")
});

/// A function that masks a text.
type MaskText = fn(&str) -> String;

/// Masks both values of every changed field. `mask` masks the texts in the values.
pub(super) fn masked(text: &str, mask: MaskText) -> String {
    let line = |line: &Captures<'_>| {
        let sides: Vec<&str> = line[2].split(ARROW).collect();
        match sides[..] {
            [before, after] => {
                let name = line[1]
                    .trim_end_matches(": ")
                    .rsplit('.')
                    .next()
                    .unwrap_or_default();
                format!(
                    "{}{}{ARROW}{}",
                    &line[1],
                    side(name, before, mask),
                    side(name, after, mask)
                )
            }
            // One of the values contains an arrow, so the boundary between them is unknown. Mask
            // both.
            _ => format!("{}{REDACTED}{ARROW}{REDACTED}", &line[1]),
        }
    };
    CHANGE.replace_all(text, line).into_owned()
}

/// Masks one value. `name` is the last part of the field's path.
fn side(name: &str, text: &str, mask: MaskText) -> String {
    if !text.starts_with(['{', '[']) {
        return mask(text);
    }
    let complete = serde_json::from_str::<Value>(text)
        .ok()
        .map(|value| (value, ""));
    let truncated = || {
        text.strip_suffix(CUT)
            .and_then(words)
            .map(|value| (value, "…"))
    };
    let Some((value, end)) = complete.or_else(truncated) else {
        return REDACTED.to_owned();
    };
    // The masking rules depend on the field's name, such as `annotations`.
    let mut field = json!({name: value});
    redact(&mut field);
    let mut value = field[name].take();
    hide(&mut value, mask);
    let shown = value.to_string();
    if end.is_empty() {
        shown
    } else {
        format!("{}{end}", shown.strip_suffix("\"]").unwrap_or(&shown))
    }
}

/// Completes a list of words that was cut off, such as a command. A cut object cannot be completed,
/// because the missing part could show that a value belongs to a variable.
fn words(cut: &str) -> Option<Value> {
    let cut = cut.trim_end_matches([',', '\\']);
    let completed = [format!("{cut}\"]"), format!("{cut}]")];
    let list = completed
        .iter()
        .find_map(|text| serde_json::from_str::<Value>(text).ok())?;
    list.as_array()?
        .iter()
        .all(Value::is_string)
        .then_some(list)
}

fn hide(value: &mut Value, mask: MaskText) {
    match value {
        Value::String(text) => *text = mask(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, mask)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, mask)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::mask::{self, value};
    use super::*;

    #[test]
    fn variables_in_values_of_every_form_are_masked() {
        for line in [
            r#"spec.template.spec.initContainers.x: {"env":[{"name":"MOTD","value":"CANARY"}],… → -"#,
            r#"spec.template.spec.initContainers.x: - → {"env":[{"name":"MOTD","value":"CANARY"}]}"#,
            r#"  spec.containers: [{"env":[{"name":"MOTD","value":"CANARY… → [{"image":"a"}]"#,
            r#"spec.containers.main.command: ["sh","-c","MOTD=CANARY train"] → ["train"]"#,
            r#"spec.containers.main.command: ["sh","-c","MOTD=CANARY tra… → -"#,
            r#"spec.containers.main.command: ["sh","-c","MOTD='a CANARY… → -"#,
            r#"spec.containers.main.command: ["sh","-c","MOTD=\"a CANARY tra… → -"#,
            r#"spec.containers.main.command: ["sh","-c","MOTD=\"CANARY\"; tra\… → -"#,
            r#"spec.containers.main.args: ["--token","CANARY"] → ["--token","CANARY…"#,
            r#"  deployment/web spec.containers.main.command: ["sh","-c","MOTD=CANARY train"] → ["train"]"#,
            "data.run: MOTD=CANARY train → MOTD='a CANARY…",
            "data.run: {\"MOTD\": \"CANARY → CANARY\"} → -",
            r#"metadata.annotations: {"gpuctl/defaults":"{\"environment.env.MOTD\":\"CANARY\"}"} → -"#,
            r#"  caused by: spec.containers: [{"env":[{"name":"MOTD","value":"CANARY"}]}] → -"#,
            r#"error: `web` exists: spec.containers: [{"env":[{"name":"MOTD","value":"CANARY"}]}] → -"#,
            r#"  caused by: training `a` exists: spec.a: "CANARY" → -: spec.b: {"A":"CANARY"} → -"#,
            r#"  deployment/web other.field: {"env":[{"name":"MOTD","value":"CANARY"}]} → -"#,
            r#"  configmap/web data: {"run":"MOTD=CANARY train"} → -"#,
        ] {
            let output = mask::text(
                &format!("before\n{line}\nafter"),
                mask::TextSource::Manifest,
            );
            assert!(
                !output.contains("CANARY") && output.contains(REDACTED),
                "{line}: {output}"
            );
            assert!(
                output.starts_with("before\n")
                    && output.ends_with("\nafter")
                    && output.contains(ARROW),
                "{line}: {output}"
            );
        }
    }

    #[test]
    fn other_changes_stay() {
        for line in [
            "  spec.replicas: 1 → 2",
            "spec.containers.main.image: a:1 → a:2",
            r#"spec.containers.main.command: ["python","train.py"] → ["python","train.py","--lr=0.1"]"#,
            r#"spec.containers.main.command: ["torchrun","--nproc-per-node","8","train… → -"#,
            r#"spec.tolerations: - → [{"key":"gpu","operator":"Exists"}]"#,
            "  deployment/web spec.replicas: 1 → 2",
            "epoch 3: a → b",
            "pipeline: load → tokenize → train",
            "[INFO] topology: [0, 1] → ring",
        ] {
            assert_eq!(masked(line, value), line);
        }
    }
}
