//! Compares the duration of hourly statistics with the time that Prometheus needs for their
//! queries.
//!
//! The benchmark writes a week of samples for 1,000 GPUs, one every 30 s. `stats cluster` and a
//! client that discards every response read them in turn. There is no pass or fail criterion.
//! `cargo bench --bench history` takes about ten minutes; `-- 6` uses six hours instead of a week.
#![expect(clippy::disallowed_macros, reason = "a benchmark prints its results")]
#![expect(clippy::disallowed_methods, reason = "a benchmark writes its history")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and lengths of a benchmark are small"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::PodQuery;
use gpuctl_core::stats::exporters::query;
use gpuctl_sandbox::{Cluster, Options, Persona};

const NODES: usize = 125;
/// Hours in a week.
const WEEK: i64 = 168;
/// Hours per file. promtool reads the whole file once for every two hours in it.
const HOURS_PER_FILE: i64 = 6;
/// Number of hours that gpuctl queries concurrently.
const CONCURRENT_HOURS: usize = 4;
/// How often each client runs.
const RUNS: usize = 5;
const HOUR: i64 = 3600;
const SCRAPE: i64 = 30;

fn history(begin: i64, hours: i64) -> String {
    let mut text = String::new();
    let mut write_series = |series: &str, value: &dyn Fn(i64) -> i64| {
        for at in (0..hours * HOUR).step_by(SCRAPE as usize) {
            writeln!(text, "{series} {} {}", value(at), begin + at)
                .expect("writing to a string succeeds");
        }
    };
    for node in 0..NODES {
        write_series(
            &format!("kube_node_status_capacity{{node=\"n{node}\",resource=\"nvidia_com_gpu\"}}"),
            &|_| 8,
        );
        let id = format!(
            "namespace=\"team-{}\",pod=\"p{node}\",uid=\"u{node}\"",
            node % 10
        );
        write_series(
            &format!(
                "kube_pod_container_resource_requests{{{id},container=\"c\",node=\"n{node}\",resource=\"nvidia_com_gpu\"}}"
            ),
            &|_| 8,
        );
        for phase in ["Pending", "Running", "Succeeded", "Failed"] {
            write_series(
                &format!("kube_pod_status_phase{{{id},phase=\"{phase}\"}}"),
                &|_| i64::from(phase == "Running"),
            );
        }
        write_series(
            &format!("kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"j{node}\"}}"),
            &|_| 1,
        );
        for gpu in 0..8_i64 {
            let labels = format!(
                "Hostname=\"n{node}\",gpu=\"{gpu}\",UUID=\"GPU-{node}-{gpu}\",modelName=\"m\""
            );
            write_series(&format!("DCGM_FI_DEV_GPU_UTIL{{{labels},{id}}}"), &|at| {
                (at / SCRAPE + gpu) % 100
            });
        }
    }
    text.push_str("# EOF\n");
    text
}

