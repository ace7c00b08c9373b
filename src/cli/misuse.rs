//! Converts clap's errors to one line about the problem and a suggestion of the intended command,
//! including commands of other tools.

use std::error::Error as StdError;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

use super::shorthand::takes_next_word;
use super::{Cli, elsewhere, other_values, tasks};
use gpuctl_core::error::Error;
use gpuctl_core::model::secrets::{scrubbed, shown_origin};

/// Converts an error of clap. `words` is the command line.
pub(crate) fn explain(error: &clap::Error, words: &[String]) -> Error {
    let root = Cli::command();
    let (path, command) = recognized(&root, words);
    let misuse = Misuse {
        error,
        words,
        help: format!("gpuctl {path}--help"),
        path,
        root: &root,
        command,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => misuse.unknown_word(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            misuse.missing_noun()
        }
        ErrorKind::UnknownArgument => misuse.unknown_argument(),
        ErrorKind::MissingRequiredArgument => {
            let missing = misuse.list(ContextKind::InvalidArg).join(" ");
            Error::usage(format!("`gpuctl {}` needs {missing}", misuse.verbs())).hint(misuse.help)
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
    words: &'a [String],
    root: &'a Command,
    /// The command that the recognized verbs select.
    command: &'a Command,
    /// The recognized verbs, each followed by a space.
    path: String,
    /// The command that prints the relevant help.
    help: String,
}

impl Misuse<'_> {
    fn verbs(&self) -> &str {
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

    /// Builds the error for a word that is not a command.
    fn unknown_word(self) -> Error {
        let word = self.text(ContextKind::InvalidSubcommand);
        if let Some(error) = self.separate_value(&word) {
            return error;
        }
        if self.path.is_empty() || self.precedes_verbs(&word) {
            return Error::usage(format!("unknown command `{word}`"))
                .hint(self.instead_of_command(&word));
        }
        let verbs = self.verbs();
        let error = Error::usage(format!("`gpuctl {verbs}` has no subcommand `{word}`"));
        if let Some(hint) = elsewhere::instead_of_object(&word) {
            return error.hint(hint);
        }
        if let Some(similar) = misspelled(&word, names(self.command)) {
            return error.hint(format!("did you mean `gpuctl {}{similar}`?", self.path));
        }
        error.hint(match verbs {
            "get" => {
                format!(
                    "for a job with that name, use `gpuctl get job {word}`; for all types, see \
                     `gpuctl get --help`"
                )
            }
            _ => self
                .with_job_name()
                .or_else(|| elsewhere::instead_of_command(&word).map(ToOwned::to_owned))
                .unwrap_or(self.help),
        })
    }

    /// Returns true if an unknown word stands before the recognized verbs, as in `rollout restart`.
    fn precedes_verbs(&self, unknown: &str) -> bool {
        let first_verb = self.path.split(' ').next().unwrap_or_default();
        let typed = self.words.iter().skip(1);
        let mut typed = typed.filter(|word| *word == unknown || *word == first_verb);
        typed.next().is_some_and(|word| word == unknown)
    }

    /// The hint for an unknown first word.
    fn instead_of_command(&self, word: &str) -> String {
        if let Some(hint) = elsewhere::instead_of_command(word) {
            return hint.to_owned();
        }
        if tasks::page(word).is_some() {
            return format!("`gpuctl help {word}` shows what to do instead");
        }
        let get = self.root.find_subcommand("get");
        if let Some(list) = get.and_then(|get| get.find_subcommand(word)) {
            return format!("verbs come first: `gpuctl get {}`", list.get_name());
        }
        misspelled(word, names(self.root)).map_or_else(
            || self.help.clone(),
            |similar| format!("did you mean `gpuctl {similar}`?"),
        )
    }

    /// The hint for verbs that take a job name, or a type of object and a name.
    fn with_job_name(&self) -> Option<String> {
        let verb = self.verbs();
        matches!(verb, "pause" | "resume" | "restart" | "describe" | "delete")
            .then(|| format!("`gpuctl {verb} NAME` for a job, or {}", self.help))
    }

    fn missing_noun(self) -> Error {
        let error = Error::usage(format!("`gpuctl {}` needs an object type", self.verbs()));
        error.hint(self.with_job_name().unwrap_or(self.help))
    }

    fn unknown_argument(self) -> Error {
        let unknown = self.text(ContextKind::InvalidArg);
        if let Some(error) = self.separate_value(&unknown) {
            return error;
        }
        let verbs = self.verbs();
        if unknown.starts_with('-') {
            let error = Error::usage(format!("`gpuctl {verbs}` has no option `{unknown}`"));
            return error.hint(self.instead_of_option(&unknown));
        }
        let error = Error::usage(format!("`gpuctl {verbs}` does not accept `{unknown}`"));
        match self.with_separator(&unknown) {
            Some(line) => error.hint(format!("put the command after `--`: {line}")),
            None => error.hint(self.help),
        }
    }

    /// The hint for an unknown option.
    fn instead_of_option(&self, option: &str) -> String {
        let verb = self.path.split(' ').next().unwrap_or_default();
        if let Some(hint) = elsewhere::instead_of_option(verb, option) {
            return hint.to_owned();
        }
        let options = self.options().filter_map(Arg::get_long);
        misspelled(option.trim_start_matches('-'), options).map_or_else(
            || self.help.clone(),
            |similar| format!("did you mean `--{similar}`?"),
        )
    }

    /// The command's options and the global ones.
    fn options(&self) -> impl Iterator<Item = &Arg> {
        let commands = [self.command, self.root].into_iter();
        commands.flat_map(Command::get_arguments)
    }

    /// Builds the error for an option such as `--dry-run server`, whose value needs an `=`.
    fn separate_value(&self, value: &str) -> Option<Error> {
        let option = self.words.windows(2).find_map(|pair| {
            let long = pair[0].strip_prefix("--").filter(|_| pair[1] == value)?;
            self.options()
                .find(|option| option.is_require_equals_set() && option.get_long() == Some(long))
                .map(|_| &pair[0])
        })?;
        let error = Error::usage(format!("the value of `{option}` must follow an `=`"));
        Some(error.hint(format!("{option}={}", shell_word(value))))
    }

    /// Returns the command line with `--` before `first`, the first word of the container's
    /// command.
    fn with_separator(&self, first: &str) -> Option<String> {
        self.options().find(|option| option.is_last_set())?;
        let is_value = |index: usize| {
            [self.command, self.root]
                .iter()
                .any(|command| takes_next_word(command, &self.words[index - 1]))
        };
        let start = (1..self.words.len()).find(|&at| self.words[at] == first && !is_value(at))?;
        let (before, command) = self.words.split_at(start);
        let is_option = |word: &String| {
            word == "--"
                || word
                    .strip_prefix("--")
                    .is_some_and(|long| self.options().any(|one| one.get_long() == Some(long)))
        };
        // After `--`, these options would be part of the container's command.
        if command.iter().any(is_option) {
            return None;
        }
        let words = before[1..].iter().map(|word| shell_word(word));
        let words = words.chain(["--".to_owned()]);
        let words = words.chain(command.iter().map(|word| shell_word(word)));
        let line = format!("gpuctl {}", words.collect::<Vec<_>>().join(" "));
        // Mask secrets, because CI systems store the output of commands.
        Some(scrubbed(&line).unwrap_or(line))
    }

    /// Builds the error for a value that is not among the allowed ones.
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
        let values = self.list(ContextKind::ValidValue);
        let similar = misspelled(&value, values.iter().map(String::as_str));
        let error = match (other_values::instead_of_value(&option, &value), similar) {
            (Some(hint), _) => error.hint(hint),
            (None, Some(similar)) => error.hint(format!("did you mean `{similar}`?")),
            (None, None) => error,
        };
        match values.is_empty() {
            true => error.hint(self.help),
            false => error.hint(format!("possible values: {}", values.join(", "))),
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

    /// Builds the error for a value of an option without values, such as `--watch=true`.
    fn surplus_value(self) -> Error {
        let (option, value) = (
            self.text(ContextKind::InvalidArg),
            self.text(ContextKind::InvalidValue),
        );
        Error::usage(format!(
            "`{option}` does not accept a value, but `{value}` was given"
        ))
        .hint(format!("use `{option}` alone; see {}", self.help))
    }

    /// Builds the error for a value that an option's parser rejected.
    fn refused_value(self) -> Error {
        let (option, value) = (
            self.text(ContextKind::InvalidArg),
            self.text(ContextKind::InvalidValue),
        );
        let replacement = other_values::instead_of_value(&option, &value);
        let reason = StdError::source(self.error)
            .map_or(String::new(), |source| format!(": {}", reason(source)));
        // The path of a webhook URL is a secret, and CI systems store the output of commands.
        let value = if value.contains("://") {
            shown_origin(&value)
        } else {
            scrubbed(&value).unwrap_or(value)
        };
        let error = Error::usage(format!("invalid value `{value}` for `{option}`{reason}"));
        error.hint(replacement.map_or(self.help, ToOwned::to_owned))
    }
}

/// Explains why a parser rejected a value. Rewrites messages of Rust's and clap's number parsers,
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
    // A regex error quotes the pattern before its last line.
    let last_line = text.lines().last().unwrap_or_default();
    last_line.trim_start_matches("error: ").to_owned()
}

/// Returns the recognized verbs, each followed by a space, and the command that they select.
fn recognized<'c>(root: &'c Command, words: &[String]) -> (String, &'c Command) {
    let (mut path, mut command) = (String::new(), root);
    for word in words.iter().skip(1).filter(|word| !word.starts_with('-')) {
        let Some(next) = command.find_subcommand(word) else {
            continue;
        };
        path.push_str(next.get_name());
        path.push(' ');
        command = next;
        if !command.has_subcommands() {
            break;
        }
    }
    (path, command)
}

/// Names of the subcommands, with visible aliases.
fn names(command: &Command) -> impl Iterator<Item = &str> {
    command
        .get_subcommands()
        .flat_map(|inner| std::iter::once(inner.get_name()).chain(inner.get_visible_aliases()))
}

/// Returns the name that `word` misspells. Requires a high similarity, because `gpus` does not mean
/// `pause`, nor `login` `logs`.
fn misspelled<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let is_misspelling = |(distance, name): &(usize, &str)| {
        let allowed = match name.len() {
            0..=3 => 0,
            4..=7 => 1,
            _ => 2,
        };
        *distance <= allowed && name.chars().next() == word.chars().next()
    };
    names
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(is_misspelling)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Quotes a word for a shell if necessary.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests;
