//! Arranges the help: groups commands by purpose and moves global options to a separate page, so
//! that examples directly follow a command's own options.

use clap::{Arg, Command};

use crate::verbs::{HelpGroup, ROWS};

/// Titles of the groups, in order of importance.
const GROUPS: [(HelpGroup, &str); 7] = [
    (HelpGroup::Submit, "Submit"),
    (HelpGroup::WriteFiles, "Write files"),
    (HelpGroup::Look, "Look"),
    (HelpGroup::WorkInside, "Work inside"),
    (HelpGroup::Measure, "Measure and account"),
    (HelpGroup::Administer, "Administer"),
    (HelpGroup::Program, "This program"),
];

/// Width of the list of commands. On a narrower terminal, clap wraps the text again.
const WIDTH: usize = 80;

const FIRST_STEPS: &str = "First steps:
  gpuctl create job.yaml         submit the job in a file
  gpuctl get jobs                see it wait, run and end
  gpuctl logs NAME -f            read its log
  gpuctl delete NAME             free its GPUs";

const MORE: &str = "`gpuctl COMMAND --help` shows options and examples; `gpuctl options` lists the options that every command accepts.
`gpuctl help WORD` searches commands, including by other tools' names (squeue) and in Chinese (排队, 日志).
`gpuctl help TOPIC` explains a topic: environment, output, manifest, metrics, exit-codes.";

/// Arranges the help of the command line.
pub(crate) fn with_groups(command: Command) -> Command {
    let listing = grouped(&command);
    command
        .mut_args(|arg| {
            if arg.is_global_set() {
                arg.hide(true)
            } else {
                arg
            }
        })
        .help_template("{about-with-newline}\n{usage-heading} {usage}{after-help}\n")
        .after_help(format!("{listing}{FIRST_STEPS}\n\n{MORE}"))
}

/// Lists the commands by group, one per line.
fn grouped(command: &Command) -> String {
    let mut text = String::new();
    for (group, title) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for name in names(group) {
            let about = command
                .find_subcommand(&name)
                .and_then(Command::get_about)
                .map_or_else(String::new, ToString::to_string);
            text.push_str(&line(&name, &about));
        }
        if group == HelpGroup::Program {
            text.push_str(&line("help", "Print help for a command or topic"));
        }
        text.push('\n');
    }
    text
}

/// Renders a command. Indents further lines below the description, so that none starts like a
/// command.
fn line(name: &str, about: &str) -> String {
    let first = format!("  {name:<11} ");
    let next = " ".repeat(first.len());
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(&first)
        .subsequent_indent(&next);
    textwrap::fill(about, options) + "\n"
}

/// Names of a group's commands, in order.
fn names(group: HelpGroup) -> impl Iterator<Item = String> {
    let mut rows: Vec<_> = ROWS
        .iter()
        .filter_map(|row| {
            row.help
                .map(|(row_group, position)| (row_group, position, row))
        })
        .filter(|(row_group, ..)| *row_group == group)
        .collect();
    rows.sort_by_key(|(_, position, _)| *position);
    rows.into_iter().map(|(.., row)| row.words())
}

/// Renders the page with the global options.
pub(crate) fn options_page(command: &Command) -> String {
    let globals: Vec<Arg> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    let mut page = Command::new("gpuctl")
        .about("Options that every command accepts")
        .disable_help_flag(true)
        .max_term_width(100)
        .help_template("{about}\n\n{options}\n")
        .args(globals);
    page.render_long_help().to_string()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut listed: Vec<String> = GROUPS.iter().flat_map(|(group, _)| names(*group)).collect();
        listed.sort_unstable();
        let mut commands: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }

    #[test]
    fn every_topic_is_named() {
        let names = crate::cli::topics::TOPICS;
        assert!(
            MORE.ends_with(&format!("{}.", names.join(", "))),
            "{names:?}"
        );
        let command = Cli::command();
        assert!(
            names
                .iter()
                .all(|name| command.find_subcommand(name).is_none()),
            "a command would hide a topic"
        );
    }

    #[test]
    fn examples_follow_the_options_of_a_command() {
        let mut command = with_groups(Cli::command());
        command.build();
        let help = command
            .find_subcommand_mut("logs")
            .unwrap()
            .render_long_help()
            .to_string();
        assert!(
            !help.contains("--kubeconfig") && help.contains("Examples:"),
            "{help}"
        );
        let page = options_page(&Cli::command());
        assert!(
            page.contains("--kubeconfig <FILE>") && page.contains("--prometheus <URL>"),
            "{page}"
        );
    }
}
