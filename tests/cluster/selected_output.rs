//! Tests `-o jsonpath`, `-o custom-columns`, and the formats that every list has.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::support::{Scene, items};

#[test]
fn jsonpath_selects_from_the_document_that_json_prints() {
    let scene = Scene::with_nodes("selected-output", 1);
    scene.create("a", "");
    scene.create("b", "resources: {pool: selected-output, gpu: 2}");
    for name in ["a", "b"] {
        scene.until(name, "running", None);
    }
    let jobs = |template: &str| {
        let output = format!("jsonpath={template}");
        let run = scene.gpuctl(&[
            "get",
            "jobs",
            "--no-progress",
            "--sort-by",
            "name",
            "-o",
            &output,
        ]);
        run.ok().out
    };
    assert_eq!(jobs("{.items[*].jobId}"), "a b");
    assert_eq!(
        jobs("{.total} in {.items[0].namespace}"),
        "2 in selected-output"
    );
    assert_eq!(
        jobs(r#"{range .items[*]}{.jobId}{"\t"}{.gpuHeld}{"\n"}{end}"#),
        "a\t1\nb\t2\n"
    );
    assert_eq!(jobs("{.items[?(@.gpu>1)].jobId}"), "b");
    assert_eq!(jobs(r#"{.items[?(@.status=="failed")].jobId}"#), "");
    assert_eq!(jobs("{.items[-1].jobId}{.items[*].nosuch}"), "b");
    assert_eq!(jobs("{.items[*]['jobId','kind']}"), "a b training training");
    let one = scene.gpuctl(&["describe", "job", "a", "-o", "jsonpath={.status}"]);
    assert_eq!(one.ok().out, "running");
    let whole = scene
        .gpuctl(&["describe", "job", "a", "-o", "jsonpath={@}"])
        .ok();
    let selected: Value = serde_json::from_str(&whole.out).expect("an object is JSON");
    assert_eq!(selected["jobId"], "a");
}

#[test]
fn mistakes_in_templates_name_their_position_before_a_request_is_sent() {
    let scene = Scene::new("templates");
    let wrong = |output: &str, text: &str| {
        scene
            .gpuctl(&["get", "jobs", "-o", output])
            .exits(2)
            .says(text);
    };
    wrong("jsonpath={.items[*", "`[` has no `]` at character 8");
    wrong(
        "jsonpath={.items[?(@.jobId=~/x/)]}",
        "no regular expressions",
    );
    wrong("jsonpath=", "expected a template");
    wrong("custom-columns=NAME", "expected TITLE:.field, found `NAME`");
    wrong("custom-columns=N:.a[x]", "`x` is not an index");
    wrong(
        "jsonpth={.a}",
        "possible values: table, wide, json, yaml, name, csv, jsonpath=TEMPLATE",
    );
    // As with kubectl, an index that does not exist is an error of this run.
    let run = scene.gpuctl(&["get", "jobs", "-o", "jsonpath={.items[0].jobId}"]);
    let run = run
        .exits(1)
        .says("index 0 is out of bounds of a list of length 0");
    assert_eq!(run.out, "");
    assert!(run.err.contains("error:"), "messages are text: {}", run.err);
}

#[test]
fn custom_columns_show_fields_of_every_document() {
    let scene = Scene::with_nodes("columns", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    let columns = |arguments: &[&str], spec: &str| {
        let output = format!("custom-columns={spec}");
        scene.gpuctl(&[arguments, &["-o", &output]].concat()).ok()
    };
    let jobs = columns(
        &["get", "jobs"],
        "NAME:.jobId,GPU:{.gpu},QUEUE:queue,X:.a.b",
    );
    assert_eq!(jobs.out, "NAME GPU QUEUE  X\na    1   <none> <none>\n");
    let misspelled = columns(&["get", "jobs", "--no-headers"], "NAME:.jobid");
    assert_eq!(misspelled.out, "<none>\n");
    misspelled
        .says("the output has no field `jobid`")
        .says("did you mean `.jobId`?");
    let one = columns(&["describe", "job", "a"], "NAME:.jobId");
    assert_eq!(one.out, "NAME\na\n");
    let free = columns(
        &["free", "--pool", "columns"],
        "TYPE:.gpuType,FREE:.gpuFree",
    );
    assert_eq!(free.out, "TYPE     FREE\na100-80g 7\n");
}

#[test]
fn a_watch_ends_the_line_of_each_change() {
    let scene = Scene::with_nodes("lines", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    let template = "jsonpath={.jobId}={.status}";
    let mut watch = scene.start(&["get", "jobs", "-w", "--no-progress", "-o", template]);
    let mut line = String::new();
    let output = watch.stdout.take().expect("stdout is piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    watch.kill().expect("the watch still runs");
    watch.wait().expect("the watch ends");
    assert_eq!(line, "a=running\n");
}

#[test]
fn lists_have_names_and_csv() {
    let scene = Scene::with_nodes("formats", 1);
    let out = |words: &[&str]| scene.gpuctl(words).ok().out;
    let free = ["free", "--pool", "formats"];
    let with = |format: &'static str| [&free[..], &["-o", format]].concat();
    assert_eq!(out(&with("name")), "a100-80g\n");
    let csv = out(&with("csv"));
    assert!(
        csv.starts_with("gpuType,domain,exclusivePool,gpuTotal,gpuFree,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 2);
    let json = scene.gpuctl(&with("json")).ok().json();
    assert_eq!((items(&json).len(), &json["total"]), (1, &1.into()));
    let clusters = out(&["get", "clusters"]);
    assert_eq!(out(&["get", "clusters", "-o", "name"]), clusters);
    assert_eq!(out(&["get", "clusters", "-o", "text"]), clusters);
    assert_eq!(
        out(&["get", "clusters", "-o", "csv"]),
        format!("name\n{clusters}")
    );
    let csv = ["get", "clusters", "-o", "csv", "--no-headers"];
    assert_eq!(out(&csv), clusters);
    let all = out(&["get", "clusters", "-o", "jsonpath={[*]}"]);
    assert_eq!(all.replace(' ', "\n") + "\n", clusters);
}
