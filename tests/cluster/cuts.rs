//! One request is lost, or all from one on, before the server acts or after it: whatever is lost,
//! what is there afterwards is what the report says, and a second run completes it.

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

/// Three services without pods, one of them with a volume.
fn three(prefix: &str) -> String {
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

/// Objects of a run, with their kinds.
fn objects(proxy: &Proxy, namespace: &str, prefix: &str) -> Vec<(&'static str, Value)> {
    let mut found = Vec::new();
    // The namespace has the objects of hundreds of runs, so the server chooses those of this one.
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
        // A claim that is deleted goes when its controller says so.
        let own = |item: &Value| item["metadata"]["deletionTimestamp"].is_null();
        found.extend(
            items(&list)
                .into_iter()
                .filter(own)
                .map(|item| (kind, item)),
        );
    }
    found
}

/// What is there of a run, as `kind/name`.
pub fn there(proxy: &Proxy, namespace: &str, prefix: &str) -> BTreeSet<String> {
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    objects(proxy, namespace, prefix)
        .iter()
        .map(|(kind, item)| format!("{kind}/{}", name(item)))
        .collect()
}

/// All objects of these documents.
pub fn whole(prefix: &str, names: &[&str]) -> BTreeSet<String> {
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

/// What a report claims: documents done, and labels that it says are there or may be.
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
    let mut sure = whole(prefix, &done);
    let mut perhaps = BTreeSet::new();
    for failed in report["failed"].as_array().into_iter().flatten() {
        let message = failed["message"].as_str().unwrap_or_default();
        for (words, into) in [
            ("still there: ", &mut sure),
            (
                "may exist, the server did not confirm the write: ",
                &mut perhaps,
            ),
        ] {
            if let Some((_, list)) = message.split_once(words) {
                let list = list.split(": ").next().unwrap_or_default();
                into.extend(list.split(", ").map(ToOwned::to_owned));
            }
        }
    }
    (sure, perhaps)
}

