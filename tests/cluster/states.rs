//! Tests the states of a training that gpuctl derives from the reports of simulated kubelets.

use serde_json::{Value, json};

use crate::support::{Scene, items};

fn ends(seconds: u32, exit: i32, more: &str) -> String {
    format!(
        "environment: {{image: busybox, env: {{SIM_SECONDS: {seconds}, SIM_EXIT: {exit}{more}}}}}"
    )
}

#[test]
fn a_completed_training_is_succeeded() {
    let scene = Scene::with_nodes("succeeds", 1);
    scene.create("a", &ends(1, 0, ""));
    let job = scene.until("a", "succeeded", None);
    assert_eq!(job["gpuHeld"], 0);
    assert!(
        job["startedAt"].is_string() && job["finishedAt"].is_string(),
        "{job:#}"
    );
    assert_eq!(scene.get(&["job", "a"])["status"]["succeeded"], 1);
    let refused = scene.gpuctl(&["pause", "a"]).exits(1);
    assert!(!refused.err.contains("delete"), "{}", refused.err);
    refused.says("hint: it holds no GPUs; gpuctl describe job succeeds/a");
}

#[test]
fn a_failed_training_shows_its_exit_code() {
    let scene = Scene::with_nodes("fails", 1);
    scene.create(
        "a",
        &format!("job: {{name: NAME, retries: 0}}\n{}", ends(1, 3, "")),
    );
    let job = scene.until("a", "failed", Some("Error"));
    assert_eq!(job["message"], "rank 0 exited with code 3");
    let table = scene.gpuctl(&["get", "jobs"]).ok();
    assert!(
        table.out.lines().nth(1).unwrap().contains("failed Error"),
        "{}",
        table.out
    );
}

#[test]
fn running_out_of_memory_is_the_reason() {
    let scene = Scene::with_nodes("oom", 2);
    scene.create(
        "a",
        &format!(
            "job: {{name: NAME, retries: 0}}\nresources: {{pool: POOL, gpu: 8, node_count: 2}}\n{}",
            ends(1, 137, ", SIM_REASON: OOMKilled")
        ),
    );
    let job = scene.until("a", "failed", Some("OOMKilled"));
    assert!(
        job["message"]
            .as_str()
            .unwrap()
            .ends_with("ran out of memory (exit code 137)"),
        "{job:#}"
    );
}

#[test]
fn a_job_whose_image_cannot_be_pulled_is_pending_and_holds_its_gpus() {
    let scene = Scene::with_nodes("pull", 1);
    scene.create(
        "a",
        "environment: {image: 'bad/image:missing'}\nresources: {pool: POOL, gpu: 8}",
    );
    let job = scene.until("a", "pending", Some("ImagePullBackOff"));
    assert_eq!(job["gpuHeld"], 8);
    let described = scene.gpuctl(&["describe", "job", "a"]).ok();
    assert!(
        described.out.contains("Back-off pulling image"),
        "{}",
        described.out
    );
    // The scheduler treats the node as full, too.
    scene.create("b", "resources: {pool: POOL, gpu: 1}");
    scene.until("b", "pending", Some("Unschedulable"));
}

#[test]
fn a_job_is_pending_during_a_slow_image_pull() {
    let scene = Scene::with_nodes("slow", 1);
    scene.create("a", "environment: {image: 'slow/image:pulling'}");
    let job = scene.until("a", "pending", Some("ContainerCreating"));
    assert_eq!(
        (job["gpuHeld"].as_u64(), job["startedAt"].is_null()),
        (Some(1), true)
    );
}

#[test]
fn an_unschedulable_job_shows_the_message_of_the_scheduler() {
    let scene = Scene::with_nodes("nofit", 1);
    scene.create("a", "resources: {pool: POOL, gpu: 9}");
    let job = scene.until("a", "pending", Some("Unschedulable"));
    assert!(
        job["message"]
            .as_str()
            .unwrap()
            .contains("Insufficient nvidia.com/gpu"),
        "{job:#}"
    );
    assert_eq!(
        (job["gpu"].as_u64(), job["gpuHeld"].as_u64()),
        (Some(9), Some(0))
    );
}

