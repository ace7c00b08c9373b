//! Tests faulty servers in place of Prometheus: login pages, errors, timeouts, partial answers and
//! redirects.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Run, Scene};

/// Starts a server. `answer` gets the head of each request and returns status, headers and body, or
/// `None` to never answer. Also returns a log of the heads.
fn server(
    answer: impl Fn(&str) -> Option<(u16, &'static str, String)> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut line) = (String::new(), String::new());
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    head.push_str(&line);
                    line.clear();
                }
                log.lock().unwrap().push(head.clone());
                match answer(&head) {
                    Some((code, headers, body)) => {
                        let head = format!(
                            "HTTP/1.1 {code} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
                            body.len()
                        );
                        let _ = stream.write_all((head + &body).as_bytes());
                    }
                    // The server takes too long to answer.
                    None => thread::sleep(Duration::from_secs(30)),
                }
            });
        }
    });
    (url, requests)
}

const JSON: &str = "content-type: application/json\r\n";

/// Asserts that a command that shows only metrics fails without output.
#[track_caller]
fn assert_fails(run: Run, code: i32, text: &str) {
    let run = run.exits(code).says(text);
    assert_eq!(run.out, "");
}

#[test]
fn errors_of_prometheus_are_reported_and_inventory_still_works() {
    let scene = Scene::new("faulty", 1);
    let cases: [(u16, &'static str, &str, i32, &str); 7] = [
        (
            200,
            "content-type: text/html\r\n",
            "<html><title>Sign in</title></html>",
            6,
            "«Sign in»",
        ),
        (
            401,
            "content-type: text/plain\r\n",
            "Unauthorized",
            5,
            "denied access",
        ),
        (
            503,
            "content-type: text/plain\r\n",
            "Service Unavailable",
            6,
            "Service Unavailable",
        ),
        (
            422,
            JSON,
            r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}"#,
            1,
            "too many samples",
        ),
        (
            400,
            JSON,
            r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#,
            1,
            "parse error",
        ),
        (
            503,
            JSON,
            r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#,
            6,
            "query timed out",
        ),
        (
            200,
            JSON,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"val"#,
            6,
            "is not a Prometheus server",
        ),
    ];
    for (code, head, body, exit, text) in cases {
        let (url, _) = server(move |_| Some((code, head, body.to_owned())));
        assert_fails(scene.gpuctl_at(&url, &["get", "heatmap"], ""), exit, text);
        let run = scene
            .gpuctl_at(
                &url,
                &["get", "nodes", "--pool", "faulty", "-o", "json"],
                "",
            )
            .ok();
        assert_eq!(run.json()["items"][0]["gpuTotal"], 8);
        assert!(run.json()["items"][0]["gpuUtilization"].is_null());
        let warning: serde_json::Value = serde_json::from_str(run.err.trim())
            .unwrap_or_else(|_| panic!("one object: {}", run.err));
        assert!(
            warning["message"]
                .as_str()
                .unwrap()
                .contains("GPU metrics are unavailable"),
            "{warning}"
        );
        scene
            .gpuctl_at(&url, &["--require-metrics", "get", "nodes"], "")
            .exits(exit);
    }
    assert_fails(
        scene.gpuctl_at("http://127.0.0.1:1", &["get", "heatmap", "-o", "json"], ""),
        6,
        "PrometheusUnreachable",
    );
    assert_fails(
        scene.gpuctl_at("ftp://nowhere", &["get", "heatmap"], ""),
        2,
        "is not a valid Prometheus address",
    );
}

