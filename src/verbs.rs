//! The table of verbs. A row defines one verb, and macros generate all other lists of verbs from
//! the rows. The fields of a row are:
//!
//! - the name, as clap derives it from the identifier (`GpuType` becomes `gpu-type`), and in
//!   parentheses the type of its arguments, a path below `cli`;
//! - `run`: the function, a path below `commands`;
//! - `help`: the group in `gpuctl --help` and the position in it, for verbs of the first level;
//! - `rights`: the permissions that the verb needs in the cluster, see below;
//! - `next`: the command that users usually run next, or `""` if the verb prints the suggestion
//!   itself;
//! - `answers`: the types that `-o json` prints, paths below `gpuctl_view`;
//! - `bundle`: options with which `doctor --bundle` runs the verb; `JOB` runs it for each job.
//!
//! Rows below the first level have no `help`. Rows that only contain nouns have no `next`.
//! `answers` and `bundle` are omitted if they are empty.
//!
//! The value of `rights` is one of these:
//! - `()`: the verb sends no request to the cluster, or `auth check` has no name for it;
//! - `("get nodes" [HOLDERS, METRICS])`: the name in `auth check`, and lists of
//!   `model/contract/rights.rs`;
//! - `(as "get nodes")`: the same permissions as another row;
//! - `(by Create::task, "create secrets" [SECRET], …)`: the arguments decide which of the names
//!   applies;
//! - `(by_file "apply jobs" [MAKE_JOB, FIND, AWAIT], …)`: the kind of the document decides, after
//!   parsing.
//!
//! `auth check` and the manual pages list the rows in this order. Each file of rows passes its rows
//! to the next file, and the last file passes all rows to the macro that requested them.

use gpuctl_core::model::contract::rights;
use gpuctl_core::model::contract::rights::Task;

/// Calls the macro `$make` with all rows.
macro_rules! verbs {
    ($make:ident) => {
        files_verbs! { $make {} {} }
    };
}

#[macro_use]
mod files;
#[macro_use]
mod look;
#[macro_use]
mod get;
#[macro_use]
mod describe;
#[macro_use]
mod measure;
#[macro_use]
mod jobs;
#[macro_use]
mod administer;
#[macro_use]
mod program;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelpGroup {
    Submit,
    WriteFiles,
    Look,
    WorkInside,
    Measure,
    Administer,
    Program,
}

/// A row without its arguments, function and output types.
pub(crate) struct VerbRow {
    /// The enum that contains the verb, for example `GetMetrics` for `get metrics job`.
    group: &'static str,
    /// The enum's variant for this verb.
    verb: &'static str,
    /// The group in `--help` and the position in the group.
    pub help: Option<(HelpGroup, u8)>,
    tasks: &'static [Task],
    needs_rights: bool,
    /// The other row whose rights this row shares (`as` in the table).
    same_as: Option<&'static str>,
    /// The command that users usually run next.
    pub next: Option<&'static str>,
    /// The types that `-o json` prints.
    answers: &'static [&'static str],
    /// Options with which `doctor --bundle` runs the verb.
    pub bundle: &'static [&'static str],
}

impl VerbRow {
    /// The verb's words on the command line, for example `get gpu-type`.
    pub(crate) fn words(&self) -> String {
        let verb = to_words(self.verb, '-');
        match self.group {
            "Command" => verb,
            group => format!("{} {verb}", to_words(group, ' ')),
        }
    }
}

/// Converts `GpuType` to `gpu-type`. `between` is the separator.
fn to_words(name: &str, between: char) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push(between);
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Expands to the tasks of a row.
macro_rules! tasks_of {
    (()) => { &[] };
    ((as $words:literal)) => { &[] };
    ((by $decide:path)) => { &[] };
    ((by $decide:path, $($tasks:tt)+)) => { tasks_of!(($($tasks)+)) };
    ((by_file $($tasks:tt)+)) => { tasks_of!(($($tasks)+)) };
    (($($words:literal [$($rules:ident),*]),+)) => {
        &[$(Task::new($words, &[$(rights::$rules),*])),+]
    };
}

/// Expands to the name of the row that has the same rights.
macro_rules! same_as {
    ((as $words:literal)) => {
        Some($words)
    };
    ($($rights:tt)*) => {
        None
    };
}

// Expands to `false` only for rows with the rights `()`.
macro_rules! needs_rights {
    (()) => {
        false
    };
    ($rights:tt) => {
        true
    };
}

/// Expands to the value of an optional field.
macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! define_rows {
    ($($group:ident { $($(#[$attribute:meta])* $verb:ident($args:path) {
        run: $run:path,
        $(help: $help:ident $place:literal,)?
        rights: $rights:tt,
        $(next: $next:literal,)?
        $(answers: [$($answer:ty),+ $(,)?],)?
        $(bundle: [$($options:literal),+],)?
    })* })*) => {
        /// All rows in table order.
        pub(crate) const ROWS: &[VerbRow] = &[$($(VerbRow {
            group: stringify!($group),
            verb: stringify!($verb),
            help: optional!($((HelpGroup::$help, $place))?),
            tasks: tasks_of!($rights),
            needs_rights: needs_rights!($rights),
            same_as: same_as!($rights),
            next: optional!($($next)?),
            answers: &[$($(stringify!($answer)),+)?],
            bundle: &[$($($options),+)?],
        },)*)*];
    };
}

