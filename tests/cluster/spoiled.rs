//! Each request of a write is answered once with what a broken server, or something between,
//! answers: whatever it is, the state is what was told, and a second run completes it.
//! `tests/faults` has the same for commands that read.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cuts::{claimed, there};
use crate::proxy::{Cut, Proxy, Spoiled, With};
use crate::support::{Run, Scene};

const NAMESPACE: &str = "spoiled";

/// Answers of others than the server (rows R2, R3, R5 and R6 of the matrix), with their names.
const SPOILED: [(&str, Spoiled); 9] = [
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
        Spoiled {
            acts: true,
            with: With::Half,
        },
    ),
    (
        "stall",
        Spoiled {
            acts: true,
            with: With::Stall,
        },
    ),
];

const fn instead(answer: &'static str) -> Spoiled {
    Spoiled {
        acts: false,
        with: With::Bytes(answer),
    }
}

const fn after(answer: &'static str) -> Spoiled {
    Spoiled {
        acts: true,
        with: With::Bytes(answer),
    }
}

/// A service of no pods with a volume.
fn yaml(name: &str, port: u16) -> String {
    format!(
        "kind: compute\nversion: v0.1\njob: {{name: {name}-b}}\nenvironment: {{image: 'busybox:1'}}\nservice: {{replicas: 0, port: {port}}}\nstorage: {{workdirs: [{{path: /data, size: 1Gi, storageClass: cuts}}]}}\n"
    )
}

/// All objects of such a document.
fn whole(name: &str) -> BTreeSet<String> {
    crate::cuts::whole(name, &["b"])
}

/// A command that writes, and how to tell that it did.
struct Verb {
    word: &'static str,
    arguments: fn(&str) -> Vec<String>,
    input: fn(&str) -> String,
    /// Whether the job is there before.
    is_there: bool,
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

/// Waits a moment: what belongs to an object goes after it.
fn is_gone(proxy: &Proxy, name: &str) -> bool {
    let is_empty = || there(proxy, NAMESPACE, name).is_empty();
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
        is_there: false,
        is_done: |_, proxy, name| there(proxy, NAMESPACE, name) == whole(name),
    },
    Verb {
        word: "apply",
        arguments: |_| words("apply -f - -o json"),
        input: |name| yaml(name, 81),
        is_there: true,
        is_done: |scene, proxy, name| {
            there(proxy, NAMESPACE, name) == whole(name) && port_of(scene, name) == Some(81)
        },
    },
    Verb {
        word: "delete",
        arguments: |name| words(&format!("delete job {name}-b -y --purge -o json")),
        input: |_| String::new(),
        is_there: true,
        is_done: |_, proxy, name| is_gone(proxy, name),
    },
];

/// Runs a verb with one answer spoiled, and once more. Returns what is wrong about it.
fn wrong(scene: &Scene, proxy: &Proxy, verb: &Verb, name: &str, cut: Cut) -> Option<String> {
    if verb.is_there {
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
    let told = |what: &str| {
        Some(format!(
            "{name} {cut:?}: {what}: exits {}\n{}{}",
            run.code, run.out, run.err
        ))
    };
    let is_done = (verb.is_done)(scene, proxy, name);
    if run.code == 0 && !is_done {
        return told("it is told as done, and it is not");
    }
    if !is_report_or_nothing(&run) || run.err.contains("panicked") || run.err.contains("<html>") {
        return told("the streams are not as they shall be");
    }
    if took > Duration::from_secs(45) {
        return told(&format!("it took {took:?}"));
    }
    if run.code != 0 && verb.word == "create" {
        let (sure, perhaps) = claimed(&run, name);
        let found = there(proxy, NAMESPACE, name);
        if !sure.is_subset(&found) || !found.is_subset(&sure.union(&perhaps).cloned().collect()) {
            return told(&format!("there is {found:?}"));
        }
    }
    if !is_done {
        // What was half made is made by `apply`, as the errors say; what is gone already is no
        // failure of a second delete.
        let again = if verb.word == "delete" {
            arguments
        } else {
            vec!["apply", "-f", "-", "-o", "json"]
        };
        let again = scene.gpuctl_with(&again, &(verb.input)(name));
        let is_gone = verb.word == "delete" && again.code == 4;
        if (again.code != 0 && !is_gone) || !(verb.is_done)(scene, proxy, name) {
            return told(&format!(
                "a second run does not complete it: exits {}\n{}{}",
                again.code, again.out, again.err
            ));
        }
    }
    None
}

/// Returns true when stdout has nothing, or one whole document.
fn is_report_or_nothing(run: &Run) -> bool {
    run.out.is_empty() || serde_json::from_str::<Value>(&run.out).is_ok()
}

#[test]
fn whatever_a_write_is_answered_with_the_state_is_what_was_told() {
    let scene = Scene::new(NAMESPACE);
    let proxy = Proxy::start(NAMESPACE);
    // How many requests each verb makes while nothing is in its way.
    let count = |verb: &Verb| {
        let name = format!("plain-{}", verb.word);
        if verb.is_there {
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
    let of_verb = |verb: &'static Verb| {
        (0..count(verb))
            .map(move |number| (verb, number))
            .collect::<Vec<_>>()
    };
    let requests: Vec<(&Verb, usize)> = VERBS.iter().flat_map(of_verb).collect();
    assert!(requests.len() > 15, "{} requests", requests.len());
    // One of the nine for each request: all of them for each take twenty minutes.
    let every = std::env::var_os("GPUCTL_TEST_EVERY_PAIR").is_some();
    let tries: Vec<(&Verb, usize, (&str, Spoiled))> = if every {
        requests
            .iter()
            .flat_map(|(verb, number)| {
                SPOILED
                    .iter()
                    .map(move |spoiled| (*verb, *number, *spoiled))
            })
            .collect()
    } else {
        requests
            .iter()
            .zip(SPOILED.iter().cycle())
            .map(|((verb, number), spoiled)| (*verb, *number, *spoiled))
            .collect()
    };
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| {
                while let Some((verb, number, (word, spoiled))) =
                    tries.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    let name = format!("{}-{word}-{number}", verb.word);
                    failures.lock().unwrap().extend(wrong(
                        &scene,
                        &proxy,
                        verb,
                        &name,
                        Cut::Spoiled(*number, *spoiled),
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
