//! Answers agents over the Model Context Protocol: which questions there are (`tools.rs`), the pages of an answer (`pages.rs`), and the
//! server between them and the program itself, which it runs for every question (`server.rs`). Knows no cluster.

mod pages;
mod server;
mod tools;

pub(crate) use server::serve;

/// What agents are told beforehand, in the form of a skill.
pub(crate) const SKILL: &str = include_str!("skill.md");

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::SKILL;
    use crate::cli::Cli;
    use crate::cli::spoken::spelled_out;

    #[test]
    fn the_skill_has_commands_that_there_are() {
        let lines: Vec<&str> = SKILL.lines().filter(|line| line.starts_with("gpuctl ")).collect();
        assert!(lines.len() > 12);
        for line in lines {
            let words = line.split(" #").next().unwrap_or_default().split_whitespace().map(Into::into).collect();
            let parsed = Cli::command().try_get_matches_from(spelled_out(words));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