verbs!(define_rows);

/// Commands that support `-o json`, in alphabetical order.
pub(crate) fn commands_with_answer() -> Vec<String> {
    let mut commands: Vec<String> = ROWS
        .iter()
        .filter(|row| !row.answers.is_empty())
        .map(VerbRow::words)
        .collect();
    commands.sort_unstable();
    commands
}

/// Commands that need permissions in the cluster.
pub(crate) fn commands_with_rights() -> Vec<String> {
    ROWS.iter()
        .filter(|row| row.needs_rights && row.next.is_some())
        .map(VerbRow::words)
        .collect()
}

/// Tasks of all rows, in table order.
pub(crate) fn tasks() -> impl Iterator<Item = &'static Task> {
    ROWS.iter().flat_map(|row| row.tasks)
}

/// Finds a task by its words. Also accepts a noun in singular, and a noun after a verb that takes
/// none.
pub(crate) fn task(words: &str) -> Option<&'static Task> {
    // `get node` belongs to the task `get nodes`.
    let matches = |task: &&Task| task.words == words || task.words.strip_suffix('s') == Some(words);
    tasks()
        .find(matches)
        .or_else(|| alias(words))
        .or_else(|| job_task(words))
        .or_else(|| {
            // `logs jobs` is the task `logs`, but `logs why` is two commands.
            let (verb, rest) = words.split_once(' ')?;
            let is_verb = |word: &str| tasks().any(|task| task.verb() == word);
            tasks()
                .find(|task| task.words == verb)
                .filter(|_| !rest.contains(' ') && !is_verb(rest))
        })
}

/// Finds the task of a command that shares another command's rights, such as `run`, `diff` or `get
/// node-labels`.
fn alias(words: &str) -> Option<&'static Task> {
    let (group, name) = words
        .rsplit_once(' ')
        .map_or(("command", words), |(group, name)| (group, name));
    let normalized = |text: &str| text.replace(['-', ' '], "").to_ascii_lowercase();
    let row = ROWS
        .iter()
        .filter(|row| row.same_as.is_some())
        .find(|row| {
            normalized(row.group) == normalized(group) && normalized(row.verb) == normalized(name)
        })?;
    tasks().find(|task| Some(task.words) == row.same_as)
}

/// Finds the task of a noun that is a kind of job. For example, `delete services` needs the rights
/// of `delete jobs`.
fn job_task(words: &str) -> Option<&'static Task> {
    let (verb, noun) = words.rsplit_once(' ')?;
    let is_kind = ["training", "inference", "service", "notebook", "compute"]
        .contains(&noun.strip_suffix('s').unwrap_or(noun));
    tasks().find(|task| is_kind && task.words.strip_suffix(" jobs") == Some(verb))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownCommand {
    /// The words that are not a command.
    pub words: String,
}

/// Splits words into commands. For example, `create logs get nodes` contains three. A verb without
/// a noun includes all of its nouns, but a verb that writes includes only jobs, services and
/// notebooks.
pub(crate) fn parse_tasks(words: &[String]) -> Result<Vec<&'static Task>, UnknownCommand> {
    let mut tasks: Vec<&'static Task> = Vec::new();
    let mut remaining = words;
    while let Some(first) = remaining.first() {
        // Take the longest match, so that `get nodes` is not parsed as `get` and a second command.
        // Names have at most three words.
        let longest_match = (1..=remaining.len().min(3))
            .rev()
            .find_map(|count| Some((task(&remaining[..count].join(" "))?, count)));
        let (matching, count) = match longest_match {
            Some((task, count)) => (vec![task], count),
            None => (tasks_of_verb(first), 1),
        };
        // In `create nodes` and `get events`, the noun is invalid. It must not be parsed as a
        // second command.
        let needs_noun = count == 1 && matches!(first.as_str(), "get" | "describe");
        let is_end = |word: &String| {
            !needs_noun && (task(word).is_some() || !tasks_of_verb(word).is_empty())
        };
        if matching.is_empty() || !remaining.get(count).is_none_or(is_end) {
            let wrong_count = remaining
                .len()
                .min(count + usize::from(!matching.is_empty()));
            return Err(UnknownCommand {
                words: remaining[..wrong_count].join(" "),
            });
        }
        tasks.extend(matching);
        remaining = &remaining[count..];
    }
    tasks.sort_by_key(|task| task.words);
    tasks.dedup_by_key(|task| task.words);
    Ok(tasks)
}

/// Tasks of a verb that was given without a noun.
fn tasks_of_verb(verb: &str) -> Vec<&'static Task> {
    const JOBS: [&str; 3] = ["jobs", "services", "notebooks"];
    let tasks_of_verb: Vec<&'static Task> = tasks().filter(|task| task.verb() == verb).collect();
    let job_tasks: Vec<&'static Task> = tasks_of_verb
        .iter()
        .copied()
        .filter(|task| JOBS.contains(&task.resource()))
        .collect();
    if matches!(verb, "get" | "describe") || job_tasks.is_empty() {
        tasks_of_verb
    } else {
        job_tasks
    }
}

#[cfg(test)]
mod suggestion_tests;
#[cfg(test)]
mod tests;
