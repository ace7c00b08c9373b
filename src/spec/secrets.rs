//! Finds secrets in a document that must not be printed: tokens in commands, passwords in variables.

use std::sync::LazyLock;

use regex::Regex;

use crate::model::JobKind;

use super::document::{Command, Document, JobDocument};
use super::secret_names::is_secret_name;
use super::tree::{YamlNode, YamlValue};
use super::values::{EnvValue, EnvVariable};

/// A flag or variable whose value is secret, up to its `=` or the end of the word.
const NAME: &str = r"(?i)[\w.-]*(?:token|password|passwd|api[_-]?key|secret)";

static IN_LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r#"{NAME}[= ](?:"([^"]*)"|'([^']*)'|([^\s"',]+))"#)).expect("the pattern is tested"));
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(&format!(r"^{NAME}(?:=(.*))?$")).expect("the pattern is tested"));

/// Values of `job` that are not for eyes, the longest first.
#[must_use]
pub(super) fn secrets(job: &JobDocument) -> Vec<String> {
    let mut found = named_secrets(&job.env);
    for command in [&job.command, &job.args] {
        match command {
            Command::Image => {}
            Command::Shell(line) => {
                let values = IN_LINE.captures_iter(line).filter_map(|found| found.iter().skip(1).flatten().next());
                found.extend(values.map(|value| value.as_str().to_owned()));
            }
            Command::Exec(words) => found.extend(in_words(words)),
        }
    }
    // Anything shorter would blot out half of the file.
    found.retain(|value| value.len() > 3 && !value.starts_with(['$', '-']));
    found.sort_by_key(|value| std::cmp::Reverse(value.len()));
    found.dedup();
    found
}

/// `--token=x`, `--token x`, and the lines of a shell among the words.
fn in_words(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        match WORD.captures(word).map(|parts| parts.get(1).map(|value| value.as_str().to_owned())) {
            Some(Some(value)) => found.push(value),
            Some(None) if word.starts_with('-') => found.extend(words.get(index + 1).cloned()),
            _ => {
                let values = IN_LINE.captures_iter(word).filter_map(|found| found.iter().skip(1).flatten().next());
                found.extend(values.map(|value| value.as_str().to_owned()));
            }
        }
    }
    found
}

/// Values of the jobs of a document that are not for eyes; none of text that is no document of ours.
#[must_use]
pub fn of_source(source: &str) -> Vec<String> {
    let documents = super::parse("", source).map(|parsed| parsed.documents).unwrap_or_default();
    let of = |document: &Document| match document {
        Document::Job(job) => secrets(job),
        Document::Defaults(site) => site.scopes_of_all().flat_map(|set| named_secrets(&set.env)).collect(),
        Document::Pool(_) | Document::Quota(_) => Vec::new(),
    };
    documents.iter().flat_map(of).collect()
}

/// Values of variables whose names say that they are secret.
fn named_secrets(env: &[EnvVariable]) -> Vec<String> {
    let value = |variable: &EnvVariable| match &variable.value {
        EnvValue::Text(text) if is_secret_name(&variable.name) => Some(text.clone()),
        _ => None,
    };
    env.iter().filter_map(value).collect()
}

/// Returns the text of a document with its secrets masked; text that is no document of ours stays as it is.
#[must_use]
pub fn masked(source: &str) -> String {
    let secrets = of_source(source);
    let hide = |text: &str| secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"));
    if secrets.iter().all(|secret| source.contains(secret)) {
        return hide(source);
    }
    // Quotes and folds write a value in another way than it reads: the values themselves are masked then.
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
        YamlValue::Map(entries) => entries.iter_mut().for_each(|entry| hide_in(&mut entry.value, hide)),
    }
}

/// Returns what opens a notebook: Jupyter's token from its flag or from the variable that it reads.
#[must_use]
pub fn notebook_token(job: &JobDocument) -> Option<String> {
    static FLAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"--(?:\w+\.)?token[= ]["']?([^\s"',]+)"#).expect("the pattern is tested"));
    if job.kind != JobKind::Notebook {
        return None;
    }
    let variable = job.env.iter().find_map(|variable| match &variable.value {
        EnvValue::Text(text) if variable.name == "JUPYTER_TOKEN" => Some(text.clone()),
        _ => None,
    });
    FLAG.captures(&job.line()).map(|found| found[1].to_owned()).or(variable)
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
    fn tokens_are_masked_wherever_they_stand() {
        let shown = masked(NOTEBOOK);
        assert!(!shown.contains("ai-gpuctl-2025") && !shown.contains("hf_abcdef"), "{shown}");
        assert!(shown.contains("--NotebookApp.token=***") && shown.contains("MAX_TOKENS: 4096"), "{shown}");
        assert_eq!(masked("not: ours"), "not: ours");
    }

    #[test]
    fn a_value_is_masked_however_it_was_quoted() {
        for environment in [
            "env: {DB_PASSWORD: 'it\'\'s-s3cret'}",
            "env: [{name: DB_PASSWORD, value: \"s3cret-\\\"quoted\"}]",
            "command: [serve, --password, my s3cret words]",
            "command: serve --password \"my s3cret words\" --max-tokens 5",
            "command: [sh, -c, 'API_KEY=s3cret-key serve']",
            "command: |\n    serve \\\n      --auth-token s3cret-token",
        ] {
            let text = format!("kind: notebook\nversion: v0.1\njob: {{name: a}}\nenvironment:\n  image: i\n  {environment}\n");
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
