//! Replaces the response to each request of a write, one at a time, with a response that a broken
//! server or proxy would send. In every case the report matches the objects on the server, and a
//! second run completes the work. `tests/faults` does the same for commands that read.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cuts::{claimed, existing_objects};
use crate::proxy::{Content, CorruptAnswer, Cut, Proxy};
use crate::support::{Run, Scene};

const NAMESPACE: &str = "broken-responses";

/// The responses that replace the server's, with their names (rows R2, R3, R5 and R6 of the matrix
/// in `tests/faults`).
const CORRUPT_ANSWERS: [(&str, CorruptAnswer); 9] = [
    (
        "busy",
        instead(
            "HTTP/1.1 429 X\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        ),
    ),
    (
        "broken",
        instead(
            "HTTP/1.1 500 X\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 61\r\n\r\n{\"kind\":\"Status\",\"code\":500,\"message\":\"etcd is out of reach\"}",
        ),
    ),
    (
        "gateway",
        instead(
            "HTTP/1.1 502 X\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 18\r\n\r\n<html>Bad</html>\r\n",
        ),
    ),
    (
        "late",
        after(
            "HTTP/1.1 504 X\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 19\r\n\r\n<html>Late</html>\r\n",
        ),
    ),
    (
        "away",
        after("HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
    ),
    (
        "garbage",
        after(
            "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{\"kind\":",
        ),
    ),
    (
        "page",
        after(
            "HTTP/1.1 200 X\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 20\r\n\r\n<html>Login</html>\r\n",
        ),
    ),
    (
        "half",
        CorruptAnswer {
            is_handled: true,
            content: Content::Half,
        },
    ),
    (
        "stall",
        CorruptAnswer {
            is_handled: true,
            content: Content::Stall,
        },
    ),
];

const fn instead(answer: &'static str) -> CorruptAnswer {
    CorruptAnswer {
        is_handled: false,
        content: Content::Bytes(answer),
    }
}

const fn after(answer: &'static str) -> CorruptAnswer {
    CorruptAnswer {
        is_handled: true,
        content: Content::Bytes(answer),
    }
}

/// A file with one service, which has no pods and one volume.
fn yaml(name: &str, port: u16) -> String {
    format!(
        "kind: compute\nversion: v0.1\njob: {{name: {name}-b}}\nenvironment: {{image: 'busybox:1'}}\nservice: {{replicas: 0, port: {port}}}\nstorage: {{workdirs: [{{path: /data, size: 1Gi, storageClass: cuts}}]}}\n"
    )
}

/// All objects that the document declares.
fn all_objects(name: &str) -> BTreeSet<String> {
    crate::cuts::all_objects(name, &["b"])
}

/// A command that writes, and how to check that it succeeded.
struct Verb {
    word: &'static str,
    arguments: fn(&str) -> Vec<String>,
    input: fn(&str) -> String,
    /// Whether the job must exist before the command runs.
    exists_before: bool,
    is_done: fn(&Scene, &Proxy, &str) -> bool,
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(ToOwned::to_owned).collect()
}

fn port_of(scene: &Scene, name: &str) -> Option<u64> {
    let services = scene.admin.json(&[
        "get",
        "services",
        "-n",
        NAMESPACE,
        "--field-selector",
        &format!("metadata.name={name}-b"),
    ]);
    services["items"][0]["spec"]["ports"][0]["port"].as_u64()
}

/// Waits up to five seconds for the deletion, because dependents are deleted after their owner.
fn is_deleted(proxy: &Proxy, name: &str) -> bool {
    let is_empty = || existing_objects(proxy, NAMESPACE, name).is_empty();
    (0..20).any(|_| {
        is_empty() || {
            std::thread::sleep(Duration::from_millis(250));
            false
        }
    })
}

static VERBS: [Verb; 3] = [
    Verb {
        word: "create",
        arguments: |_| words("create -f - -o json"),
        input: |name| yaml(name, 80),
        exists_before: false,
        is_done: |_, proxy, name| existing_objects(proxy, NAMESPACE, name) == all_objects(name),
    },
    Verb {
        word: "apply",
        arguments: |_| words("apply -f - -o json"),
        input: |name| yaml(name, 81),
        exists_before: true,
        is_done: |scene, proxy, name| {
            existing_objects(proxy, NAMESPACE, name) == all_objects(name)
                && port_of(scene, name) == Some(81)
        },
    },
    Verb {
        word: "delete",
        arguments: |name| words(&format!("delete job {name}-b -y --purge -o json")),
        input: |_| String::new(),
        exists_before: true,
        is_done: |_, proxy, name| is_deleted(proxy, name),
    },
];

/// Runs a command with one corrupt response, then runs it again. Returns a description of the
/// failure, if there is one.
fn failure(scene: &Scene, proxy: &Proxy, verb: &Verb, name: &str, cut: Cut) -> Option<String> {
    if verb.exists_before {
        scene
            .gpuctl_with(&["create", "-f", "-"], &yaml(name, 80))
            .ok();
    }
    let arguments = (verb.arguments)(name);
    let arguments: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .chain(["--request-timeout", "3s"])
        .collect();
    let begun = Instant::now();
    let (run, _) = proxy.gpuctl(NAMESPACE, cut, &arguments, &(verb.input)(name));
    let took = begun.elapsed();
    let failed = |what: &str| {
        Some(format!(
            "{name} {cut:?}: {what}: exits {}\n{}{}",
            run.code, run.out, run.err
        ))
    };
    let is_done = (verb.is_done)(scene, proxy, name);
    if run.code == 0 && !is_done {
        return failed("it reports success, but the work is not done");
    }
    if !is_report_or_nothing(&run) || run.err.contains("panicked") || run.err.contains("<html>") {
        return failed("stdout or stderr is invalid");
    }
    if took > Duration::from_secs(45) {
        return failed(&format!("it took {took:?}"));
    }
    if run.code != 0 && verb.word == "create" {
        let (reported, possible) = claimed(&run, name);
        let existing = existing_objects(proxy, NAMESPACE, name);
        if !reported.is_subset(&existing)
            || !existing.is_subset(&reported.union(&possible).cloned().collect())
        {
            return failed(&format!("the server has {existing:?}"));
        }
    }
    if !is_done {
        // As the errors advise, `apply` completes a partial creation. A second `delete` may find
        // nothing to delete.
        let again = if verb.word == "delete" {
            arguments
        } else {
            vec!["apply", "-f", "-", "-o", "json"]
        };
        let again = scene.gpuctl_with(&again, &(verb.input)(name));
        let is_absent = verb.word == "delete" && again.code == 4;
        if (again.code != 0 && !is_absent) || !(verb.is_done)(scene, proxy, name) {
            return failed(&format!(
                "a second run does not complete it: exits {}\n{}{}",
                again.code, again.out, again.err
            ));
        }
    }
    None
}

/// Whether stdout is empty or one complete document.
fn is_report_or_nothing(run: &Run) -> bool {
    run.out.is_empty() || serde_json::from_str::<Value>(&run.out).is_ok()
}

#[test]
fn reports_are_true_after_any_corrupt_answer() {
    let scene = Scene::new(NAMESPACE);
    let proxy = Proxy::start(NAMESPACE);
    // Counts the requests that each command sends without faults.
    let count = |verb: &Verb| {
        let name = format!("plain-{}", verb.word);
        if verb.exists_before {
            scene
                .gpuctl_with(&["create", "-f", "-"], &yaml(&name, 80))
                .ok();
        }
        let arguments = (verb.arguments)(&name);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (run, requests) =
            proxy.gpuctl(NAMESPACE, Cut::Nothing, &arguments, &(verb.input)(&name));
        run.ok();
        assert!((verb.is_done)(&scene, &proxy, &name), "{}", verb.word);
        requests
    };
    let numbered_requests = |verb: &'static Verb| {
        (0..count(verb))
            .map(move |number| (verb, number))
            .collect::<Vec<_>>()
    };
    let requests: Vec<(&Verb, usize)> = VERBS.iter().flat_map(numbered_requests).collect();
    assert!(requests.len() > 15, "{} requests", requests.len());
    // Tests only one of the nine responses per request, because testing all pairs takes twenty
    // minutes.
    let all_pairs = std::env::var_os("GPUCTL_TEST_EVERY_PAIR").is_some();
    let tries: Vec<(&Verb, usize, (&str, CorruptAnswer))> = if all_pairs {
        requests
            .iter()
            .flat_map(|(verb, number)| {
                CORRUPT_ANSWERS
                    .iter()
                    .map(move |corrupt| (*verb, *number, *corrupt))
            })
            .collect()
    } else {
        requests
            .iter()
            .zip(CORRUPT_ANSWERS.iter().cycle())
            .map(|((verb, number), corrupt)| (*verb, *number, *corrupt))
            .collect()
    };
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| {
                while let Some((verb, number, (word, corrupt))) =
                    tries.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    let name = format!("{}-{word}-{number}", verb.word);
                    failures.lock().unwrap().extend(failure(
                        &scene,
                        &proxy,
                        verb,
                        &name,
                        Cut::CorruptAnswer(*number, *corrupt),
                    ));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} tries:\n{}",
        failures.len(),
        tries.len(),
        failures.join("\n\n")
    );
}
