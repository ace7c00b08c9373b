//! Tests the hints for rejected command lines.

use super::*;
use crate::cli::shorthand::expand;

fn explained(line: &str) -> Error {
    let root = Cli::command();
    let words = expand(&root, line.split(' ').map(Into::into).collect());
    let error = root.try_get_matches_from(&words).unwrap_err();
    let words: Vec<String> = words
        .into_iter()
        .map(|word| word.into_string().unwrap())
        .collect();
    explain(&error, &words)
}

#[test]
fn no_hint_suggests_another_action() {
    for line in [
        "gpus",
        "salloc",
        "whoami",
        "login",
        "cordon n",
        "uncordon n",
        "get pods",
        "get secrets",
        "get gpus",
        "delete secret hub",
        "delete secrets hub",
        "delete job --all",
        "run --time 4h",
        "rename x",
        "state",
        "start",
        "up",
        "set x",
        "get all",
        "describe pod x",
        "rollout status x",
        "images",
        "delete node n",
    ] {
        let error = explained(&format!("gpuctl {line}"));
        let hints = error.hints.join("\n");
        assert!(!hints.contains("did you mean"), "{line}: {hints}");
        assert!(!hints.contains("delete job"), "{line}: {hints}");
    }
}

#[test]
fn misspellings_get_a_suggestion() {
    for (line, hint) in [
        ("descrbe job x", "did you mean `gpuctl describe`?"),
        ("get jbs", "did you mean `gpuctl get jobs`?"),
        ("delete qouta team-a", "did you mean `gpuctl delete quota`?"),
        ("get jobs --statu x", "did you mean `--status`?"),
        ("get jobs --status runing", "did you mean `running`?"),
    ] {
        let error = explained(&format!("gpuctl {line}"));
        assert_eq!(error.hints[0], hint, "{line}");
    }
}

#[test]
fn values_and_commands_in_the_wrong_place_are_repaired() {
    for (line, hint) in [
        ("create a.yaml --dry-run server", "--dry-run=server"),
        ("apply a.yaml --dry-run server", "--dry-run=server"),
        ("run --name a --image i --wait complete", "--wait=complete"),
        (
            "run --name python --image i python x.py",
            "put the command after `--`: gpuctl run --name python --image i -- python x.py",
        ),
        (
            "-n python run --name a --image i python x$y.py",
            "put the command after `--`: \
             gpuctl -n python run --name a --image i -- python 'x$y.py'",
        ),
        ("run a --name b --image i", "gpuctl run --help"),
        (
            "rollout restart x",
            "use `gpuctl restart NAME`, and `gpuctl wait NAME --for running`",
        ),
        (
            "kubectl get jobs",
            "leave out this word; `gpuctl help WORD` finds commands",
        ),
    ] {
        let error = explained(&format!("gpuctl {line}"));
        assert_eq!(error.hints, [hint], "{line}");
    }
}

#[test]
fn values_of_kubectl_are_replaced() {
    for (line, hint) in [
        ("get jobs -o jsonpath", "jsonpath='{.items[*].jobId}'"),
        ("get jobs -o custom-columns", "custom-columns=NAME:.jobId"),
        ("get jobs -o jsonpath-as-json={.items}", "use `-o json`"),
        ("get jobs -o go-template={{.x}}", "jsonpath='{.items"),
        ("describe job a -o go-template-file=x", "custom-columns="),
        ("get nodes -o jsonpath-file=x", "$(cat FILE)"),
        ("wait a --for delete", "did you mean `deleted`?"),
        ("wait a --for done", "did you mean `ended`?"),
        (
            "wait a --for condition=complete",
            "did you mean `complete`?",
        ),
        ("wait a --for condition=Ready", "did you mean `ready=N`"),
        ("wait a --for=ready", "did you mean `ready=N`"),
        ("wait a --for jsonpath={.x}=y", "gpuctl wait --help"),
    ] {
        let error = explained(&format!("gpuctl {line}"));
        assert!(error.hints[0].contains(hint), "{line}: {:?}", error.hints);
    }
}

#[test]
fn errors_of_parsers_are_explained_in_our_words() {
    for (line, message) in [
        (
            "logs a --tail x",
            "invalid value `x` for `--tail <N>`: expected a whole number",
        ),
        (
            "logs a --tail 99999999999999999999",
            "the number is too large",
        ),
        ("logs a --grep (", ": unclosed group"),
        (
            "get jobs --page 0",
            "expected a whole number from 1 to 4294967295",
        ),
        (
            "get jobs --page-size 2000",
            "expected a whole number from 1 to 1000",
        ),
        (
            "get jobs --watch=true",
            "`--watch` does not accept a value, but `true` was given",
        ),
        (
            "open a --local-port 99999",
            "expected a whole number from 0 to 65535",
        ),
    ] {
        let error = explained(&format!("gpuctl {line}"));
        assert!(error.message.contains(message), "{line}: {error}");
    }
}
