//! Tests `--wait` and `--follow`. Both end as soon as the result is known, and print what users
//! look for next.

use std::time::{Duration, Instant};

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::support::{Scene, cluster, file, finish};

#[test]
fn wait_fails_early_when_a_job_cannot_start() {
    let scene = Scene::with_nodes("hopeless", 1);
    let started = Instant::now();
    let wait = [
        "create",
        "-f",
        "-",
        "--wait",
        "--timeout",
        "90s",
        "-o",
        "json",
    ];
    let missing = scene.training("a", "environment: {image: 'bad/image:missing'}");
    let run = scene.gpuctl_with(&wait, &missing).exits(10);
    let error: Value = serde_json::from_str(run.err.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&error["error"], &error["kind"]),
        (&json!("ImagePullBackOff"), &json!("job_ended"))
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .starts_with("job `a` cannot start, ImagePullBackOff: rank 0 cannot start: "),
        "{error}"
    );
    assert_eq!(
        error["notes"],
        json!(["the job still exists and keeps trying"])
    );
    // stdout still holds the complete output.
    assert_eq!(run.json()["status"], "pending");
    let crashing = scene.service("b", "crash/image:loop", 1, "");
    scene
        .gpuctl_with(&wait, &crashing)
        .exits(10)
        .says("CrashLoopBackOff");
    assert!(
        started.elapsed() < Duration::from_secs(80),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn wait_reports_node_and_duration_or_the_last_log_lines() {
    let scene = Scene::with_nodes("reached", 1);
    let wait = ["create", "-f", "-", "--wait", "--timeout", "60s"];
    let run = scene.gpuctl_with(&wait, &scene.training("a", "")).ok();
    assert!(
        run.err.starts_with("a: running on reached-0 after ") && run.err.trim_end().ends_with(" s"),
        "{}",
        run.err
    );
    let json = scene
        .gpuctl_with(
            &["create", "-f", "-", "--wait", "-o", "json"],
            &scene.training("b", ""),
        )
        .ok();
    assert!(
        json.json()["message"]
            .as_str()
            .unwrap()
            .starts_with("running on reached-0 after "),
        "{}",
        json.out
    );
    assert_eq!(json.err, "");
    // A failed job prints its last log lines.
    let yaml =
        scene.training("c", "job: {name: NAME, retries: 0}\nenvironment: {image: busybox, env: {SIM_SECONDS: 8, SIM_EXIT: 3}}");
    let path = file("reached.yaml", &yaml);
    let child = scene.start(&[
        "create",
        path.to_str().unwrap(),
        "--wait=complete",
        "--timeout",
        "60s",
    ]);
    scene.until("c", "running", None);
    let pod = scene.pods("c")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut log = cluster().pod_log("reached", &pod, "main");
    (0..7).for_each(|line| log.say(&format!("line {line}")));
    let run = finish(child, Duration::from_secs(90)).exits(10);
    for line in [
        "job `c` failed: rank 0 exited with code 3",
        "log: line 2",
        "log: line 6",
        "hint: gpuctl logs reached/c",
    ] {
        assert!(run.err.contains(line), "{line}: {}", run.err);
    }
    assert!(
        !run.err.contains("line 1"),
        "five lines are enough: {}",
        run.err
    );
    let described = scene.gpuctl(&["describe", "c"]).ok().out;
    assert!(
        described.contains("LAST LINES\n  line 2\n") && described.contains(" ago, after "),
        "{described}"
    );
    assert_eq!(
        scene.gpuctl(&["describe", "c", "-o", "json"]).ok().json()["lastLines"][4],
        "line 6"
    );
}

#[test]
fn follow_prints_the_log_and_exits_with_the_result_of_the_job() {
    let scene = Scene::with_nodes("followed", 1);
    let yaml = |name: &str, code: u8| {
        let env = format!("{{SIM_SECONDS: 6, SIM_EXIT: {code}}}");
        scene.training(
            name,
            &format!(
                "job: {{name: NAME, retries: 0}}\nenvironment: {{image: busybox, env: {env}}}"
            ),
        )
    };
    for (name, command_code, code) in [("good", 0, 0), ("bad", 42, 10)] {
        let path = file(&format!("followed-{name}.yaml"), &yaml(name, command_code));
        let child = scene.start(&["create", path.to_str().unwrap(), "--follow"]);
        scene.until(name, "running", None);
        let pod = scene.pods(name)[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut log = cluster().pod_log("followed", &pod, "main");
        log.say("first");
        log.say("last");
        let run = finish(child, Duration::from_secs(90)).exits(code);
        let lines: Vec<&str> = run.out.lines().collect();
        assert_eq!(lines[lines.len() - 2..], ["first", "last"], "{}", run.out);
        let failure = "job `bad` failed: rank 0 exited with code 42";
        assert_eq!(run.err.contains(failure), name == "bad", "{}", run.err);
    }
    let follow = ["create", "-f", "-", "--follow"];
    scene
        .gpuctl_with(
            &follow,
            &scene.training("x", "environment: {image: 'bad/image:missing'}"),
        )
        .exits(10)
        .says("ImagePullBackOff");
    scene
        .gpuctl_with(&follow, &scene.service("s", "vllm", 1, ""))
        .exits(2)
        .says("`s` is a service or notebook, so its log never ends");
    let two_jobs = format!("{}---\n{}", yaml("p", 0), yaml("q", 0));
    scene
        .gpuctl_with(&follow, &two_jobs)
        .exits(2)
        .says("`--follow` works with one job, but the files define 2");
    scene
        .gpuctl_with(&[&follow[..], &["-o", "json"]].concat(), &yaml("p", 0))
        .exits(2)
        .says("it cannot be combined with `-o`");
    scene
        .gpuctl_with(&["create", "-f", "-", "--timeout", "3s"], &yaml("p", 0))
        .exits(2)
        .says("add `--wait`");
    // Ctrl-C does not affect the job.
    let path = file("followed-long.yaml", &scene.training("long", ""));
    let child = scene.start(&["create", path.to_str().unwrap(), "--follow"]);
    scene.until("long", "running", None);
    // The command starts to follow shortly after the job starts to run, but nothing shows when.
    std::thread::sleep(Duration::from_secs(1));
    std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    let run = finish(child, Duration::from_secs(20)).exits(130);
    assert!(
        run.err.contains("the job still exists and is not affected"),
        "{}",
        run.err
    );
    scene.until("long", "running", None);
}

/// The scheduler reports a preemption only in an event, and the event names no queue.
#[test]
fn preemptions_by_the_scheduler_are_listed() {
    let scene = Scene::with_nodes("displaced", 1);
    scene.create("low", "resources: {pool: POOL, gpu: 8}");
    scene.until("low", "running", None);
    scene.admin.apply(
        &json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "displacing"}, "value": 1_000_000}),
    );
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent", "namespace": "displaced"},
        "spec": {"priorityClassName": "displacing", "nodeSelector": {"gpuctl/pool": "displaced"},
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}));
    let limit = Duration::from_secs(60);
    let preemptions = eventually("the preemption is listed", limit, || {
        let preemptions = scene
            .gpuctl(&["get", "queues", "--preemptions", "-o", "json"])
            .ok()
            .json();
        if preemptions["total"] == 1 {
            Ok(preemptions)
        } else {
            Err(preemptions)
        }
    });
    let one = &preemptions["items"][0];
    assert_eq!(
        (&one["jobId"], &one["queue"], &one["preemptedBy"]),
        (&json!("low"), &Value::Null, &Value::Null),
        "{preemptions:#}"
    );
    assert!(
        one["message"].as_str().unwrap().starts_with("Preempted by"),
        "{preemptions:#}"
    );
    assert!(
        preemptions["coverage"]["eventsSince"].is_string(),
        "{preemptions:#}"
    );
    scene
        .admin
        .run(&["delete", "pod", "urgent", "-n", "displaced", "--wait=false"]);
}
