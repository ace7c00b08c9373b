//! Tests faults that a healthy API server cannot produce: resets, stalls, truncated responses, web
//! pages, and a failure of one chosen request. A raw TCP server simulates them. All other faults
//! are tested with a real API server. `README.md` in this folder lists the faults.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

mod many;
mod matrix;
mod server;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Tty, eventually};
use serde_json::{Value, json};

use crate::server::{Answer, Run, Server, empty_list, fails, run, status};

#[test]
fn a_missing_kubeconfig_exits_6_with_a_hint() {
    let run = run(Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .args(["get", "jobs"]));
    fails(
        &run,
        6,
        "error: no cluster is configured\n\nhint: set `--kubeconfig` or KUBECONFIG to a file",
    );
}

#[test]
fn an_unreachable_cluster_exits_6_within_seconds() {
    // The kernel never assigns port 1 as an ephemeral port.
    let port = 1;
    let server = Server {
        port,
        seen: Arc::default(),
        headers: Arc::default(),
        folder: std::env::temp_dir().join(format!("gpuctl-faults-{}-gone", std::process::id())),
    };
    std::fs::create_dir_all(&server.folder).unwrap();
    server.kubeconfig(&json!({"token": "canary-secret-token"}));
    for command in [
        &["get", "jobs"][..],
        &["describe", "job", "a"],
        &["logs", "a"],
        &["delete", "job", "a"],
        &["create", "-f", "examples/training.yaml"],
    ] {
        let run = server.gpuctl(command);
        fails(
            &run,
            6,
            &format!("cannot reach the cluster at http://127.0.0.1:{port}"),
        );
        assert!(
            run.err.contains("Connection refused")
                && run.err.contains("hint: check the network or VPN"),
            "{}",
            run.err
        );
        assert!(run.took < Duration::from_secs(5), "{:?}", run.took);
    }
    let run = server.gpuctl(&["get", "jobs", "-o", "json"]);
    let error: Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(
        (
            error["error"].as_str(),
            error["kind"].as_str(),
            run.out.as_str()
        ),
        (Some("Unreachable"), Some("unreachable"), "")
    );
    // A client-side dry run needs no cluster.
    let dry = server.gpuctl(&[
        "create",
        "-f",
        "examples/training.yaml",
        "--dry-run=client",
        "-o",
        "yaml",
    ]);
    assert!(
        dry.code == 0
            && dry.out.contains("kind: Job")
            && dry.err.contains("cannot reach the cluster"),
        "{}{}",
        dry.out,
        dry.err
    );
}

#[test]
fn a_stalled_server_times_out() {
    let server = Server::start("stall", |_, _| Answer::Stall);
    let run = server.gpuctl(&["get", "jobs", "--request-timeout", "2s"]);
    fails(&run, 6, "did not answer within 2 s");
    assert!(run.took < Duration::from_secs(10), "{:?}", run.took);
}

#[test]
fn slow_answers_show_a_progress_message() {
    let server = Server::start("slow-answers", |request, _| {
        if request.contains("/jobs?") {
            std::thread::sleep(Duration::from_secs(3));
        }
        empty_list()
    });
    let config = server.folder.join("config").display().to_string();
    let environment = [
        ("KUBECONFIG", config.as_str()),
        ("GPUCTL_PROMETHEUS", "none"),
    ];
    let line = format!(
        "{} get jobs; echo exit code $?; sleep 60",
        env!("CARGO_BIN_EXE_gpuctl")
    );
    let tty = Tty::start(&line, (80, 24), &environment);
    let progress = tty.sees("waiting for responses");
    assert!(!progress.contains("exit code"), "{progress}");
    let text = tty.sees("exit code 0");
    assert!(
        text.trim_start().starts_with("no jobs") && !text.contains("waiting"),
        "{text}"
    );
}

#[test]
fn a_stalled_tls_handshake_times_out() {
    // The kernel accepts the connection, but the TLS handshake never happens.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start("handshake", |_, _| empty_list());
    let address = format!("https://{}", silent.local_addr().unwrap());
    let config = std::fs::read_to_string(server.folder.join("config")).unwrap();
    let config = config.replace(&format!("http://127.0.0.1:{}", server.port), &address);
    std::fs::write(server.folder.join("config"), config).unwrap();
    for command in [
        &["get", "jobs"][..],
        &["logs", "a"],
        &["delete", "job", "a"],
        &["create", "-f", "examples/training.yaml"],
    ] {
        let run = server.gpuctl(&[command, &["--request-timeout", "2s"]].concat());
        assert!(
            run.code == 6 && run.out.is_empty() && run.err.contains(&address),
            "{command:?}: {}: {}",
            run.code,
            run.err
        );
        assert!(
            run.took < Duration::from_secs(20),
            "{command:?}: {:?}",
            run.took
        );
    }
}

