//! Tests `get jobs`: filters, sorting, paging, output formats and watching.

use std::io::{BufRead, BufReader};

use gpuctl_sandbox::eventually;
use serde_json::Value;

use crate::support::{Scene, cluster};

#[test]
fn get_jobs_filters_sorts_pages_and_formats() {
    let scene = Scene::with_nodes("lists", 1);
    for (name, gpus) in [("a", 1), ("b", 3), ("c", 2)] {
        scene.create(name, &format!("resources: {{pool: POOL, gpu: {gpus}}}"));
    }
    scene.create("stuck", "resources: {pool: POOL, gpu: 9}");
    for name in ["a", "b", "c"] {
        scene.until(name, "running", None);
    }
    scene.until("stuck", "pending", Some("Unschedulable"));
    let names = |arguments: &[&str]| {
        let run = scene
            .gpuctl(&[&["get", "jobs", "--no-progress", "-o", "name"], arguments].concat())
            .ok();
        run.out
            .lines()
            .map(|line| line.trim_start_matches("lists/").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["a", "b", "c", "stuck"]);
    assert_eq!(names(&["--status", "pending"]), ["stuck"]);
    assert_eq!(names(&["--kind", "inference"]), Vec::<String>::new());
    assert_eq!(
        names(&["--pool", "lists", "--mine", "--sort-by", "gpu"]),
        ["stuck", "b", "c", "a"]
    );
    assert_eq!(names(&["--pool", "elsewhere"]), Vec::<String>::new());
    assert_eq!(names(&["--page", "2", "--page-size", "3"]), ["stuck"]);
    assert_eq!(names(&["--page", "9"]), Vec::<String>::new());
    let page = scene
        .gpuctl(&["get", "jobs", "--page-size", "2", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (
            page["total"].as_u64(),
            page["items"].as_array().map(Vec::len)
        ),
        (Some(4), Some(2))
    );

    let table = scene.gpuctl(&["get", "jobs"]).ok().out;
    assert_eq!(
        table
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        [
            "NAME", "KIND", "STATUS", "GPU", "TYPE", "UTIL", "POOL", "AGE", "PROGRESS"
        ]
    );
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    assert_eq!(
        scene
            .gpuctl(&["get", "jobs", "--no-headers"])
            .ok()
            .out
            .lines()
            .count(),
        4
    );
    let csv = scene.gpuctl(&["get", "jobs", "-o", "csv"]).ok().out;
    let row: Vec<&str> = csv.lines().nth(2).unwrap().split(',').collect();
    assert_eq!(
        &row[..6],
        ["lists", "b", "training", "running", "3", "a100-80g"]
    );
    let wide = scene.gpuctl(&["get", "jobs", "-o", "wide"]).ok().out;
    assert!(
        wide.lines().next().unwrap().ends_with("MESSAGE")
            && wide.contains("Insufficient nvidia.com/gpu"),
        "{wide}"
    );
    let yaml = scene.gpuctl(&["get", "jobs", "-o", "yaml"]).ok().out;
    assert!(yaml.starts_with("total: 4\nitems:\n"), "{yaml}");
    // The same input must give the same bytes. The list omits the pending job, because the
    // scheduler's message counts all nodes of the cluster and other tests add nodes.
    let json = || {
        scene
            .gpuctl(&["get", "jobs", "a", "b", "c", "--no-progress", "-o", "json"])
            .ok()
            .out
    };
    assert_eq!(json(), json());
}

#[test]
fn missing_names_do_not_hide_the_others() {
    let scene = Scene::with_nodes("partly", 1);
    scene.create("a", "");
    let list = |arguments: &[&str]| scene.gpuctl(&[&["get"], arguments].concat()).exits(4);
    let run = list(&["jobs", "a", "nosuch", "-o", "name"]).says("job `nosuch` does not exist");
    assert_eq!(run.out, "partly/a\n");
    let run = list(&["jobs", "a", "nosuch", "-o", "json"]);
    assert_eq!(run.json()["total"], 1);
    let run =
        list(&["nodes", "partly-0", "nosuch", "-o", "name"]).says("node `nosuch` does not exist");
    assert_eq!(run.out, "partly-0\n");
    assert!(
        list(&["pools", "partly", "nosuch", "-o", "name"])
            .out
            .contains("partly")
    );
    let run = list(&["jobs", "nosuch", "neither"])
        .says("job `nosuch` does not exist")
        .says("job `neither` does not exist");
    assert_eq!(run.out, "");
}

#[test]
fn an_empty_list_is_reported_on_stderr_only() {
    let scene = Scene::new("nothing");
    let run = scene.gpuctl(&["get", "jobs"]).ok();
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        ("", "no jobs found\n")
    );
}

#[test]
fn progress_is_read_from_the_log_of_the_first_rank() {
    let scene = Scene::with_nodes("progress", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    let pod = scene.pods("a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let progress =
        || scene.gpuctl(&["get", "jobs", "-o", "json"]).ok().json()["items"][0]["progress"].clone();
    assert_eq!(progress(), Value::Null);
    let mut log = cluster().pod_log("progress", &pod, "main");
    log.say("loading");
    log.say(" 65%|######5   | 650/1000 [10:00<05:23,  1.08it/s]");
    assert_eq!(progress(), 65);
    assert_eq!(
        scene
            .gpuctl(&["describe", "job", "a", "-o", "json"])
            .ok()
            .json()["progress"],
        65
    );
    assert!(
        scene
            .gpuctl(&["get", "jobs"])
            .ok()
            .out
            .lines()
            .nth(1)
            .unwrap()
            .ends_with("65%")
    );
}

#[test]
fn the_remaining_time_follows_from_the_rate_of_the_progress() {
    let scene = Scene::with_nodes("remaining", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    let pod = scene.pods("a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let list = || scene.gpuctl(&["get", "jobs", "-o", "json"]).ok().json()["items"][0].clone();
    let mut log = cluster().pod_log("remaining", &pod, "main");
    log.say("loading");
    assert_eq!(list()["remaining"], Value::Null, "no progress");
    // 1 % per minute up to 40 %: one hour remains.
    let now = jiff::Timestamp::now();
    for percent in 30_i64..=40 {
        let at = now - jiff::SignedDuration::from_mins(40 - percent);
        log.say_at(at, &format!("step {percent}/100 loss=1.2"));
    }
    let job = list();
    let seconds = |key: &str| job["remaining"][key].as_u64().unwrap_or_default();
    assert!(
        (3480..=3600).contains(&seconds("seconds")),
        "one minute passes at most: {job:#}"
    );
    assert!(
        seconds("lowSeconds") < seconds("seconds") && seconds("seconds") < seconds("highSeconds"),
        "{job:#}"
    );
    let described = scene.gpuctl(&["describe", "job", "a", "-o", "json"]).ok();
    assert!(described.json()["remaining"]["seconds"].is_u64());
    let startup = &described.json()["startup"];
    for stage in ["podsCreatedAt", "scheduledAt", "startedAt", "firstStepAt"] {
        assert!(startup[stage].is_string(), "{stage}: {startup:#}");
    }
    assert!(startup["admittedAt"].is_null(), "no queue: {startup:#}");
    let text = scene.gpuctl(&["describe", "job", "a"]).ok().out;
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("remaining "));
    assert!(line.is_some_and(|line| line.contains('–')), "{text}");
    assert!(
        text.contains("scheduled in ") && text.contains("first step "),
        "{text}"
    );
    let table = scene.gpuctl(&["get", "jobs"]).ok().out;
    assert!(
        table.lines().next().unwrap().ends_with("REMAINING"),
        "{table}"
    );
    let csv = scene.gpuctl(&["get", "jobs", "-o", "csv"]).ok().out;
    assert!(
        csv.lines()
            .next()
            .unwrap()
            .ends_with("progress_percent,remaining_seconds,message"),
        "{csv}"
    );
    // The training ran again from a checkpoint, and two values show no rate yet.
    log.say("step 20/100 loss=1.4");
    log.say("step 21/100 loss=1.4");
    assert_eq!(list()["remaining"], Value::Null);
    scene.gpuctl(&["pause", "a"]).ok();
    assert_eq!(list()["remaining"], Value::Null);
}

#[test]
fn a_piped_watch_prints_an_object_per_change() {
    let scene = Scene::with_nodes("watches", 1);
    let mut child = scene.start(&["get", "jobs", "-w", "-o", "json", "--no-progress"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    scene.create("a", "");
    let mut seen = Vec::new();
    let schema =
        jsonschema::draft202012::new(&gpuctl_view::program::answers::line("get-jobs").unwrap())
            .unwrap();
    let mut next = || -> Value {
        let line = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(schema.is_valid(&line), "{line:#}");
        line
    };
    while seen.last() != Some(&"running".to_owned()) {
        let job = next();
        assert_eq!(job["jobId"], "a");
        seen.push(job["status"].as_str().unwrap().to_owned());
    }
    scene.gpuctl(&["delete", "job", "a"]).ok();
    while next()["deleted"] != true {}
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_overview_can_be_watched() {
    let scene = Scene::with_nodes("overviewed", 1);
    let mut child = scene.start(&["get", "overview", "-w", "-o", "json"]);
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let first: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(
        first["gpuTotal"].as_u64().is_some_and(|total| total >= 8),
        "{first:#}"
    );
    // Adding a node prints another line.
    let more = gpuctl_sandbox::nodes::in_pool(
        gpuctl_sandbox::nodes::node(
            "overviewed-9",
            Some(crate::support::A100),
            &[(crate::support::GPU, 8)],
        ),
        "overviewed",
    );
    cluster().add_nodes(&[more]);
    let limit = std::time::Duration::from_secs(60);
    eventually("the watch prints the new node", limit, || {
        line.clear();
        out.read_line(&mut line).unwrap();
        let next: serde_json::Value = serde_json::from_str(&line).unwrap();
        if next["gpuTotal"].as_u64() > first["gpuTotal"].as_u64() {
            return Ok(());
        }
        Err(next)
    });
    child.kill().unwrap();
    child.wait().unwrap();
}
