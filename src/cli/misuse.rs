//! Turns clap's complaints into errors of ours: what is wrong in one line, and the command that was
//! probably meant, words of other tools included.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use gpuctl_core::error::Error;
use gpuctl_core::model::secrets::{scrubbed, shown_origin};

/// Commands of other tools, and ours that do the same.
const ELSEWHERE: [(&str, &str); 26] = [
    (
        "stop",
        "`gpuctl pause NAME` (keeps the job) or `gpuctl delete NAME`",
    ),
    ("kill", "`gpuctl delete NAME`"),
    ("cancel", "`gpuctl delete NAME`"),
    ("scancel", "`gpuctl delete NAME`"),
    ("rm", "`gpuctl delete NAME`"),
    (
        "start",
        "`gpuctl resume NAME` (of a paused job) or `gpuctl create FILE`",
    ),
    ("suspend", "`gpuctl pause NAME`"),
    ("submit", "`gpuctl create FILE`"),
    ("sbatch", "`gpuctl create FILE`"),
    ("launch", "`gpuctl create FILE`"),
    ("srun", "`gpuctl run --name NAME --image IMAGE -- COMMAND`"),
    ("ps", "`gpuctl get jobs`"),
    ("ls", "`gpuctl get jobs`"),
    ("list", "`gpuctl get jobs`"),
    (
        "queue",
        "`gpuctl get queues`, and `gpuctl get jobs` for the jobs",
    ),
    ("squeue", "`gpuctl get jobs`"),
    ("status", "`gpuctl get jobs`"),
    ("sinfo", "`gpuctl get nodes`"),
    ("sacct", "`gpuctl stats workloads`"),
    ("usage", "`gpuctl report`"),
    ("info", "`gpuctl describe NAME`"),
    ("show", "`gpuctl describe NAME`"),
    ("inspect", "`gpuctl describe NAME`"),
    ("ssh", "`gpuctl exec NAME`"),
    ("shell", "`gpuctl exec NAME`"),
    ("nvidia-smi", "`gpuctl top gpus`"),
];

/// Nouns that are typed before the verb, or without one.
const NOUNS: [&str; 9] = [
    "jobs",
    "nodes",
    "pools",
    "quotas",
    "queues",
    "claims",
    "workloads",
    "consumers",
    "overview",
];

/// Returns our error for a command line that clap does not take; `words` are those that were typed.
pub(crate) fn explained(error: &clap::Error, words: &[String]) -> Error {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(list)) => list.join(", "),
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        _ => String::new(),
    };
    let list = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(list)) => list.clone(),
        _ => Vec::new(),
    };
    let path = command_path(words);
    let help = format!("gpuctl {path}--help");
    let near = |kind: ContextKind, before: &str| {
        // The nearest comes last.
        list(kind).last().map_or_else(
            || help.clone(),
            |near| format!("did you mean `gpuctl {before}{near}`?"),
        )
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            unknown(&text(ContextKind::InvalidSubcommand), &path, &near, &help)
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let name = path.trim_end();
            let jobs = matches!(name, "pause" | "resume" | "restart" | "describe");
            let error = Error::usage(format!("`gpuctl {name}` needs to know what"));
            error.hint(if jobs {
                format!("`gpuctl {name} NAME` for a job, or {help}")
            } else {
                help
            })
        }
        ErrorKind::UnknownArgument => {
            let unknown = text(ContextKind::InvalidArg);
            let what = if unknown.starts_with('-') {
                "has no option"
            } else {
                "does not take"
            };
            let error = Error::usage(format!("`gpuctl {}` {what} `{unknown}`", path.trim_end()));
            match list(ContextKind::SuggestedArg).first() {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(help),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = list(ContextKind::InvalidArg).join(" ");
            Error::usage(format!("`gpuctl {}` needs {missing}", path.trim_end())).hint(help)
        }
        ErrorKind::InvalidValue => {
            let (option, value) = (
                text(ContextKind::InvalidArg),
                text(ContextKind::InvalidValue),
            );
            let message = match value.is_empty() {
                true => format!("`{option}` needs a value"),
                false => format!("`{option}` cannot be `{value}`"),
            };
            let error = Error::usage(message);
            let error = match list(ContextKind::SuggestedValue).first() {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error,
            };
            match list(ContextKind::ValidValue) {
                values if values.is_empty() => error.hint(help),
                values => error.hint(format!("possible values: {}", values.join(", "))),
            }
        }
        ErrorKind::ArgumentConflict => {
            let (one, other) = (text(ContextKind::InvalidArg), text(ContextKind::PriorArg));
            let message = match one == other || other.is_empty() {
                true => format!("`{one}` cannot be given here, or not twice"),
                false => format!("`{one}` and `{other}` cannot be used together"),
            };
            Error::usage(message).hint(help)
        }
        ErrorKind::ValueValidation => {
            let (option, value) = (
                text(ContextKind::InvalidArg),
                text(ContextKind::InvalidValue),
            );
            let why = std::error::Error::source(error)
                .map_or(String::new(), |source| format!(": {source}"));
            // A webhook's path is its password, and CI keeps what commands print.
            let value = if value.contains("://") {
                shown_origin(&value)
            } else {
                scrubbed(&value).unwrap_or(value)
            };
            Error::usage(format!("`{option}` cannot be `{value}`{why}")).hint(help)
        }
        _ => {
            let text = error.to_string();
            let first = text
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default();
            Error::usage(first.trim_start_matches("error: ")).hint(help)
        }
    }
}

/// Returns the error about a word that is no command.
fn unknown(
    word: &str,
    path: &str,
    near: &impl Fn(ContextKind, &str) -> String,
    help: &str,
) -> Error {
    let suggested = near(ContextKind::SuggestedSubcommand, path);
    let singular = |noun: &&str| noun.strip_suffix('s').unwrap_or(noun) == word;
    if path.is_empty() {
        let error = Error::usage(format!("there is no command `{word}`"));
        if let Some((_, command)) = ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == word) {
            return error.hint(format!("here it is {command}"));
        }
        if let Some(noun) = NOUNS.iter().find(|noun| **noun == word || singular(noun)) {
            return error.hint(format!("verbs come first: `gpuctl get {noun}`"));
        }
        return error.hint(suggested);
    }
    let verb = path.trim_end();
    let error = Error::usage(format!("`gpuctl {verb}` does not know `{word}`"));
    match verb {
        "get" if suggested == *help => error.hint(format!(
            "a job of that name: `gpuctl get job {word}`; all: `gpuctl get --help`"
        )),
        "pause" | "resume" | "restart" | "describe" | "delete" => error
            .hint(suggested)
            .hint(format!("a job of that name: `gpuctl {verb} job {word}`")),
        _ => error.hint(suggested),
    }
}

/// Returns the verbs that were understood, with a space after each.
fn command_path(words: &[String]) -> String {
    let mut command = <crate::cli::Cli as clap::CommandFactory>::command();
    let mut path = String::new();
    for word in words.iter().skip(1).filter(|word| !word.starts_with('-')) {
        let Some(next) = command.find_subcommand(word).cloned() else {
            continue;
        };
        path.push_str(next.get_name());
        path.push(' ');
        command = next;
        if !command.has_subcommands() {
            break;
        }
    }
    path
}
