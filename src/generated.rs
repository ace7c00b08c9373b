//! The files that are made from the program itself: completion scripts, manual pages, references,
//! schemas of answers. A test keeps the committed ones current.

mod answers;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::program::completion::Shell;
use crate::commands::program::{completion, man};
use crate::config;
pub use crate::config::{KEYS, SettingKey, ValueKind};
use gpuctl_view::files::reference;
use gpuctl_view::program::answers::from_types;

/// Returns the command line that clap parses.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Returns the completion script of every shell, by its file name.
///
/// # Errors
/// When clap cannot write a script.
pub fn completion_scripts() -> std::io::Result<Vec<(&'static str, String)>> {
    Shell::ALL
        .into_iter()
        .map(|shell| Ok((shell.file_name(), completion::script(shell)?)))
        .collect()
}

/// Returns the manual pages by their file names.
///
/// # Errors
/// When clap cannot write a page.
pub fn manual_pages() -> std::io::Result<Vec<(String, String)>> {
    man::pages()
}

/// Returns the reference of settings as Markdown.
pub fn configuration() -> String {
    config::reference::text()
}

/// Returns the reference of the specification file as Markdown.
pub fn specification() -> String {
    reference::markdown()
}

/// Returns the JSON Schema of every answer, as one JSON object by their names.
pub fn schemas_of_answers() -> String {
    from_types(&answers::of_commands())
}

/// Returns the commands that have an answer of `-o json`.
pub fn commands_with_answer() -> Vec<String> {
    crate::verbs::with_answer()
}

/// Returns the commands that need rights in the cluster.
pub fn commands_with_rights() -> Vec<String> {
    crate::verbs::with_rights()
}

/// Returns the words that clap is given for those that a person types: `pause job x` for `pause x`.
pub fn spelled_out(words: &[&str]) -> Vec<std::ffi::OsString> {
    let words = words.iter().map(std::ffi::OsString::from).collect();
    crate::cli::shorthand::spelled_out(&command(), words)
}