/// Sends a query as gpuctl would, and discards the response. Returns the response size in bytes.
fn discard_query(host: &str, query: &str, time: i64) -> usize {
    let form: String = form_urlencoded(query, time);
    let mut stream = TcpStream::connect(host).expect("Prometheus listens");
    write!(
        stream,
        "POST /api/v1/query HTTP/1.0\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    )
    .expect("Prometheus reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("Prometheus answers");
    assert!(
        answer.starts_with(b"HTTP/1.0 200"),
        "{}",
        String::from_utf8_lossy(&answer[..300.min(answer.len())])
    );
    answer.len()
}

fn form_urlencoded(query: &str, time: i64) -> String {
    let quoted: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("time={time}&query={quoted}")
}

/// Reads the samples of a range of hours through remote read, without decoding the compressed
/// chunks. The request is encoded by hand, following Prometheus' `prompb/remote.proto`. Returns the
/// response size in bytes.
fn remote_read(host: &str, begin: i64, end: i64) -> usize {
    fn number(into: &mut Vec<u8>, mut number: u64) {
        while number >= 0x80 {
            into.push(number as u8 | 0x80);
            number >>= 7;
        }
        into.push(number as u8);
    }
    fn bytes(into: &mut Vec<u8>, tag: u8, value: &[u8]) {
        into.push(tag);
        number(into, value.len() as u64);
        into.extend(value);
    }
    let (mut matcher, mut query, mut request, mut body) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    bytes(&mut matcher, 0x12, b"__name__");
    bytes(&mut matcher, 0x1a, b"DCGM_FI_DEV_GPU_UTIL");
    query.push(0x08);
    number(&mut query, begin as u64 * 1000);
    query.push(0x10);
    number(&mut query, end as u64 * 1000 - 1);
    bytes(&mut query, 0x1a, &matcher);
    bytes(&mut request, 0x0a, &query);
    // accepted_response_types: STREAMED_XOR_CHUNKS
    request.extend([0x10, 1]);
    // Encode the request as a snappy block with a single literal, which needs no compression.
    number(&mut body, request.len() as u64);
    body.extend([60 << 2, request.len() as u8 - 1]);
    body.extend(&request);
    let mut stream = TcpStream::connect(host).expect("Prometheus listens");
    write!(
        stream,
        "POST /api/v1/read HTTP/1.0\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\nX-Prometheus-Remote-Read-Version: 0.1.0\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .and_then(|()| stream.write_all(&body))
    .expect("Prometheus reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("Prometheus answers");
    assert!(
        answer.starts_with(b"HTTP/1.0 200"),
        "{}",
        String::from_utf8_lossy(&answer[..300.min(answer.len())])
    );
    answer.len()
}

/// Compares queries with a remote read that only fetches the samples, with one and with six hours
/// per request.
fn compare_transports(host: &str, begin: i64, hours: i64) {
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1000.0
    };
    for span in [1, 6] {
        let (mut queried, mut remote, mut bytes) = (Vec::new(), Vec::new(), [0, 0]);
        for _ in 0..RUNS {
            let start = Instant::now();
            let ends = (1..=hours / span).map(|part| begin + part * span * HOUR);
            bytes[0] = ends
                .clone()
                .map(|end| {
                    discard_query(
                        host,
                        &query::samples(&[Quantity::Utilization], span * HOUR),
                        end,
                    )
                })
                .sum();
            queried.push(start.elapsed());
            let start = Instant::now();
            bytes[1] = ends
                .map(|end| remote_read(host, end - span * HOUR, end))
                .sum();
            remote.push(start.elapsed());
        }
        let [json, chunks] = bytes.map(|bytes| bytes as f64 / 1e6);
        println!(
            "samples alone, {span} h per request: JSON {:>8.0} ms, {json:.1} MB; remote read {:>8.0} ms, {chunks:.1} MB",
            median(queried),
            median(remote)
        );
    }
}

/// Sends the queries for one hour as concurrently as gpuctl does. Returns the total size of the
/// responses in bytes.
fn query_hour(host: &str, end: i64) -> usize {
    let pods: Vec<String> = (0..NODES).map(|pod| format!("p{pod}")).collect();
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    let jobs: Vec<String> = (0..NODES).map(|job| format!("j{job}")).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let about = [
        kube_state::requests(HOUR),
        kube_state::pod_facts(PodQuery::PhasesEver, &pods, "pod", HOUR),
        kube_state::pod_facts(PodQuery::Owners, &pods, "pod", HOUR),
        kube_state::pod_facts(PodQuery::Jobs, &jobs, "job_name", HOUR),
    ];
    thread::scope(|scope| {
        let samples = scope
            .spawn(|| discard_query(host, &query::samples(&[Quantity::Utilization], HOUR), end));
        let capacity = scope.spawn(|| discard_query(host, &kube_state::capacity(HOUR), end));
        let about: usize = about
            .iter()
            .map(|query| discard_query(host, query, end))
            .sum();
        samples.join().expect("no thread panics")
            + capacity.join().expect("no thread panics")
            + about
    })
}

/// Queries all hours as concurrently as gpuctl does. Returns the duration and the total size of the
/// responses in bytes.
fn query_all_hours(host: &str, ends: &[i64]) -> (Duration, usize) {
    let start = Instant::now();
    let (next, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..CONCURRENT_HOURS {
            scope.spawn(|| {
                while let Some(end) = ends.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bytes.fetch_add(query_hour(host, *end), Ordering::Relaxed);
                }
            });
        }
    });
    (start.elapsed(), bytes.into_inner())
}

/// Runs a command. Returns its duration and its peak memory in MiB.
fn measure(command: &mut Command) -> (Duration, f64) {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak: f64 = 0.0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: Option<f64> =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0.0) / 1024.0);
        if let Some(status) = child.try_wait().expect("the command can be waited for") {
            assert!(status.success(), "{command:?} failed");
            return (start.elapsed(), peak);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn main() {
    let cluster = Cluster::start(&Options::default()).expect("the cluster starts");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is right")
        .as_secs();
    let end = i64::try_from(now).expect("a time of today") / HOUR * HOUR - HOUR;
    let hours = std::env::args()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(WEEK);
    let begin = end - hours * HOUR;
    let (file, folder) = (
        cluster.folder().join("history.om"),
        cluster.folder().join("history-tsdb"),
    );
    for from in (0..hours).step_by(HOURS_PER_FILE as usize) {
        fs::write(
            &file,
            history(begin + from * HOUR, HOURS_PER_FILE.min(hours - from)),
        )
        .expect("the history is written");
        let written = Command::new(cluster.binary("promtool"))
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&file, &folder])
            .stdout(Stdio::null())
            .status();
        assert!(written.expect("promtool starts").success());
    }
    let url = cluster
        .prometheus_of_history("history")
        .expect("Prometheus starts");
    let host = url.trim_start_matches("http://").to_owned();
    // Warm up, because Prometheus maps its blocks into memory at the first query.
    query_hour(&host, begin + HOUR);
    let ends: Vec<i64> = (1..=hours).map(|hour| begin + hour * HOUR).collect();
    compare_transports(&host, end - hours.min(24) * HOUR, hours.min(24));
    let (mut prometheus_costs, mut gpuctl_costs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // Run the two clients in turn, so that other load on the machine affects both.
    for _ in 0..RUNS {
        let prometheus_cost = query_all_hours(&host, &ends);
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(["--prometheus", &url, "stats", "cluster"]);
        let gpuctl_cost = measure(command.args([
            "--start",
            &begin.to_string(),
            "--end",
            &end.to_string(),
            "-o",
            "json",
            "--no-cache",
        ]));
        ratios.push(gpuctl_cost.0.as_secs_f64() / prometheus_cost.0.as_secs_f64());
        prometheus_costs.push(prometheus_cost);
        gpuctl_costs.push(gpuctl_cost);
    }
    prometheus_costs.sort_unstable();
    gpuctl_costs.sort_by_key(|(time, _)| *time);
    ratios.sort_by(f64::total_cmp);
    let peak = gpuctl_costs
        .iter()
        .map(|(_, peak)| *peak)
        .fold(0.0, f64::max);
    let ((prometheus_time, bytes), (gpuctl_time, _)) =
        (prometheus_costs[RUNS / 2], gpuctl_costs[RUNS / 2]);
    println!(
        "{hours} hours of {} GPUs, {:.0} MB of responses",
        NODES * 8,
        bytes as f64 / 1e6
    );
    println!(
        "Prometheus alone       {:>8.0} ms",
        prometheus_time.as_secs_f64() * 1000.0
    );
    println!(
        "gpuctl stats cluster   {:>8.0} ms, {:.2} times ({:.2} to {:.2}), {peak:.0} MiB",
        gpuctl_time.as_secs_f64() * 1000.0,
        ratios[RUNS / 2],
        ratios[0],
        ratios[RUNS - 1]
    );
}
