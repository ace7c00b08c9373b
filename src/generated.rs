//! Generates files from the program: completion scripts, manual pages, references, and schemas of
//! the output. A test compares the committed files with the generated ones.

mod answers;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::program::completion::Shell;
use crate::commands::program::{completion, man};
use crate::config;
pub use crate::config::{KEYS, SettingKey, ValueKind};
use gpuctl_view::files::reference;
use gpuctl_view::program::answers::from_types;

/// Builds the command line as clap parses it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Generates the completion scripts for all shells, by file name.
///
/// # Errors
///
/// If clap cannot write a script.
pub fn completion_scripts() -> std::io::Result<Vec<(&'static str, String)>> {
    Shell::ALL
        .into_iter()
        .map(|shell| Ok((shell.file_name(), completion::script(shell)?)))
        .collect()
}

/// Generates the manual pages, by file name.
///
/// # Errors
///
/// If clap cannot write a page.
pub fn manual_pages() -> std::io::Result<Vec<(String, String)>> {
    man::pages()
}

/// Generates the settings reference as Markdown.
pub fn configuration() -> String {
    config::reference::text()
}

/// Generates the reference for manifests as Markdown.
pub fn specification() -> String {
    reference::markdown()
}

/// Generates the JSON Schemas of all answers as a JSON object, by name.
pub fn schemas_of_answers() -> String {
    from_types(&answers::of_commands())
}

/// Lists the commands that print an answer with `-o json`.
pub fn commands_with_answer() -> Vec<String> {
    crate::verbs::commands_with_answer()
}

/// Lists the commands that need permissions in the cluster.
pub fn commands_with_rights() -> Vec<String> {
    crate::verbs::commands_with_rights()
}

/// Expands shorthand to the words that clap parses, such as `pause x` to `pause job x`.
pub fn expand(words: &[&str]) -> Vec<std::ffi::OsString> {
    let words = words.iter().map(std::ffi::OsString::from).collect();
    crate::cli::shorthand::expand(&command(), words)
}
