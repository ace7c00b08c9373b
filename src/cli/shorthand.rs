//! Reads command lines as people type them: a bare name where a verb has one obvious noun, files
//! without `-f`. What comes out is what clap parses, so completion, help and errors know one
//! grammar only.

use std::ffi::OsString;
use std::path::Path;

use gpuctl_manifest::spec::nearest;

/// Options before a verb that take a value of their own, and those of the verbs below. A test holds
/// them against clap.
const WITH_VALUE: [&str; 29] = [
    "--kubeconfig",
    "--context",
    "-n",
    "--namespace",
    "--as",
    "--as-group",
    "--replay",
    "--request-timeout",
    "--color",
    "--allow-files-from",
    "--only-kind",
    "--config",
    "--prometheus",
    "--prometheus-header",
    "--prometheus-token-file",
    "--prometheus-ca-file",
    "--match",
    "-f",
    "--filename",
    "-o",
    "--output",
    "--timeout",
    "--set",
    "--name",
    "--explain",
    "--image",
    "--tail",
    "--at",
    "--rank",
];

/// Verbs whose names are those of jobs unless another noun is typed.
const OF_JOBS: [&str; 5] = ["pause", "resume", "restart", "describe", "delete"];
/// Verbs that read files.
const OF_FILES: [&str; 5] = ["create", "apply", "diff", "validate", "convert"];
/// Every noun, as it may be typed.
const NOUNS: [&str; 23] = [
    "po",
    "qu",
    "job",
    "jobs",
    "jo",
    "node",
    "nodes",
    "no",
    "pool",
    "pools",
    "quota",
    "quotas",
    "queue",
    "queues",
    "workload",
    "workloads",
    "wl",
    "defaults",
    "default",
    "claim",
    "claims",
    "secret",
    "help",
];

/// Kinds of Kubernetes and of files, which are not taken for names of jobs, with or without an `s`
/// behind them.
const KINDS: [&str; 24] = [
    "pod",
    "pvc",
    "pv",
    "persistentvolumeclaim",
    "service",
    "svc",
    "deployment",
    "deploy",
    "namespace",
    "ns",
    "configmap",
    "cm",
    "statefulset",
    "replicaset",
    "daemonset",
    "cronjob",
    "ingress",
    "event",
    "training",
    "inference",
    "notebook",
    "compute",
    "workflow",
    "label",
];

/// Returns the words that clap is to parse; the first is the program.
pub(crate) fn spelled_out(words: Vec<OsString>) -> Vec<OsString> {
    let positions = positionals(&words);
    let Some((verb, rest)) = positions.split_first() else {
        return words;
    };
    let text = |index: usize| words[index].to_string_lossy();
    let typed = text(*verb).into_owned();
    let is_noun = |index: &usize| NOUNS.contains(&text(*index).as_ref());
    // `delete qouta team-a` must not delete a job that is called `team-a`.
    let is_kind = |index: &usize| {
        let word = text(*index).to_lowercase();
        let named = |kind: &&str| {
            word.strip_prefix(*kind)
                .is_some_and(|rest| matches!(rest, "" | "s" | "es"))
        };
        KINDS.iter().any(named) || rest.len() > 1 && nearest(&word, &NOUNS).is_some()
    };
    if OF_JOBS.contains(&typed.as_str())
        && rest
            .first()
            .is_some_and(|first| !is_noun(first) && !is_kind(first))
    {
        let mut words = words;
        words.insert(verb + 1, "job".into());
        return words;
    }
    if OF_FILES.contains(&typed.as_str()) && rest.first().is_none_or(|first| !is_noun(first)) {
        let files: Vec<usize> = rest
            .iter()
            .copied()
            .filter(|index| is_file(&text(*index)))
            .collect();
        let flagged = |(index, word): (usize, OsString)| {
            let flag = files.contains(&index).then(|| OsString::from("-f"));
            flag.into_iter().chain([word])
        };
        return words.into_iter().enumerate().flat_map(flagged).collect();
    }
    words
}

/// Returns true when the command line is `gpuctl --version` or `gpuctl -V`.
pub(crate) fn asks_for_version(words: &[OsString]) -> bool {
    matches!(words, [_, only] if only == "--version" || only == "-V")
}

/// Returns the topic that `help` is asked about, where it is one word.
pub(crate) fn topic(words: &[OsString]) -> Option<&str> {
    match positionals(words).as_slice() {
        [verb, topic] if words[*verb] == "help" => words[*topic].to_str(),
        _ => None,
    }
}

