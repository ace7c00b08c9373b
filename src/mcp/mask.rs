//! Masks secrets in answers to agents, because agents may disclose them to others. Hides the values
//! of all environment variables, whatever their names are. Keeps the names of Secrets, because a
//! later job needs them.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::changed_fields;
use super::dumps::{self, VariableNames};
use gpuctl_local::bundle::{REDACTED, redact, scrubbed};
use gpuctl_manifest::spec::without_variables;

/// Where a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextSource {
    /// Names, states, events and logs.
    Cluster,
    /// Like `Cluster` but without logs, and with labels, one `key=value` per line.
    Labels,
    /// A description that ends with the submitted YAML, below `SUBMITTED`.
    Description,
    /// A YAML document that follows comment lines.
    Yaml,
    /// Messages about YAML from the agent itself, and the fields that it would change.
    Manifest,
    /// Text from the program that contains no data from the cluster.
    Program,
}

impl TextSource {
    /// Determines the source of the command's warnings and errors, which contain no YAML document.
    pub(super) fn for_lines(self) -> Self {
        match self {
            Self::Description | Self::Labels | Self::Yaml => Self::Cluster,
            // A warning or an error can contain text that is not from the program.
            Self::Program => Self::Manifest,
            other => other,
        }
    }

    /// Determines the source of a text in a JSON field.
    fn for_field(self) -> Self {
        match self {
            Self::Labels | Self::Manifest => self,
            _ => Self::Cluster,
        }
    }
}

/// Fields in answers that contain a whole YAML document as text.
const DOCUMENTS: [&str; 2] = ["yamlContent", "source"];
/// Replaces `secret: `, the field that names a Secret, while credentials are searched for. If a
/// text already contains this private-use character, it becomes a harmless `secret: `.
const NAMED_SECRET: &str = "\u{e000}";

/// Variables and credentials that `bundle` does not search for, because they would cause false
/// positives elsewhere. These are values in the position of a variable, and the word after a login
/// command.
static VALUES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let word = r#"(?:\\?"[^"]*"|'[^']*'|[^\s"';&|]+)"#;
    let pairs = [
        // `spec.containers.main.env.NAME.value: a → b`, `environment.env.NAME: a (the site's
        // defaults, all)`.
        (
            r"(?m)((?:\S+\.env(?:[.\[][^\s:]+)*|\benv(?:[.\[][^\s:]+)+): +).*?( \(the site's defaults, [^()]*\))?$".to_owned(),
            "$1[redacted]$2",
        ),
        (format!(r"(\b(?:export|readonly|declare|typeset|local)(?:\s+-\w+)*\s+\w+=){word}"), "$1[redacted]"),
        (format!(r"(\b(?:setenv|set\s+-\w*x)\s+\w+\s){word}"), "$1[redacted]"),
        (format!(r"(?i)(\b\w*(?:passphrase|_pw|_pwd|_pass)\s*[=:]\s*){word}"), "$1[redacted]"),
        (
            format!(
                r"(?i)(\b(?:wandb|hf|huggingface-cli|docker|podman|ngc|swanlab|comet|mlflow|aws|gcloud|az|modelscope|kaggle)(?:\s+auth)?\s+login\s+(?:--?[\w-]+[\s=]+)*){word}"
            ),
            "$1[redacted]",
        ),
    ];
    pairs
        .into_iter()
        .map(|(pattern, with)| (Regex::new(&pattern).expect("the patterns are valid"), with))
        .collect()
});

/// `NAME=value` before a command or among its arguments. The closing quote may be cut off.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(^|[\s;&|("'])([A-Za-z_]\w*=)("[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s"';&|)]+)"#)
        .expect("the pattern is valid")
});
/// Matches `secret: hub`, but not `client_secret: …`.
static SECRET_FIELD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(^|[\s{,-])secret: ").expect("the pattern is valid"));

/// Masks an answer in text form.
pub(super) fn text(answer: &str, source: TextSource) -> String {
    match source {
        TextSource::Program => answer.to_owned(),
        TextSource::Cluster => lines(answer, VariableNames::Any),
        TextSource::Labels => lines(answer, VariableNames::Capitals),
        TextSource::Manifest => {
            let with_secrets_hidden = SECRET_FIELD
                .replace_all(answer, |captures: &Captures<'_>| {
                    format!("{}{NAMED_SECRET}", &captures[1])
                });
            lines(
                &changed_fields::masked(&with_secrets_hidden, value),
                VariableNames::Capitals,
            )
            .replace(NAMED_SECRET, "secret: ")
        }
        TextSource::Description => description(answer),
        TextSource::Yaml => {
            let comments = answer
                .split_inclusive('\n')
                .take_while(|line| line.starts_with('#'))
                .map(str::len)
                .sum();
            let (comments, document) = answer.split_at(comments);
            format!("{}{}", lines(comments, VariableNames::Any), yaml(document))
        }
    }
}

fn joined(text: String, line: &str) -> String {
    format!("{text}{line}\n")
}

fn lines(text: &str, names: VariableNames) -> String {
    dumps::masked(&credentials(text), names)
}

fn credentials(text: &str) -> String {
    let mut text = scrubbed(text).unwrap_or_else(|| text.to_owned());
    for (pattern, replacement) in VALUES.iter() {
        if pattern.is_match(&text) {
            text = pattern.replace_all(&text, *replacement).into_owned();
        }
    }
    text
}