#[test]
fn an_evicted_rank_is_replaced_without_a_retry() {
    let scene = Scene::with_nodes("evicted", 1);
    scene.create("a", "job: {name: NAME, retries: 0}");
    scene.until("a", "running", None);
    let pod = scene.pods("a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let eviction = format!(
        r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{pod}","namespace":"evicted"}}}}"#
    );
    scene.admin.run_with(
        &[
            "create",
            "--raw",
            &format!("/api/v1/namespaces/evicted/pods/{pod}/eviction"),
            "-f",
            "-",
        ],
        &eviction,
    );
    // With no retries, a failure would end the job, but an eviction does not count as a failure.
    scene.get_until(&["pods", "-l", "gpuctl/job=a"], |pods| {
        items(pods).iter().any(|other| {
            other["metadata"]["name"] != pod.as_str() && other["status"]["phase"] == "Running"
        })
    });
    scene.until("a", "running", None);
}

#[test]
fn ranks_that_crash_together_have_their_own_retries() {
    let scene = Scene::with_nodes("crash", 1);
    scene.create(
        "a",
        &format!(
            "job: {{name: NAME, retries: 1}}\nresources: {{pool: POOL, gpu: 2, node_count: 4}}\n{}",
            ends(4, 1, "")
        ),
    );
    scene.until("a", "pending", Some("Restarting"));
    scene.until("a", "failed", Some("Error"));
    // With one shared retry, the job would end with the second failure, after at most four failed
    // pods. With one retry per rank, it ends when a rank has failed twice, perhaps before a slow
    // rank is retried.
    let pods = scene.pods("a");
    let failed = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Failed")
        .count();
    let mut tries = [0; 4];
    for pod in &pods {
        let rank = pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
            .as_str()
            .unwrap();
        tries[rank.parse::<usize>().unwrap()] += 1;
    }
    assert!(
        failed >= 5 && tries.iter().all(|count| (1..=2).contains(count)),
        "{failed} failed of {tries:?}"
    );
    assert_eq!(scene.get(&["job", "a"])["spec"]["backoffLimitPerIndex"], 1);
}

#[test]
fn incomplete_gangs_show_the_gpus_they_hold() {
    let scene = Scene::with_nodes("gangs", 2);
    // The taint decides which gang gets which node. Without it, the scheduler's back-off would
    // decide.
    scene
        .admin
        .run(&["taint", "node", "gangs-1", "gang=second:NoSchedule"]);
    let two_nodes = "resources: {pool: POOL, gpu: 8, node_count: 2}";
    scene.create("first", two_nodes);
    scene.until("first", "pending", Some("WaitingForPeers"));
    scene.create(
        "second",
        &format!("{two_nodes}\npod: {{tolerations: [{{key: gang, value: second}}]}}"),
    );
    let second = scene.until("second", "pending", Some("WaitingForPeers"));
    assert_eq!(
        (second["gpu"].as_u64(), second["gpuHeld"].as_u64()),
        (Some(16), Some(8))
    );
    assert!(
        second["message"]
            .as_str()
            .unwrap()
            .starts_with("1 of 2 pods are placed and hold 8 of 16 GPUs"),
        "{second:#}"
    );
    let first = scene.until("first", "pending", Some("WaitingForPeers"));
    assert_eq!(first["gpuHeld"], 8);
}

#[test]
fn a_refused_pod_is_reported_from_its_event() {
    let scene = Scene::with_nodes("refused", 1);
    scene.admin.apply(
        &serde_json::json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "refused"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}),
    );
    scene.get_until(&["resourcequota", "q"], |quota| {
        quota["status"]["hard"].is_object()
    });
    // One pod passes gpuctl's check, but a second one exceeds the quota.
    scene.create("a", "resources: {pool: POOL, gpu: 1, node_count: 2}");
    let job = scene.until("a", "pending", Some("QuotaExceeded"));
    assert!(
        job["message"]
            .as_str()
            .unwrap()
            .contains("exceeded quota: q"),
        "{job:#}"
    );
}

