//! Many documents of one run: what is asked for all of them at once, and what stays in their order
//! although the server answers in another.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::server::{Answer, Server, empty_list, status};

const DOCUMENTS: usize = 120;

/// A server that makes what it is asked for, the first document last. The number is of the writes
/// that it has in hand at most.
fn willing(name: &str, refuses: &'static str) -> (Server, Arc<AtomicUsize>) {
    let most = Arc::new(AtomicUsize::new(0));
    let (in_hand, highest) = (AtomicUsize::new(0), Arc::clone(&most));
    let server = Server::start(name, move |asked, _| {
        let (method, path) = asked.split_once(' ').unwrap();
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
                "Warning: 299 - \"a policy looks on\"\r\n",
                json!({"metadata": {"name": object}}),
            );
        }
        if path.contains("/jobs/") && object == refuses {
            return status(422, "Invalid", "a policy came into force meanwhile");
        }
        highest.fetch_max(in_hand.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep(Duration::from_millis(if object == "t-0" {
            300
        } else {
            20
        }));
        in_hand.fetch_sub(1, Ordering::SeqCst);
        Answer::Json(
            201,
            json!({"metadata": {"name": object, "uid": format!("uid-{object}")}}),
        )
    });
    let one = |index: usize| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: t-{index}}}\nenvironment: {{image: i}}\n"
        )
    };
    std::fs::write(
        server.folder.join("many.yaml"),
        (0..DOCUMENTS).map(one).collect::<Vec<_>>().join("---\n"),
    )
    .unwrap();
    (server, most)
}

#[test]
fn many_documents_are_looked_for_at_once_and_written_side_by_side_and_told_in_order() {
    let (server, most) = willing("many", "none");
    let run = server.gpuctl(&[
        "create",
        "-f",
        server.folder.join("many.yaml").to_str().unwrap(),
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let told: Vec<&str> = run
        .out
        .lines()
        .filter(|line| line.starts_with("training/"))
        .collect();
    let wanted: Vec<String> = (0..DOCUMENTS)
        .map(|index| format!("training/t-{index} "))
        .collect();
    assert_eq!(told.len(), DOCUMENTS, "{}", run.out);
    assert!(
        told.iter()
            .zip(&wanted)
            .all(|(line, wanted)| line.starts_with(wanted.as_str())),
        "{}",
        run.out
    );
    let (seen, most) = (server.seen(), most.load(Ordering::SeqCst));
    assert!((2..=16).contains(&most), "{most} writes at once");
    let lists = |path: &str| {
        seen.iter()
            .filter(|asked| asked.starts_with(&format!("GET {path}?")))
            .count()
    };
    // Fifty names in one selector.
    assert_eq!(lists("/api/v1/namespaces/team-a/pods"), 3, "{seen:#?}");
    assert_eq!(lists("/apis/batch/v1/namespaces/team-a/jobs"), 3);
    assert_eq!(lists("/api/v1/namespaces/team-a/resourcequotas"), 1);
    let each = |start: &str, what: &str| {
        seen.iter()
            .filter(|asked| asked.starts_with(start) && asked.contains(what))
            .count()
    };
    assert_eq!(
        each("PATCH /apis/batch/v1/namespaces/team-a/jobs/", "dryRun"),
        DOCUMENTS
    );
    assert_eq!(
        each("PATCH /apis/batch/v1/namespaces/team-a/jobs/", ""),
        2 * DOCUMENTS
    );
    assert_eq!(
        each("GET /apis/batch/v1/namespaces/team-a/jobs/", ""),
        0,
        "what a dry run made is known not to be there"
    );
}

#[test]
fn a_document_that_fails_does_not_stop_those_beside_it() {
    let (server, _) = willing("many-but-one", "t-7");
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
        .map(|one| one["jobId"].as_str().unwrap())
        .collect();
    let wanted: Vec<String> = (0..DOCUMENTS)
        .filter(|index| *index != 7)
        .map(|index| format!("t-{index}"))
        .collect();
    assert_eq!(names, wanted);
    let deleted: Vec<String> = server
        .seen()
        .into_iter()
        .filter(|asked| asked.starts_with("DELETE"))
        .collect();
    assert_eq!(deleted, ["DELETE /api/v1/namespaces/team-a/services/t-7"]);
}

/// As `| head -1` does.
#[test]
fn documents_are_written_whole_although_nobody_reads_of_them() {
    let (server, _) = willing("many-unread", "none");
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
    let written = |what: &str| {
        seen.iter()
            .filter(|asked| {
                asked.starts_with("PATCH") && asked.contains(what) && !asked.contains("dryRun")
            })
            .count()
    };
    // Each Service is written twice: it gets its owner.
    assert_eq!(
        (written("/jobs/"), written("/services/")),
        (DOCUMENTS, 2 * DOCUMENTS)
    );
}

#[test]
fn a_class_that_admission_does_not_know_yet_is_waited_for() {
    let posts = AtomicUsize::new(0);
    let server = Server::start("many-class", move |asked, _| {
        let (method, path) = asked.split_once(' ').unwrap();
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
            .filter(|asked| asked.starts_with("POST /api/v1/namespaces/team-a/pods"))
            .count(),
        4
    );
}

#[test]
fn what_all_documents_have_in_common_is_warned_of_once() {
    let (server, _) = willing("many-warned", "none");
    let run = server.gpuctl(&[
        "create",
        "-f",
        server.folder.join("many.yaml").to_str().unwrap(),
    ]);
    assert_eq!(
        run.err.matches("a policy looks on").count(),
        1,
        "{}",
        run.err
    );
}