/// Parses the YAML at the end, because variables can have many forms in it. The title is
/// unambiguous: all lines after it are indented, and line breaks in names are escaped.
fn description(answer: &str) -> String {
    const TITLE: &str = "\nSUBMITTED\n";
    let Some((before, submitted)) = answer.rsplit_once(TITLE) else {
        return lines(answer, VariableNames::Any);
    };
    let is_inside = |line: &&str| line.is_empty() || line.starts_with("  ");
    let document: String = submitted
        .lines()
        .take_while(is_inside)
        .map(|line| line.get(2..).unwrap_or_default())
        .fold(String::new(), joined);
    let after: String = submitted
        .lines()
        .skip_while(is_inside)
        .fold(String::new(), joined);
    let document: String = yaml(&document)
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    format!(
        "{}{TITLE}{document}{}",
        lines(before, VariableNames::Any),
        lines(&after, VariableNames::Any)
    )
}

/// Masks a YAML document. Drops the comments, because they can repeat a secret.
fn yaml(text: &str) -> String {
    without_variables(text, &value).unwrap_or_else(|| format!("{REDACTED}\n"))
}

/// Masks a value in a document. The value can be a command that sets variables.
pub(super) fn value(text: &str) -> String {
    let hidden = |captures: &Captures<'_>| {
        // `--flag=value` and `lr=0.1` are arguments of the program. Variables have names in
        // capitals.
        match captures[2].chars().any(|c| c.is_ascii_lowercase()) {
            true => captures[0].to_owned(),
            false => format!("{}{}{REDACTED}", &captures[1], &captures[2]),
        }
    };
    credentials(&ASSIGNMENT.replace_all(text, hidden))
}

/// Masks an answer in JSON form.
pub(super) fn json(answer: &mut Value, source: TextSource) {
    if source == TextSource::Program {
        return;
    }
    let mut documents = Vec::new();
    prepare(answer, source, &mut documents);
    redact(answer);
    restore(answer, &documents);
}

/// Masks the YAML documents. Replaces each one by a number, because `redact` would treat them as
/// plain text.
fn prepare(value: &mut Value, source: TextSource, documents: &mut Vec<String>) {
    match value {
        Value::String(line) => *line = text(line, source.for_field()),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| prepare(item, source, documents)),
        Value::Object(fields) => {
            hide_default(fields);
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(document) if DOCUMENTS.contains(&name.as_str()) => {
                        documents.push(yaml(document));
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

/// Hides the value of a variable that one of the site's defaults sets: `{"field":
/// "environment.env.NAME", "value": …}`.
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
    fn variables_of_a_description_are_masked_and_names_of_secrets_stay() {
        let submitted: String = SUBMITTED
            .lines()
            .map(|line| format!("  {line}\n"))
            .collect();
        let answer = format!(
            "a   training   running\nLAST LINES\n  API_TOKEN=CANARY\n  WORLD=CANARY\n   0 │ A=CANARY\nSUBMITTED\n{submitted}note: x\n"
        );
        let masked = text(&answer, TextSource::Description);
        assert!(!masked.contains("CANARY"), "{masked}");
        for kept in [
            "PASSPHRASE",
            "secret: hub",
            "registry",
            "name: N",
            "--lr=0.1",
            "a   training   running",
            "note: x",
        ] {
            assert!(masked.contains(kept), "{kept}: {masked}");
        }
        let unreadable = text("a\nSUBMITTED\n  env: {A: CANARY\n", TextSource::Description);
        assert_eq!(unreadable, "a\nSUBMITTED\n  [redacted]\n");
    }

    #[test]
    fn json_is_masked_like_text() {
        let mut answer = json!({
            "jobId": "a", "yamlContent": SUBMITTED, "source": null,
            "defaults": [{"field": "environment.env.MOTD", "value": "CANARY"}, {"field": "env", "value": {"A": "CANARY"}}],
            "changes": ["spec.template.spec.containers.main.env.A.value: CANARY → CANARY"],
            "lines": [{"message": "wandb login CANARY"}, {"message": "PASSPHRASE=CANARY"}],
            "env": [{"name": "A", "value": "CANARY"}], "resources": {"gpu": 0},
        });
        json(&mut answer, TextSource::Description);
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
            json(&mut answer, source);
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
        json(&mut preview, TextSource::Manifest);
        assert!(!preview.to_string().contains("CANARY"), "{preview}");
    }

    #[test]
    fn logs_and_events_show_no_changed_fields() {
        for line in [
            "pipeline: load → tokenize → train",
            "[INFO] topology: [0, 1] → ring",
            "data.loader: [0, 1] → ring",
        ] {
            for source in [
                TextSource::Cluster,
                TextSource::Labels,
                TextSource::Description,
            ] {
                assert_eq!(text(line, source), line);
            }
        }
    }

    #[test]
    fn lines_of_a_dry_run_keep_their_origin() {
        let line = "  environment.env.MOTD: CANARY x (the site's defaults, all, instead of the file's)\n  Job/a\n";
        let masked = text(line, TextSource::Manifest);
        assert_eq!(
            masked,
            "  environment.env.MOTD: [redacted] (the site's defaults, all, instead of the file's)\n  Job/a\n"
        );
        let manifest_line = "7 | env: [{name: A, secret: hub}]\n";
        assert_eq!(text(manifest_line, TextSource::Manifest), manifest_line);
        assert_eq!(
            text("  secret: hub\n", TextSource::Program),
            "  secret: hub\n"
        );
        let defaults = "# written by eva\nall:\n  env: {BASH_ENV: CANARY}\n";
        let masked = text(defaults, TextSource::Yaml);
        assert!(
            masked.starts_with("# written by eva\n") && !masked.contains("CANARY"),
            "{masked}"
        );
    }
}
