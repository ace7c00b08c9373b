//! Tests commands that change several jobs: how names, patterns, labels, owners and states select
//! them, the question before the change, and dry runs.

use gpuctl_sandbox::{Persona, Tty};
use serde_json::{Value, json};

use crate::support::{Scene, cluster};

/// Creates three running trainings, two of them with the label `team=nlp`.
fn three_trials(name: &'static str) -> Scene {
    let scene = Scene::with_nodes(name, 1);
    for (job, team) in [("trial-1", "nlp"), ("trial-2", "nlp"), ("other", "cv")] {
        scene.create(
            job,
            &format!("job: {{name: NAME, labels: {{team: {team}}}}}"),
        );
    }
    for job in ["trial-1", "trial-2", "other"] {
        scene.until(job, "running", None);
    }
    scene
}

fn names(scene: &Scene) -> Vec<String> {
    let list = scene.gpuctl(&["get", "jobs", "-o", "json"]).ok().json();
    let names = list["items"].as_array().unwrap().iter();
    names
        .map(|job| job["jobId"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_dry_run_changes_nothing() {
    let scene = three_trials("select-dry");
    let pods = || {
        scene.get(&["pods", "-o", "json"])["items"]
            .as_array()
            .unwrap()
            .len()
    };
    let before = pods();
    // Not the resource version, because the Job controller still updates the status.
    let version = |job: &str| {
        let metadata = scene.get(&["job", job, "-o", "json"])["metadata"].clone();
        ["uid", "generation", "deletionTimestamp"].map(|field| metadata[field].clone())
    };
    let versions = (version("trial-1"), version("other"));
    for place in ["client", "server"] {
        let dry_run = format!("--dry-run={place}");
        for arguments in [
            &["delete", "job", "trial-1"][..],
            &["delete", "job", "trial-1", "--purge", "--force"],
            &["delete", "trial-*"],
            &["pause", "trial-1"],
            &["pause", "-l", "team=nlp"],
        ] {
            let text = scene
                .gpuctl(&[arguments, &[dry_run.as_str()]].concat())
                .ok();
            let mark = format!("({place} dry run)");
            assert!(text.out.contains(&mark), "{arguments:?}: {}", text.out);
            let run = scene.gpuctl(&[arguments, &[dry_run.as_str(), "-o", "json"]].concat());
            let answer = run.ok().json();
            let first = match &answer["success"][0] {
                Value::Null => &answer,
                first => first,
            };
            assert_eq!(first["dryRun"], place, "{arguments:?}: {answer:#}");
        }
        scene
            .gpuctl(&["delete", "job", "nothing", &dry_run])
            .exits(4);
        scene.gpuctl(&["pause", "nothing", &dry_run]).exits(4);
    }
    assert_eq!((version("trial-1"), version("other")), versions);
    assert_eq!((pods(), names(&scene).len()), (before, 3));
}

#[test]
fn a_name_with_a_namespace_does_not_widen_a_bare_pattern() {
    let scene = three_trials("select-scope");
    // The bare pattern applies to the namespace of the context, `default`, which has no such job.
    for arguments in [
        &["delete", "select-scope/other", "trial-*", "--yes"][..],
        &["pause", "select-scope/other", "trial-*", "--yes"],
    ] {
        scene
            .gpuctl_anywhere(arguments)
            .exits(4)
            .says("no job matches `trial-*`");
    }
    assert_eq!(names(&scene).len(), 3);
    // A user needs no permissions outside of the namespace that the pattern names.
    scene.allow_edit(Persona::Frank);
    let frank = scene.seen_by(Persona::Frank);
    let paused = frank.gpuctl_anywhere(&["pause", "select-scope/trial-*", "--yes"]);
    assert_eq!(paused.ok().out.matches("trial-").count(), 2);
    // A job that is named twice is changed once.
    let resumed = scene.gpuctl(&["resume", "trial-1", "trial-1"]).ok();
    assert_eq!(resumed.out.matches("trial-1").count(), 1, "{}", resumed.out);
}

#[test]
fn a_dry_run_on_the_server_needs_the_same_permissions() {
    let scene = three_trials("select-rights");
    let viewer = scene.seen_by(Persona::Bob);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "view-bob",
        "--clusterrole=view",
        "--user",
        Persona::Bob.user(),
        "-n",
        "select-rights",
    ]);
    viewer
        .gpuctl(&["pause", "other", "--dry-run=server"])
        .exits(5);
    viewer
        .gpuctl(&["delete", "job", "other", "--dry-run=server"])
        .exits(5);
    assert_eq!(names(&scene).len(), 3);
}

#[test]
fn jobs_that_were_not_named_need_a_confirmation() {
    let scene = three_trials("select-ask");
    for arguments in [
        &["delete", "trial-*"][..],
        &["delete", "-l", "team=nlp"],
        &["delete", "job", "--status", "running"],
        &["pause", "--mine"],
    ] {
        scene
            .gpuctl(arguments)
            .exits(1)
            .says("needs a confirmation")
            .says("select-ask/trial-1")
            .says("--yes");
    }
    assert_eq!(names(&scene).len(), 3);
    let run = scene
        .gpuctl(&["pause", "trial-*", "--yes", "-o", "json"])
        .ok();
    let paused = run.json();
    assert_eq!(paused["success"].as_array().unwrap().len(), 2, "{paused:#}");
    assert_eq!(paused["failed"], json!([]));
    scene.until("trial-2", "paused", None);
    scene
        .gpuctl(&["delete", "--status=paused", "-l", "team=nlp", "-y"])
        .ok();
    assert_eq!(names(&scene), ["other"]);
    scene.gpuctl(&["delete", "trial-*", "--yes"]).exits(4);
}

#[test]
fn a_terminal_lists_the_jobs_and_asks_once() {
    let scene = three_trials("select-tty");
    let line = "\"$GPUCTL\" -n select-tty delete 'trial-*'; echo exit code $?; sleep 60";
    let kubeconfig = cluster().kubeconfig(Persona::Admin).display().to_string();
    let environment = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("GPUCTL", env!("CARGO_BIN_EXE_gpuctl")),
        ("GPUCTL_PROMETHEUS", "none"),
    ];
    let mut tty = Tty::start(line, (100, 24), &environment);
    let text = tty.sees("delete 2 jobs? [y/N]");
    assert!(
        text.contains("select-tty/trial-1  training  running  1 GPU"),
        "{text}"
    );
    tty.press("y\r");
    tty.sees("exit code 0");
    assert_eq!(names(&scene), ["other"]);
}

#[test]
fn one_missing_name_does_not_stop_the_others() {
    let scene = three_trials("select-missing");
    let run = scene
        .gpuctl(&["pause", "trial-1", "nothing", "trial-2", "-o", "json"])
        .exits(1);
    let answer = run.json();
    assert_eq!(answer["success"].as_array().unwrap().len(), 2, "{answer:#}");
    assert_eq!(answer["failed"][0]["name"], "nothing");
    assert_eq!(answer["failed"][0]["error"], "NotFound");
}
