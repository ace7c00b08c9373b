//! Parts of a real control plane that stop and come back: etcd, the API server, an admission
//! webhook. A cluster of its own, for everybody on it would feel it. `tests/faults/README.md` lists
//! what is tried.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

use crate::runner::{Run, finish, gpuctl, run};

struct Scene {
    cluster: Cluster,
}

impl Scene {
    fn start() -> Self {
        let cluster =
            Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
        cluster.add_nodes(&[node(
            "only",
            Some(("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")),
            &[("nvidia.com/gpu", 8)],
        )]);
        Self { cluster }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", self.cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        command
    }

    fn gpuctl(&self, arguments: &[&str]) -> Run {
        run(self.command(arguments), "")
    }

    fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Services of no pods.
    fn services(&self, prefix: &str, count: usize) -> PathBuf {
        let one = |index: usize| {
            format!(
                "kind: compute\nversion: v0.1\njob: {{name: {prefix}-{index}}}\nenvironment: {{image: 'busybox:1'}}\nservice: {{replicas: 0, port: 80}}\n"
            )
        };
        self.file(
            prefix,
            &(0..count).map(one).collect::<Vec<_>>().join("---\n"),
        )
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.cluster.folder().join(format!("{name}.yaml"));
        std::fs::write(&path, text).unwrap();
        path
    }

    /// How many objects of a kind have names with a prefix.
    fn count(&self, kind: &str, prefix: &str) -> usize {
        self.names(kind, prefix).len()
    }

