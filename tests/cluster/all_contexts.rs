//! Tests `--all-contexts`: lists of several clusters, contexts that cannot be read, and options
//! that select one cluster.

use std::path::{Path, PathBuf};

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};
use crate::support::{Scene, cluster, file, items};

const DEAD: &str = "https://127.0.0.1:1";

/// Writes a kubeconfig with these contexts, as (name, cluster, user). The clusters are `near` and
/// `far`, which are two addresses of the same API server, and `dead`.
fn kubeconfig(name: &str, contexts: &[(&str, &str, &str)]) -> PathBuf {
    let text = std::fs::read_to_string(cluster().kubeconfig(Persona::Admin)).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let near = config["clusters"][0]["cluster"].clone();
    let server = near["server"].as_str().unwrap();
    let mut far = near.clone();
    far["server"] = json!(server.replace("127.0.0.1", "localhost"));
    assert_ne!(near, far);
    let admin = config["users"][0]["user"].clone();
    config["clusters"] = json!([
        {"name": "near", "cluster": near},
        {"name": "far", "cluster": far},
        {"name": "dead", "cluster": {"server": DEAD}},
    ]);
    config["users"] = json!([
        {"name": "admin", "user": admin},
        {"name": "carol", "user": {"token": cluster().token(Persona::Carol)}},
        {"name": "expired", "user": {"token": "expired"}},
    ]);
    let context = |(name, cluster, user): &(&str, &str, &str)| json!({"name": name, "context": {"cluster": cluster, "user": user}});
    config["contexts"] = contexts.iter().map(context).collect();
    config["current-context"] = json!(contexts[0].0);
    file(&format!("{name}.kubeconfig"), &config.to_string())
}

fn ask(kubeconfig: &Path, arguments: &[&str]) -> Run {
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", kubeconfig)
        .args(arguments)
        .arg("--all-contexts");
    run(command, "")
}

/// The contexts of the rows.
fn contexts(rows: &[Value]) -> Vec<&str> {
    rows.iter()
        .map(|row| row["context"].as_str().unwrap())
        .collect()
}

