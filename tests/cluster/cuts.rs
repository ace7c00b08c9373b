//! Drops one request, or all requests from a certain one on, before or after the server handles it.
//! In every case the report matches the objects on the server, and a second run completes the work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpuctl_sandbox::{AUDITED, eventually};
use serde_json::Value;

use crate::proxy::{ANSWER_IS_LOST, Cut, Proxy, REQUEST_IS_LOST, chance};
use crate::support::{Run, Scene, cluster, finish, items};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Returns a file with three services without pods. The second one has a volume.
fn three_services(prefix: &str) -> String {
    let one = |(index, name): (usize, &&str)| {
        let storage = if index == 1 {
            "storage: {workdirs: [{path: /data, size: 1Gi, storageClass: cuts}]}\n"
        } else {
            ""
        };
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: {prefix}-{name}}}\nenvironment: {{image: 'busybox:1'}}\nservice: {{replicas: 0, port: 80}}\n{storage}"
        )
    };
    NAMES
        .iter()
        .enumerate()
        .map(one)
        .collect::<Vec<_>>()
        .join("---\n")
}

/// Reads all objects that a run created, with their kinds.
fn objects(proxy: &Proxy, namespace: &str, prefix: &str) -> Vec<(&'static str, Value)> {
    let mut selected = Vec::new();
    // The namespace holds the objects of hundreds of runs, so a label selector picks one run.
    let jobs = NAMES.map(|name| format!("{prefix}-{name}")).join(",");
    for (kind, path) in [
        (
            "deployment",
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        ),
        (
            "service",
            format!("/api/v1/namespaces/{namespace}/services"),
        ),
        (
            "persistentvolumeclaim",
            format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
        ),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.to)).unwrap();
        write!(
            stream,
            "GET {path}?labelSelector=gpuctl%2Fjob%20in%20({jobs}) HTTP/1.0\r\nHost: localhost\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let list: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        // A deleted claim remains until its controller removes the finalizer.
        let is_kept = |item: &Value| item["metadata"]["deletionTimestamp"].is_null();
        selected.extend(
            items(&list)
                .into_iter()
                .filter(is_kept)
                .map(|item| (kind, item)),
        );
    }
    selected
}

/// Returns the existing objects of a run, as `kind/name`.
pub fn existing_objects(proxy: &Proxy, namespace: &str, prefix: &str) -> BTreeSet<String> {
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    objects(proxy, namespace, prefix)
        .iter()
        .map(|(kind, item)| format!("{kind}/{}", name(item)))
        .collect()
}

/// Returns all objects that these documents declare.
pub fn all_objects(prefix: &str, names: &[&str]) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = names
        .iter()
        .flat_map(|name| {
            [
                format!("deployment/{prefix}-{name}"),
                format!("service/{prefix}-{name}"),
            ]
        })
        .collect();
    if names.contains(&"b") {
        all.insert(format!("persistentvolumeclaim/{prefix}-b-data"));
    }
    all
}

/// Parses a report into the objects that it says exist and the objects that it says may exist.
pub fn claimed(run: &Run, prefix: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let report: Value = serde_json::from_str(&run.out).unwrap_or(Value::Null);
    let done: Vec<String> = report["success"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            one["jobId"]
                .as_str()
                .unwrap_or_default()
                .trim_start_matches(&format!("{prefix}-"))
                .to_owned()
        })
        .collect();
    let done: Vec<&str> = done.iter().map(String::as_str).collect();
    let mut reported = all_objects(prefix, &done);
    let mut possible = BTreeSet::new();
    for failed in report["failed"].as_array().into_iter().flatten() {
        let message = failed["message"].as_str().unwrap_or_default();
        for (words, into) in [
            ("not removed: ", &mut reported),
            (
                "may exist, because the server did not confirm the write: ",
                &mut possible,
            ),
        ] {
            if let Some((_, list)) = message.split_once(words) {
                let list = list.split("; ").next().unwrap_or_default();
                into.extend(list.split(", ").map(ToOwned::to_owned));
            }
        }
    }
    (reported, possible)
}

