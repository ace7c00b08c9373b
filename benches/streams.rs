//! Measures `logs -f` of 512 pods at 200,000 lines per second.
//!
//! A stub server that only writes lines replaces the API server. The benchmark prints its results,
//! and fails if a pod's lines are incomplete or out of order. `cargo bench --bench streams` takes
//! half a minute after the build.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark writes its kubeconfig and reads the state of processes"
)]

#[path = "process.rs"]
mod process;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const STREAMS: usize = 512;
const SECONDS: usize = 10;
/// Lines that each stream writes every 100 ms. Together, the streams write about 200,000 lines per
/// second.
const BURST: usize = 39;
const LINES_PER_STREAM: usize = BURST * 10 * SECONDS + 2;

/// Responds to a list request for the job or its pods. The pods are reported as succeeded once
/// `is_over` is set.
fn list(path: &str, is_over: bool) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "loud", "gpuctl/kind": "training"});
    let begun = "2026-01-31T10:00:00Z";
    let template = json!({"containers": [{"name": "main", "image": "i"}]});
    let complete = json!([{"type": "Complete", "status": "True"}]);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "loud", "namespace": "team", "uid": "1", "labels": labels, "creationTimestamp": begun},
        "spec": {"parallelism": STREAMS, "completions": STREAMS, "completionMode": "Indexed", "template": {"spec": template}},
        "status": {"active": STREAMS, "conditions": if is_over { complete } else { json!([]) }}});
    let pod = |rank: usize| {
        let mut labels = labels.clone();
        labels["batch.kubernetes.io/job-completion-index"] = json!(rank.to_string());
        let state = match is_over {
            true => json!({"terminated": {"exitCode": 0, "startedAt": begun, "finishedAt": begun}}),
            false => json!({"running": {"startedAt": begun}}),
        };
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("loud-{rank}-x"), "namespace": "team", "uid": format!("p{rank}"), "labels": labels, "creationTimestamp": begun,
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "loud", "uid": "1", "controller": true}]},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": if is_over { "Succeeded" } else { "Running" }, "startTime": begun,
                "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}})
    };
    let items: Vec<Value> = match path.rsplit('/').next() {
        Some("jobs") => vec![job],
        Some("pods") => (0..STREAMS).map(pod).collect(),
        _ => Vec::new(),
    };
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
}

/// Formats one of a pod's log lines as the API server would. The timestamp advances by 1 ms per
/// line.
fn log_line(rank: usize, number: usize) -> String {
    let (second, part) = (number / 1000, number % 1000);
    format!(
        "2026-01-31T10:01:{second:02}.{part:03}000000Z rank {rank} line {number} step 1000 loss 2.345 lr 3e-5 tokens/s 12345\n"
    )
}

/// Writes all of a pod's numbered lines, at their rate.
fn write_log(stream: &mut TcpStream, rank: usize) -> std::io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")?;
    let begun = Instant::now();
    let mut number = 0;
    for tick in 0_u32.. {
        let mut text = String::new();
        for _ in 0..BURST.min(LINES_PER_STREAM - number) {
            text.push_str(&log_line(rank, number));
            number += 1;
        }
        stream.write_all(text.as_bytes())?;
        if number == LINES_PER_STREAM {
            return Ok(());
        }
        thread::sleep((Duration::from_millis(100) * (tick + 1)).saturating_sub(begun.elapsed()));
    }
    Ok(())
}

fn answer(mut stream: TcpStream, ended: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    let (path, query) = first
        .split(' ')
        .nth(1)
        .and_then(|target| target.split_once('?'))
        .unwrap_or_default();
    let pod = path.split('/').rev().nth(1).unwrap_or_default();
    let rank = pod
        .split('-')
        .nth(1)
        .and_then(|rank| rank.parse().ok())
        .unwrap_or(0);
    if path.ends_with("/log") && query.contains("follow=true") && !query.contains("sinceTime") {
        let written = write_log(&mut stream, rank);
        ended.fetch_add(1, Ordering::SeqCst);
        return written;
    }
    let body = match path.ends_with("/log") {
        // The stream ended before its pod did, so the client reconnects from the time of the last
        // line.
        true => {
            let since = query
                .split_once("T10%3A01%3A")
                .and_then(|(_, second)| second.get(..2)?.parse::<usize>().ok());
            (since.unwrap_or(0) * 1000..LINES_PER_STREAM)
                .map(|number| log_line(rank, number))
                .collect()
        }
        false => list(path, ended.load(Ordering::SeqCst) == STREAMS).to_string(),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener
        .local_addr()
        .expect("the listener has an address")
        .port();
    let ended = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let ended = Arc::clone(&ended);
            thread::spawn(move || drop(answer(stream, &ended)));
        }
    });
    let folder = std::env::temp_dir().join(format!("gpuctl-streams-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder can be created");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}]});
    fs::write(folder.join("config"), config.to_string()).expect("the kubeconfig can be written");

    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .env("KUBECONFIG", folder.join("config"))
        .args(["logs", "loud", "-f"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gpuctl starts");
    let mut out = BufReader::with_capacity(1 << 20, child.stdout.take().expect("stdout is piped"));
    let (mut next, mut lines, mut text) = (vec![0_usize; STREAMS], 0_usize, String::new());
    let (mut peak, mut used, mut took) = (0.0_f64, Duration::ZERO, Duration::ZERO);
    while out.read_line(&mut text).expect("the lines are text") > 0 {
        let words: Vec<&str> = text
            .split_whitespace()
            .skip_while(|word| *word != "rank")
            .collect();
        let number = |index: usize| words[index].parse::<usize>().expect("a number");
        let (rank, number) = (number(1), number(3));
        assert_eq!(
            number, next[rank],
            "a line of rank {rank} is missing or duplicated: {text}"
        );
        next[rank] += 1;
        lines += 1;
        took = begun.elapsed();
        if lines.is_multiple_of(50_000) {
            peak = process::peak(child.id()).unwrap_or(peak);
            used = process::cpu(child.id()).unwrap_or(used);
        }
        text.clear();
    }
    let status = child.wait().expect("gpuctl can be waited for");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    assert!(status.success(), "{status}");
    assert!(
        next.iter().all(|count| *count == LINES_PER_STREAM),
        "lines were lost"
    );
    println!(
        "{STREAMS} streams, {lines} lines, the last after {:.1} s: {:.0} per second",
        took.as_secs_f64(),
        lines as f64 / took.as_secs_f64()
    );
    println!(
        "CPU {:.1} s, peak {peak:.0} MiB, no line lost",
        used.as_secs_f64()
    );
}
