//! Tests `score --watch` as if it ran for weeks. Prometheus and the API server restart, the config
//! file changes and becomes invalid, Prometheus scrapes the command, and signals end it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::{Value, json};

use crate::support::{Scene, file, gpuctl, near};

/// A running `score --watch` whose streams go to files.
struct Watch {
    child: Child,
    out: std::path::PathBuf,
    err: std::path::PathBuf,
}

impl Watch {
    fn start(scene: &Scene, arguments: &[&str]) -> Self {
        let (out, err) = (file("watch.out", ""), file("watch.err", ""));
        let mut command = gpuctl(scene.cluster, Persona::Admin);
        command.args(["-n", scene.name, "score"]).args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(&err).unwrap());
        Self {
            child: command.spawn().unwrap(),
            out,
            err,
        }
    }

    fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Waits until stderr contains a text. Returns the rest of that line.
    fn says(&self, text: &str) -> String {
        until(&format!("stderr contains `{text}`"), || {
            let err = self.err();
            let line = err
                .split_once(text)?
                .1
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            Some(line)
        })
    }

    fn ends(&mut self, signal: &str) -> i32 {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        let status = eventually(
            &format!("{signal} ends the watch"),
            Duration::from_secs(20),
            || {
                let status = self.child.try_wait().unwrap();
                status.ok_or_else(|| self.err())
            },
        );
        status.code().unwrap_or(-1)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn until<T>(condition: &str, ask: impl FnMut() -> Option<T>) -> T {
    eventually(condition, Duration::from_secs(60), ask)
}

/// Sends a request. Returns status, content type and body.
fn ask(address: &str, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let media = head
        .lines()
        .find_map(|line| line.strip_prefix("content-type: "))
        .unwrap_or_default();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        media.to_owned(),
        body.to_owned(),
    )
}

fn get(address: &str, path: &str) -> Value {
    let (_, media, body) = ask(address, &format!("GET {path}"));
    assert_eq!(media, "application/json");
    serde_json::from_str(&body).unwrap()
}

/// The value of a series in `/metrics`.
fn sample(address: &str, name: &str) -> Option<f64> {
    let (_, _, body) = ask(address, "GET /metrics");
    body.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn assert_valid_metrics(scene: &Scene, text: &str) {
    let mut check = Command::new(scene.cluster.binary("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let lint = String::from_utf8(check.wait_with_output().unwrap().stderr).unwrap();
    assert!(
        !lint.contains("error while linting") && !lint.contains("parsing error"),
        "{lint}"
    );
}

/// A separate cluster, because the test restarts the API server.
fn dedicated_cluster() -> &'static Cluster {
    static CLUSTER: std::sync::OnceLock<Cluster> = std::sync::OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    })
}

fn config(path: &Path, prometheus: &str, rest: &str) {
    std::fs::write(
        path,
        format!("prometheus: {{url: '{prometheus}', time_window_min: 0.1, step: 1s}}\n{rest}"),
    )
    .unwrap();
}

