//! What stands where a Prometheus should be: login pages, refusals, slowness, half an answer, a way
//! to somebody else.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Run, Scene};

/// Answers every request with what `answer` says of its first line and headers.
fn server(
    answer: impl Fn(&str) -> Option<(u16, &'static str, String)> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
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
                    Some((code, extra, body)) => {
                        let head = format!(
                            "HTTP/1.1 {code} X\r\n{extra}content-length: {}\r\nconnection: close\r\n\r\n",
                            body.len()
                        );
                        let _ = stream.write_all((head + &body).as_bytes());
                    }
                    None => thread::sleep(Duration::from_secs(30)),
                }
            });
        }
    });
    (url, seen)
}

const JSON: &str = "content-type: application/json\r\n";

/// An answer that is metrics and nothing else has nothing to say then.
#[track_caller]
fn nothing_said(run: Run, code: i32, text: &str) {
    let run = run.exits(code).says(text);
    assert_eq!(run.out, "");
}

#[test]
fn what_is_no_prometheus_is_told_and_inventory_still_answers() {
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
            6,
            "does not let you in",
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
            "does not speak Prometheus' language",
        ),
    ];
    for (code, head, body, exit, text) in cases {
        let (url, _) = server(move |_| Some((code, head, body.to_owned())));
        nothing_said(scene.gpuctl_at(&url, &["get", "heatmap"], ""), exit, text);
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
    nothing_said(
        scene.gpuctl_at("http://127.0.0.1:1", &["get", "heatmap", "-o", "json"], ""),
        6,
        "PrometheusUnreachable",
    );
    nothing_said(
        scene.gpuctl_at("ftp://nowhere", &["get", "heatmap"], ""),
        2,
        "is no address of a Prometheus",
    );
}

#[test]
fn a_slow_server_is_not_waited_for() {
    let scene = Scene::new("slow", 1);
    let (url, _) = server(|_| None);
    let start = Instant::now();
    nothing_said(
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
fn half_an_answer_is_an_answer_with_a_warning() {
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
        "one of eight was told: {gpus:#?}"
    );
}

#[test]
fn credentials_go_to_one_host_and_to_no_screen() {
    let scene = Scene::new("secret", 0);
    let (other, seen_there) = server(|_| Some((200, JSON, "{}".to_owned())));
    let moved: &'static str = Box::leak(
        format!(
            "location: {}/stolen?token=abc\r\n",
            other.replace("127.0.0.1", "localhost")
        )
        .into_boxed_str(),
    );
    let (url, seen_here) = server(move |_| Some((302, moved, String::new())));
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
        run.err.contains("sends us on to another host") && run.err.contains("localhost"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("canary"), "{}", run.err);
    assert!(
        seen_there.lock().unwrap().is_empty(),
        "nobody else is asked"
    );
    let here = seen_here.lock().unwrap().join("\n").to_lowercase();
    assert!(
        here.contains("x-key: canary-key") && here.contains("authorization: bearer canary-token"),
        "{here}"
    );
}

#[test]
fn a_command_gives_the_token_to_the_address_beside_it() {
    let scene = Scene::new("commanded", 0);
    let (url, seen) = server(|_| {
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
    let head = seen.lock().unwrap().join("\n").to_lowercase();
    assert!(
        head.contains("authorization: bearer canary-of-command"),
        "{head}"
    );
    let failed = ask(&config("echo canary; exit 7"))
        .says("`prometheus.token_command` gave no token")
        .says("exit status: 7");
    assert!(!failed.err.contains("canary"), "{}", failed.err);
    assert_eq!(failed.code, 6);
}