#[test]
fn completion_does_not_wait_for_lists_of_all_namespaces() {
    let job = |namespace: &str| {
        let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/kind": "training"});
        json!({"metadata": {}, "items": [{"metadata": {"name": format!("bert-{namespace}"), "namespace": namespace, "uid": namespace, "labels": labels}}]})
    };
    let server = Server::start("slow-cluster", move |request, _| match request {
        request if !request.contains("/namespaces/") => Answer::Stall,
        request if request.contains("/team-a/jobs") => Answer::Json(200, job("team-a")),
        request if request.contains("/team-b/jobs") => Answer::Json(200, job("team-b")),
        _ => empty_list(),
    });
    // Lists that cover all namespaces stall. On a busy machine, the user may have to press Tab more
    // than once.
    assert!(completes(&server, "gpuctl logs bert-", "bert-team-a"));
    assert!(
        !server
            .seen()
            .iter()
            .any(|request| request.contains("team-b"))
    );
    assert!(completes(
        &server,
        "gpuctl logs -n team-b bert-",
        "bert-team-b"
    ));
}

/// Whether `name` is offered after at most twenty presses of the Tab key.
fn completes(server: &Server, line: &str, name: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let complete = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", server.folder.join("config"))
            .env("COMPLETE", "bash");
        command.env("XDG_CACHE_HOME", server.folder.join("cache"));
        command
            .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
            .env("_CLAP_COMPLETE_COMP_TYPE", "9");
        run(command.arg("--").args(&words))
    };
    (0..20).any(|_| complete().out.lines().any(|line| line.trim() == name))
}

#[test]
fn completion_caches_names_and_survives_an_outage() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let server = Server::start("names-kept", move |request, _| match request {
        _ if away.load(Ordering::Relaxed) => Answer::Stall,
        request if request.contains("/nodes") => Answer::Json(
            200,
            json!({"metadata": {}, "items": [{"metadata": {"name": "gpu-kept"}, "spec": {}, "status": {}}]}),
        ),
        _ => empty_list(),
    });
    assert!(completes(&server, "gpuctl describe node gpu-", "gpu-kept"));
    let requests = server.seen().len();
    assert!(completes(&server, "gpuctl describe node gpu-k", "gpu-kept"));
    assert_eq!(
        server.seen().len(),
        requests,
        "the second press sent requests"
    );
    is_away.store(true, Ordering::Relaxed);
    // Cached names are used for 10 s without a request.
    std::thread::sleep(Duration::from_secs(11));
    // On a busy machine, the time for one completion can end before its request is sent.
    eventually(
        "the completion tries to reach the cluster",
        Duration::from_secs(20),
        || {
            let kept = completes(&server, "gpuctl describe node gpu-k", "gpu-kept");
            assert!(kept, "the old names are used while the cluster is away");
            (server.seen().len() > requests)
                .then_some(())
                .ok_or("no request")
        },
    );
}

#[test]
fn transient_faults_are_retried() {
    for (name, fault) in [
        ("503", 503_u16),
        ("500", 500),
        ("reset", 0),
        ("half", 1),
        ("429", 429),
    ] {
        let server = Server::start(&format!("heals{name}"), move |_, count| {
            match (count, fault) {
                (1, 0) => Answer::Reset,
                (1, 1) => Answer::Half(json!({"metadata": {}, "items": []})),
                (1, 429) => Answer::Headers(
                    429,
                    "Retry-After: 1\r\n",
                    json!({"kind": "Status", "code": 429, "message": "slow down"}),
                ),
                (1, code) => status(code, "Broken", "not now"),
                _ => empty_list(),
            }
        });
        let run = server.gpuctl(&["get", "jobs", "-o", "json"]);
        assert_eq!(
            (run.code, run.out.trim()),
            (
                0,
                "{\n  \"total\": 0,\n  \"items\": [],\n  \"coverage\": null\n}"
            ),
            "{name}: {}",
            run.err
        );
        assert_eq!(
            server.seen().len(),
            10,
            "{name}: four kinds of owners and pods, each requested twice"
        );
    }
}

#[test]
fn permanent_faults_report_the_message_of_the_server() {
    let server = Server::start("forever503", |_, _| {
        status(503, "ServiceUnavailable", "etcd is away")
    });
    fails(&server.gpuctl(&["get", "jobs"]), 6, "error: etcd is away");
    let server = Server::start("forever401", |_, _| {
        status(401, "Unauthorized", "Unauthorized")
    });
    fails(
        &server.gpuctl(&["get", "jobs"]),
        5,
        "hint: the server rejected the kubeconfig's credentials",
    );
    let server = Server::start("hour", |_, _| {
        Answer::Headers(
            429,
            "Retry-After: 3600\r\n",
            json!({"kind": "Status", "code": 429, "message": "slow down"}),
        )
    });
    let run = server.gpuctl(&["get", "jobs", "--request-timeout", "60s"]);
    fails(&run, 6, "error: slow down");
    assert!(run.took < Duration::from_secs(40), "{:?}", run.took);
}

