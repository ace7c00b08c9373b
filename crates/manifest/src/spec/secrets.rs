//! Finds the secrets in a document that gpuctl must not print, such as tokens in commands and
//! passwords in variables.

use std::sync::LazyLock;

use regex::Regex;

use gpuctl_core::model::JobKind;
use gpuctl_core::model::secrets::{
    argument_secrets, is_secret_name, is_secret_value, secret_spans, strength_of,
};

use super::document::{Command, Document, JobDocument};
use super::tree::{YamlNode, YamlValue};
use super::values::{EnvValue, EnvVariable};

/// Placeholder for a secret in every output.
const MASK: &str = "***";

/// Returns the secret values of `job`, the longest first.
pub(super) fn secrets(job: &JobDocument) -> Vec<String> {
    longest_first(
        secret_fields(job)
            .into_iter()
            .map(|(_, value)| value)
            .collect(),
    )
}

/// Returns the secrets of `job`, each with the field that contains it.
pub(super) fn secret_fields(job: &JobDocument) -> Vec<(&'static str, String)> {
    let mut secrets: Vec<(&'static str, String)> = Vec::new();
    secrets.extend(
        env_secrets(&job.env)
            .into_iter()
            .map(|value| ("environment.env", value)),
    );
    for (name, value) in &job.annotations {
        let field = "job.annotations";
        let name = name
            .rsplit_once('/')
            .map_or(name.as_str(), |(_, name)| name);
        if is_secret_value(strength_of(name), value) {
            secrets.push((field, value.clone()));
        }
        secrets.extend(text_secrets(value).map(|value| (field, value)));
    }
    for (field, command) in [
        ("environment.command", &job.command),
        ("environment.args", &job.args),
    ] {
        secrets.extend(
            command_secrets(command)
                .into_iter()
                .map(|value| (field, value)),
        );
    }
    // A short value may occur anywhere in the file, so masking it would hide unrelated text.
    secrets.retain(|(_, value)| value.len() > 3 && !value.starts_with(['$', '-']));
    secrets
}

fn longest_first(mut values: Vec<String>) -> Vec<String> {
    // Replace long secrets first. If one secret contains another, replacing the shorter one first
    // would leave parts of the longer one.
    values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    values.dedup();
    values
}

fn command_secrets(command: &Command) -> Vec<String> {
    match command {
        Command::Image => Vec::new(),
        Command::Shell(line) => text_secrets(line).collect(),
        Command::Exec(words) => {
            let texts: Vec<&str> = words.iter().map(String::as_str).collect();
            let secrets = argument_secrets(&texts)
                .into_iter()
                .map(|index| words[index].clone());
            secrets
                .chain(words.iter().flat_map(|word| text_secrets(word)))
                .collect()
        }
    }
}

/// Finds `--token=x`, `--token x`, credentials in URLs, and text that looks like a credential.
fn text_secrets(text: &str) -> impl Iterator<Item = String> {
    secret_spans(text)
        .into_iter()
        .map(|span| text[span].to_owned())
}

/// Returns true if a value is the mask of a secret.
pub(super) fn is_mask(value: &str) -> bool {
    matches!(value.trim(), MASK | "[redacted]")
}

/// Returns true if a command contains a mask in the place of a secret.
pub(super) fn has_mask(command: &Command) -> bool {
    // Replace the mask by a sentinel value, because the search for secrets skips `***`.
    const STAND_IN: &str = "masked-stand-in";
    let filled = |text: &String| text.replace(MASK, STAND_IN).replace("[redacted]", STAND_IN);
    let filled = match command {
        Command::Image => Command::Image,
        Command::Shell(line) => Command::Shell(filled(line)),
        Command::Exec(words) => Command::Exec(words.iter().map(filled).collect()),
    };
    command_secrets(&filled)
        .iter()
        .any(|value| value.contains(STAND_IN))
}

/// Finds the secrets of all documents in a file. Returns an empty list if the text is not a valid
/// manifest.
pub fn source_secrets(source: &str) -> Vec<String> {
    let documents = super::parse("", source)
        .map(|parsed| parsed.documents)
        .unwrap_or_default();
    let find = |document: &Document| match document {
        Document::Job(job) => secrets(job),
        Document::Defaults(site) => site
            .all_scopes()
            .flat_map(|set| env_secrets(&set.env))
            .collect(),
        Document::Pool(_) | Document::Quota(_) => Vec::new(),
    };
    longest_first(documents.iter().flat_map(find).collect())
}

/// Finds secrets in the values of variables: the whole value of a variable with a secret-looking
/// name, and credentials within other values.
fn env_secrets(env: &[EnvVariable]) -> Vec<String> {
    let mut secrets = Vec::new();
    for variable in env {
        let EnvValue::Text(text) = &variable.value else {
            continue;
        };
        if is_secret_name(&variable.name) && is_secret_value(strength_of(&variable.name), text) {
            secrets.push(text.clone());
        }
        secrets.extend(text_secrets(text));
    }
    secrets
}

/// Masks the secrets in a manifest. Text that is not a valid manifest stays unchanged.
pub fn masked(source: &str) -> String {
    let secrets = source_secrets(source);
    let hide = |text: &str| {
        secrets
            .iter()
            .fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    };
    if secrets.iter().all(|secret| source.contains(secret)) {
        return hide(source);
    }
    // Because of quotes and folded lines, the source may not contain a parsed value literally. Mask
    // the parsed values and write the documents again.
    let trees = super::tree::read(source, &mut Vec::new());
    let masked = trees.into_iter().map(|mut tree| {
        hide_in(&mut tree.root, &hide);
        super::overrides::write(&tree.root)
    });
    masked.collect::<Vec<_>>().join("---\n")
}

fn hide_in(node: &mut YamlNode, hide: &impl Fn(&str) -> String) {
    match &mut node.value {
        YamlValue::Null => {}
        YamlValue::Scalar { text, .. } => *text = hide(text),
        YamlValue::List(items) => items.iter_mut().for_each(|item| hide_in(item, hide)),
        YamlValue::Map(entries) => entries
            .iter_mut()
            .for_each(|entry| hide_in(&mut entry.value, hide)),
    }
}

/// Finds Jupyter's token, from a flag or from the variable that Jupyter reads.
pub fn notebook_token(job: &JobDocument) -> Option<String> {
    static FLAG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"--(?:\w+\.)?token[= ]["']?([^\s"',]+)"#).expect("the pattern is tested")
    });
    if job.kind != JobKind::Notebook {
        return None;
    }
    let variable = job.env.iter().find_map(|variable| match &variable.value {
        EnvValue::Text(text) if variable.name == "JUPYTER_TOKEN" => Some(text.clone()),
        _ => None,
    });
    FLAG.captures(&job.line())
        .map(|captures| captures[1].to_owned())
        .or(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTEBOOK: &str = "kind: notebook
version: v0.1
job: {name: a}
environment:
  image: i
  command: [jupyter-lab, --port=8888, --NotebookApp.token=ai-gpuctl-2025, --NotebookApp.password=]
  env: {HF_TOKEN: hf_abcdef, MAX_TOKENS: 4096, WANDB_API_KEY: $WANDB}
";

    #[test]
    fn tokens_are_masked_everywhere() {
        let output = masked(NOTEBOOK);
        assert!(
            !output.contains("ai-gpuctl-2025") && !output.contains("hf_abcdef"),
            "{output}"
        );
        assert!(
            output.contains("--NotebookApp.token=***") && output.contains("MAX_TOKENS: 4096"),
            "{output}"
        );
        assert_eq!(masked("not: ours"), "not: ours");
    }

    #[test]
    fn values_are_masked_in_any_quoting() {
        for environment in [
            "env: {DB_PASSWORD: 'it\'\'s-s3cret'}",
            "env: [{name: DB_PASSWORD, value: \"s3cret-\\\"quoted\"}]",
            "command: [serve, --password, my s3cret words]",
            "command: serve --password \"my s3cret words\" --max-tokens 5",
            "command: [sh, -c, 'API_KEY=s3cret-key serve']",
            "command: |\n    serve \\\n      --auth-token s3cret-token",
        ] {
            let text = format!(
                "kind: notebook\nversion: v0.1\njob: {{name: a}}\nenvironment:\n  image: i\n  {environment}\n"
            );
            assert!(super::super::parse("", &text).is_ok(), "{text}");
            assert!(!masked(&text).contains("s3cret"), "{}", masked(&text));
        }
    }

    #[test]
    fn the_token_of_a_notebook_is_found() {
        let token = |text: &str| match super::super::parse("", text).unwrap().documents.remove(0) {
            Document::Job(job) => notebook_token(&job),
            _ => None,
        };
        assert_eq!(token(NOTEBOOK).as_deref(), Some("ai-gpuctl-2025"));
        let by_variable = "kind: notebook\nversion: v0.1\njob: {name: a}\nenvironment: {image: i, env: {JUPYTER_TOKEN: abcd}}\n";
        assert_eq!(token(by_variable).as_deref(), Some("abcd"));
        assert_eq!(token(&by_variable.replace("JUPYTER_TOKEN", "X")), None);
    }
}