#[test]
fn reports_are_true_after_any_lost_request_and_a_second_run_completes_the_work() {
    let scene = Scene::new("cuts");
    let proxy = Proxy::start("all");
    let create = ["create", "-f", "-", "-o", "json"];
    let (plain, requests) = proxy.gpuctl("cuts", Cut::Nothing, &create, &three_services("plain"));
    assert_eq!(plain.ok().json()["success"].as_array().unwrap().len(), 3);
    assert_eq!(
        existing_objects(&proxy, "cuts", "plain"),
        all_objects("plain", &NAMES)
    );
    assert!((20..200).contains(&requests), "{requests} requests");
    // Drops each request once. Every request can be retried, so the run succeeds.
    let once = |number: usize| {
        for (word, cut) in [
            ("before", Cut::Before(number)),
            ("after", Cut::After(number)),
        ] {
            let prefix = format!("{word}{number}");
            let (run, _) = proxy.gpuctl("cuts", cut, &create, &three_services(&prefix));
            assert_eq!(run.code, 0, "{cut:?}: {}{}", run.out, run.err);
            assert_eq!(
                existing_objects(&proxy, "cuts", &prefix),
                all_objects(&prefix, &NAMES),
                "{cut:?}"
            );
        }
    };
    // Starts an outage that lasts until the run ends.
    let outage = |number: usize| {
        let prefix = format!("outage{number}");
        let cut = if (number / 3).is_multiple_of(2) {
            Cut::From(number)
        } else {
            Cut::FromAfter(number)
        };
        let (run, _) = proxy.gpuctl("cuts", cut, &create, &three_services(&prefix));
        let (reported, possible) = claimed(&run, &prefix);
        let existing = existing_objects(&proxy, "cuts", &prefix);
        let most: BTreeSet<String> = reported.union(&possible).cloned().collect();
        assert!(
            reported.is_subset(&existing),
            "{cut:?}: the report names {reported:?}, but the server has {existing:?}: {}{}",
            run.out,
            run.err
        );
        assert!(
            existing.is_subset(&most),
            "{cut:?}: the server has {existing:?}, but the report names {most:?}: {}{}",
            run.out,
            run.err
        );
        if existing.len() < all_objects(&prefix, &NAMES).len() {
            assert_ne!(run.code, 0, "{cut:?}");
        }
        // Once the outage is over, `create` conflicts only with objects that exist, and `apply`
        // creates the rest.
        let again = scene.gpuctl_with(&create, &three_services(&prefix));
        let ended = scene
            .gpuctl_with(
                &["apply", "-f", "-", "-o", "json"],
                &three_services(&prefix),
            )
            .ok()
            .json();
        assert_eq!(
            existing_objects(&proxy, "cuts", &prefix),
            all_objects(&prefix, &NAMES),
            "{cut:?}: {}{}",
            again.out,
            again.err
        );
        let unchanged = ended["success"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["action"] == "unchanged")
            .count();
        let owned = |(kind, item): &(&str, Value)| {
            *kind == "service" && !item["metadata"]["ownerReferences"].is_null()
        };
        let tied = objects(&proxy, "cuts", &prefix)
            .iter()
            .filter(|one| owned(one))
            .count();
        assert!(unchanged >= 2 && tied == 3, "{cut:?}: {ended:#}");
    };
    // Runs in parallel, because most of the time is spent waiting between retries.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    match number {
                        number if number < requests => once(number),
                        // Tests only every third request here, because the retries take a long
                        // time.
                        number if 3 * (number - requests) < requests => {
                            outage(3 * (number - requests));
                        }
                        _ => return,
                    }
                }
            });
        }
    });
}