#[test]
fn lists_have_the_rows_of_all_contexts_and_skip_broken_ones() {
    let scene = Scene::with_nodes("contexts", 2);
    scene.create("spread", "");
    let config = kubeconfig(
        "contexts",
        &[
            ("one", "near", "admin"),
            ("gone", "dead", "admin"),
            ("two", "far", "admin"),
            // The same server as `one`, so it is not read a second time.
            ("same", "near", "carol"),
        ],
    );
    let list = |arguments: &[&str]| {
        ask(&config, arguments)
            .ok()
            .says("skipping context gone: ")
            .says(DEAD)
    };
    let jobs = ["get", "jobs", "-n", scene.name];
    let with = |options: &[&'static str]| [&jobs[..], options].concat();
    let table = list(&jobs)
        .says("context one is read once, because these contexts have the same server: same");
    let lines: Vec<&str> = table.out.lines().collect();
    assert!(lines[0].starts_with("CONTEXT NAME"), "{}", table.out);
    assert!(lines[1].starts_with("one "), "{}", table.out);
    assert!(lines[2].starts_with("two "), "{}", table.out);
    let document = list(&with(&["-o", "json"])).json();
    assert_eq!(document["total"], 2);
    assert_eq!(contexts(&items(&document)), ["one", "two"]);
    assert_eq!(
        list(&with(&["-o", "name"])).out,
        "one/contexts/spread\ntwo/contexts/spread\n"
    );
    let csv = list(&with(&["-o", "csv"])).out;
    assert!(csv.starts_with("context,namespace,name,"), "{csv}");
    assert_eq!(
        list(&with(&["-o", "jsonpath={.items[*].context}"])).out,
        "one two"
    );
    let columns = list(&with(&["-o", "custom-columns=C:.context,J:.jobId"])).out;
    assert_eq!(columns, "C   J\none spread\ntwo spread\n");
    // A page is selected after the lists are merged.
    let page = list(&with(&[
        "--page",
        "2",
        "--page-size",
        "1",
        "--sort-by",
        "name",
        "-o",
        "json",
    ]))
    .json();
    assert_eq!(page["total"], 2);
    assert_eq!(contexts(&items(&page)), ["two"]);
    // Without the option, no row names a context.
    let plain = scene.gpuctl(&["get", "jobs", "-o", "json"]).ok().json();
    assert_eq!(plain["items"][0].get("context"), None);
    list(&["get", "job", "-n", scene.name, "spread", "-o", "json"]);
    ask(&config, &["get", "job", "-n", scene.name, "nosuch"])
        .exits(4)
        .says("job `nosuch` does not exist in any context that was read");
}

#[test]
fn capacity_of_all_contexts_has_a_total() {
    // Both contexts lead to the same cluster, so totals count its nodes twice.
    let scene = Scene::with_nodes("totals", 2);
    let config = kubeconfig(
        "totals",
        &[("one", "near", "admin"), ("two", "far", "admin")],
    );
    let document = |arguments: &[&str]| {
        ask(&config, &[arguments, &["-o", "json"]].concat())
            .ok()
            .json()
    };
    let nodes = document(&["get", "nodes", "--pool", scene.name]);
    assert_eq!(nodes["total"], 4);
    assert_eq!(contexts(&items(&nodes)), ["one", "one", "two", "two"]);
    let first = ask(
        &config,
        &[
            "get",
            "nodes",
            "--pool",
            scene.name,
            "--sort-by",
            "name",
            "-o",
            "name",
        ],
    )
    .ok();
    assert_eq!(
        first.out,
        "one/totals-0\ntwo/totals-0\none/totals-1\ntwo/totals-1\n"
    );
    let devices = document(&["get", "nodes", "--pool", scene.name, "--gpu-detail"]);
    assert_eq!(contexts(&items(&devices)), ["one", "one", "two", "two"]);
    let labels = document(&[
        "get",
        "nodes",
        "--pool",
        scene.name,
        "--label",
        "gpuctl/pool",
    ]);
    assert_eq!(contexts(&items(&labels)), ["one", "one", "two", "two"]);
    ask(&config, &["get", "node", "nosuch"])
        .exits(4)
        .says("node `nosuch` does not exist in any context that was read");
    let free = document(&["free", "--pool", scene.name]);
    assert_eq!(contexts(&items(&free)), ["one", "two"]);
    // 2 contexts with 2 nodes of 8 free GPUs each.
    assert_eq!(free["sum"]["gpuTotal"], 32);
    assert_eq!(free["sum"]["gpuFree"], 32);
    let text = ask(&config, &["free", "--pool", scene.name, "--slots", "16"])
        .ok()
        .out;
    assert!(text.starts_with("CONTEXT TYPE"), "{text}");
    assert!(text.contains("\ntotal "), "{text}");
    assert!(
        text.contains("context two: a100-80g: 1 job of 16 fits now"),
        "{text}"
    );
    let names = ask(&config, &["free", "--pool", scene.name, "-o", "name"]).ok();
    assert_eq!(names.out, "one/a100-80g\ntwo/a100-80g\n");
    let overview = document(&["get", "overview"]);
    let rows = items(&overview);
    assert_eq!(contexts(&rows), ["one", "two"]);
    for number in ["totalNodes", "gpuTotal", "gpuAllocated"] {
        let sum: u64 = rows.iter().map(|row| row[number].as_u64().unwrap()).sum();
        assert_eq!(overview["sum"][number], sum, "{number}");
    }
    let table = ask(&config, &["get", "overview"]).ok().out;
    assert!(table.starts_with("CONTEXT NODES"), "{table}");
    assert!(table.lines().last().unwrap().starts_with("total "));
}

#[test]
fn workloads_of_all_contexts_are_one_list() {
    let scene = Scene::with_nodes("both", 1);
    scene.create("work", "");
    let config = kubeconfig("both", &[("one", "near", "admin"), ("two", "far", "admin")]);
    let workloads = ["get", "workloads", "-n", scene.name];
    let list = ask(&config, &[&workloads[..], &["-o", "json"]].concat())
        .ok()
        .json();
    assert_eq!(list["total"], 2);
    assert_eq!(contexts(list["data"].as_array().unwrap()), ["one", "two"]);
    let table = ask(&config, &workloads).ok().out;
    assert!(table.starts_with("CONTEXT NAMESPACE"), "{table}");
    let names = ask(&config, &[&workloads[..], &["-o", "name"]].concat()).ok();
    assert!(names.out.starts_with("one/both/"), "{}", names.out);
}

#[test]
fn a_context_without_permission_is_skipped_and_the_first_failure_decides() {
    let scene = Scene::with_nodes("refusing", 1);
    let partly = kubeconfig(
        "refusing",
        &[("one", "near", "admin"), ("carol", "far", "carol")],
    );
    scene.create("seen", "");
    let run = ask(&partly, &["get", "jobs", "-n", scene.name, "-o", "json"])
        .ok()
        .says("skipping context carol: ");
    assert_eq!(contexts(&items(&run.json())), ["one"]);
    let expired = kubeconfig(
        "expired",
        &[("one", "near", "admin"), ("old", "far", "expired")],
    );
    ask(&expired, &["get", "jobs", "-n", scene.name])
        .ok()
        .says("skipping context old: ");
    // No context can be read: the exit code is that of the first.
    let unreadable = |name, contexts: &[(&str, &str, &str)], code| {
        let config = kubeconfig(name, contexts);
        let run = ask(&config, &["get", "jobs", "-n", scene.name, "-o", "json"])
            .exits(code)
            .says("none of the 2 contexts can be read");
        assert_eq!(run.out, "");
    };
    let (gone, old) = (("gone", "dead", "admin"), ("old", "near", "expired"));
    unreadable("unreachable-first", &[gone, old], 6);
    unreadable("expired-first", &[old, gone], 5);
}

#[test]
fn options_for_one_cluster_are_refused() {
    let scene = Scene::new("onlyone");
    let config = kubeconfig(
        "onlyone",
        &[("one", "near", "admin"), ("two", "far", "admin")],
    );
    let jobs = ["get", "jobs", "-n", scene.name];
    let refused = |options: &[&'static str]| {
        ask(&config, &[&jobs[..], options].concat())
            .exits(2)
            .says("cannot be used together");
    };
    refused(&["--context", "one"]);
    refused(&["--cluster", "near"]);
    refused(&["--server", DEAD]);
    refused(&["--user", "admin"]);
    refused(&["--token", "secret"]);
    refused(&["-w"]);
    refused(&["--at", "1h"]);
    ask(&config, &["get", "overview", "-w"])
        .exits(2)
        .says("cannot be used together");
    ask(&config, &["get", "nodes", "--blame", "1d"])
        .exits(2)
        .says("cannot be used together");
    ask(&config, &[&jobs[..], &["-o", "spec"]].concat())
        .exits(2)
        .says("`-o spec` cannot be combined with `--all-contexts`");
    ask(&config, &[&jobs[..], &["--prometheus", DEAD]].concat())
        .exits(2)
        .says("`--all-contexts` cannot be combined with a single Prometheus address");
}