    fn names(&self, kind: &str, prefix: &str) -> BTreeSet<String> {
        let list = self
            .cluster
            .kubectl(Persona::Admin)
            .json(&["get", kind, "-n", "default"]);
        let names = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str());
        names
            .filter(|name| name.starts_with(&format!("{prefix}-")))
            .map(ToOwned::to_owned)
            .collect()
    }

    /// Waits until the API server answers again.
    fn until_it_answers(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        let admin = self.cluster.kubectl(Persona::Admin);
        while !admin
            .try_run(&["get", "--raw", "/readyz"], "")
            .status
            .success()
        {
            assert!(Instant::now() < end, "the API server does not come back");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// What a child prints, line by line.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    let stdout = child.stdout.take().expect("stdout is piped");
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

#[track_caller]
fn until_told(lines: &Receiver<String>, text: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let line = lines
            .recv_timeout(left)
            .unwrap_or_else(|error| panic!("{error}: nothing is told of {text}"));
        if line.contains(text) {
            return;
        }
    }
}

/// What a report says that was made: names of jobs. A run that ended before it wrote anything has
/// none.
#[track_caller]
fn made(run: &Run) -> BTreeSet<String> {
    assert!(
        matches!(run.code, 0 | 1 | 6 | 7) && !run.err.contains("panicked"),
        "{}: {}{}",
        run.code,
        run.out,
        run.err
    );
    if run.out.is_empty() {
        assert!(run.code != 0 && !run.err.is_empty(), "{}", run.err);
        return BTreeSet::new();
    }
    let report: Value = run.json();
    report["success"]
        .as_array()
        .unwrap()
        .iter()
        .map(|done| done["jobId"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_control_plane_that_stops_and_comes_back() {
    let scene = Scene::start();
    let before = scene.services("before", 3);
    scene
        .gpuctl(&["create", "-f", before.to_str().unwrap()])
        .ok();
    let mut watcher = scene.begin(&["get", "jobs", "-w", "-o", "json"]);
    let of_jobs = lines(&mut watcher);
    until_told(&of_jobs, "before-2");
    etcd_is_away(&scene, &of_jobs);
    the_server_is_killed_while_it_creates(&scene, &of_jobs);
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    a_webhook_is_down(&scene);
    nothing_can_be_written_to_stdout(&scene);
}

/// Twenty seconds without etcd: reads answer from the server's cache or say what is wrong, writes
/// either are there or are not, and who watches goes on.
fn etcd_is_away(scene: &Scene, of_jobs: &Receiver<String>) {
    scene.cluster.stop("etcd").unwrap();
    let away = Instant::now();
    let during = scene.services("during", 4);
    let mut reading = scene.begin(&["get", "jobs", "-o", "json", "--request-timeout", "5s"]);
    let writing = scene.begin(&[
        "create",
        "-f",
        during.to_str().unwrap(),
        "-o",
        "json",
        "--request-timeout",
        "5s",
    ]);
    let patient = scene.begin(&["delete", "job", "before-0", "-o", "json"]);
    while reading.try_wait().unwrap().is_none() && away.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let read = finish(reading, Duration::from_secs(1));
    match read.code {
        0 => assert_eq!(
            read.json()["items"].as_array().unwrap().len(),
            3,
            "{}",
            read.out
        ),
        6 => assert!(
            read.out.is_empty() && read.err.contains("unreachable"),
            "{}{}",
            read.out,
            read.err
        ),
        other => panic!("{other}: {}{}", read.out, read.err),
    }
    std::thread::sleep(Duration::from_secs(20).saturating_sub(away.elapsed()));
    scene.cluster.start_again("etcd").unwrap();
    let (written, deleted) = (
        finish(writing, Duration::from_secs(90)),
        finish(patient, Duration::from_secs(90)),
    );
    scene.until_it_answers();
    assert!(
        matches!(deleted.code, 0 | 1 | 6 | 7),
        "{}: {}{}",
        deleted.code,
        deleted.out,
        deleted.err
    );
    let (sure, there) = (made(&written), scene.names("deployments", "during"));
    assert!(
        sure.is_subset(&there),
        "{sure:?} were told, and {there:?} are there: {}",
        written.out
    );
    // Again, with etcd: what is missing is made, and nothing twice.
    scene
        .gpuctl(&["apply", "-f", during.to_str().unwrap()])
        .ok();
    assert_eq!(
        (
            scene.count("deployments", "during"),
            scene.count("services", "during")
        ),
        (4, 4)
    );
    let again = scene.gpuctl(&["delete", "job", "before-0"]);
    assert!(matches!(again.code, 0 | 4), "{}{}", again.out, again.err);
    until_told(of_jobs, "during-3");
}

/// The API server is killed at different moments of a create and comes back a second later.
fn the_server_is_killed_while_it_creates(scene: &Scene, of_jobs: &Receiver<String>) {
    for (round, moment) in [100, 400, 900].into_iter().enumerate() {
        let prefix = format!("killed{round}");
        let path = scene.services(&prefix, 25);
        let path = path.to_str().unwrap();
        let creating = scene.begin(&["create", "-f", path, "-o", "json"]);
        std::thread::sleep(Duration::from_millis(moment));
        scene.cluster.stop("kube-apiserver").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        scene.cluster.start_again("kube-apiserver").unwrap();
        let first = finish(creating, Duration::from_secs(120));
        scene.until_it_answers();
        let (told, there) = (made(&first), scene.names("deployments", &prefix));
        assert!(
            told.is_subset(&there),
            "{told:?} were told, and {there:?} are there: {}{}",
            first.out,
            first.err
        );
        let second = scene.gpuctl(&["apply", "-f", path, "-o", "json"]).ok();
        let all = made(&second);
        assert_eq!(
            (
                all.len(),
                scene.count("deployments", &prefix),
                scene.count("services", &prefix)
            ),
            (25, 25, 25)
        );
        // A watch that was there all the time shows what is there now.
        until_told(of_jobs, &format!("{prefix}-24"));
    }
}

/// A policy that fails closed, and whose webhook is not there.
fn a_webhook_is_down(scene: &Scene) {
    let admin = scene.cluster.kubectl(Persona::Admin);
    // A port that the kernel gives to nobody who asks for any.
    admin.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "down"},
        "webhooks": [{
            "name": "policy.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "timeoutSeconds": 2, "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}],
        }],
    }));
    let path = scene.services("policed", 2);
    let path = path.to_str().unwrap();
    // It comes into force a moment after it is written.
    let end = Instant::now() + Duration::from_secs(20);
    let refused = loop {
        let refused = scene.gpuctl(&["create", "-f", path]);
        if refused.code != 0 {
            break refused;
        }
        scene
            .gpuctl(&["delete", "job", "policed-0", "policed-1"])
            .ok();
        assert!(Instant::now() < end, "the webhook is never asked");
    };
    assert!(
        refused.code == 1 || refused.code == 6,
        "{}: {}",
        refused.code,
        refused.err
    );
    assert!(
        refused.err.contains("policy.example.com") && refused.err.contains("hint: "),
        "{}",
        refused.err
    );
    assert_eq!(
        (
            scene.count("deployments", "policed"),
            scene.count("services", "policed")
        ),
        (0, 0),
        "nothing is left behind"
    );
    admin.run(&["delete", "validatingwebhookconfiguration", "down"]);
}

/// A full disk behind stdout is an error with a name, and no panic.
fn nothing_can_be_written_to_stdout(scene: &Scene) {
    for arguments in [
        &["get", "jobs"][..],
        &["get", "nodes", "-o", "json"],
        &["get", "nodes", "-o", "csv"],
        &["describe", "job", "during-0"],
        &["get", "jobs", "-w", "-o", "json"],
        &["free"],
        &["schema"],
        &["man"],
        &["--help"],
        &["version"],
        &["completion", "bash"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = scene.command(arguments);
        let child = command
            .stdin(Stdio::null())
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let run = finish(child, Duration::from_secs(60));
        assert!(!run.err.contains("panicked"), "{arguments:?}: {}", run.err);
        run.exits(1).says("No space left on device");
    }
}
