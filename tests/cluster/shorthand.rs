//! Tests the shorthand of the command line: bare names and files, one name for one row, old names
//! of options, and hints for users who type commands of other tools.

use serde_json::json;

use crate::support::{Scene, file};

#[test]
fn bare_names_and_files_are_understood() {
    let scene = Scene::with_nodes("shorthand", 1);
    let path = file("shorthand.yaml", &scene.training("a", ""));
    scene.gpuctl(&["validate", path.to_str().unwrap()]).ok();
    let fit = scene.gpuctl(&["fit", path.to_str().unwrap()]).ok().out;
    assert!(
        fit.starts_with("training/a in shorthand: fits now"),
        "{fit}"
    );
    scene
        .gpuctl(&[
            "create",
            path.to_str().unwrap(),
            "--wait",
            "--timeout",
            "60s",
        ])
        .ok();
    scene.gpuctl(&["apply", path.to_str().unwrap()]).ok();
    let row = scene.gpuctl(&["get", "job", "a", "--no-headers"]).ok().out;
    assert!(row.starts_with("a ") && row.lines().count() == 1, "{row}");
    assert_eq!(
        scene
            .gpuctl(&["get", "jobs", "shorthand/a", "-o", "json"])
            .ok()
            .json()["total"],
        1
    );
    scene
        .gpuctl(&["get", "job", "b"])
        .exits(4)
        .says("job `b` does not exist in namespace `shorthand`");
    let node = scene
        .gpuctl(&["get", "node", "shorthand-0", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&node["total"], &node["items"][0]["nodeName"]),
        (&json!(1), &json!("shorthand-0"))
    );
    scene
        .gpuctl(&["get", "no", "shorthand-9"])
        .exits(4)
        .says("node `shorthand-9` does not exist");
    assert_eq!(
        scene
            .gpuctl(&["get", "pool", "shorthand", "-o", "json"])
            .ok()
            .json()["total"],
        1
    );
    scene.gpuctl(&["get", "pools", "spokn"]).exits(4);
    assert!(
        scene
            .gpuctl(&["describe", "a"])
            .ok()
            .out
            .starts_with("a   training")
    );
    scene.gpuctl(&["pause", "a"]).ok();
    scene.until("a", "paused", None);
    scene.gpuctl(&["resume", "a", "-o", "json"]).ok();
    scene.gpuctl(&["delete", "a", "--force"]).ok();
    scene.serve("web", "vllm", 1, "");
    scene.gpuctl(&["scale", "web", "2"]).ok();
    assert_eq!(scene.get(&["deployment", "web"])["spec"]["replicas"], 2);
    scene.gpuctl(&["scale", "web", "--replicas", "1"]).ok();
    scene.gpuctl(&["scale", "web"]).exits(2).says("needs");
}

#[test]
fn labels_select_jobs_in_one_or_all_namespaces() {
    let scene = Scene::with_nodes("selected", 1);
    scene.create("a", "job: {name: NAME, labels: {team: nlp}}");
    scene.create("b", "job: {name: NAME, labels: {team: cv}}");
    let names = |arguments: &[&str]| {
        scene
            .gpuctl(&[&["get", "jobs", "-o", "name"], arguments].concat())
            .ok()
            .out
    };
    assert_eq!(names(&["-l", "team=nlp"]), "selected/a\n");
    assert_eq!(names(&["--selector", "team notin (nlp)"]), "selected/b\n");
    assert_eq!(names(&["-l", "team,!team"]), "");
    scene
        .gpuctl(&["get", "jobs", "-l", "a b"])
        .exits(2)
        .says("a selector such as team=nlp");
    let nodes = scene
        .gpuctl(&["get", "nodes", "-l", "gpuctl/pool=selected", "-o", "name"])
        .ok()
        .out;
    assert_eq!(nodes, "selected-0\n");
    scene
        .gpuctl(&["get", "jobs", "-A"])
        .exits(2)
        .says("cannot be used");
    let everywhere = scene
        .gpuctl_anywhere(&["get", "jobs", "-A", "-o", "name"])
        .ok()
        .out;
    assert!(everywhere.contains("selected/a\n"), "{everywhere}");
}

