//! Tests `why` and `logs` of several jobs, and the order of names in lists.

use std::time::Duration;

use gpuctl_sandbox::PodLog;
use serde_json::{Value, json};

use crate::support::{Run, Scene, cluster, finish};

fn names(list: &Value, key: &str) -> Vec<String> {
    let items = list["items"]
        .as_array()
        .unwrap_or_else(|| panic!("{list:#}"));
    let name = |item: &Value| item[key].as_str().unwrap().to_owned();
    items.iter().map(name).collect()
}

/// The log of the only pod of a job.
fn log_of(scene: &Scene, job: &str) -> PodLog {
    let pod = scene.pods(job).remove(0);
    let pod = pod["metadata"]["name"].as_str().unwrap();
    cluster().pod_log(scene.name, pod, "main")
}

#[test]
fn lists_order_the_numbers_in_names_by_value() {
    let scene = Scene::with_nodes("several-order", 1);
    for job in ["sweep-10", "sweep-2", "sweep-1"] {
        scene.create(job, "");
    }
    for arguments in [
        &["get", "jobs", "-o", "json"][..],
        &["get", "jobs", "--sort-by", "name", "-o", "json"],
    ] {
        let list = scene.gpuctl(arguments).ok().json();
        assert_eq!(names(&list, "jobId"), ["sweep-1", "sweep-2", "sweep-10"]);
    }
    let table = scene.gpuctl(&["get", "workloads"]).ok().out;
    let position = |name: &str| {
        table
            .find(&format!("{name} "))
            .unwrap_or_else(|| panic!("{table}"))
    };
    assert!(position("sweep-2") < position("sweep-10"), "{table}");
}

#[test]
fn why_explains_several_jobs() {
    let scene = Scene::with_nodes("several-why", 1);
    for job in ["big-10", "big-1"] {
        scene.create(job, "resources: {pool: POOL, gpu: 9}");
        scene.until(job, "pending", Some("Unschedulable"));
    }
    scene.create("small", "");
    scene.until("small", "running", None);
    let why = |arguments: &[&str]| -> Run { scene.gpuctl(&[&["why"], arguments].concat()) };
    let list = |arguments: &[&str]| -> Vec<String> {
        let answer = why(&[arguments, &["-o", "json"]].concat()).ok().json();
        let names = names(&answer, "name");
        assert_eq!(answer["total"], names.len());
        names
    };
    assert_eq!(list(&["big-*"]), ["big-1", "big-10"]);
    // Even one match of a pattern is a list, so that scripts need not distinguish.
    assert_eq!(list(&["big-?"]), ["big-1"]);
    assert_eq!(list(&["small", "big-1", "small"]), ["small", "big-1"]);
    assert_eq!(list(&["-l", "gpuctl/job=small"]), ["small"]);
    assert_eq!(
        list(&["--mine", "--status", "pending"]),
        ["big-1", "big-10"]
    );
    let one = why(&["big-1", "-o", "json"]).ok().json();
    assert_eq!(
        (&one["name"], &one["items"]),
        (&json!("big-1"), &Value::Null)
    );
    let text = why(&["big-*"]).ok().out;
    let blocks: Vec<&str> = text.split("---\n").collect();
    assert_eq!(blocks.len(), 2, "{text}");
    assert!(
        blocks[0].starts_with("big-1 ") && blocks[1].starts_with("big-10 "),
        "{text}"
    );

    why(&["nope-*"]).exits(4).says("no job matches `nope-*`");
    why(&["big-*", "nope-*"])
        .exits(4)
        .says("no job matches `nope-*`");
    // A missing name does not hide the answers for the others.
    let partly = why(&["big-1", "nope", "-o", "json"]).exits(4);
    assert_eq!(names(&partly.json(), "name"), ["big-1"]);
    partly.says("job `nope` does not exist");
    for arguments in [&[][..], &["--all", "big-1"], &["--all", "--mine"]] {
        why(arguments).exits(2);
    }
}

#[test]
fn logs_of_several_jobs_name_the_job_of_each_line() {
    let scene = Scene::with_nodes("several-logs", 1);
    for job in ["run-1", "run-2"] {
        scene.create(job, "");
        scene.until(job, "running", None);
    }
    let mut logs = [log_of(&scene, "run-1"), log_of(&scene, "run-2")];
    let start = jiff::Timestamp::now();
    for step in 0..4 {
        let at = start
            .checked_add(jiff::SignedDuration::from_millis(step * 10))
            .unwrap();
        logs[usize::try_from(step % 2).unwrap()].say_at(at, &format!("step {step}"));
    }
    let lines = |arguments: &[&str]| scene.gpuctl(&[&["logs"], arguments].concat()).ok().out;
    let all = "run-1 │ step 0\nrun-2 │ step 1\nrun-1 │ step 2\nrun-2 │ step 3\n";
    assert_eq!(lines(&["run-*"]), all);
    assert_eq!(lines(&["run-2", "run-1"]), all);
    assert_eq!(lines(&["--mine", "--status", "running"]), all);
    // The limit holds for each job, so that one job with many lines does not hide the others.
    assert_eq!(
        lines(&["run-*", "--tail", "1"]),
        "run-1 │ step 2\nrun-2 │ step 3\n"
    );
    assert_eq!(lines(&["run-1"]), "step 0\nstep 2\n");
    let document = scene.gpuctl(&["logs", "run-*", "-o", "json"]).ok().json();
    let line = &document["lines"][1];
    assert_eq!(
        (&line["namespace"], &line["job"], &line["line"]),
        (&json!("several-logs"), &json!("run-2"), &json!("step 1")),
        "{document:#}"
    );
    scene
        .gpuctl(&["logs", "nope-*"])
        .exits(4)
        .says("no job matches `nope-*`");
    scene
        .gpuctl(&["logs", "run-*", "--first-error"])
        .exits(2)
        .says("`--first-error` works with one job, but 2 jobs are selected");
    scene.gpuctl(&["logs"]).exits(2);
}

#[test]
fn following_several_jobs_ends_with_the_worst_result() {
    let scene = Scene::with_nodes("several-follow", 1);
    for (job, exit) in [("good-1", 0), ("good-2", 0), ("bad-1", 1)] {
        scene.create(
            job,
            &format!(
                "job: {{name: NAME, retries: 0}}\n\
                 environment: {{image: busybox, env: {{SIM_SECONDS: 20, SIM_EXIT: {exit}}}}}"
            ),
        );
    }
    for job in ["good-1", "good-2", "bad-1"] {
        scene.until(job, "running", None);
        log_of(&scene, job).say("started");
    }
    let good = scene.start(&["logs", "good-*", "-f"]);
    let mixed = scene.start(&["logs", "bad-1", "good-2", "-f"]);
    let good = finish(good, Duration::from_secs(90)).ok();
    for job in ["good-1", "good-2"] {
        assert!(
            good.out.contains(&format!("{job} │ started\n")),
            "{}",
            good.out
        );
        assert!(
            good.err.contains(&format!("{job} succeeded")),
            "{}",
            good.err
        );
    }
    let mixed = finish(mixed, Duration::from_secs(90)).exits(10);
    assert!(mixed.out.contains("bad-1 │ started\n"), "{}", mixed.out);
    mixed
        .says("job `bad-1` failed")
        .says("good-2 succeeded")
        .says("gpuctl why several-follow/bad-1");
}