#[test]
fn a_slow_server_times_out() {
    let scene = Scene::new("slow", 1);
    let (url, _) = server(|_| None);
    let start = Instant::now();
    assert_fails(
        scene.gpuctl_at(&url, &["--request-timeout", "2s", "get", "heatmap"], ""),
        6,
        "did not answer within 2 s",
    );
    let run = scene
        .gpuctl_at(
            &url,
            &[
                "--request-timeout",
                "2s",
                "get",
                "nodes",
                "--pool",
                "slow",
                "-o",
                "name",
            ],
            "",
        )
        .ok();
    assert_eq!(run.out, "slow-0\n");
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_partial_answer_is_used_with_a_warning() {
    let scene = Scene::new("half", 1);
    let (url, _) = server(|head| {
        if head.contains("timestamp") || head.contains("count_over_time") {
            return Some((
                200,
                JSON,
                r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#.to_owned(),
            ));
        }
        Some((200, JSON, r#"{"status":"success","warnings":["store a is unavailable"],"data":{"resultType":"vector","result":[{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"3","Hostname":"half-0","modelName":"x"},"value":[1,"42"]}]}}"#.to_owned()))
    });
    let run = scene
        .gpuctl_at(
            &url,
            &[
                "get",
                "nodes",
                "--pool",
                "half",
                "--gpu-detail",
                "-o",
                "json",
            ],
            "",
        )
        .ok()
        .says("store a is unavailable");
    assert_eq!(run.err.matches("store a is unavailable").count(), 1);
    let gpus = run.json()["items"][0]["gpus"].as_array().unwrap().clone();
    assert_eq!(
        gpus.iter()
            .filter(|gpu| !gpu["utilization"].is_null())
            .count(),
        1,
        "the answer has one of eight GPUs: {gpus:#?}"
    );
}

#[test]
fn credentials_stay_on_one_host_and_out_of_the_output() {
    let scene = Scene::new("secret", 0);
    let (other_url, requests_elsewhere) = server(|_| Some((200, JSON, "{}".to_owned())));
    let redirect: &'static str = Box::leak(
        format!(
            "location: {}/stolen?token=abc\r\n",
            other_url.replace("127.0.0.1", "localhost")
        )
        .into_boxed_str(),
    );
    let (url, requests_here) = server(move |_| Some((302, redirect, String::new())));
    let token = crate::support::file("token", "canary-token\n");
    let arguments = [
        "--prometheus-token-file",
        token.to_str().unwrap(),
        "--prometheus-header",
        "X-Key: canary-key",
        "-v",
        "get",
        "heatmap",
    ];
    let run = scene
        .gpuctl_at(
            &url.replace("http://", "http://alice:canary-password@"),
            &arguments,
            "",
        )
        .exits(6);
    assert!(
        run.err.contains("redirects to another host") && run.err.contains("localhost"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("canary"), "{}", run.err);
    assert!(
        requests_elsewhere.lock().unwrap().is_empty(),
        "no other host is queried"
    );
    let heads = requests_here.lock().unwrap().join("\n").to_lowercase();
    assert!(
        heads.contains("x-key: canary-key") && heads.contains("authorization: bearer canary-token"),
        "{heads}"
    );
}

#[test]
fn the_token_command_authenticates_requests() {
    let scene = Scene::new("commanded", 0);
    let (url, requests) = server(|_| {
        Some((
            200,
            JSON,
            r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#.to_owned(),
        ))
    });
    let config = |command: &str| {
        let text = format!("prometheus: {{url: \"{url}\", token_command: \"{command}\"}}\n");
        crate::support::file(&format!("commanded-{}", command.len()), &text)
    };
    let ask = |config: &std::path::Path| {
        let mut command = crate::support::gpuctl(scene.cluster, gpuctl_sandbox::Persona::Admin);
        command.env_remove("GPUCTL_PROMETHEUS").args([
            "--config",
            config.to_str().unwrap(),
            "-v",
            "get",
            "heatmap",
        ]);
        crate::support::run(command, "")
    };
    ask(&config("echo canary-of-command"));
    let heads = requests.lock().unwrap().join("\n").to_lowercase();
    assert!(
        heads.contains("authorization: bearer canary-of-command"),
        "{heads}"
    );
    let failed = ask(&config("echo canary; exit 7"))
        .says("`prometheus.token_command` did not provide a token")
        .says("exit status: 7");
    assert!(!failed.err.contains("canary"), "{}", failed.err);
    assert_eq!(failed.code, 5);
}

/// The socket accepts connections, because the kernel completes them, but nothing ever answers.
#[test]
fn the_warning_about_a_silent_prometheus_names_its_url() {
    let scene = Scene::new("silenced", 1);
    scene.train("a", 1, 8);
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let url = format!("http://alice:canary-password@127.0.0.1:{port}");
    for list in ["nodes", "jobs", "overview"] {
        let run = scene
            .gpuctl_at(&url, &["--request-timeout", "2s", "get", list], "")
            .ok();
        let expected = format!("Prometheus at http://127.0.0.1:{port}");
        assert!(
            run.err.contains(&expected) && run.err.contains("did not answer within 2 s"),
            "{list}: {}",
            run.err
        );
        assert!(!run.err.contains("canary"), "{}", run.err);
    }
}
