//! Masks secrets in answers, because agents may pass them on. Masks the values of all environment
//! variables, whatever their names. Keeps the names of Secrets, which a job file needs.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::changed_fields;
use super::dumps::{self, VariableNames};
use gpuctl_local::bundle::{REDACTED, scrubbed};
use gpuctl_manifest::spec::without_variables;

/// Origin of a text, which selects the masking rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextSource {
    /// Names, states, events and logs.
    Cluster,
    /// Like `Cluster`, without logs but with labels, one `key=value` per line.
    Labels,
    /// A description that ends with the submitted YAML below `SUBMITTED`.
    Description,
    /// A YAML document after comment lines.
    Yaml,
    /// Messages about the agent's own YAML, and the fields that it changes.
    Manifest,
    /// Text of gpuctl without data from the cluster.
    Program,
}

impl TextSource {
    /// The source for the command's warnings and errors, which contain no YAML document.
    pub(super) fn for_lines(self) -> Self {
        match self {
            Self::Description | Self::Labels | Self::Yaml => Self::Cluster,
            // Warnings and errors may quote other text.
            Self::Program => Self::Manifest,
            other => other,
        }
    }

    /// The source for a text in a JSON field.
    pub(super) fn for_field(self) -> Self {
        match self {
            Self::Labels | Self::Manifest => self,
            _ => Self::Cluster,
        }
    }
}

/// Replaces `secret: `, the field with the name of a Secret, during the search for credentials. If
/// a text already contains this private-use character, the character becomes `secret: `, which is
/// harmless.
const NAMED_SECRET: &str = "\u{e000}";

/// Variables and credentials that are masked here but not in bundles, where they would cause false
/// positives: values in the position of a variable, and the word after a login command.
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

/// `NAME=value` before a command or among its arguments, with an optional closing quote.
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

/// Masks the YAML after the title by parsing it, because variables have many forms in YAML. The
/// title is unambiguous: all lines below it are indented, and line breaks in names are escaped.
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

/// First line of a document with masked values, which an agent must replace.
const MASKED_YAML: &str = "# Some values are masked as [redacted]. Before you submit this, \
    replace each with its value, or name a Secret.\n";

/// Masks a YAML document and drops its comments, which can repeat a secret. The result is valid
/// YAML, so an agent can submit a document without masked values.
pub(super) fn yaml(text: &str) -> String {
    match without_variables(text, &value) {
        Some(document) if document.contains(REDACTED) => format!("{MASKED_YAML}{document}"),
        Some(document) => document,
        None => format!("{REDACTED}\n"),
    }
}

/// Masks a value of a document. A value can be a command that sets variables.
pub(super) fn value(text: &str) -> String {
    let hidden = |captures: &Captures<'_>| {
        // Names in lower case, as in `--flag=value` and `lr=0.1`, are arguments of the program.
        // Variables have names in capitals.
        match captures[2].chars().any(|c| c.is_ascii_lowercase()) {
            true => captures[0].to_owned(),
            false => format!("{}{}{REDACTED}", &captures[1], &captures[2]),
        }
    };
    credentials(&ASSIGNMENT.replace_all(text, hidden))
}

#[cfg(test)]
mod tests {
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
            MASKED_YAML.trim_end(),
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
    fn yaml_without_values_to_mask_can_be_submitted_again() {
        let document = "kind: training
version: v0.1
job:
  name: a
environment:
  image: registry.example/team/train:1
  imagePullSecret: registry
  command: [python, train.py, --max-tokens, \"512\", --tokenizer, meta/llama, --lr=1e-4]
  env:
  - name: HF_TOKEN
    secret: hub
    key: token
resources:
  gpu: 8
storage:
  workdirs:
  - pvc: token-cache
    path: /data
";
        let shown = yaml(document);
        assert!(!shown.contains('#') && !shown.contains(REDACTED), "{shown}");
        let parsed = gpuctl_manifest::spec::parse("", &shown);
        assert!(
            parsed.is_ok_and(|parsed| parsed.documents.len() == 1),
            "{shown}"
        );
        assert_eq!(yaml(&shown), shown);
        for kept in [
            "512",
            "meta/llama",
            "--lr=1e-4",
            "secret: hub",
            "key: token",
            "token-cache",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
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