/// Returns the places of the words that are neither options nor values of options; nothing after
/// `--`.
fn positionals(words: &[OsString]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut index = 1;
    while index < words.len() {
        let word = words[index].to_string_lossy();
        if word == "--" {
            break;
        }
        if WITH_VALUE.contains(&word.as_ref()) {
            index += 1;
        } else if !word.starts_with('-') || word == "-" {
            found.push(index);
        }
        index += 1;
    }
    found
}

/// Returns true for what can only be meant as a file.
fn is_file(word: &str) -> bool {
    word == "-" || word.contains(['.', '/']) || Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn spelled(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words: Vec<String> = spelled_out(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_version_is_told_as_clap_tells_it() {
        let asks =
            |line: &str| asks_for_version(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("gpuctl --version") && asks("gpuctl -V"));
        assert!(!asks("gpuctl") && !asks("gpuctl get --version") && !asks("gpuctl --version get"));
        assert_eq!(Cli::command().render_version(), crate::cli::VERSION);
    }

    #[test]
    fn bare_names_are_jobs_and_bare_files_are_files() {
        for (typed, parsed) in [
            ("gpuctl pause x", "gpuctl pause job x"),
            ("gpuctl -n team-a resume x", "gpuctl -n team-a resume job x"),
            ("gpuctl delete a b --force", "gpuctl delete job a b --force"),
            (
                "gpuctl delete --timeout 5s a",
                "gpuctl delete job --timeout 5s a",
            ),
            (
                "gpuctl describe team-a/x -o json",
                "gpuctl describe job team-a/x -o json",
            ),
            ("gpuctl describe node x", "gpuctl describe node x"),
            ("gpuctl delete pvc bert", "gpuctl delete pvc bert"),
            ("gpuctl delete qouta team-a", "gpuctl delete qouta team-a"),
            ("gpuctl delete services web", "gpuctl delete services web"),
            ("gpuctl delete ingresses web", "gpuctl delete ingresses web"),
            ("gpuctl delete training", "gpuctl delete training"),
            (
                "gpuctl delete trainings-of-may",
                "gpuctl delete job trainings-of-may",
            ),
            ("gpuctl delete -f job.yaml", "gpuctl delete -f job.yaml"),
            ("gpuctl create job.yaml", "gpuctl create -f job.yaml"),
            (
                "gpuctl create a.yaml b/c --wait",
                "gpuctl create -f a.yaml -f b/c --wait",
            ),
            ("gpuctl apply -", "gpuctl apply -f -"),
            (
                "gpuctl create -f a.yaml --set job.name=b",
                "gpuctl create -f a.yaml --set job.name=b",
            ),
            (
                "gpuctl create secret hub --from-file a.txt",
                "gpuctl create secret hub --from-file a.txt",
            ),
            ("gpuctl validate job", "gpuctl validate job"),
            ("gpuctl get job x", "gpuctl get job x"),
            ("gpuctl restart --rank 1 x", "gpuctl restart job --rank 1 x"),
            ("gpuctl pause", "gpuctl pause"),
            ("gpuctl", "gpuctl"),
        ] {
            assert_eq!(spelled(typed), parsed);
        }
    }

    #[test]
    fn options_with_values_are_those_of_clap() {
        let root = Cli::command();
        let verbs = OF_JOBS
            .iter()
            .chain(&OF_FILES)
            .map(|verb| root.find_subcommand(verb).unwrap());
        let nested = OF_JOBS
            .iter()
            .flat_map(|verb| root.find_subcommand(verb).unwrap().get_subcommands());
        for command in [&root]
            .into_iter()
            .chain(verbs)
            .chain(nested.filter(|command| command.get_name() == "job"))
        {
            for option in command
                .get_arguments()
                .filter(|option| !option.is_positional() && option.get_action().takes_values())
            {
                // Values after `=` are part of the word.
                if option.is_require_equals_set() {
                    continue;
                }
                let names = option
                    .get_long()
                    .map(|long| format!("--{long}"))
                    .into_iter();
                for name in names.chain(option.get_short().map(|short| format!("-{short}"))) {
                    assert!(
                        WITH_VALUE.contains(&name.as_str()),
                        "{}: {name}",
                        command.get_name()
                    );
                }
            }
        }
    }
}