#[test]
fn commands_of_other_tools_get_hints() {
    let scene = Scene::new("words-of-others");
    for (typed, message) in [
        (
            &["stop", "x"][..],
            "use `gpuctl pause NAME` (keeps the job) or `gpuctl delete NAME`",
        ),
        (&["squeue"], "use `gpuctl get jobs`"),
        (&["salloc"], "then `gpuctl exec NAME`"),
        (&["whoami"], "use `gpuctl auth check`"),
        (&["login"], "gpuctl uses the credentials of your kubeconfig"),
        (&["gpus"], "use `gpuctl free`"),
        (&["nightly"], "`gpuctl help nightly` shows what to do"),
        (&["get", "pods"], "(`po` means pools here)"),
        (&["get", "secrets"], "kubectl lists and deletes Secrets"),
        (&["delete", "secret", "hub"], "kubectl lists and deletes"),
        (
            &["delete", "job", "--all"],
            "hint: use `--mine` for your jobs",
        ),
        (&["run", "--time", "4h"], "use `--max-runtime 12h`"),
        (
            &["create", "a.yaml", "--dry-run", "server"],
            "hint: --dry-run=server\n",
        ),
        (
            &["run", "--name", "a", "--image", "i", "python", "x.py"],
            " run --name a --image i -- python x.py\n",
        ),
        (&["sbatch", "a.sh"], "use `gpuctl create FILE`"),
        (&["jobs"], "verbs come first: `gpuctl get jobs`"),
        (&["job", "list"], "verbs come first: `gpuctl get jobs`"),
        (
            &["get", "bert"],
            "for a job with that name, use `gpuctl get job bert`",
        ),
        (&["get", "jbs"], "did you mean `gpuctl get job"),
        (&["pause"], "`gpuctl pause NAME` for a job"),
        (&["descrbe", "job", "x"], "did you mean `gpuctl describe"),
        (&["logs"], "`gpuctl logs` needs <NAME>"),
        (&["get", "jobs", "--statu", "x"], "did you mean `--status`?"),
        (
            &["get", "jobs", "--status", "runing"],
            "did you mean `running`?",
        ),
        (&["create"], "needs"),
        (&["events", "a", "b"], "does not accept `b`"),
        (
            &["logs", "a", "--tail", "x"],
            "invalid value `x` for `--tail <N>`: expected a whole number",
        ),
        (
            &["logs", "a", "--grep", "("],
            "invalid value `(` for `--grep <REGEX>`: unclosed group",
        ),
        (
            &["get", "jobs", "--watch=true"],
            "`--watch` does not accept a value",
        ),
        (
            &["get", "jobs", "--page", "0"],
            "expected a whole number from 1 to",
        ),
    ] {
        let run = scene.gpuctl(typed).exits(2);
        assert!(
            run.out.is_empty() && run.err.contains(message),
            "{typed:?}: {}",
            run.err
        );
        assert!(
            !run.err.contains("Usage:") && run.err.starts_with("error: "),
            "{typed:?}: {}",
            run.err
        );
    }
    for word in ["sweep", "array", "nightly", "cron", "secrets"] {
        let page = scene.gpuctl(&["help", word]).ok().out;
        assert!(page.contains("\n  gpuctl "), "{word}: {page}");
    }
    let json = scene
        .gpuctl(&["get", "jobs", "--statu", "x", "-o", "json"])
        .exits(2);
    let error: serde_json::Value = serde_json::from_str(json.err.trim()).unwrap();
    assert_eq!(
        (&error["error"], &error["kind"]),
        (&json!("Usage"), &json!("usage"))
    );
}

#[test]
fn old_option_names_still_work() {
    let scene = Scene::with_nodes("before", 1);
    // gpuctl accepts the options. The commands fail only afterwards, because there are no metrics.
    for (old, new) in [
        (
            &["report", "--from", "2h", "--to", "1h"][..],
            &["report", "--start", "2h", "--end", "1h"][..],
        ),
        (&["score", "--window", "1h"], &["score", "--start", "1h"]),
        (
            &["get", "namespaces", "--since", "2h"],
            &["get", "namespaces", "--start", "2h"],
        ),
        (
            &["stats", "workloads", "--order-by", "utilization"],
            &["stats", "workloads", "--sort-by", "utilization"],
        ),
        (
            &["get", "workloads", "--order-by", "start_at"],
            &["get", "workloads", "--sort-by", "start"],
        ),
    ] {
        let (old, new) = (scene.gpuctl(old), scene.gpuctl(new));
        assert!(old.code != 2, "{}", old.err);
        assert_eq!((old.code, old.err), (new.code, new.err));
    }
}
