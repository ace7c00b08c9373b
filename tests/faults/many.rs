//! Tests runs with many documents. All documents share the lists, objects are written concurrently,
//! and the report keeps the order of the documents.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::server::{Answer, Server, empty_list, status};

const DOCUMENTS: usize = 120;

/// Starts a server that accepts every object except the job `refused`, and answers the first
/// document last. The number is the highest count of concurrent writes.
fn accepting_server(name: &str, refused: &'static str) -> (Server, Arc<AtomicUsize>) {
    let max_writes = Arc::new(AtomicUsize::new(0));
    let (in_progress, maximum) = (AtomicUsize::new(0), Arc::clone(&max_writes));
    let server = Server::start(name, move |request, _| {
        let (method, path) = request.split_once(' ').unwrap();
        match method {
            "GET" if path.contains("labelSelector") || path.contains("resourcequotas") => {
                return empty_list();
            }
            "GET" if path.contains("/nodes") || path.contains("gpuctl-facts") => {
                return status(403, "Forbidden", "forbidden");
            }
            "GET" => return status(404, "NotFound", "not found"),
            "DELETE" => return Answer::Json(200, json!({})),
            "POST" => return Answer::Json(201, json!({"status": {"userInfo": {"username": "u"}}})),
            _ => {}
        }
        let object = path.split('?').next().unwrap().rsplit('/').next().unwrap();
        if path.contains("dryRun") {
            return Answer::Headers(
                201,
                "Warning: 299 - \"the policy audits this object\"\r\n",
                json!({"metadata": {"name": object}}),
            );
        }
        if path.contains("/jobs/") && object == refused {
            return status(422, "Invalid", "a new policy denies this job");
        }
        maximum.fetch_max(
            in_progress.fetch_add(1, Ordering::SeqCst) + 1,
            Ordering::SeqCst,
        );
        // The writes are slow, so they overlap, and the first document finishes last.
        sleep(Duration::from_millis(if object == "t-0" {
            300
        } else {
            20
        }));
        in_progress.fetch_sub(1, Ordering::SeqCst);
        Answer::Json(
            201,
            json!({"metadata": {"name": object, "uid": format!("uid-{object}")}}),
        )
    });
    let document = |index: usize| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: t-{index}}}\nenvironment: {{image: i}}\n"
        )
    };
    std::fs::write(
        server.folder.join("many.yaml"),
        (0..DOCUMENTS)
            .map(document)
            .collect::<Vec<_>>()
            .join("---\n"),
    )
    .unwrap();
    (server, max_writes)
}

