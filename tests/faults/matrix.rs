//! Tests the rows of the matrix in `README.md`: each fault with each kind of command, both
//! transient and permanent. After a transient fault, stdout is the same as with a healthy server. A
//! permanent fault ends the command in time, with an error and an empty stdout.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Answer, Run, Server, empty_list};

/// Commands that read lists, a single object, a view that joins several lists, and a log.
const READS: [&[&str]; 5] = [
    &["get", "jobs", "-o", "json"],
    &["get", "nodes", "-o", "json"],
    &["describe", "job", "a", "-o", "json"],
    &["get", "workloads", "-o", "json"],
    &["logs", "a"],
];

/// Commands that write, open sessions or watch. Under a permanent fault they end as reads do.
const OTHERS: [&[&str]; 6] = [
    &["create", "-f", "examples/training.yaml"],
    &["apply", "-f", "examples/compute.yaml"],
    &["delete", "job", "a", "-y"],
    &["exec", "a", "--", "true"],
    &["get", "jobs", "-w"],
    &["logs", "a", "-f"],
];

/// Returns the response of a healthy server that has one job with its pod and its node.
fn healthy(request: &str) -> Vec<u8> {
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "a", "gpuctl/kind": "training"});
    let list = |items: Value| json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
    let resources =
        json!({"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2", "cpu": "4"}});
    let spec = json!({"nodeName": "n", "containers": [{"name": "main", "image": "i", "resources": resources}]});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "a", "namespace": "team-a", "uid": "1", "labels": labels, "creationTimestamp": "2026-01-31T10:00:00Z"},
        "spec": {"parallelism": 1, "completions": 1, "template": {"spec": spec}}, "status": {"active": 1}});
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "1", "controller": true}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a-0-x", "namespace": "team-a", "uid": "2", "labels": labels, "ownerReferences": owner, "creationTimestamp": "2026-01-31T10:00:00Z"},
        "spec": spec, "status": {"phase": "Succeeded", "startTime": "2026-01-31T10:00:01Z", "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-31T10:00:01Z", "finishedAt": "2026-01-31T10:10:00Z"}}}]}});
    let node = json!({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}, "spec": {},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let path = request.split(['?', ' ']).nth(1).unwrap_or_default();
    if path.ends_with("/log") {
        return response(
            200,
            "text/plain",
            "",
            b"2026-01-31T10:00:02.000000000Z first\n2026-01-31T10:00:03.000000000Z second\n",
        );
    }
    let body = match path.rsplit('/').next().unwrap_or_default() {
        "jobs" => list(json!([job])),
        "pods" => list(json!([pod])),
        "nodes" => list(json!([node])),
        "gpuctl-facts" | "gpuctl-defaults" => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "message": "not found"});
            return response(404, "application/json", "", status.to_string().as_bytes());
        }
        _ => list(json!([])),
    };
    response(200, "application/json", "", body.to_string().as_bytes())
}