#[test]
fn a_suspended_job_is_paused() {
    let scene = Scene::with_nodes("paused", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    scene.admin.run(&[
        "patch",
        "job",
        "a",
        "-n",
        "paused",
        "--type=merge",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ]);
    let job = scene.until("a", "paused", None);
    assert_eq!(job["reason"], serde_json::Value::Null);
}

/// Sets the status of a job's only pod, as a kubelet would.
fn report(scene: &Scene, namespace: &str, job: &str, status: &Value) -> Value {
    let pod = scene.pods(job)[0].clone();
    let patch = json!({"status": status}).to_string();
    let name = pod["metadata"]["name"].as_str().unwrap();
    scene.admin.run(&[
        "patch",
        "pod",
        name,
        "-n",
        namespace,
        "--subresource=status",
        "-p",
        &patch,
    ]);
    pod
}

#[test]
fn a_container_that_never_started_has_a_reason_and_no_start_time() {
    let scene = Scene::with_nodes("neverstarted", 1);
    scene.create("a", "job: {name: NAME, retries: 0}");
    scene.until("a", "running", None);
    let message =
        "failed to create containerd task: exec: \"no-such\": executable file not found in $PATH";
    let ended = json!({"exitCode": 128, "reason": "StartError", "message": message,
        "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "2026-01-31T10:00:00Z"});
    let container = json!({"name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}});
    report(
        &scene,
        "neverstarted",
        "a",
        &json!({"phase": "Failed", "containerStatuses": [container]}),
    );
    let job = scene.until("a", "failed", Some("StartError"));
    assert_eq!(job["message"], format!("rank 0 could not start: {message}"));
    assert!(job["startedAt"].is_null(), "{job:#}");
    scene
        .gpuctl(&["logs", "a"])
        .ok()
        .says("no log: rank 0 could not start");
    let described = scene.gpuctl(&["describe", "job", "a", "-o", "json"]).ok();
    assert!(!described.out.contains("1970-"), "{}", described.out);
}

#[test]
fn an_eviction_shows_its_reason() {
    let scene = Scene::with_nodes("evictedbynode", 1);
    scene.create("a", "job: {name: NAME, retries: 0}");
    scene.until("a", "running", None);
    let message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ";
    report(
        &scene,
        "evictedbynode",
        "a",
        &json!({"phase": "Failed", "reason": "Evicted", "message": message}),
    );
    let job = scene.until("a", "failed", Some("Evicted"));
    assert_eq!(
        job["message"],
        format!(
            "rank 0 was evicted by its node: {}",
            message.trim_end_matches(". ")
        )
    );
}

#[test]
fn a_failed_mount_is_the_reason() {
    let scene = Scene::with_nodes("failedmount", 1);
    scene.create("a", "environment: {image: 'slow/image:pulling'}");
    scene.until("a", "pending", Some("ContainerCreating"));
    let pod = scene.pods("a")[0].clone();
    let event = |name: &str, reason: &str, message: &str, warning: bool| {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "failedmount"},
            "type": if warning { "Warning" } else { "Normal" }, "reason": reason, "message": message,
            "firstTimestamp": "2099-01-31T10:00:00Z", "lastTimestamp": "2099-01-31T10:00:00Z", "count": 1,
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "namespace": "failedmount",
                "uid": pod["metadata"]["uid"]}});
        scene
            .admin
            .run_with(&["create", "-f", "-"], &event.to_string());
    };
    // All events happened in the same second, and they are not in alphabetical order.
    event("a.1", "Pulled", "z was first", false);
    event(
        "a.2",
        "FailedMount",
        "hostPath type check failed: /data is not a directory",
        true,
    );
    event("a.3", "Killing", "a was last", false);
    let job = scene.until("a", "pending", Some("FailedMount"));
    assert_eq!(
        job["message"],
        "hostPath type check failed: /data is not a directory"
    );
    let events = scene.gpuctl(&["events", "a", "-o", "json"]).ok().json();
    let messages: Vec<String> = items(&events)
        .iter()
        .map(|event| event["message"].to_string())
        .collect();
    let place = |text: &str| {
        messages
            .iter()
            .position(|message| message.contains(text))
            .unwrap()
    };
    assert!(
        place("z was first") < place("hostPath") && place("hostPath") < place("a was last"),
        "{messages:?}"
    );
}