/// In a large cluster, the list of pods is the largest one.
#[test]
fn all_pods_are_listed_once_for_owners_and_nodes() {
    let empty_vector = || {
        Answer::Json(
            200,
            json!({"status": "success", "data": {"resultType": "vector", "result": []}}),
        )
    };
    for command in [["get", "workloads"], ["get", "consumers"], ["top", "jobs"]] {
        let answer = move |request: &str, _: usize| {
            if request.contains("/api/v1/query") {
                empty_vector()
            } else {
                empty_list()
            }
        };
        let server = Server::start(&format!("once-{}", command[1]), answer);
        let prometheus = format!("http://127.0.0.1:{}", server.port);
        let run = server.gpuctl(&[&["--prometheus", &prometheus][..], &command].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        let lists = server
            .seen()
            .iter()
            // A sample of a few pods shows whether the store belongs to this cluster.
            .filter(|request| {
                request.starts_with("GET /api/v1/pods") && !request.contains("limit=40")
            })
            .count();
        assert_eq!(lists, 1, "{:#?}", server.seen());
    }
}

/// The most bytes that can be sent without being read, because the kernel's socket buffers hold
/// them.
const IN_FLIGHT: u64 = 64 << 20;

#[test]
fn endless_prometheus_responses_are_cut_off_after_96_mib() {
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let server = Server::start("endless-prometheus", move |request, _| match request {
        request if !request.contains("/api/v1/query") => empty_list(),
        // gpuctl sends the query for the live metrics of all devices once.
        request if request.contains("query=max+by+%28__name__%2Cexported_namespace") => {
            Answer::Endless(Arc::clone(&counter))
        }
        _ => Answer::Json(
            200,
            json!({"status": "success", "data": {"resultType": "vector", "result": []}}),
        ),
    });
    let prometheus = format!("http://127.0.0.1:{}", server.port);
    let run = server.gpuctl(&["--prometheus", &prometheus, "top", "jobs"]);
    assert!(
        run.err
            .contains("its response is larger than 96 MiB; query a shorter period"),
        "{}{}",
        run.out,
        run.err
    );
    let sent = sent.load(Ordering::Relaxed);
    assert!(
        ((96 << 20) - (1 << 20)..(96 << 20) + IN_FLIGHT).contains(&sent),
        "{sent} bytes were sent"
    );
}

#[test]
fn endless_api_server_responses_are_cut_off_after_64_mib() {
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let server = Server::start("endless", move |_, _| Answer::Endless(Arc::clone(&counter)));
    let run = server.gpuctl(&["get", "jobs"]);
    assert_eq!((run.code, run.out.as_str()), (6, ""), "{}", run.err);
    assert!(
        run.err.contains("is larger than 64 MiB") && run.err.contains("`-n NAMESPACE`"),
        "{}",
        run.err
    );
    let mut seen = server.seen();
    let (sent, requests) = (sent.load(Ordering::Relaxed), seen.len() as u64);
    assert!(
        sent >= (64 << 20) - (1 << 20) && sent < requests * ((64 << 20) + IN_FLIGHT),
        "{sent} bytes in {requests} responses"
    );
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u64, requests, "a request was repeated");
}

#[test]
fn a_login_page_is_not_a_cluster() {
    let server = Server::start("html", |_, _| {
        Answer::Html("<html><head><title>Corporate login</title></head></html>")
    });
    fails(
        &server.gpuctl(&["get", "jobs"]),
        6,
        "it answers with the web page «Corporate login»",
    );
    let server = Server::start("garbage", |_, _| Answer::Json(200, json!("[not a list")));
    fails(
        &server.gpuctl(&["get", "jobs"]),
        6,
        "a response has an unexpected structure at byte",
    );
}

#[test]
fn an_expired_list_continues_to_its_end() {
    let job = |name: &str| json!({"metadata": {"name": name, "namespace": "team-a", "uid": name, "labels": {"gpuctl/kind": "training"}}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let server = Server::start("expired", move |request, _| {
        if !request.contains("/jobs?") {
            return empty_list();
        }
        if request.contains("continue=later") {
            return Answer::Json(200, json!({"metadata": {}, "items": [job("b")]}));
        }
        if request.contains("continue=old") {
            return Answer::Json(
                410,
                json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {"continue": "later"}}),
            );
        }
        Answer::Json(
            200,
            json!({"metadata": {"continue": "old"}, "items": [job("a")]}),
        )
    });
    let run = server.gpuctl(&["get", "jobs", "-o", "name"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "team-a/a\nteam-a/b\n"),
        "{}",
        run.err
    );
}