fn response(code: u16, media: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: {media}\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Starts a server that answers the first `times` requests for each path with a fault.
fn server(
    name: &str,
    times: usize,
    fault: impl Fn(Vec<u8>) -> Answer + Send + Sync + 'static,
) -> Server {
    Server::start(name, move |request, count| {
        if count <= times {
            fault(healthy(request))
        } else {
            Answer::Bytes(healthy(request))
        }
    })
}

const ALWAYS: usize = usize::MAX;

fn expected(name: &str) -> Vec<Run> {
    let server = server(&format!("healthy-{name}"), 0, Answer::Bytes);
    let runs: Vec<Run> = READS.iter().map(|read| server.gpuctl(read)).collect();
    runs.iter().for_each(|run| {
        assert!(
            run.code == 0 && run.out.len() > 12,
            "{}{}",
            run.out,
            run.err
        );
    });
    runs
}

/// Replaces ages and durations, which differ between runs.
fn mask_times(text: &str) -> String {
    let times =
        regex::Regex::new(r#""(age|runtime)": "[^"]*"|"[a-zA-Z]*Seconds": [0-9.]+"#).unwrap();
    times.replace_all(text, "TIME").into_owned()
}

/// Runs every read concurrently, each against a server with a transient fault. The output must be
/// the same as with a healthy server.
fn heals(
    name: &str,
    times: usize,
    within: Duration,
    fault: impl Fn(Vec<u8>) -> Answer + Clone + Send + Sync + 'static,
) {
    let expected = expected(name);
    std::thread::scope(|scope| {
        for (index, read) in READS.iter().enumerate() {
            let (fault, expected) = (fault.clone(), &expected[index]);
            scope.spawn(move || {
                let run = server(&format!("{name}-{index}"), times, fault).gpuctl(read);
                assert_eq!(
                    (run.code, mask_times(&run.out)),
                    (0, mask_times(&expected.out)),
                    "{name}: {read:?}: {}",
                    run.err
                );
                assert!(run.took < within, "{name}: {read:?} took {:?}", run.took);
            });
        }
    });
}

/// Runs every command concurrently, each against a server with a permanent fault. Each must end in
/// time with an error and an empty stdout.
fn ends(
    name: &str,
    within: Duration,
    options: &[&str],
    fault: impl Fn(Vec<u8>) -> Answer + Clone + Send + Sync + 'static,
) {
    std::thread::scope(|scope| {
        for (index, read) in READS.iter().chain(&OTHERS).enumerate() {
            let fault = fault.clone();
            scope.spawn(move || {
                let run = server(&format!("{name}-{index}"), ALWAYS, fault)
                    .gpuctl(&[options, read].concat());
                assert!(
                    run.code == 6 || run.code == 1,
                    "{name}: {read:?} exits {}: {}",
                    run.code,
                    run.err
                );
                assert_eq!(run.out, "", "{name}: {read:?} prints a partial result");
                assert!(
                    run.err.contains("error") && !run.err.contains("panicked"),
                    "{name}: {read:?}: {}",
                    run.err
                );
                assert!(
                    !run.err.contains("canary") && !run.err.contains('<'),
                    "{name}: {read:?}: {}",
                    run.err
                );
                assert!(run.took < within, "{name}: {read:?} took {:?}", run.took);
            });
        }
    });
}

/// Truncates a response. 50 keeps its first half, 100 drops only its last byte, and any other
/// number keeps that many bytes.
fn cut(at: usize) -> impl Fn(Vec<u8>) -> Answer + Clone + Send + Sync + 'static {
    move |mut bytes| {
        let end = match at {
            50 => bytes.len() / 2,
            100 => bytes.len() - 1,
            length => length,
        };
        bytes.truncate(end);
        Answer::Bytes(bytes)
    }
}

#[test]
fn r1_connections_that_break() {
    for at in [0, 1, 50, 100] {
        heals(
            &format!("r1-once-{at}"),
            1,
            Duration::from_secs(12),
            cut(at),
        );
        ends(
            &format!("r1-always-{at}"),
            Duration::from_secs(12),
            &[],
            cut(at),
        );
    }
    heals("r1-twice", 2, Duration::from_secs(12), cut(50));
}

#[test]
fn r2_too_many_requests() {
    let body =
        json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slow down"})
            .to_string();
    for (name, header) in [
        ("zero", "Retry-After: 0\r\n"),
        ("one", "Retry-After: 1\r\n"),
        ("date", "Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n"),
        ("garbage", "Retry-After: soon\r\n"),
        ("negative", "Retry-After: -5\r\n"),
        ("absent", ""),
        ("hour", "Retry-After: 3600\r\n"),
    ] {
        let body = body.clone();
        heals(
            &format!("r2-{name}"),
            1,
            Duration::from_secs(40),
            move |_| Answer::Bytes(response(429, "application/json", header, body.as_bytes())),
        );
    }
}

#[test]
fn r3_errors_of_the_server() {
    let status = |code: u16| {
        json!({"kind": "Status", "code": code, "reason": "InternalError", "message": "etcd is away"}).to_string()
    };
    for code in [500_u16, 502, 503, 504] {
        for (name, media, body) in [
            ("status", "application/json", status(code)),
            (
                "html",
                "text/html",
                "<html><head><title>Bad Gateway</title></head></html>".to_owned(),
            ),
            ("empty", "text/plain", String::new()),
        ] {
            let fault = move |_| Answer::Bytes(response(code, media, "", body.as_bytes()));
            heals(
                &format!("r3-{code}-{name}-once"),
                1,
                Duration::from_secs(20),
                fault.clone(),
            );
            if code != 500 {
                heals(
                    &format!("r3-{code}-{name}-thrice"),
                    3,
                    Duration::from_secs(20),
                    fault.clone(),
                );
            }
            ends(
                &format!("r3-{code}-{name}-always"),
                Duration::from_secs(20),
                &[],
                fault,
            );
        }
    }
}

#[test]
fn r5_answers_that_drip() {
    let within = Duration::from_secs(12);
    let limit = ["--request-timeout", "2s"];
    ends("r5-drip", within, &limit, Answer::Slowly);
    ends("r5-headers", within, &limit, |mut bytes| {
        bytes.truncate(20);
        Answer::BytesThenStall(bytes)
    });
    ends("r5-body", within, &limit, |mut bytes| {
        bytes.truncate(bytes.len() - 5);
        Answer::BytesThenStall(bytes)
    });
}

/// Runs `get jobs` against a server that returns `body` for the first `times` lists of jobs.
fn get_jobs(name: &str, times: usize, media: &'static str, body: Vec<u8>) -> Run {
    let server = Server::start(name, move |request, count| {
        if request.contains("/batch/v1/jobs?") && count <= times {
            return Answer::Bytes(response(200, media, "", &body));
        }
        Answer::Bytes(healthy(request))
    });
    server.gpuctl(&["get", "jobs", "-o", "name"])
}

#[test]
fn r6_answers_that_are_corrupt() {
    let list = |items: &str| format!("{{\"metadata\":{{}},\"items\":[{items}]}}").into_bytes();
    let long = format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", "x".repeat(10 << 20));
    let mut broken_text = list("{\"metadata\":{\"name\":\"a\"}}");
    let place = broken_text
        .windows(3)
        .position(|window| window == b"\"a\"")
        .unwrap();
    broken_text[place + 1] = 0xff;
    for (name, body) in [
        ("empty", Vec::new()),
        ("open", list("{\"metadata\":")),
        ("utf8", broken_text),
        ("nul", b"{\"metadata\":{},\"items\":[\0]}".to_vec()),
        ("deep", list(&"[".repeat(10_000))),
        ("array", b"[]".to_vec()),
        ("text", b"\"nothing\"".to_vec()),
    ] {
        let run = get_jobs(&format!("r6-{name}"), ALWAYS, "application/json", body);
        assert_eq!((run.code, run.out.as_str()), (6, ""), "{name}: {}", run.err);
        assert!(
            run.err.contains("http://127.0.0.1") && run.err.contains("byte"),
            "{name}: {}",
            run.err
        );
    }
    // An invalid number in one object does not hide the other objects.
    for (name, count) in [("number", "99999999999999999999999"), ("negative", "-1")] {
        let odd = format!(
            "{{\"metadata\":{{\"name\":\"odd\"}},\"spec\":{{\"parallelism\":{count}}}}},{{\"metadata\":{{\"name\":\"good\"}}}}"
        );
        let run = get_jobs(
            &format!("r6-{name}"),
            ALWAYS,
            "application/json",
            list(&odd),
        );
        assert!(
            run.code == 0 && run.out.contains("good"),
            "{name}: {}{}",
            run.out,
            run.err
        );
    }
    let run = get_jobs("r6-long", ALWAYS, "application/json", list(&long));
    assert!(
        run.code == 0 && run.took < Duration::from_secs(5),
        "a name of ten million bytes is valid: {}",
        run.err
    );
    // If a protobuf response is invalid, gpuctl requests it again as JSON. If the server keeps
    // sending invalid protobuf, the command fails.
    for (name, body) in [
        ("garbage", b"garbage".to_vec()),
        (
            "magic",
            b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        ),
        ("wrong", b"k8s\0\x12\x02\x0a\xff".to_vec()),
    ] {
        let media = "application/vnd.kubernetes.protobuf";
        let run = get_jobs(&format!("r6-once-{name}"), 1, media, body.clone());
        assert_eq!(run.code, 0, "{name}: {}", run.err);
        let run = get_jobs(&format!("r6-always-{name}"), ALWAYS, media, body);
        assert_eq!((run.code, run.out.as_str()), (6, ""), "{name}: {}", run.err);
    }
}

#[test]
fn r7_malformed_objects() {
    let meta = json!({"name": "odd", "namespace": "team-a", "labels": {"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/kind": "training"}});
    let with = |limit: &str| json!({"metadata": meta, "spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": limit}}}]}}}});
    for (name, item) in [
        ("bare", json!({})),
        ("named", json!({"metadata": meta})),
        ("negative", with("-4")),
        ("bytes", with("8Gi")),
        ("huge", with("9223372036854775808")),
        ("words", with("many")),
        (
            "phase",
            json!({"metadata": meta, "status": {"phase": "Sleeping", "conditions": [{}]}}),
        ),
        (
            "more",
            json!({"metadata": meta, "spec": {"unheard": {"of": [1, 2, null]}}, "extra": null}),
        ),
    ] {
        let run = get_jobs(
            &format!("r7-{name}"),
            ALWAYS,
            "application/json",
            json!({"metadata": {}, "items": [item]})
                .to_string()
                .into_bytes(),
        );
        assert_eq!(run.code, 0, "{name}: {}", run.err);
        assert!(
            run.out.contains("odd") || name == "bare",
            "{name}: {}",
            run.out
        );
    }
    // Go writes an empty list as null, so null counts as empty. A null item in a list causes a
    // warning.
    let empty = get_jobs(
        "r7-null",
        ALWAYS,
        "application/json",
        b"{\"metadata\":{},\"items\":null}".to_vec(),
    );
    assert_eq!(empty.code, 0, "{}", empty.err);
    let null_item = get_jobs(
        "r7-null-item",
        ALWAYS,
        "application/json",
        b"{\"metadata\":{},\"items\":[null]}".to_vec(),
    );
    assert!(
        null_item.code == 0 && null_item.err.contains("cannot be read"),
        "{}",
        null_item.err
    );
}

