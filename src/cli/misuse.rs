//! Converts clap's errors into one line that states the problem, and suggests the command that the
//! user probably wanted. This includes words that other tools use.

use std::error::Error as StdError;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use gpuctl_core::error::Error;
use gpuctl_core::model::secrets::{scrubbed, shown_origin};

/// Commands of other tools, and the equivalent commands of gpuctl.
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
        "`gpuctl resume NAME` (for a paused job) or `gpuctl create FILE`",
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
        "`gpuctl get queues`, or `gpuctl get jobs` for the jobs",
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

/// Nouns that users type before the verb, or without one.
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

/// Converts clap's error into ours. `words` is the command line.
pub(crate) fn explain(error: &clap::Error, words: &[String]) -> Error {
    let path = command_path(words);
    let misuse = Misuse {
        error,
        help: format!("gpuctl {path}--help"),
        path,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => misuse.unknown_word(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            misuse.missing_noun()
        }
        ErrorKind::UnknownArgument => misuse.unknown_argument(),
        ErrorKind::MissingRequiredArgument => {
            let missing = misuse.list(ContextKind::InvalidArg).join(" ");
            Error::usage(format!("`gpuctl {}` needs {missing}", misuse.command())).hint(misuse.help)
        }
        ErrorKind::InvalidValue => misuse.invalid_value(),
        ErrorKind::ArgumentConflict => misuse.conflict(),
        ErrorKind::ValueValidation => misuse.refused_value(),
        ErrorKind::TooManyValues => misuse.surplus_value(),
        ErrorKind::InvalidUtf8 => Error::usage("an argument is not valid UTF-8").hint(misuse.help),
        _ => {
            let text = error.to_string();
            let first = text
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or_default();
            Error::usage(first.trim_start_matches("error: ")).hint(misuse.help)
        }
    }
}

/// A command line that clap rejected.
struct Misuse<'a> {
    error: &'a clap::Error,
    /// The recognized verbs, with a space after each.
    path: String,
    /// The command that prints the help.
    help: String,
}

impl Misuse<'_> {
    fn command(&self) -> &str {
        self.path.trim_end()
    }

    fn text(&self, kind: ContextKind) -> String {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            Some(ContextValue::Strings(list)) => list.join(", "),
            Some(ContextValue::StyledStr(text)) => text.to_string(),
            _ => String::new(),
        }
    }

    fn list(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    /// Explains a word that is not a command.
    fn unknown_word(self) -> Error {
        let word = self.text(ContextKind::InvalidSubcommand);
        // clap sorts suggestions by similarity, the most similar last.
        let suggested = self
            .list(ContextKind::SuggestedSubcommand)
            .last()
            .map_or_else(
                || self.help.clone(),
                |similar| format!("did you mean `gpuctl {}{similar}`?", self.path),
            );
        let singular = |noun: &&str| noun.strip_suffix('s').unwrap_or(noun) == word;
        if self.path.is_empty() {
            let error = Error::usage(format!("unknown command `{word}`"));
            if let Some((_, command)) = ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == word) {
                return error.hint(format!("use {command}"));
            }
            if let Some(noun) = NOUNS.iter().find(|noun| **noun == word || singular(noun)) {
                return error.hint(format!("verbs come first: `gpuctl get {noun}`"));
            }
            return error.hint(suggested);
        }
        let verb = self.command();
        let error = Error::usage(format!("`gpuctl {verb}` has no subcommand `{word}`"));
        match verb {
            "get" if suggested == self.help => error.hint(format!(
                "for a job with that name: `gpuctl get job {word}`; for all types: \
                 `gpuctl get --help`"
            )),
            "pause" | "resume" | "restart" | "describe" | "delete" => error.hint(suggested).hint(
                format!("for a job with that name: `gpuctl {verb} job {word}`"),
            ),
            _ => error.hint(suggested),
        }
    }

    fn missing_noun(self) -> Error {
        let name = self.command();
        let jobs = matches!(name, "pause" | "resume" | "restart" | "describe");
        let error = Error::usage(format!("`gpuctl {name}` needs an object type"));
        error.hint(if jobs {
            format!("`gpuctl {name} NAME` for a job, or {}", self.help)
        } else {
            self.help
        })
    }

    fn unknown_argument(self) -> Error {
        let unknown = self.text(ContextKind::InvalidArg);
        let problem = if unknown.starts_with('-') {
            "has no option"
        } else {
            "does not accept"
        };
        let error = Error::usage(format!("`gpuctl {}` {problem} `{unknown}`", self.command()));
        match self.list(ContextKind::SuggestedArg).first() {
            Some(similar) => error.hint(format!("did you mean `{similar}`?")),
            None => error.hint(self.help),
        }
    }

    /// Explains a value that is not one of the possible values.
    fn invalid_value(self) -> Error {
        let (option, value) = (
            self.text(ContextKind::InvalidArg),
            self.text(ContextKind::InvalidValue),
        );
        let message = match value.is_empty() {
            true => format!("`{option}` needs a value"),
            false => format!("invalid value `{value}` for `{option}`"),
        };
        let error = Error::usage(message);
        let error = match self.list(ContextKind::SuggestedValue).first() {
            Some(similar) => error.hint(format!("did you mean `{similar}`?")),
            None => error,
        };
        match self.list(ContextKind::ValidValue) {
            values if values.is_empty() => error.hint(self.help),
            values => error.hint(format!("possible values: {}", values.join(", "))),
        }
    }

    fn conflict(self) -> Error {
        let (first, second) = (
            self.text(ContextKind::InvalidArg),
            self.text(ContextKind::PriorArg),
        );
        let message = match first == second || second.is_empty() {
            true => format!("`{first}` is not allowed here or is repeated"),
            false => format!("`{first}` and `{second}` cannot be used together"),
        };
        Error::usage(message).hint(self.help)
    }

    /// Explains a value of an option that takes none, such as `--watch=true`.
    fn surplus_value(self) -> Error {
        let (option, value) = (
            self.text(ContextKind::InvalidArg),
            self.text(ContextKind::InvalidValue),
        );
        Error::usage(format!("`{option}` takes no value, but `{value}` is given"))
            .hint(format!("`{option}` alone, or {}", self.help))
    }

    /// Explains a value that the parser of its option rejected.
    fn refused_value(self) -> Error {
        let (option, value) = (
            self.text(ContextKind::InvalidArg),
            self.text(ContextKind::InvalidValue),
        );
        let reason = StdError::source(self.error)
            .map_or(String::new(), |source| format!(": {}", reason(source)));
        // The path of a webhook's URL works like a password, and CI systems store what commands
        // print.
        let value = if value.contains("://") {
            shown_origin(&value)
        } else {
            scrubbed(&value).unwrap_or(value)
        };
        Error::usage(format!("invalid value `{value}` for `{option}`{reason}")).hint(self.help)
    }
}