#[test]
fn a_second_run_completes_a_run_that_ended_at_any_point() {
    let scene = Scene::new("ends");
    let proxy = Proxy::start("ends");
    for (signal, code) in [("-INT", 130), ("-KILL", -9)] {
        for moment in 0..12 {
            let prefix = format!("{}{moment}", if code == 130 { "int" } else { "kill" });
            let file = crate::support::file(&format!("{prefix}.yaml"), &three_services(&prefix));
            let mut child = scene.start(&["create", "-f", file.to_str().unwrap(), "-o", "json"]);
            let pid = child.id().to_string();
            // How far the run gets depends on the machine, but the assertions hold at every point.
            std::thread::sleep(Duration::from_millis(60 * moment));
            let over = child.try_wait().unwrap().is_some();
            Command::new("kill").args([signal, &pid]).status().unwrap();
            let run = finish(child, Duration::from_secs(60));
            if code == 130 && !over {
                // Before the first write, gpuctl does not handle the signal, so the signal kills
                // the process.
                assert!(
                    matches!(run.code, 130 | 0 | -9),
                    "{}: {}{}",
                    run.code,
                    run.out,
                    run.err
                );
                let (reported, possible) = claimed(&run, &prefix);
                assert_eq!(
                    (existing_objects(&proxy, "ends", &prefix), possible),
                    (reported, BTreeSet::new()),
                    "{}{}",
                    run.out,
                    run.err
                );
            }
            // `apply` fails while objects of the interrupted run are still being deleted.
            let what = format!("apply completes {prefix}");
            eventually(&what, Duration::from_secs(60), || {
                let run = scene.gpuctl(&["apply", "-f", file.to_str().unwrap()]);
                (run.code == 0).then_some(()).ok_or(run)
            });
            assert_eq!(
                existing_objects(&proxy, "ends", &prefix),
                all_objects(&prefix, &NAMES)
            );
        }
    }
}

#[test]
fn an_interrupted_run_removes_the_object_whose_creation_was_in_flight() {
    let _scene = Scene::new("in-flight");
    let proxy = Proxy::start("in-flight");
    let file = crate::support::file("in-flight.yaml", &three_services("slow"));
    let arguments = ["create", "-f", file.to_str().unwrap(), "-o", "json"];
    let (mut command, requests) = proxy.command("in-flight", Cut::Slow, &arguments);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("a creation is in flight", Duration::from_secs(60), || {
        requests.held.load(Ordering::SeqCst) > 0
    });
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let run = finish(child, Duration::from_secs(60));
    assert_eq!(run.code, 130, "{}{}", run.out, run.err);
    eventually(
        "the server answered each creation",
        Duration::from_secs(60),
        || requests.held.load(Ordering::SeqCst) == requests.released.load(Ordering::SeqCst),
    );
    let left = existing_objects(&proxy, "in-flight", "slow");
    assert!(left.is_empty(), "{left:?}: {}{}", run.out, run.err);
    let (reported, possible) = claimed(&run, "slow");
    assert!(reported.is_empty() && possible.is_empty(), "{}", run.out);
}

#[test]
fn two_concurrent_runs_create_each_job_once() {
    let scene = Scene::new("twice");
    let proxy = Proxy::start("twice");
    for round in 0..4 {
        let prefix = format!("r{round}");
        let file = crate::support::file(&format!("twice-{round}.yaml"), &three_services(&prefix));
        let arguments = ["create", "-f", file.to_str().unwrap(), "-o", "json"];
        let runs: Vec<_> = (0..2).map(|_| scene.start(&arguments)).collect();
        let runs: Vec<Run> = runs
            .into_iter()
            .map(|child| finish(child, Duration::from_secs(60)))
            .collect();
        let mut done: Vec<String> = Vec::new();
        for run in &runs {
            let report = run.json();
            done.extend(
                report["success"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| one["jobId"].as_str().unwrap().to_owned()),
            );
            for failed in report["failed"].as_array().unwrap() {
                assert!(
                    matches!(failed["error"].as_str(), Some("AlreadyExists")),
                    "{failed:#}"
                );
            }
        }
        done.sort();
        let names: Vec<String> = NAMES
            .iter()
            .map(|name| format!("{prefix}-{name}"))
            .collect();
        assert_eq!(done, names, "exactly one run created each job");
        assert_eq!(
            existing_objects(&proxy, "twice", &prefix),
            all_objects(&prefix, &NAMES)
        );
    }
}

