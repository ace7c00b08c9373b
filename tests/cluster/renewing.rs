//! Tests `gpuctl restart`: every kind of job gets new pods, and a restart does not use up retries.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::support::Scene;

fn uids(scene: &Scene, job: &str) -> Vec<(String, Value)> {
    let mut pods: Vec<_> = scene
        .pods(job)
        .iter()
        .filter(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && !matches!(pod["status"]["phase"].as_str(), Some("Failed"))
        })
        .map(|pod| {
            let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
            (
                index.as_str().unwrap_or_default().to_owned(),
                pod["metadata"]["uid"].clone(),
            )
        })
        .collect();
    pods.sort_by(|a, b| a.0.cmp(&b.0));
    pods
}

/// Waits until the job runs with this number of new pods.
fn wait_for_new_pods(
    scene: &Scene,
    job: &str,
    before: &[(String, Value)],
    new: usize,
) -> Vec<(String, Value)> {
    let what = format!("{job} has {new} new pods; before: {before:?}");
    eventually(&what, Duration::from_secs(90), || {
        let now = uids(scene, job);
        let fresh = now.iter().filter(|one| !before.contains(one)).count();
        if now.len() == before.len() && fresh == new && scene.job(job)["status"] == "running" {
            return Ok(now);
        }
        Err(now)
    })
}

#[test]
fn restarted_ranks_get_new_pods_without_costing_a_retry() {
    let scene = Scene::with_nodes("renewed", 2);
    scene.create(
        "pair",
        "job: {name: pair, retries: 0}\nresources: {pool: renewed, gpu: 1, node_count: 2}",
    );
    scene.until("pair", "running", None);
    let first = uids(&scene, "pair");
    let restarted = scene.gpuctl(&["restart", "pair", "--rank", "1"]).ok();
    assert_eq!(
        restarted.out,
        "pair: rank 1 gets a new pod; the eviction does not count as a retry\n"
    );
    let second = wait_for_new_pods(&scene, "pair", &first, 1);
    assert_eq!((&second[0], second[1] == first[1]), (&first[0], false));
    let restarted = scene
        .gpuctl(&["restart", "job", "pair", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&restarted["status"], &restarted["replicas"]),
        (&json!("restarting"), &json!(2)),
        "{restarted:#}"
    );
    wait_for_new_pods(&scene, "pair", &second, 2);
    let job = scene.get(&["job", "pair"]);
    assert_eq!(
        job["status"]["conditions"],
        Value::Null,
        "a lost retry would have failed the job: {job:#}"
    );
    scene
        .gpuctl(&["restart", "pair", "--rank", "2"])
        .exits(4)
        .says("job `pair` has ranks 0 to 1, not 2")
        .says("gpuctl describe job renewed/pair");
    scene.gpuctl(&["pause", "pair"]).ok();
    scene.until("pair", "paused", None);
    scene
        .gpuctl(&["restart", "pair"])
        .exits(1)
        .says("cannot restart job `pair`: it is paused")
        .says("gpuctl resume job renewed/pair");
    scene.gpuctl(&["restart", "nope"]).exits(4);
}

#[test]
fn services_roll_out_and_notebooks_get_a_new_pod() {
    let scene = Scene::with_nodes("rolled", 2);
    scene.serve("web", "vllm", 2, "");
    scene.until("web", "running", None);
    let before = uids(&scene, "web");
    assert_eq!(
        scene.gpuctl(&["restart", "web"]).ok().out,
        "web: replacing 2 pods, one at a time\n"
    );
    wait_for_new_pods(&scene, "web", &before, 2);
    // Applying the unchanged file neither restarts the service nor reverts the restart.
    let revision = scene.get(&["deployment", "web"])["metadata"]["generation"].clone();
    let same = scene
        .gpuctl_with(
            &["apply", "-f", "-", "-o", "json"],
            &scene.service("web", "vllm", 2, ""),
        )
        .ok()
        .json();
    assert_eq!(
        (
            &same["action"],
            &scene.get(&["deployment", "web"])["metadata"]["generation"]
        ),
        (&json!("unchanged"), &revision)
    );
    scene
        .gpuctl(&["restart", "web", "--rank", "0"])
        .exits(2)
        .says("it has no ranks");
    scene.notebook("book", "");
    scene.until("book", "running", None);
    let before = uids(&scene, "book");
    scene.gpuctl(&["restart", "book"]).ok();
    wait_for_new_pods(&scene, "book", &before, 1);
}
