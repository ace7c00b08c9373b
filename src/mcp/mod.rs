//! Serves agents over the Model Context Protocol. `catalog.rs` lists the tools, `tools.rs` builds a
//! command line from a call, `child.rs` runs the command, and `answer.rs` builds the answer.
//! `mask.rs` and `masked_json.rs` mask secrets. `pages.rs` and `truncation.rs` limit the size.
//! `confirm.rs` stores unconfirmed changes, `lines.rs` is the stdio transport, and `server.rs`
//! connects the parts. This module does not access the cluster: only child processes do.

mod answer;
mod argument_error;
mod catalog;
mod changed_fields;
mod child;
mod confirm;
mod dumps;
mod fence;
mod forms;
mod lines;
mod mask;
mod masked_json;
mod output_schema;
mod pages;
mod parameters;
mod server;
mod tools;
mod truncation;

pub(crate) use server::{KubeTarget, serve};
pub(crate) use tools::WriteArea;

/// Instructions for agents as a skill file.
pub(crate) const SKILL: &str = include_str!("skill.md");

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::SKILL;
    use crate::cli::Cli;
    use crate::cli::shorthand::expand;

    #[test]
    fn the_skill_names_existing_commands() {
        let lines: Vec<&str> = SKILL
            .lines()
            .filter(|line| line.starts_with("gpuctl "))
            .collect();
        assert!(lines.len() > 12);
        for line in lines {
            let words = line
                .split(" #")
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .map(Into::into)
                .collect();
            let parsed = Cli::command().try_get_matches_from(expand(&Cli::command(), words));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
