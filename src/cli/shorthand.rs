//! Expands shorthand on the command line: a name without a noun, and files without `-f`. clap
//! parses only the expanded form, so completion, help and errors need only one grammar.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

use gpuctl_manifest::spec::nearest;

/// Verbs that accept files without `-f`.
const OF_FILES: [&str; 6] = ["create", "apply", "diff", "fit", "validate", "convert"];

/// Nouns that belong neither to the job verbs nor to `get`.
const OTHER_NOUNS: [&str; 4] = ["claim", "claims", "secret", "help"];

/// Kinds of Kubernetes objects and of documents. These words, and their plurals with `s` or `es`,
/// are not job names.
const KINDS: [&str; 25] = [
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
    "secret",
];

/// Expands shorthand on a command line, whose first word is the program.
pub(crate) fn expand(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let words = with_own_names(words);
    let positions = positionals(command, &words);
    let Some((verb, rest)) = positions.split_first() else {
        return words;
    };
    let text = |index: usize| words[index].to_string_lossy();
    let typed = text(*verb).into_owned();
    let nouns = nouns(command);
    let is_noun = |index: &usize| nouns.contains(&text(*index).as_ref());
    // The typing error `delete qouta team-a` must not delete a job named `team-a`.
    let is_kind = |index: &usize| {
        let word = text(*index).to_lowercase();
        let is_kind_prefix = |kind: &&str| {
            word.strip_prefix(*kind)
                .is_some_and(|rest| matches!(rest, "" | "s" | "es"))
        };
        KINDS.iter().any(is_kind_prefix) || rest.len() > 1 && nearest(&word, &nouns).is_some()
    };
    let is_selecting = || {
        words
            .iter()
            .any(|word| selects_jobs(&word.to_string_lossy()))
    };
    if job_commands(command).any(|verb| verb.get_name() == typed)
        && rest
            .first()
            .map_or_else(is_selecting, |first| !is_noun(first) && !is_kind(first))
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

/// Replaces kubectl's names of options that have another meaning for some verbs of gpuctl.
fn with_own_names(mut words: Vec<OsString>) -> Vec<OsString> {
    const NAMES: [(&str, &str, [&str; 2]); 2] = [
        ("--server", "--api-server", ["validate", "explain"]),
        ("--user", "--kube-user", ["auth", "auth"]),
    ];
    for (kubectl, own, verbs) in NAMES {
        if words
            .iter()
            .any(|word| verbs.iter().any(|verb| word == verb))
        {
            continue;
        }
        for word in words.iter_mut().take_while(|word| *word != "--") {
            let Some(rest) = word.to_str().and_then(|word| word.strip_prefix(kubectl)) else {
                continue;
            };
            if rest.is_empty() || rest.starts_with('=') {
                *word = format!("{own}{rest}").into();
            }
        }
    }
    words
}

/// Returns true if the command line is `gpuctl --version` or `gpuctl -V`.
pub(crate) fn asks_for_version(words: &[OsString]) -> bool {
    matches!(words, [_, only] if only == "--version" || only == "-V")
}

/// Returns the argument of `help` if it is a single word.
pub(crate) fn topic<'w>(command: &Command, words: &'w [OsString]) -> Option<&'w str> {
    match positionals(command, words).as_slice() {
        [verb, topic] if words[*verb] == "help" => words[*topic].to_str(),
        _ => None,
    }
}

/// Indices of the words before `--` that are neither options nor values of options.
fn positionals(command: &Command, words: &[OsString]) -> Vec<usize> {
    let mut indices = Vec::new();
    let mut index = 1;
    while index < words.len() {
        let word = words[index].to_string_lossy();
        if word == "--" {
            break;
        }
        if takes_value(command, &word) {
            index += 1;
        } else if !word.starts_with('-') || word == "-" {
            indices.push(index);
        }
        index += 1;
    }
    indices
}