#[test]
fn r4_lists_that_expire_on_any_page() {
    let job = |name: String| json!({"metadata": {"name": name, "namespace": "team-a", "uid": name, "labels": {"gpuctl/kind": "training"}}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    for expired in 1..4_usize {
        let server = Server::start(&format!("r4-{expired}"), move |request, _| {
            if !request.contains("/batch/v1/jobs?") {
                return empty_list();
            }
            let page: usize = request.split_once("continue=page").map_or(0, |(_, rest)| {
                rest.split(['-', '&', ' ']).next().unwrap().parse().unwrap()
            });
            // The snapshot of the list has expired. The Status contains a token with which the list
            // continues from the latest state.
            if page == expired && !request.contains("-again") {
                let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {"continue": format!("page{page}-again")}});
                return Answer::Json(410, status);
            }
            let next = if page < 4 {
                format!("page{}", page + 1)
            } else {
                String::new()
            };
            let next = if request.contains("-again") && page < 4 {
                format!("{next}-again")
            } else {
                next
            };
            Answer::Json(
                200,
                json!({"metadata": {"continue": next}, "items": [job(format!("job-{page}"))]}),
            )
        });
        let run = server.gpuctl(&["get", "jobs", "-o", "name"]);
        let expected: String = (0..=4).map(|page| format!("team-a/job-{page}\n")).collect();
        assert_eq!((run.code, run.out), (0, expected), "{}", run.err);
    }
    // A second 410 is an error and must not lead to a truncated list.
    let server = Server::start("r4-twice", move |request, _| {
        if !request.contains("/batch/v1/jobs?") {
            return empty_list();
        }
        match request.contains("continue=") {
            true => Answer::Json(
                410,
                json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {"continue": "again"}}),
            ),
            false => Answer::Json(
                200,
                json!({"metadata": {"continue": "old"}, "items": [job("first".to_owned())]}),
            ),
        }
    });
    let run = server.gpuctl(&["get", "jobs", "-o", "name"]);
    assert!(
        run.code != 0 && run.out.is_empty(),
        "{}{}",
        run.out,
        run.err
    );
}
