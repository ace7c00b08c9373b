//! Extracts the global options of a command line for child processes: the cockpit and the MCP
//! server run gpuctl against the same cluster.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory};

use super::Cli;
use super::shorthand::expand;

/// Options that child processes do not inherit. The token is passed in a variable, because other
/// users can read arguments.
const NOT_CARRIED: [&str; 6] = ["color", "pager", "plain", "quiet", "token", "verbose"];
/// Options that select the namespace.
const NAMESPACES: [&str; 2] = ["namespace", "all_namespaces"];

/// Global options as typed, each in the form `--name=value`.
#[derive(Clone, Debug, Default)]
pub(crate) struct InheritedOptions {
    /// Options for the cluster, Prometheus, the user and safety.
    pub cluster: Vec<OsString>,
    /// Options for namespaces. A query about one job sets its own namespace.
    pub namespace: Vec<OsString>,
}

impl InheritedOptions {
    /// Parses a command line, including the program's name. Omits options for the output.
    pub(crate) fn from_words(words: Vec<OsString>) -> Self {
        let command = Cli::command();
        // clap parses only the expanded form of shorthand.
        let Ok(matches) = command
            .clone()
            .try_get_matches_from(expand(&command, words))
        else {
            return Self::default();
        };
        // clap stores a global option in the matches of the innermost command, wherever the option
        // is typed.
        let mut innermost = &matches;
        while let Some((_, subcommand)) = innermost.subcommand() {
            innermost = subcommand;
        }
        let mut options = Self::default();
        for option in command
            .get_arguments()
            .filter(|option| option.is_global_set())
        {
            let name = option.get_id().as_str();
            let typed = innermost.value_source(name) == Some(ValueSource::CommandLine);
            let Some(long) = option
                .get_long()
                .filter(|_| typed && !NOT_CARRIED.contains(&name))
            else {
                continue;
            };
            let arguments = if NAMESPACES.contains(&name) {
                &mut options.namespace
            } else {
                &mut options.cluster
            };
            if matches!(option.get_action(), ArgAction::SetTrue) {
                arguments.push(format!("--{long}").into());
                continue;
            }
            for value in innermost.get_raw(name).into_iter().flatten() {
                let mut word = OsString::from(format!("--{long}="));
                word.push(value);
                arguments.push(word);
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_select_the_cluster_are_inherited() {
        let inherited = |line: &str| {
            let options =
                InheritedOptions::from_words(line.split(' ').map(OsString::from).collect());
            let text = |words: &[OsString]| {
                words
                    .iter()
                    .map(|word| word.to_string_lossy())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            (text(&options.cluster), text(&options.namespace))
        };
        for (line, cluster, namespace) in [
            (
                "gpuctl top gpus --sort-by power --context lab --once",
                "--context=lab",
                "",
            ),
            (
                "gpuctl --context lab top -n ml --read-only -v",
                "--context=lab --read-only",
                "--namespace=ml",
            ),
            (
                "gpuctl mcp --allow-writes -A --color never",
                "",
                "--all-namespaces",
            ),
            (
                "gpuctl top --as eva --as-group a --as-group b",
                "--as=eva --as-group=a --as-group=b",
                "",
            ),
            (
                "gpuctl top --prometheus http://x --match cluster=a",
                "--prometheus=http://x --match=cluster=a",
                "",
            ),
            (
                "gpuctl mcp --token secret --cluster lab -s https://x --insecure-skip-tls-verify",
                "--cluster=lab --api-server=https://x --insecure-skip-tls-verify",
                "",
            ),
            ("gpuctl top", "", ""),
        ] {
            assert_eq!(
                inherited(line),
                (cluster.to_owned(), namespace.to_owned()),
                "{line}"
            );
        }
    }
}
