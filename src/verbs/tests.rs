//! Tests that the table of verbs and the command line agree.

use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::Cli;

#[test]
fn words_of_every_row_are_in_the_list() {
    for line in [
        "get jobs",
        "get nodes",
        "get pools",
        "get quotas",
        "get queues",
        "get claims",
        "get defaults",
        "get gpu-type --all",
        "describe job a",
        "describe node a",
        "describe pool a",
        "describe quota a",
        "describe queue a",
        "describe defaults",
        "get overview",
        "get heatmap",
        "get health",
        "get consumers",
        "get workloads",
        "get workload-metadata",
        "describe workload a",
        "tree a",
        "why a",
        "free --slots 8",
        "fit -f a",
        "top",
        "score",
        "stats cluster",
        "report",
        "eff a",
        "who gpu a/0",
        "snapshot latest",
        "get namespaces",
        "get metrics job a",
        "get metrics workload a",
        "get training-performance a",
        "run --name a --image b -- c",
        "logs a",
        "events a",
        "open a",
        "exec a",
        "attach a",
        "cp a:/b c",
        "scale a --replicas 1",
        "pause job a",
        "resume job a",
        "restart job a",
        "delete job a",
        "delete pool a",
        "delete quota a",
        "delete defaults",
        "add node a --pool b",
        "remove node a --pool b",
        "drain a --plan",
        "label node a b=c",
        "create secret a --from-env B",
    ] {
        let cli = Cli::try_parse_from(["gpuctl"].into_iter().chain(line.split(' '))).unwrap();
        let words = cli.command.task().unwrap();
        assert!(tasks().any(|task| task.words == words), "{line}: {words}");
    }
}

#[test]
fn words_of_every_task_are_a_command() {
    for task in tasks() {
        let mut command = Cli::command();
        // What files decide has a noun that is no word of the command line.
        let words: Vec<&str> = task.words.split(' ').collect();
        let spoken = if matches!(words[0], "create" | "apply") {
            &words[..1]
        } else {
            &words[..]
        };
        for word in spoken {
            let singular = word.strip_suffix('s').unwrap_or(word);
            let next = command
                .find_subcommand(word)
                .or_else(|| command.find_subcommand(singular))
                .cloned();
            command = next.unwrap_or_else(|| panic!("`{}` is no command: {word}", task.words));
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
        named_tasks(&words)
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