/// Counts creations and deletions of each object of the namespace in the API server's audit log.
fn audited() -> BTreeMap<String, (u32, u32)> {
    let text = std::fs::read_to_string(cluster().folder().join("audit.log")).unwrap_or_default();
    let mut times = BTreeMap::new();
    for entry in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let target = &entry["objectRef"];
        let is_ours = target["namespace"] == AUDITED
            && ["deployments", "services"]
                .iter()
                .any(|kind| target["resource"] == *kind);
        let is_dry = entry["requestURI"].as_str().unwrap().contains("dryRun");
        if !is_ours || is_dry || !target["subresource"].is_null() {
            continue;
        }
        let name = format!(
            "{}/{}",
            target["resource"].as_str().unwrap(),
            target["name"].as_str().unwrap()
        );
        let (created, deleted): &mut (u32, u32) = times.entry(name).or_default();
        match (
            entry["verb"].as_str().unwrap(),
            entry["responseStatus"]["code"].as_i64(),
        ) {
            ("create" | "patch", Some(201)) => *created += 1,
            ("delete", Some(200 | 202)) => *deleted += 1,
            _ => {}
        }
    }
    times
}

#[test]
fn a_thousand_creates_with_lost_requests_make_one_object_each() {
    const RUNS: usize = 40;
    const JOBS: usize = 25;
    let scene = Scene::new(AUDITED);
    let proxy = Proxy::start("seeded");
    let yaml = |run: usize| {
        let one = |index: usize| {
            format!(
                "kind: compute\nversion: v0.1\njob: {{name: s{run}-{index}}}\nenvironment: {{image: 'busybox:1'}}\nservice: {{replicas: 0, port: 80}}\n"
            )
        };
        (0..JOBS).map(one).collect::<Vec<_>>().join("---\n")
    };
    let next = AtomicUsize::new(0);
    // The runs that succeeded at the first attempt, and how many requests and responses were lost.
    let (complete, lost) = (Mutex::new(BTreeSet::new()), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        // Only a few run at a time, because other tests use this cluster too.
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= RUNS {
                        return;
                    }
                    let create = ["create", "-f", "-", "-o", "json"];
                    let seed = number as u64;
                    let (run, requests) =
                        proxy.gpuctl(AUDITED, Cut::Seeded(seed), &create, &yaml(number));
                    let count_losses = |kind: u64| {
                        (0..requests)
                            .filter(|request| chance(seed, *request) == kind)
                            .count()
                    };
                    let (of_requests, of_answers) =
                        (count_losses(REQUEST_IS_LOST), count_losses(ANSWER_IS_LOST));
                    let mut losses = lost.lock().unwrap();
                    *losses = (losses.0 + of_requests, losses.1 + of_answers);
                    drop(losses);
                    // When a read before the first write is lost three times in a row, the run
                    // exits with 6 and prints nothing on stdout.
                    let report: Value = serde_json::from_str(&run.out).unwrap_or_default();
                    let created = report["success"].as_array().map_or(0, Vec::len);
                    assert_eq!(
                        run.code == 0,
                        created == JOBS,
                        "seed {number}: {}{}",
                        run.out,
                        run.err
                    );
                    assert!(
                        run.out.is_empty() == (run.code == 6 && report.is_null()),
                        "seed {number}: {}{}",
                        run.out,
                        run.err
                    );
                    if run.code == 0 {
                        complete.lock().unwrap().insert(number);
                    }
                    // A second run creates the missing objects.
                    scene
                        .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &yaml(number))
                        .ok();
                }
            });
        }
    });
    let times = audited();
    let complete = complete.into_inner().unwrap();
    for (name, (created, deleted)) in &times {
        let run: usize = name
            .split_once("/s")
            .unwrap()
            .1
            .split_once('-')
            .unwrap()
            .0
            .parse()
            .unwrap();
        // A failed run deletes the objects that it created, and the second run creates them again.
        let is_right = if complete.contains(&run) {
            (*created, *deleted) == (1, 0)
        } else {
            *created == deleted + 1
        };
        assert!(
            is_right,
            "{name} was made {created} times and deleted {deleted} times; the run succeeded: {}",
            complete.contains(&run)
        );
    }
    assert_eq!(
        times.len(),
        2 * RUNS * JOBS,
        "a Deployment and a Service of each job"
    );
    let (requests, answers) = lost.into_inner().unwrap();
    assert!(
        requests > RUNS && answers > RUNS,
        "{requests} requests and {answers} answers were lost"
    );
    assert!(
        complete.len() > RUNS / 4,
        "only {} of {RUNS} runs recovered from losses",
        complete.len()
    );
}