#[test]
fn many_documents_are_written_concurrently_and_reported_in_order() {
    let (server, max_writes) = accepting_server("many", "none");
    let run = server.gpuctl(&[
        "create",
        "-f",
        server.folder.join("many.yaml").to_str().unwrap(),
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let reported: Vec<&str> = run
        .out
        .lines()
        .filter(|line| line.starts_with("training/"))
        .collect();
    let expected: Vec<String> = (0..DOCUMENTS)
        .map(|index| format!("training/t-{index} "))
        .collect();
    assert_eq!(reported.len(), DOCUMENTS, "{}", run.out);
    assert!(
        reported
            .iter()
            .zip(&expected)
            .all(|(line, expected)| line.starts_with(expected.as_str())),
        "{}",
        run.out
    );
    let (seen, max_writes) = (server.seen(), max_writes.load(Ordering::SeqCst));
    assert!(
        (2..=16).contains(&max_writes),
        "{max_writes} concurrent writes"
    );
    let lists = |path: &str| {
        seen.iter()
            .filter(|request| request.starts_with(&format!("GET {path}?")))
            .count()
    };
    // A selector has at most fifty names.
    assert_eq!(lists("/api/v1/namespaces/team-a/pods"), 3, "{seen:#?}");
    assert_eq!(lists("/apis/batch/v1/namespaces/team-a/jobs"), 3);
    assert_eq!(lists("/api/v1/namespaces/team-a/resourcequotas"), 1);
    let count = |start: &str, part: &str| {
        seen.iter()
            .filter(|request| request.starts_with(start) && request.contains(part))
            .count()
    };
    assert_eq!(
        count("PATCH /apis/batch/v1/namespaces/team-a/jobs/", "dryRun"),
        DOCUMENTS
    );
    assert_eq!(
        count("PATCH /apis/batch/v1/namespaces/team-a/jobs/", ""),
        2 * DOCUMENTS
    );
    assert_eq!(
        count("GET /apis/batch/v1/namespaces/team-a/jobs/", ""),
        0,
        "objects that a dry run created do not exist yet, so no GET is needed"
    );
}

#[test]
fn a_failing_document_does_not_stop_the_others() {
    let (server, _) = accepting_server("many-but-one", "t-7");
    let run = server.gpuctl(&[
        "create",
        "-f",
        server.folder.join("many.yaml").to_str().unwrap(),
        "-o",
        "json",
    ]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("training/t-7 failed"), "{}", run.err);
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let names: Vec<&str> = answer["success"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["jobId"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (0..DOCUMENTS)
        .filter(|index| *index != 7)
        .map(|index| format!("t-{index}"))
        .collect();
    assert_eq!(names, expected);
    let deleted: Vec<String> = server
        .seen()
        .into_iter()
        .filter(|request| request.starts_with("DELETE"))
        .collect();
    assert_eq!(deleted, ["DELETE /api/v1/namespaces/team-a/services/t-7"]);
}

/// Closes stdout early, as `| head -1` does.
#[test]
fn a_closed_stdout_does_not_stop_writes() {
    let (server, _) = accepting_server("many-unread", "none");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
    command
        .env("KUBECONFIG", server.folder.join("config"))
        .env("GPUCTL_PROMETHEUS", "none");
    command
        .args(["create", "-f"])
        .arg(server.folder.join("many.yaml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = server.seen();
    let written = |path: &str| {
        seen.iter()
            .filter(|request| {
                request.starts_with("PATCH")
                    && request.contains(path)
                    && !request.contains("dryRun")
            })
            .count()
    };
    // Each Service is written twice, the second time with its owner reference.
    assert_eq!(
        (written("/jobs/"), written("/services/")),
        (DOCUMENTS, 2 * DOCUMENTS)
    );
}

#[test]
fn a_priority_class_unknown_to_admission_is_retried() {
    let posts = AtomicUsize::new(0);
    let server = Server::start("many-class", move |request, _| {
        let (method, path) = request.split_once(' ').unwrap();
        match method {
            "GET" if path.contains("labelSelector") || path.contains("resourcequotas") => {
                empty_list()
            }
            "GET" if path.contains("/priorityclasses/") => {
                Answer::Json(200, json!({"metadata": {"name": "x"}}))
            }
            "GET" if path.contains("/nodes") || path.contains("gpuctl-facts") => {
                status(403, "Forbidden", "forbidden")
            }
            "GET" => status(404, "NotFound", "not found"),
            "POST" if path.contains("/pods") && posts.fetch_add(1, Ordering::SeqCst) < 3 => status(
                403,
                "Forbidden",
                "pods \"a\" is forbidden: no PriorityClass with name gpuctl-high was found",
            ),
            "POST" => Answer::Json(201, json!({"status": {"userInfo": {"username": "u"}}})),
            _ => Answer::Json(201, json!({"metadata": {"name": "a", "uid": "1"}})),
        }
    });
    let yaml = server.folder.join("a.yaml");
    std::fs::write(
        &yaml,
        "kind: training\nversion: v0.1\njob: {name: a, priority: high}\nenvironment: {image: i}\n",
    )
    .unwrap();
    let run = server.gpuctl(&["create", "-f", yaml.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(!run.err.contains("priority"), "{}", run.err);
    assert_eq!(
        server
            .seen()
            .iter()
            .filter(|request| request.starts_with("POST /api/v1/namespaces/team-a/pods"))
            .count(),
        4
    );
}

#[test]
fn a_warning_common_to_all_documents_is_printed_once() {
    let (server, _) = accepting_server("many-warned", "none");
    let run = server.gpuctl(&[
        "create",
        "-f",
        server.folder.join("many.yaml").to_str().unwrap(),
    ]);
    assert_eq!(
        run.err.matches("the policy audits this object").count(),
        1,
        "{}",
        run.err
    );
}