#[test]
fn strings_from_the_cluster_cannot_control_the_terminal() {
    let server = Server::start("escapes", |request, _| {
        if !request.contains("/jobs?") {
            return empty_list();
        }
        Answer::Json(
            200,
            json!({"metadata": {}, "items": [{
            "metadata": {"name": "evil", "namespace": "team-a", "uid": "1", "labels": {"gpuctl/kind": "training", "gpuctl/pool": "\u{1b}]0;owned\u{7}\u{202e}x"}},
            "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "\u{1b}[2J\u{9b}31m", "message": "a\nb\rc"}]}}]}),
        )
    });
    for format in ["table", "wide", "csv"] {
        let run = server.gpuctl(&["get", "jobs", "-o", format]);
        if format != "csv" {
            assert!(
                run.out.chars().all(|c| c == '\n' || !c.is_control())
                    && !run.out.contains('\u{202e}'),
                "{:?}",
                run.out
            );
        }
        assert_eq!(run.code, 0);
    }
}

#[test]
fn a_partly_failed_create_removes_its_objects() {
    let uid = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "uid": format!("uid-{kind}")}});
    let failing = move |request: &str, _: usize| {
        let (method, path) = request.split_once(' ').unwrap();
        match (method, path) {
            ("GET", path) if path.contains("/nodes") => status(
                403,
                "Forbidden",
                "nodes is forbidden: User \"u\" cannot list resource",
            ),
            ("GET", path) if path.contains("gpuctl-facts") => status(403, "Forbidden", "forbidden"),
            ("GET", path) if path.contains("labelSelector") => empty_list(),
            ("GET", _) => status(404, "NotFound", "not found"),
            ("PATCH", path) if path.contains("dryRun") => Answer::Json(200, uid("X")),
            ("PATCH", path) if path.contains("/services/") => Answer::Json(201, uid("Service")),
            ("PATCH", path) if path.contains("/jobs/") => {
                status(422, "Invalid", "a new policy denies this job")
            }
            ("POST", _) => Answer::Json(201, json!({"status": {"userInfo": {"username": "u"}}})),
            ("DELETE", _) => Answer::Json(200, uid("X")),
            _ => status(500, "", "unexpected"),
        }
    };
    let server = Server::start("partway", failing);
    let yaml = server.folder.join("a.yaml");
    std::fs::write(&yaml, "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\nresources: {gpu: 1}\n")
        .unwrap();
    let yaml = yaml.to_str().unwrap().to_owned();
    let run = server.gpuctl(&["create", "-f", &yaml]);
    fails(
        &run,
        1,
        "error: job/a could not be created\n  caused by: a new policy denies this job\n  note: everything created so far was removed\n",
    );
    let deleted: Vec<String> = server
        .seen()
        .into_iter()
        .filter(|request| request.starts_with("DELETE"))
        .collect();
    assert_eq!(deleted, ["DELETE /api/v1/namespaces/team-a/services/a"]);

    let keeping = Server::start("partway-kept", failing);
    let run = keeping.gpuctl(&["create", "-f", &yaml, "--keep-partial"]);
    fails(&run, 1, "note: not removed: service/a");
    assert!(
        keeping
            .seen()
            .iter()
            .all(|request| !request.starts_with("DELETE"))
    );
}

/// A credential plugin that counts its runs.
fn plugin(server: &Server, script: &str) -> Value {
    let path = server.folder.join("plugin.sh");
    std::fs::write(
        &path,
        format!(
            "echo x >> {}\n{script}\n",
            server.folder.join("runs").display()
        ),
    )
    .unwrap();
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": [path], "interactiveMode": "IfAvailable", "installHint": "install it"}})
}

#[test]
fn a_credential_plugin_runs_once_and_its_output_stays_secret() {
    let server = Server::start("plugin", |_, _| empty_list());
    let good = r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"canary-token"}}'"#;
    server.kubeconfig(&plugin(&server, good));
    let run = server.gpuctl(&["get", "jobs", "-v"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(!run.err.contains("canary"), "{}", run.err);
    assert_eq!(
        std::fs::read_to_string(server.folder.join("runs")).unwrap(),
        "x\n"
    );
    for (script, text) in [
        (
            "echo canary-out; echo canary-err >&2; exit 3",
            "the credential plugin `sh` failed (exit status: 3)",
        ),
        (
            "echo canary",
            "the credential plugin `sh` did not print an ExecCredential",
        ),
        (
            r#"echo '{"status":{}}'"#,
            "the credential plugin `sh` returned neither a token nor a certificate",
        ),
    ] {
        server.kubeconfig(&plugin(&server, script));
        let run = server.gpuctl(&["get", "jobs"]);
        fails(&run, 5, text);
        assert!(run.err.contains("hint: install it"), "{}", run.err);
    }
}

#[test]
fn a_credential_plugin_gets_cluster_info_on_request() {
    let server = Server::start("plugin-cluster", |_, _| empty_list());
    let script = r#"case "$KUBERNETES_EXEC_INFO" in
*'"server":"http'*) echo '{"status":{"token":"t"}}';;
esac"#;
    let mut user = plugin(&server, script);
    server.kubeconfig(&user);
    fails(
        &server.gpuctl(&["get", "jobs"]),
        5,
        "did not print an ExecCredential",
    );
    user["exec"]["provideClusterInfo"] = json!(true);
    server.kubeconfig(&user);
    assert_eq!(server.gpuctl(&["get", "jobs"]).code, 0);
}

#[test]
fn errors_of_a_broken_kubeconfig_contain_no_secrets() {
    let server = Server::start("broken", |_, _| empty_list());
    std::fs::write(
        server.folder.join("config"),
        "users:\n- name: u\n  user: {token: canary-secret\n",
    )
    .unwrap();
    fails(
        &server.gpuctl(&["get", "jobs"]),
        2,
        "it is not a kubeconfig",
    );
    server.kubeconfig(&json!({"token": "canary-secret"}));
    fails(
        &server.gpuctl(&["get", "jobs", "--context", "nope"]),
        2,
        "context `nope` does not exist; available contexts: c",
    );
    fails(
        &server.gpuctl(&["get", "jobs", "--kubeconfig", "/nonexistent"]),
        2,
        "/nonexistent: No such file",
    );
}

#[test]
fn files_without_a_job_fail_with_a_short_message() {
    let server = Server::start("files", |_, _| empty_list());
    let write = |name: &str, bytes: &[u8]| {
        let path = server.folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let folder = server.folder.join("empty");
    std::fs::create_dir(&folder).unwrap();
    let garbage: Vec<u8> = (0..=1_048_576_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let bomb: String = std::iter::once("a0: &a0 [x,x,x]\n".to_owned())
        .chain((1..10).map(|n| format!("a{n}: &a{n} [*a{0},*a{0},*a{0}]\n", n - 1)))
        .collect();
    for (path, code, text) in [
        (write("large", &garbage), 3, "is larger than 1 MiB"),
        (
            write("binary.yaml", &garbage[..5000]),
            3,
            "is not a text file",
        ),
        (
            write("empty.yaml", b""),
            3,
            "1:1: the file contains no documents",
        ),
        (
            folder.to_str().unwrap().to_owned(),
            3,
            "contains no *.yaml files",
        ),
        (
            write("brackets.yaml", "[".repeat(100_000).as_bytes()),
            3,
            "nested more than 32 levels deep",
        ),
        (
            write("bomb.yaml", bomb.as_bytes()),
            3,
            "aliases (`*name`) are not supported",
        ),
        (
            "/nonexistent.yaml".to_owned(),
            4,
            "hint: `gpuctl init training > /nonexistent.yaml` creates one",
        ),
        (
            server
                .folder
                .join("bracket.yaml")
                .to_str()
                .unwrap()
                .to_owned(),
            4,
            "brackets.yaml`?",
        ),
    ] {
        let run = server.gpuctl(&["create", "-f", &path]);
        fails(&run, code, text);
        assert!(
            run.took < Duration::from_secs(5) && run.err.len() < 2000,
            "{path}: {:?}, {} bytes",
            run.took,
            run.err.len()
        );
    }
    assert!(server.seen().is_empty(), "the cluster got requests");
}

#[test]
fn wrong_usage_exits_2() {
    let server = Server::start("usage", |_, _| empty_list());
    for arguments in [
        &["get"][..],
        &["get", "jobs", "--status", "sleeping"],
        &["create"],
        &["delete"],
        &["logs"],
        &["nope"],
        &["describe", "job", "a b"],
    ] {
        let run = server.gpuctl(arguments);
        assert_eq!(
            (run.code, run.out.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            run.err
        );
    }
    for arguments in [
        &["get", "jobs", "-o", "json", "--status", "sleeping"][..],
        &["logs", "--output=json"],
        &["delete", "-o", "json"],
    ] {
        let run = server.gpuctl(arguments);
        let error: Value = serde_json::from_str(&run.err).unwrap_or_else(|_| panic!("{}", run.err));
        assert_eq!(
            (run.code, error["kind"].as_str(), run.out.as_str()),
            (2, Some("usage"), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn kubeconfigs_in_a_list_are_merged() {
    let server = Server::start("merged", |_, _| empty_list());
    let text = std::fs::read_to_string(server.folder.join("config")).unwrap();
    let mut first: Value = serde_json::from_str(&text).unwrap();
    let mut second = first.clone();
    first.as_object_mut().unwrap().remove("users");
    second.as_object_mut().unwrap().remove("clusters");
    second.as_object_mut().unwrap().remove("contexts");
    let paths = [("one", first), ("two", second)].map(|(name, value)| {
        let path = server.folder.join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.display().to_string()
    });
    let list = format!("{}:/nonexistent:{}", paths[0], paths[1]);
    let run = run(Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .env("KUBECONFIG", list)
        .args(["get", "jobs", "-o", "json"]));
    assert_eq!(
        (
            run.code,
            serde_json::from_str::<Value>(&run.out).unwrap()["total"].as_u64()
        ),
        (0, Some(0)),
        "{}",
        run.err
    );
}

#[test]
fn a_webhook_without_dry_run_support_causes_a_warning() {
    let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let server = Server::start("nodryrun", move |request, _| {
        match request.split_once(' ').unwrap() {
            ("GET", path) if path.contains("/nodes") || path.contains("gpuctl-facts") => {
                status(403, "Forbidden", "forbidden")
            }
            ("GET", path) if path.contains("labelSelector") => empty_list(),
            ("GET", _) => status(404, "NotFound", "not found"),
            (_, path) if path.contains("dryRun") => status(
                400,
                "BadRequest",
                "admission webhook \"old.example.com\" does not support dry run",
            ),
            ("PATCH", _) => Answer::Json(201, object.clone()),
            _ => Answer::Json(201, json!({"status": {"userInfo": {"username": "u"}}})),
        }
    });
    let yaml = server.folder.join("a.yaml");
    std::fs::write(&yaml, "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\nresources: {gpu: 1}\n")
        .unwrap();
    let run = server.gpuctl(&["create", "-f", yaml.to_str().unwrap(), "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        serde_json::from_str::<Value>(&run.out).unwrap()["createdAt"],
        "2026-01-01T00:00:00Z"
    );
    for kind in ["service", "job", "pod"] {
        assert!(
            run.err.contains(&format!("the {kind} was not validated")),
            "{}",
            run.err
        );
    }
}

#[test]
fn impersonation_works_without_a_user_in_the_kubeconfig() {
    let server = Server::start("as", |_, _| empty_list());
    let path = server.folder.join("config");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["contexts"][0]["context"]
        .as_object_mut()
        .unwrap()
        .remove("user");
    std::fs::write(&path, config.to_string()).unwrap();
    let run = server.gpuctl(&["get", "jobs", "--as", "alice", "--as-group", "team"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let headers = server.headers.lock().unwrap().join("\n").to_lowercase();
    assert!(
        headers.contains("impersonate-user: alice") && headers.contains("impersonate-group: team"),
        "{headers}"
    );
}

#[test]
fn loopback_addresses_bypass_the_proxy() {
    let server = Server::start("proxy", |_, _| empty_list());
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
    command
        .env("KUBECONFIG", server.folder.join("config"))
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .env("HTTP_PROXY", "http://127.0.0.1:1");
    let run = run(command.args(["get", "jobs", "-o", "name"]));
    assert_eq!(run.code, 0, "{}", run.err);
}

#[test]
fn servers_in_no_proxy_bypass_the_proxy() {
    let server = Server::start("no-proxy", |_, _| empty_list());
    let path = server.folder.join("config");
    // 0.0.0.0 reaches this machine without being a loopback address, and gpuctl uses no proxy for
    // loopback addresses.
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replace("127.0.0.1", "0.0.0.0");
    std::fs::write(&path, text).unwrap();
    let with_no_proxy = |hosts: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", &path)
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env("NO_PROXY", hosts);
        run(command.args(["get", "jobs", "-o", "name", "--request-timeout", "3s"]))
    };
    let proxied = with_no_proxy("example.com");
    assert_eq!(proxied.code, 6, "{}", proxied.err);
    let direct = with_no_proxy("example.com,0.0.0.0");
    assert_eq!(direct.code, 0, "{}", direct.err);
}

#[test]
fn invalid_names_are_wrong_usage() {
    let server = Server::start("names", |_, _| empty_list());
    for arguments in [
        &["get", "jobs", "-n", "a b"][..],
        &["get", "jobs", "-n", ""],
        &["get", "jobs", "-n", "a/../../x"],
        &["get", "jobs", "--pool", "x,y=z"],
    ] {
        let run = server.gpuctl(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.err);
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
        assert_eq!(run(&mut command).code, 2);
    }
    assert!(server.seen().is_empty());
    let gpuctl = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        run(command.env("KUBECONFIG", "/nonexistent").args(arguments))
    };
    let variable = gpuctl(&["get", "jobs"]);
    fails(
        &variable,
        2,
        "cannot use the kubeconfig\n  caused by: /nonexistent: ",
    );
    let option = gpuctl(&["get", "jobs", "--kubeconfig", "/nonexistent"]);
    assert_eq!((option.code, option.err), (variable.code, variable.err));
}

/// Runs `create` against a server that accepts all objects, except where `change` returns another
/// response.
fn created_with(
    name: &str,
    change: impl Fn(&str, usize) -> Option<Answer> + Send + Sync + 'static,
) -> (Server, Run) {
    let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "uid": format!("uid-{kind}")}});
    let server = Server::start(name, move |request, count| {
        if let Some(answer) = change(request, count) {
            return answer;
        }
        match request.split_once(' ').unwrap() {
            ("GET", path) if path.contains("/nodes") || path.contains("gpuctl-facts") => {
                status(403, "Forbidden", "forbidden")
            }
            ("GET", path) if path.contains("labelSelector") => empty_list(),
            ("GET", _) => status(404, "NotFound", "not found"),
            ("PATCH", path) if path.contains("dryRun") => Answer::Json(200, object("X")),
            ("PATCH", path) if path.contains("/services/") => Answer::Json(201, object("Service")),
            ("PATCH", _) => Answer::Json(201, object("Job")),
            ("DELETE", _) => Answer::Json(200, object("X")),
            _ => Answer::Json(201, json!({"status": {"userInfo": {"username": "u"}}})),
        }
    });
    let yaml = server.folder.join("a.yaml");
    std::fs::write(&yaml, "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\nresources: {gpu: 1}\n")
        .unwrap();
    let run = server.gpuctl(&["create", "-f", yaml.to_str().unwrap()]);
    (server, run)
}

fn deleted(server: &Server) -> Vec<String> {
    server
        .seen()
        .into_iter()
        .filter(|request| request.starts_with("DELETE"))
        .collect()
}

#[test]
fn a_failed_owner_reference_does_not_fail_the_create() {
    let services = Arc::new(Mutex::new(0));
    let (server, run) = created_with("adopt", move |request, _| {
        let is_write = request.starts_with("PATCH")
            && request.contains("/services/")
            && !request.contains("dryRun");
        let mut count = services.lock().unwrap();
        *count += usize::from(is_write);
        (is_write && *count > 1).then(|| {
            status(
                403,
                "Forbidden",
                "no more services: User \"u\" cannot patch resource",
            )
        })
    });
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(
        run.err
            .contains("service/a has no owner reference to the job"),
        "{}",
        run.err
    );
    assert!(deleted(&server).is_empty(), "{:?}", server.seen());
}

#[test]
fn a_job_created_by_another_run_keeps_its_service() {
    let lost = Arc::new(Mutex::new(false));
    let (server, run) = created_with("lost", move |request, _| {
        let mut lost = lost.lock().unwrap();
        if request.starts_with("PATCH") && request.contains("/jobs/") && !request.contains("dryRun")
        {
            *lost = true;
            return Some(Answer::Reset);
        }
        let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "a"});
        let job = json!({"metadata": {"name": "a", "uid": "uid-lost", "labels": labels}});
        (*lost && request.starts_with("GET") && request.contains("/jobs/"))
            .then(|| Answer::Json(200, job))
    });
    fails(&run, 6, "job/a could not be created");
    // The job is not marked as created by this run, so the Service belongs to that job and must
    // stay.
    assert!(deleted(&server).is_empty(), "{:?}", server.seen());
}

#[test]
fn a_job_created_concurrently_by_another_run_is_not_adopted() {
    let is_written = Arc::new(Mutex::new(false));
    let (server, run) = created_with("quicker", move |request, _| {
        let is_write = request.starts_with("PATCH")
            && request.contains("/jobs/")
            && !request.contains("dryRun");
        if is_write {
            *is_written.lock().unwrap() = true;
            return Some(status(409, "Conflict", "the object has been modified"));
        }
        let is_read =
            *is_written.lock().unwrap() && request.starts_with("GET") && request.contains("/jobs/");
        is_read.then(|| Answer::Json(200, json!({"metadata": {"name": "a", "uid": "theirs"}})))
    });
    fails(&run, 1, "another gpuctl command created job/a first");
    assert_eq!(
        deleted(&server),
        ["DELETE /api/v1/namespaces/team-a/services/a"]
    );
}

#[test]
fn expired_credentials_are_renewed() {
    let folder = std::env::temp_dir().join(format!("gpuctl-faults-{}-expire", std::process::id()));
    let (runs, start) = (folder.join("runs"), Instant::now());
    let server = Server::start("expire", move |_, _| {
        let renewed = std::fs::read_to_string(&runs).is_ok_and(|runs| runs.lines().count() > 1);
        // The tokens that this plugin issues expire after seven seconds.
        if start.elapsed() > Duration::from_secs(7) && !renewed {
            status(401, "Unauthorized", "Unauthorized")
        } else {
            empty_list()
        }
    });
    server.kubeconfig(&plugin(
        &server,
        r#"echo '{"status":{"token":"canary-token"}}'"#,
    ));
    let mut watch = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .env("KUBECONFIG", server.folder.join("config"))
        .args(["--prometheus", "none", "get", "jobs", "-w", "-o", "json"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually(
        "the watch runs the plugin again",
        Duration::from_secs(30),
        || {
            assert!(watch.try_wait().unwrap().is_none(), "the watch ended");
            std::fs::read_to_string(server.folder.join("runs")).unwrap_or_default() == "x\nx\n"
        },
    );
    // The watch must not end, and the plugin must not run a third time.
    std::thread::sleep(Duration::from_secs(2));
    assert!(watch.try_wait().unwrap().is_none(), "the watch ended");
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(
        std::fs::read_to_string(server.folder.join("runs")).unwrap(),
        "x\nx\n"
    );
}

/// Starts a server that has one training with one running pod. `stream` answers exec, attach and
/// port-forward requests.
fn server_with_pod(name: &str, stream: impl Fn() -> Answer + Send + Sync + 'static) -> Server {
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "a", "gpuctl/kind": "training"});
    Server::start(name, move |request, _| {
        let items = if request.contains("/jobs?") {
            json!([{"metadata": {"name": "a", "namespace": "team-a", "uid": "1", "labels": labels}, "spec": {"parallelism": 1}}])
        } else if request.contains("/pods?") {
            json!([{"metadata": {"name": "a-0", "namespace": "team-a", "uid": "2", "labels": labels, "ownerReferences": [{"kind": "Job", "name": "a", "uid": "1"}]},
                "spec": {"nodeName": "n"}, "status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": true, "state": {"running": {}}}]}}])
        } else if request.contains("/exec?")
            || request.contains("/attach?")
            || request.contains("/portforward?")
        {
            return stream();
        } else {
            json!([])
        };
        Answer::Json(200, json!({"kind": "List", "metadata": {}, "items": items}))
    })
}

#[test]
fn a_broken_session_prints_its_output_and_an_error() {
    let server = server_with_pod("breaks", || {
        Answer::Broken(&[(1, ""), (1, "half a "), (2, "warning\n"), (1, "line")])
    });
    let run = server.gpuctl(&["exec", "a", "--", "cat", "x"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (6, "half a line"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("warning\n") && run.err.contains("the connection to a-0 was lost"),
        "{}",
        run.err
    );
    assert!(run.took < Duration::from_secs(10), "{:?}", run.took);
    let folder = server.folder.join("copies");
    std::fs::create_dir_all(&folder).unwrap();
    let run = server.gpuctl(&["cp", "a:/x", folder.to_str().unwrap()]);
    fails(&run, 6, "lost the connection while copying");
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "a partial copy was left behind"
    );
}

#[test]
fn exec_exits_with_the_code_reported_by_the_kubelet() {
    let failed = r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}"#;
    let (text, code) = (failed, 42);
    let server = server_with_pod("exits", move || {
        Answer::Broken(Box::leak(vec![(1, "out\n"), (3, text)].into_boxed_slice()))
    });
    let run = server.gpuctl(&["exec", "a", "--", "x"]);
    assert_eq!((run.code, run.out.as_str()), (code, "out\n"), "{}", run.err);
    let server = server_with_pod("succeeds", || {
        Answer::Broken(&[(3, r#"{"status":"Success"}"#)])
    });
    assert_eq!(server.gpuctl(&["exec", "a", "--", "x"]).code, 0);
}

#[test]
fn a_stalled_stream_times_out() {
    let server = server_with_pod("stalls", || Answer::Stall);
    let run = server.gpuctl(&["--request-timeout", "1s", "exec", "a", "--", "x"]);
    assert_ne!(run.code, 0);
    assert!(
        run.took < Duration::from_secs(15),
        "{:?}: {}",
        run.took,
        run.err
    );
    // A session may be silent for any length of time, but Ctrl-C ends it.
    let server = server_with_pod("silent", || Answer::Silent);
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .env("KUBECONFIG", server.folder.join("config"))
        .args(["attach", "a"])
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // A silent session must not time out.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "the session ended");
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn doctor_warns_of_clock_skew() {
    let server = Server::start("clock", |request, _| match request.contains("/version") {
        true => Answer::Headers(
            200,
            "Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
            json!({"gitVersion": "v1.36.0"}),
        ),
        false => empty_list(),
    });
    let report: Value = serde_json::from_str(
        &server
            .gpuctl(&["--prometheus", "none", "doctor", "-o", "json"])
            .out,
    )
    .unwrap();
    let clock = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["check"] == "clock")
        .unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(clock["status"], "warn");
    assert!(
        clock["message"]
            .as_str()
            .unwrap()
            .contains("s ahead of that of the API server"),
        "{clock}"
    );
}

#[test]
fn an_unreadable_namespace_is_not_called_missing() {
    let namespace = "GET /api/v1/namespaces/team-b";
    let server = Server::start("namespaces", move |request, _| {
        if request == namespace {
            status(403, "Forbidden", "you may not read it")
        } else {
            empty_list()
        }
    });
    let run = server.gpuctl(&["get", "jobs", "-n", "team-b"]);
    assert_eq!((run.code, run.err.as_str()), (0, "no jobs found\n"));
    let requests = server.seen();
    let checks = requests.iter().filter(|request| *request == namespace);
    assert_eq!(checks.count(), 1, "{requests:?}");
}

#[test]
fn a_cluster_without_queues_has_an_empty_list_of_queues() {
    let server = Server::start("no-queues", |request, _| match request {
        "GET /apis" => Answer::Json(
            200,
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        ),
        _ => empty_list(),
    });
    let run = server.gpuctl(&["get", "queues", "-o", "json"]);
    let list: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &list["total"]), (0, &json!(0)), "{}", run.err);
    let run = server.gpuctl(&["get", "queues"]);
    assert!(run.err.contains("has no queueing system"), "{}", run.err);
    let run = server.gpuctl(&["describe", "queue", "a"]);
    fails(&run, 4, "this cluster has no queueing system");
}

#[test]
fn the_config_sets_the_namespace_if_nothing_else_does() {
    let server = Server::start("default-namespace", |_, _| empty_list());
    let config = server.folder.join("config.yaml");
    let config_path = config.to_str().unwrap();
    let namespace = |arguments: &[&str]| {
        server.seen.lock().unwrap().clear();
        server.gpuctl(&[&["pause", "job", "a", "--config", config_path], arguments].concat());
        let requests = server.seen().join("\n");
        let (_, path) = requests.split_once("/namespaces/").unwrap();
        path.split(['/', '?']).next().unwrap().to_owned()
    };
    std::fs::write(&config, "namespace: team-b\n").unwrap();
    assert_eq!(namespace(&[]), "team-a", "the context sets a namespace");
    let kubeconfig = server.folder.join("config");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::write(&kubeconfig, text.replace(r#","namespace":"team-a""#, "")).unwrap();
    assert_eq!(namespace(&[]), "team-b");
    assert_eq!(namespace(&["-n", "team-c"]), "team-c");
    std::fs::write(&config, "namespace: Team_B\n").unwrap();
    let run = server.gpuctl(&["get", "jobs", "--config", config_path]);
    fails(&run, 2, "`namespace` in the config file is not a namespace");
}