/// Explains why a parser rejected a value. The parsers of Rust and clap describe their own rules,
/// such as `invalid digit found in string` and `0 is not in 1..=1000`.
fn reason(source: &(dyn StdError + 'static)) -> String {
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        return match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            IntErrorKind::NegOverflow => "the number is too small",
            _ => "expected a whole number",
        }
        .to_owned();
    }
    let text = source.to_string();
    if let Some((min, max)) = text
        .rsplit_once(" is not in ")
        .and_then(|(_, range)| range.split_once("..="))
    {
        return format!("expected a whole number from {min} to {max}");
    }
    // A regex error quotes the pattern above its last line.
    let last_line = text.lines().last().unwrap_or_default();
    last_line.trim_start_matches("error: ").to_owned()
}

/// Returns the recognized verbs, with a space after each.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_parsers_are_explained_in_our_words() {
        for (line, message) in [
            ("logs a --tail x", "cannot be `x`: expected a whole number"),
            (
                "logs a --tail 1.5",
                "cannot be `1.5`: expected a whole number",
            ),
            (
                "logs a --tail 99999999999999999999",
                "the number is too large",
            ),
            ("logs a --grep (", "cannot be `(`: unclosed group"),
            (
                "get jobs --page 0",
                "expected a whole number from 1 to 4294967295",
            ),
            (
                "get jobs --page-size 2000",
                "expected a whole number from 1 to 1000",
            ),
            (
                "get jobs --watch=true",
                "`--watch` takes no value, but `true` is given",
            ),
            ("scale a x", "cannot be `x`: expected a whole number"),
            (
                "open a --local-port 99999",
                "expected a whole number from 0 to 65535",
            ),
        ] {
            let words: Vec<String> = format!("gpuctl {line}")
                .split(' ')
                .map(ToOwned::to_owned)
                .collect();
            let command = <crate::cli::Cli as clap::CommandFactory>::command();
            let error = command.try_get_matches_from(&words).unwrap_err();
            let explained = explain(&error, &words);
            assert!(explained.message.contains(message), "{line}: {explained}");
        }
    }
}
