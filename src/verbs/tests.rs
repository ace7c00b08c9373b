//! Tests that the table of verbs agrees with the command line.

use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::Cli;

#[test]
fn shared_rights_refer_to_an_existing_task() {
    for row in ROWS {
        let is_task = |words: &str| tasks().any(|task| task.words == words);
        assert!(row.same_as.is_none_or(is_task), "{}", row.words());
    }
}

#[test]
fn arguments_determine_the_task_of_a_command_line() {
    for (line, words) in [
        ("get gpu-type --all", "get labels"),
        ("get metrics job a", "get metrics job"),
        ("get training-performance a", "get metrics workload"),
        ("run --name a --image b -- c", "create jobs"),
        ("create secret a --from-env B", "create secrets"),
        ("pause job a", "pause jobs"),
        ("delete pool a", "delete pools"),
        ("delete defaults", "delete defaults"),
        ("stats cluster", "stats"),
        ("who gpu a/0", "who gpu"),
    ] {
        let cli = Cli::try_parse_from(["gpuctl"].into_iter().chain(line.split(' '))).unwrap();
        assert_eq!(cli.command.task(), Some(words), "{line}");
    }
    let delete_file = Cli::try_parse_from(["gpuctl", "delete", "-f", "a"]).unwrap();
    assert_eq!(delete_file.command.task(), None);
}

#[test]
fn words_of_every_task_are_a_command() {
    for task in tasks() {
        let mut command = Cli::command();
        // The noun in these tasks is the kind of a document, not a word on the command line.
        let words: Vec<&str> = task.words.split(' ').collect();
        let command_words = if matches!(words[0], "create" | "apply") {
            &words[..1]
        } else {
            &words[..]
        };
        for word in command_words {
            let singular = word.strip_suffix('s').unwrap_or(word);
            let next = command
                .find_subcommand(word)
                .or_else(|| command.find_subcommand(singular))
                .cloned();
            command = next.unwrap_or_else(|| panic!("`{}` is not a command: {word}", task.words));
        }
    }
    assert_eq!(task("logs jobs").unwrap().words, "logs");
    assert_eq!(task("get job").unwrap().words, "get jobs");
    assert_eq!(task("run").unwrap().words, "create jobs");
    assert_eq!(
        task("get training-performance").unwrap().words,
        "get metrics workload"
    );
    assert!(task("logs why").is_none() && task("nothing").is_none());
}

#[test]
fn words_are_split_into_commands() {
    let split = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        parse_tasks(&words)
            .map(|all| all.iter().map(|task| task.words).collect::<Vec<_>>())
            .map_err(|unknown| unknown.words)
    };
    assert_eq!(
        split("create logs why").unwrap(),
        [
            "create jobs",
            "create notebooks",
            "create services",
            "logs",
            "why"
        ]
    );
    assert_eq!(
        split("get job logs jobs run logs").unwrap(),
        ["create jobs", "get jobs", "logs"]
    );
    assert_eq!(
        split("get metrics job describe node top").unwrap(),
        ["describe nodes", "get metrics job", "top"]
    );
    assert_eq!(split("add").unwrap(), ["add nodes"]);
    assert_eq!(split("delete").unwrap(), ["delete jobs"]);
    assert_eq!(
        split("delete services pause notebook").unwrap(),
        ["delete jobs", "pause jobs"]
    );
    assert_eq!(split("create rport").unwrap_err(), "create rport");
    assert_eq!(split("get events").unwrap_err(), "get events");
    assert_eq!(split("rport").unwrap_err(), "rport");
    assert_eq!(split("").unwrap(), Vec::<&str>::new());
}
