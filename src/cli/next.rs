//! Suggests the command that users usually run next, for commands that print no suggestion
//! themselves. The suggestion depends only on the command's name.

use clap::ArgMatches;

use crate::verbs::ROWS;

/// Returns the suggestion for a parsed command.
pub(crate) fn next_command(matches: &ArgMatches) -> Option<&'static str> {
    let (mut name, mut level) = (String::new(), matches);
    while let Some((word, inner)) = level.subcommand() {
        name = if name.is_empty() {
            word.to_owned()
        } else {
            format!("{name} {word}")
        };
        level = inner;
    }
    ROWS.iter()
        .find(|row| row.words() == name)
        .and_then(|row| row.next)
        .filter(|next| !next.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};

    use super::*;
    use crate::cli::Cli;
    use crate::cli::shorthand::expand;
    use crate::verbs::VerbRow;

    fn leaves(command: &Command, name: &str, names: &mut BTreeSet<String>) {
        for inner in command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help")
        {
            let name = format!("{name} {}", inner.get_name())
                .trim_start()
                .to_owned();
            if !inner.is_subcommand_required_set() {
                names.insert(name.clone());
            }
            leaves(inner, &name, names);
        }
    }

    #[test]
    fn every_next_command_exists() {
        let command = Cli::command();
        let mut leaf_names = BTreeSet::new();
        leaves(&command, "", &mut leaf_names);
        let rows = ROWS.iter().filter(|row| row.next.is_some());
        assert_eq!(leaf_names, rows.map(VerbRow::words).collect());
        for next in ROWS.iter().filter_map(|row| row.next) {
            let words = next.to_lowercase().split(' ').map(Into::into).collect();
            let parsed = command
                .clone()
                .try_get_matches_from(expand(&command, words));
            assert!(
                next.is_empty() || parsed.is_ok(),
                "{next}: {}",
                parsed.unwrap_err()
            );
        }
    }
}
