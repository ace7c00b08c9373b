//! Tests that lists agree in their numbers, and that unknown numbers are not shown as zero.

use std::time::Duration;

use gpuctl_sandbox::Persona;
use serde_json::Value;

use crate::support::{Scene, items};

/// Reads the age in seconds from the first row of a list.
fn age_seconds(scene: &Scene, list: &str) -> i64 {
    let csv = scene.gpuctl(&["get", list, "-o", "csv"]).ok().out;
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (titles, cells) = (lines.next().unwrap(), lines.next().unwrap());
    let column = titles.iter().position(|title| *title == "age_seconds");
    cells[column.unwrap()].parse().unwrap()
}

#[test]
fn lists_show_one_age_after_a_job_was_paused_and_resumed() {
    let scene = Scene::with_nodes("aged", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    std::thread::sleep(Duration::from_secs(4));
    scene.gpuctl(&["pause", "job", "a"]).ok();
    scene.until("a", "paused", None);
    scene.gpuctl(&["resume", "job", "a"]).ok();
    scene.until("a", "running", None);
    let job = age_seconds(&scene, "jobs");
    let workload = age_seconds(&scene, "workloads");
    assert!(job >= 4, "{job}");
    assert!((job..=job + 3).contains(&workload), "{job} and {workload}");
}

#[test]
fn fit_shows_no_zero_pods_to_a_user_who_may_not_list_nodes() {
    let scene = Scene::with_nodes("unfit", 1);
    scene.allow_edit(Persona::Alice);
    let alice = scene.seen_by(Persona::Alice);
    let file = scene.training("asked", "resources: {pool: POOL, gpu: 1}");
    let text = alice.gpuctl_with(&["fit", "-f", "-"], &file).out;
    assert!(
        text.contains("not known") && !text.contains(" 0 pods"),
        "{text}"
    );
    let document = alice
        .gpuctl_with(&["fit", "-f", "-", "-o", "json"], &file)
        .json();
    let fit = &document["items"][0];
    assert!(fit["podsNow"].is_null(), "{fit:#}");
    let has_capacity = |group: &&Value| group["cause"].is_null();
    for group in fit["nodes"].as_array().unwrap().iter().filter(has_capacity) {
        assert!(group["podsNow"].is_null(), "{fit:#}");
    }
}

#[test]
fn top_prints_jobs_and_no_zero_gpus_to_a_user_who_may_not_list_nodes() {
    let scene = Scene::with_nodes("untopped", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    scene.allow_edit(Persona::Carol);
    let carol = scene.seen_by(Persona::Carol);
    let off = ["--prometheus", "none", "top"];
    let top = carol.gpuctl(&[&off[..], &["jobs", "-o", "json"]].concat());
    let top = top.ok().json();
    assert_eq!(top["view"], "jobs");
    assert_eq!(items(&top)[0]["name"], "untopped/a");
    for key in ["gpuHeld", "gpuUtilization", "coverage"] {
        assert!(top[key].is_null(), "{key}: {top:#}");
    }
    // Other tests publish facts about nodes, which then replace the missing permission.
    let is_published = !top["nodes"].is_null();
    for key in ["nodes", "gpuTotal"] {
        let number = top[key].as_u64();
        assert_eq!(
            number.is_some_and(|count| count > 0),
            is_published,
            "{top:#}"
        );
    }
    if !is_published {
        carol
            .gpuctl(&off)
            .exits(5)
            .says("you are not allowed to list nodes");
    }
}
