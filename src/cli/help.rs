//! Arranges help for people: commands in groups by what they are for, and the options of every
//! command on a page of their own, so that a command's examples stand right below its options.

use clap::{Arg, Command};

/// Groups of commands, in the order in which people need them. A test holds it against the table of
/// verbs.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Submit",
        &[
            "create", "apply", "diff", "run", "scale", "pause", "resume", "restart", "delete",
        ],
    ),
    (
        "Write files",
        &["init", "validate", "fit", "explain", "schema", "convert"],
    ),
    (
        "Look",
        &["get", "describe", "why", "free", "top", "tree", "events"],
    ),
    ("Work inside", &["logs", "exec", "attach", "open", "cp"]),
    (
        "Measure and account",
        &["score", "eff", "stats", "report", "who", "snapshot"],
    ),
    (
        "Administer",
        &["add", "remove", "label", "drain", "auth", "doctor"],
    ),
    (
        "This program",
        &[
            "config",
            "options",
            "mcp",
            "skill",
            "version",
            "completion",
            "man",
            "help",
        ],
    ),
];

const FIRST_STEPS: &str = "First steps:
  gpuctl create job.yaml         submit what a file describes
  gpuctl get jobs                see it wait, run and end
  gpuctl logs NAME -f            read what it says
  gpuctl delete NAME             free its GPUs";

const MORE: &str = "`gpuctl COMMAND --help` has options and examples; `gpuctl options` lists the options of every command.
`gpuctl help WORD` finds commands (words of other tools and Chinese ones too: 排队, 日志, squeue).
`gpuctl help TOPIC` says more: environment, output, manifest, metrics, exit-codes.";

/// Returns the command line as it shows its help.
pub(crate) fn arranged(command: Command) -> Command {
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

/// Returns the commands in their groups, a line each.
fn grouped(command: &Command) -> String {
    let about = |name: &str| match name {
        "help" => "Print the help of a command or a topic".to_owned(),
        name => {
            let found = command.find_subcommand(name).and_then(Command::get_about);
            found.map_or_else(String::new, ToString::to_string)
        }
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for name in names {
            text.push_str(&format!("  {name:<11} {}\n", about(name)));
        }
        text.push('\n');
    }
    text
}

/// Returns the page of the options that every command has.
pub(crate) fn options_page(command: &Command) -> String {
    let globals: Vec<Arg> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    let mut page = Command::new("gpuctl")
        .about("Options of every command")
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
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        listed.sort_unstable();
        let mut there: Vec<&str> = command
            .get_subcommands()
            .map(Command::get_name)
            .chain(["help"])
            .collect();
        there.sort_unstable();
        assert_eq!(listed, there);
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
    fn examples_stand_right_below_the_options_of_a_command() {
        let mut command = arranged(Cli::command());
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
