//! Runs gpuctl as a kubectl plugin. As `kubectl-gpuctl`, help and messages name the program
//! `kubectl gpuctl`. As `kubectl_complete-gpuctl`, the program answers kubectl's completion
//! requests. Source: kubectl's documentation, "Extend kubectl with plugins" and `completion`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Command};

use gpuctl_view::format::text::as_plugin;

use super::offers::{Inserter, Offer, offers};

/// The name that the program was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Program,
    Plugin,
    /// Started by kubectl for a completion request.
    Completion,
}

impl CalledAs {
    /// Derives the name from the first word of the command line.
    pub(crate) fn from_program(first: Option<&OsString>) -> Self {
        match first
            .and_then(|first| Path::new(first).file_stem())
            .and_then(OsStr::to_str)
        {
            Some("kubectl-gpuctl") => Self::Plugin,
            Some("kubectl_complete-gpuctl") => Self::Completion,
            _ => Self::Program,
        }
    }
}

/// Replaces `gpuctl` in the help by `kubectl gpuctl`.
pub(crate) fn as_kubectl_plugin(command: Command) -> Command {
    fn argument(argument: Arg) -> Arg {
        let rewritten = argument.get_help().map(|text| as_plugin(&text.to_string()));
        let long = argument
            .get_long_help()
            .map(|text| as_plugin(&text.to_string()));
        let argument = rewritten.map_or(argument.clone(), |text| argument.help(text));
        long.map_or(argument.clone(), |text| argument.long_help(text))
    }
    fn each(mut command: Command) -> Command {
        let rewritten =
            |text: Option<&clap::builder::StyledStr>| text.map(|text| as_plugin(&text.to_string()));
        let (about, long) = (
            rewritten(command.get_about()),
            rewritten(command.get_long_about()),
        );
        let (after, after_long) = (
            rewritten(command.get_after_help()),
            rewritten(command.get_after_long_help()),
        );
        if let Some(about) = about {
            command = command.about(about);
        }
        if let Some(long) = long {
            command = command.long_about(long);
        }
        if let Some(after) = after {
            command = command.after_help(after);
        }
        if let Some(after) = after_long {
            command = command.after_long_help(after);
        }
        command.mut_args(argument).mut_subcommands(each)
    }
    each(command).bin_name("kubectl gpuctl")
}

/// Formats candidates for kubectl's completion: one per line, with the description after a tab. The
/// last line is a directive about file names.
pub(crate) fn candidates(mut command: Command, words: Vec<OsString>) -> String {
    /// Directives of Cobra. 4 is `ShellCompDirectiveNoFileComp`. 0 is `ShellCompDirectiveDefault`,
    /// with which the shell completes file names.
    const NO_FILES: &str = ":4\n";
    const ANYTHING: &str = ":0\n";
    let last = words.len().saturating_sub(1);
    let typed = words
        .last()
        .is_some_and(|word| word.to_string_lossy().starts_with('-'));
    let offered = offers(&mut command, words, last, None, Inserter::Any).unwrap_or_default();
    let line = |offer: &Offer| {
        let about = offer
            .help
            .as_ref()
            .map_or_else(String::new, |about| format!("\t{about}"));
        format!("{}{about}\n", offer.value)
    };
    let lines: String = offered
        .iter()
        .filter(|offer| !offer.hidden && (typed || !offer.is_option()))
        .map(line)
        .collect();
    // Without candidates, let the shell complete file names.
    let directive = if lines.is_empty() { ANYTHING } else { NO_FILES };
    lines + directive
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Cli, help};

    #[test]
    fn the_program_name_determines_the_role() {
        let called_as = |name: &str| CalledAs::from_program(Some(&OsString::from(name)));
        assert_eq!(called_as("/usr/local/bin/kubectl-gpuctl"), CalledAs::Plugin);
        assert_eq!(called_as("kubectl-gpuctl.exe"), CalledAs::Plugin);
        assert_eq!(
            called_as("/x/kubectl_complete-gpuctl"),
            CalledAs::Completion
        );
        assert_eq!(
            (called_as("gpuctl"), CalledAs::from_program(None)),
            (CalledAs::Program, CalledAs::Program)
        );
    }

    #[test]
    fn help_has_commands_as_they_are_typed() {
        let mut command = as_kubectl_plugin(help::with_groups(Cli::command()));
        command.build();
        let page = command.render_long_help().to_string();
        assert!(
            page.contains("Usage: kubectl gpuctl")
                && page.contains("  kubectl gpuctl create job.yaml"),
            "{page}"
        );
        let logs = command
            .find_subcommand_mut("logs")
            .unwrap()
            .render_long_help()
            .to_string();
        assert!(
            logs.contains("kubectl gpuctl logs") && !logs.contains("  gpuctl "),
            "{logs}"
        );
    }

    #[test]
    fn kubectl_gets_names_and_a_directive() {
        let answer = |words: &[&str]| {
            let words = std::iter::once("gpuctl")
                .chain(words.iter().copied())
                .map(OsString::from)
                .collect();
            candidates(Cli::command(), words)
        };
        let verbs = answer(&["de"]);
        assert!(
            verbs.contains("delete\t") && verbs.contains("describe\t") && verbs.ends_with("\n:4\n"),
            "{verbs}"
        );
        assert!(
            answer(&["get", "jobs", "--out"]).starts_with("--output"),
            "{}",
            answer(&["get", "jobs", "--out"])
        );
        assert_eq!(answer(&["explain", "no-such-field"]), ":0\n");
    }
}