#[test]
fn a_watch_survives_restarts_and_serves_its_results() {
    let scene = Scene::on(dedicated_cluster(), "watched", 1);
    let pods = scene.train("work", 1, 2);
    scene.load(&pods[0], |index, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = ([90.0, 0.0][index as usize], 0.0, 40.0);
        (gpu.used_mib, gpu.free_mib) = (800, 79_200);
    });
    let settings = scene.cluster.folder().join("watch.yaml");
    let textfile = scene.cluster.folder().join("watch.prom");
    config(&settings, &scene.prometheus, "");
    let arguments = [
        "--watch=2s",
        "--listen",
        "127.0.0.1:0",
        "--textfile",
        textfile.to_str().unwrap(),
        "-o",
        "json",
        "--config",
        settings.to_str().unwrap(),
        "--request-timeout",
        "3s",
    ];
    let mut watch = Watch::start(&scene, &[&arguments[..], &["-v"]].concat());
    let address = until("the watch listens", || {
        let err = watch.err();
        Some(
            err.split_once("listening at http://")?
                .1
                .lines()
                .next()?
                .to_owned(),
        )
    });
    // 45 + 0 + 0.2 · 1 + 0.1 · 10, and the same without utilization.
    let expected = [46.2, 1.2];
    until("both GPUs are scored", || {
        let list = get(&address, "/results");
        let scores: Vec<f64> = list
            .as_array()?
            .iter()
            .filter_map(|row| row["score"].as_f64())
            .collect();
        (scores.len() == 2 && (scores[0] - expected[0]).abs() < 0.006).then_some(())
    });
    near(&get(&address, "/results")[1]["score"], expected[1]);
    let low = get(&address, "/results/low");
    assert_eq!(
        (&low["count"], &low["threshold"]),
        (&json!(1), &json!(20.0))
    );
    assert_eq!(get(&address, "/results/stats")["total_gpus"], 2);
    let health = get(&address, "/health");
    assert_eq!(
        (
            &health["status"],
            &health["prometheus_connected"],
            &health["interval"]
        ),
        (&json!("healthy"), &json!(true), &json!(2))
    );
    assert_eq!(
        (&health["ai_enabled"], &health["analysis_timeout"]),
        (&json!(false), &json!(false))
    );
    assert!(
        health["last_analysis"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z')),
        "{health}"
    );
    let (code, media, text) = ask(&address, "GET /metrics");
    assert_eq!(
        (code, media.as_str()),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert_valid_metrics(&scene, &text);
    assert!(
        text.contains("gpu_analysis_duration_seconds{quantile=\"0.5\"} ")
            && text.contains("_seconds{quantile=\"0.99\"} "),
        "{text}"
    );
    assert_eq!(
        (
            ask(&address, "GET /nothing").0,
            ask(&address, "POST /results").0,
            ask(&address, "HEAD /results").0
        ),
        (404, 405, 200)
    );
    let exported = std::fs::read_to_string(&textfile).unwrap();
    assert_valid_metrics(&scene, &exported);
    assert!(exported.contains("gpu_total_count 2\n"));

    // A real Prometheus scrapes it.
    let scraper = json!([{"job_name": "gpuctl", "honor_labels": true, "static_configs": [{"targets": [address]}]}]);
    let scraper = scene
        .cluster
        .another_prometheus("scraper", &scraper)
        .unwrap();
    let host = scraper.strip_prefix("http://").unwrap();
    until("Prometheus has the scores", || {
        let query = format!(
            "GET /api/v1/query?query=gpu_utilization_score%7Bpod%3D%22{}%22%7D",
            pods[0]
        );
        let answer: Value = serde_json::from_str(&ask(host, &query).2).unwrap();
        let series = answer["data"]["result"].as_array()?;
        let value = |index: usize| series.get(index)?["value"][1].as_str()?.parse::<f64>().ok();
        let sum = value(0)? + value(1)?;
        ((sum - expected[0] - expected[1]).abs() < 0.02).then_some(())
    });

    // Prometheus stops and starts again.
    scene.cluster.stop("prometheus-watched").unwrap();
    until("the watch is degraded", || {
        (get(&address, "/health")["status"] == "degraded").then_some(())
    });
    assert_eq!(get(&address, "/health")["prometheus_connected"], false);
    let errors = until("the error is counted", || {
        sample(&address, "gpu_analysis_errors_total").filter(|errors| *errors >= 1.0)
    });
    until("the last results are too old to be served", || {
        (ask(&address, "GET /results").0 == 503).then_some(())
    });
    assert_eq!(sample(&address, "gpu_total_count"), None);
    assert_valid_metrics(&scene, &ask(&address, "GET /metrics").2);
    watch.says("analysis failed");
    scene.cluster.start_again("prometheus-watched").unwrap();
    until("the watch is healthy again", || {
        (get(&address, "/health")["status"] == "healthy").then_some(())
    });
    until("scores are served again", || {
        (get(&address, "/results")[0]["status"] == "normal").then_some(())
    });

    // The API server stops and starts again.
    scene.cluster.stop("kube-apiserver").unwrap();
    until("another error is counted", || {
        sample(&address, "gpu_analysis_errors_total").filter(|now| *now > errors)
    });
    until("the watch is degraded", || {
        (get(&address, "/health")["status"] == "degraded").then_some(())
    });
    scene.cluster.start_again("kube-apiserver").unwrap();
    until("the watch is healthy again", || {
        (get(&address, "/health")["status"] == "healthy").then_some(())
    });
    until("scores are served again", || {
        (get(&address, "/results")[0]["status"] == "normal").then_some(())
    });

    // The config file changes, is invalid, and is valid again.
    config(
        &settings,
        &scene.prometheus,
        "thresholds: {low_utilization: 60}\n",
    );
    until("the new threshold is used", || {
        (get(&address, "/results/low")["count"] == 2).then_some(())
    });
    config(
        &settings,
        &scene.prometheus,
        "thresholds: {low_utilization: many}\n",
    );
    watch.says("is invalid, so the previous settings remain in use");
    assert_eq!(get(&address, "/results/low")["threshold"], 60.0);
    config(
        &settings,
        &scene.prometheus,
        "thresholds: {low_utilisation: 30}\n",
    );
    watch.says("did you mean `thresholds.low_utilization`?");
    until("the default threshold is used again", || {
        (get(&address, "/results/low")["threshold"] == 20.0).then_some(())
    });

    assert_eq!(watch.ends("-TERM"), 0, "{}", watch.err());
    let out = std::fs::read_to_string(&watch.out).unwrap();
    assert!(out.ends_with('\n') && out.lines().count() > 4);
    for line in out.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(
            row["gpu_id"].is_string() || row["status"] == "unknown",
            "one object per line: {line}"
        );
    }
    // The busy GPU always had its score, or was unknown.
    let is_busy_or_unknown =
        |row: &Value| row["gpu_id"] == "GPU-watched-0-0" || row["gpu_id"].is_null();
    let busy: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(is_busy_or_unknown)
        .collect();
    let has_score = |row: &&Value| {
        row["score"]
            .as_f64()
            .is_some_and(|score| (score - expected[0]).abs() < 0.006)
    };
    let settled: Vec<&Value> = busy.iter().skip_while(|row| !has_score(row)).collect();
    assert!(
        settled.len() > 4
            && settled
                .iter()
                .all(|row| has_score(row) || row["status"] == "unknown"),
        "{settled:#?}"
    );
    let temporary_files: Vec<_> = std::fs::read_dir(scene.cluster.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("watch.prom."))
        .collect();
    assert!(temporary_files.is_empty(), "{temporary_files:?}");

    // An outage at the start does not end a watch, but an error that needs the user does. Ctrl-C
    // exits with 130.
    let mut failing = Watch::start(&scene, &["--watch=1s", "--prometheus", "none"]);
    until("the failed analysis is reported", || {
        failing.err().contains("analysis failed").then_some(())
    });
    assert_eq!(failing.ends("-INT"), 130);
    let port_in_use = gpuctl(scene.cluster, Persona::Admin)
        .args(["score", "--watch", "--listen", host])
        .output()
        .unwrap();
    assert_eq!(port_in_use.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&port_in_use.stderr).contains("cannot listen on"));
    let without_watch = gpuctl(scene.cluster, Persona::Admin)
        .args(["score", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(
        without_watch.status.code(),
        Some(2),
        "--listen needs --watch"
    );
}