/// Returns true if an option selects jobs, so that the user need not name any.
fn selects_jobs(word: &str) -> bool {
    let option = word.split_once('=').map_or(word, |(option, _)| option);
    ["-l", "--selector", "--mine", "--status"].contains(&option)
}

/// Verbs that take a name as a job unless the user types another noun.
fn job_commands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|verb| job_noun(verb).is_some())
}

fn job_noun(verb: &Command) -> Option<&Command> {
    verb.get_subcommands().find(|noun| noun.get_name() == "job")
}

/// All nouns with their aliases, except nouns that only `get` has. Those, such as `consumers`, may
/// be job names.
fn nouns(command: &Command) -> Vec<&str> {
    let mut nouns = OTHER_NOUNS.to_vec();
    for noun in job_commands(command).flat_map(Command::get_subcommands) {
        nouns.extend(names(noun));
    }
    let lists = command
        .find_subcommand("get")
        .into_iter()
        .flat_map(Command::get_subcommands);
    for noun in lists {
        if names(noun).any(|name| nouns.contains(&name)) {
            nouns.extend(names(noun));
        }
    }
    nouns
}

fn names(command: &Command) -> impl Iterator<Item = &str> {
    std::iter::once(command.get_name()).chain(command.get_all_aliases())
}

/// Returns true for an option whose value is the next word. Considers global options and options of
/// the verbs with shorthand.
fn takes_value(command: &Command, word: &str) -> bool {
    let files = OF_FILES
        .iter()
        .filter_map(|verb| command.find_subcommand(verb));
    let jobs = job_commands(command).flat_map(|verb| [Some(verb), job_noun(verb)]);
    std::iter::once(command)
        .chain(files)
        .chain(jobs.flatten())
        .any(|command| takes_next_word(command, word))
}

/// Returns true for an option of `command` whose value is the next word.
pub(super) fn takes_next_word(command: &Command, word: &str) -> bool {
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').filter(|word| word.len() == 1);
    let is_match = |option: &clap::Arg| {
        // An option that requires `=` has its value in the same word.
        let has_value = !option.is_positional()
            && option.get_action().takes_values()
            && !option.is_require_equals_set();
        has_value
            && (long.is_some() && option.get_long() == long
                || short.is_some_and(|short| option.get_short() == short.chars().next()))
    };
    command.get_arguments().any(is_match)
}

/// Returns true for a word that can only be a file.
fn is_file(word: &str) -> bool {
    word == "-" || word.contains(['.', '/']) || Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn expanded(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words: Vec<String> = expand(&Cli::command(), words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_version_has_the_form_of_clap() {
        let asks_version =
            |line: &str| asks_for_version(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks_version("gpuctl --version") && asks_version("gpuctl -V"));
        assert!(
            !asks_version("gpuctl")
                && !asks_version("gpuctl get --version")
                && !asks_version("gpuctl --version get")
        );
        assert_eq!(Cli::command().render_version(), crate::cli::VERSION);
    }

    #[test]
    fn kubectls_options_have_other_names_where_a_verb_has_its_own() {
        for (typed, parsed) in [
            (
                "gpuctl get jobs --server https://x --user=eva",
                "gpuctl get jobs --api-server https://x --kube-user=eva",
            ),
            (
                "gpuctl --server https://x delete a",
                "gpuctl --api-server https://x delete job a",
            ),
            (
                "gpuctl validate -f a.yaml --server",
                "gpuctl validate -f a.yaml --server",
            ),
            (
                "gpuctl auth check --user eva",
                "gpuctl auth check --user eva",
            ),
            (
                "gpuctl exec a -- x --server y",
                "gpuctl exec a -- x --server y",
            ),
        ] {
            assert_eq!(expanded(typed), parsed);
        }
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
                "gpuctl fit --by zone job.yaml",
                "gpuctl fit --by zone -f job.yaml",
            ),
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
            assert_eq!(expanded(typed), parsed);
        }
    }
}
