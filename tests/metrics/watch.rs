//! `score --watch` through everything that happens to one that runs for weeks: Prometheus and the
//! API server restart, its config file changes and is wrong, others scrape it, and it is told to
//! end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Options, Persona};
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

    /// Waits until its stderr has a text, and returns what follows on that line.
    fn says(&self, text: &str) -> String {
        until(&format!("«{text}» is said"), || {
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
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(
                Instant::now() < end,
                "{signal} does not end it: {}",
                self.err()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A request as a scraper makes it: status, content type, body.
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

/// A sample of the exposition.
fn sample(address: &str, name: &str) -> Option<f64> {
    let (_, _, body) = ask(address, "GET /metrics");
    body.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn is_valid(scene: &Scene, text: &str) {
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
    let opinion = String::from_utf8(check.wait_with_output().unwrap().stderr).unwrap();
    assert!(
        !opinion.contains("error while linting") && !opinion.contains("parsing error"),
        "{opinion}"
    );
}

/// The API server restarts, so nobody else may be on it.
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
fn it_survives_restarts_and_serves_what_it_knows() {
    let scene = Scene::on(dedicated_cluster(), "watched", 1);
    let pods = scene.train("work", 1, 2);
    scene.load(&pods[0], |place, gpu| {
        (gpu.utilization, gpu.memory_copy, gpu.watts) = ([90.0, 0.0][place as usize], 0.0, 40.0);
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
    let address = until("it listens", || {
        let err = watch.err();
        Some(
            err.split_once("listening at http://")?
                .1
                .lines()
                .next()?
                .to_owned(),
        )
    });
    // 45 + 0 + 0.2 · 1 + 0.1 · 10, and the same without the first.
    let by_hand = [46.2, 1.2];
    until("both are scored", || {
        let list = get(&address, "/results");
        let scores: Vec<f64> = list
            .as_array()?
            .iter()
            .filter_map(|one| one["score"].as_f64())
            .collect();
        (scores.len() == 2 && (scores[0] - by_hand[0]).abs() < 0.006).then_some(())
    });
    near(&get(&address, "/results")[1]["score"], by_hand[1]);
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
    is_valid(&scene, &text);
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
    let written = std::fs::read_to_string(&textfile).unwrap();
    is_valid(&scene, &written);
    assert!(written.contains("gpu_total_count 2\n"));

    // A real Prometheus scrapes it.
    let scraper = json!([{"job_name": "gpuctl", "honor_labels": true, "static_configs": [{"targets": [address]}]}]);
    let scraper = scene
        .cluster
        .another_prometheus("scraper", &scraper)
        .unwrap();
    let host = scraper.strip_prefix("http://").unwrap();
    until("it is scraped", || {
        let query = format!(
            "GET /api/v1/query?query=gpu_utilization_score%7Bpod%3D%22{}%22%7D",
            pods[0]
        );
        let answer: Value = serde_json::from_str(&ask(host, &query).2).unwrap();
        let found = answer["data"]["result"].as_array()?;
        let value = |index: usize| found.get(index)?["value"][1].as_str()?.parse::<f64>().ok();
        let sum = value(0)? + value(1)?;
        ((sum - by_hand[0] - by_hand[1]).abs() < 0.02).then_some(())
    });

    // Prometheus goes and comes.
    scene.cluster.stop("prometheus-watched").unwrap();
    until("the outage is seen", || {
        (get(&address, "/health")["status"] == "degraded").then_some(())
    });
    assert_eq!(get(&address, "/health")["prometheus_connected"], false);
    let errors = until("it is counted", || {
        sample(&address, "gpu_analysis_errors_total").filter(|errors| *errors >= 1.0)
    });
    until("what was found last gets too old to be shown", || {
        (ask(&address, "GET /results").0 == 503).then_some(())
    });
    assert_eq!(sample(&address, "gpu_total_count"), None);
    is_valid(&scene, &ask(&address, "GET /metrics").2);
    watch.says("analysis failed");
    scene.cluster.start_again("prometheus-watched").unwrap();
    until("it is over", || {
        (get(&address, "/health")["status"] == "healthy").then_some(())
    });
    until("scores are back", || {
        (get(&address, "/results")[0]["status"] == "normal").then_some(())
    });

    // So does the API server.
    scene.cluster.stop("kube-apiserver").unwrap();
    until("the outage is counted", || {
        sample(&address, "gpu_analysis_errors_total").filter(|now| *now > errors)
    });
    until("it is seen", || {
        (get(&address, "/health")["status"] == "degraded").then_some(())
    });
    scene.cluster.start_again("kube-apiserver").unwrap();
    until("it is over", || {
        (get(&address, "/health")["status"] == "healthy").then_some(())
    });
    until("scores are back", || {
        (get(&address, "/results")[0]["status"] == "normal").then_some(())
    });

    // Its file changes, is wrong, and is right again.
    config(
        &settings,
        &scene.prometheus,
        "thresholds: {low_utilization: 60}\n",
    );
    until("the new threshold counts", || {
        (get(&address, "/results/low")["count"] == 2).then_some(())
    });
    config(
        &settings,
        &scene.prometheus,
        "thresholds: {low_utilization: many}\n",
    );
    watch.says("is invalid, the previous settings remain in use");
    assert_eq!(get(&address, "/results/low")["threshold"], 60.0);
    config(
        &settings,
        &scene.prometheus,
        "thresholds: {low_utilisation: 30}\n",
    );
    watch.says("did you mean `thresholds.low_utilization`?");
    until("the default is back", || {
        (get(&address, "/results/low")["threshold"] == 20.0).then_some(())
    });

    assert_eq!(watch.ends("-TERM"), 0, "{}", watch.err());
    let out = std::fs::read_to_string(&watch.out).unwrap();
    assert!(out.ends_with('\n') && out.lines().count() > 4);
    for line in out.lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        assert!(
            one["gpu_id"].is_string() || one["status"] == "unknown",
            "one object a line: {line}"
        );
    }
    // Through all of it the busy one was what it is, or unknown.
    let ours = |one: &Value| one["gpu_id"] == "GPU-watched-0-0" || one["gpu_id"].is_null();
    let busy: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(ours)
        .collect();
    let is = |one: &&Value| {
        one["score"]
            .as_f64()
            .is_some_and(|score| (score - by_hand[0]).abs() < 0.006)
    };
    let settled: Vec<&Value> = busy.iter().skip_while(|one| !is(one)).collect();
    assert!(
        settled.len() > 4
            && settled
                .iter()
                .all(|one| is(one) || one["status"] == "unknown"),
        "{settled:#?}"
    );
    let left: Vec<_> = std::fs::read_dir(scene.cluster.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("watch.prom."))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    // What a person has to mend ends it at once; an outage at the start does not, and Ctrl-C is an
    // interruption.
    let mut wrong = Watch::start(&scene, &["--watch=1s", "--prometheus", "none"]);
    until("it is still there", || {
        wrong.err().contains("analysis failed").then_some(())
    });
    assert_eq!(wrong.ends("-INT"), 130);
    let taken = gpuctl(scene.cluster, Persona::Admin)
        .args(["score", "--watch", "--listen", host])
        .output()
        .unwrap();
    assert_eq!(taken.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&taken.stderr).contains("cannot listen at"));
    let interval = gpuctl(scene.cluster, Persona::Admin)
        .args(["score", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(interval.status.code(), Some(2), "--listen is for --watch");
}