#[test]
fn whatever_is_cut_the_report_is_true_and_a_second_run_completes_it() {
    let scene = Scene::new("cuts");
    let proxy = Proxy::start("all");
    let create = ["create", "-f", "-", "-o", "json"];
    let (plain, requests) = proxy.gpuctl("cuts", Cut::Nothing, &create, &three("plain"));
    assert_eq!(plain.ok().json()["success"].as_array().unwrap().len(), 3);
    assert_eq!(there(&proxy, "cuts", "plain"), whole("plain", &NAMES));
    assert!((20..200).contains(&requests), "{requests} requests");
    // Every request once: all of them can be sent again, so nobody notices.
    let once = |number: usize| {
        for (word, cut) in [
            ("before", Cut::Before(number)),
            ("after", Cut::After(number)),
        ] {
            let prefix = format!("{word}{number}");
            let (run, _) = proxy.gpuctl("cuts", cut, &create, &three(&prefix));
            assert_eq!(run.code, 0, "{cut:?}: {}{}", run.out, run.err);
            assert_eq!(
                there(&proxy, "cuts", &prefix),
                whole(&prefix, &NAMES),
                "{cut:?}"
            );
        }
    };
    // An outage that lasts.
    let outage = |number: usize| {
        let prefix = format!("outage{number}");
        let cut = if (number / 3).is_multiple_of(2) {
            Cut::From(number)
        } else {
            Cut::FromAfter(number)
        };
        let (run, _) = proxy.gpuctl("cuts", cut, &create, &three(&prefix));
        let (sure, perhaps) = claimed(&run, &prefix);
        let found = there(&proxy, "cuts", &prefix);
        let most: BTreeSet<String> = sure.union(&perhaps).cloned().collect();
        assert!(
            sure.is_subset(&found),
            "{cut:?}: {sure:?} was told, and there is {found:?}: {}{}",
            run.out,
            run.err
        );
        assert!(
            found.is_subset(&most),
            "{cut:?}: {found:?} is there, and {most:?} was told: {}{}",
            run.out,
            run.err
        );
        if found.len() < whole(&prefix, &NAMES).len() {
            assert_ne!(run.code, 0, "{cut:?}");
        }
        // Again without an outage: what is there is in its own way alone, and the rest is made.
        let again = scene.gpuctl_with(&create, &three(&prefix));
        let ended = scene
            .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &three(&prefix))
            .ok()
            .json();
        assert_eq!(
            there(&proxy, "cuts", &prefix),
            whole(&prefix, &NAMES),
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
    // Most of it is waiting for another try.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    match number {
                        number if number < requests => once(number),
                        // Of these every third, for they wait long.
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
fn an_end_at_any_moment_leaves_what_a_second_run_completes() {
    let scene = Scene::new("ends");
    let proxy = Proxy::start("ends");
    for (signal, code) in [("-INT", 130), ("-KILL", -9)] {
        for moment in 0..12 {
            let prefix = format!("{}{moment}", if code == 130 { "int" } else { "kill" });
            let file = crate::support::file(&format!("{prefix}.yaml"), &three(&prefix));
            let mut child = scene.start(&["create", "-f", file.to_str().unwrap(), "-o", "json"]);
            let pid = child.id().to_string();
            // The moments differ from machine to machine: what is asserted holds at all of them.
            std::thread::sleep(Duration::from_millis(60 * moment));
            let over = child.try_wait().unwrap().is_some();
            Command::new("kill").args([signal, &pid]).status().unwrap();
            let run = finish(child, Duration::from_secs(60));
            if code == 130 && !over {
                // Before anything is written the signal ends it as any program.
                assert!(
                    matches!(run.code, 130 | 0 | -9),
                    "{}: {}{}",
                    run.code,
                    run.out,
                    run.err
                );
                let (sure, perhaps) = claimed(&run, &prefix);
                assert_eq!(
                    (there(&proxy, "ends", &prefix), perhaps),
                    (sure, BTreeSet::new()),
                    "{}{}",
                    run.out,
                    run.err
                );
            }
            // Until what is being deleted is gone.
            let end = std::time::Instant::now() + Duration::from_secs(60);
            while scene.gpuctl(&["apply", "-f", file.to_str().unwrap()]).code != 0 {
                assert!(std::time::Instant::now() < end, "it is never completed");
            }
            assert_eq!(there(&proxy, "ends", &prefix), whole(&prefix, &NAMES));
        }
    }
}

#[test]
fn an_interrupted_run_removes_the_object_whose_creation_was_in_flight() {
    let _scene = Scene::new("in-flight");
    let proxy = Proxy::start("in-flight");
    let file = crate::support::file("in-flight.yaml", &three("slow"));
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
    let left = there(&proxy, "in-flight", "slow");
    assert!(left.is_empty(), "{left:?}: {}{}", run.out, run.err);
    let (sure, perhaps) = claimed(&run, "slow");
    assert!(sure.is_empty() && perhaps.is_empty(), "{}", run.out);
}

#[test]
fn two_runs_at_once_end_with_one_job() {
    let scene = Scene::new("twice");
    let proxy = Proxy::start("twice");
    for round in 0..4 {
        let prefix = format!("r{round}");
        let file = crate::support::file(&format!("twice-{round}.yaml"), &three(&prefix));
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
        assert_eq!(done, names, "each was made by one of them");
        assert_eq!(there(&proxy, "twice", &prefix), whole(&prefix, &NAMES));
    }
}

/// How often the API server made and deleted each object of the namespace, by its audit log.
fn audited() -> BTreeMap<String, (u32, u32)> {
    let text = std::fs::read_to_string(cluster().folder().join("audit.log")).unwrap_or_default();
    let mut times = BTreeMap::new();
    for entry in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let of = &entry["objectRef"];
        let is_ours = of["namespace"] == AUDITED
            && ["deployments", "services"]
                .iter()
                .any(|kind| of["resource"] == *kind);
        let is_dry = entry["requestURI"].as_str().unwrap().contains("dryRun");
        if !is_ours || is_dry || !of["subresource"].is_null() {
            continue;
        }
        let name = format!(
            "{}/{}",
            of["resource"].as_str().unwrap(),
            of["name"].as_str().unwrap()
        );
        let (made, deleted): &mut (u32, u32) = times.entry(name).or_default();
        match (
            entry["verb"].as_str().unwrap(),
            entry["responseStatus"]["code"].as_i64(),
        ) {
            ("create" | "patch", Some(201)) => *made += 1,
            ("delete", Some(200 | 202)) => *deleted += 1,
            _ => {}
        }
    }
    times
}

#[test]
fn a_thousand_creates_under_faults_make_one_object_each() {
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
    // Runs that did all at once, and how many requests and answers were lost.
    let (whole, lost) = (Mutex::new(BTreeSet::new()), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        // Few at a time, for other tests of this cluster run beside it.
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
                    let of = |kind: u64| {
                        (0..requests)
                            .filter(|request| chance(seed, *request) == kind)
                            .count()
                    };
                    let (of_requests, of_answers) = (of(REQUEST_IS_LOST), of(ANSWER_IS_LOST));
                    let mut losses = lost.lock().unwrap();
                    *losses = (losses.0 + of_requests, losses.1 + of_answers);
                    drop(losses);
                    // Three losses in a row of a read before the first write end it with 6 and
                    // nothing on stdout.
                    let told: Value = serde_json::from_str(&run.out).unwrap_or_default();
                    let made = told["success"].as_array().map_or(0, Vec::len);
                    assert_eq!(
                        run.code == 0,
                        made == JOBS,
                        "seed {number}: {}{}",
                        run.out,
                        run.err
                    );
                    assert!(
                        run.out.is_empty() == (run.code == 6 && told.is_null()),
                        "seed {number}: {}{}",
                        run.out,
                        run.err
                    );
                    if run.code == 0 {
                        whole.lock().unwrap().insert(number);
                    }
                    // Whatever could not be made is made by a second run.
                    scene
                        .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &yaml(number))
                        .ok();
                }
            });
        }
    });
    let times = audited();
    let whole = whole.into_inner().unwrap();
    for (name, (made, deleted)) in &times {
        let run: usize = name
            .split_once("/s")
            .unwrap()
            .1
            .split_once('-')
            .unwrap()
            .0
            .parse()
            .unwrap();
        // What a broken run took away again, the second one made again.
        let is_right = if whole.contains(&run) {
            (*made, *deleted) == (1, 0)
        } else {
            *made == deleted + 1
        };
        assert!(
            is_right,
            "{name} was made {made} times and deleted {deleted} times; the run was whole: {}",
            whole.contains(&run)
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
        whole.len() > RUNS / 4,
        "only {} runs of {RUNS} were healed",
        whole.len()
    );
}
