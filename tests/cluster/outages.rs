//! Tests outages of parts of a real control plane: etcd, the API server, and an admission webhook.
//! They have their own cluster, because an outage would break other tests. `tests/faults/README.md`
//! lists the faults.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
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

    /// Writes a file of services without pods.
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

    /// Returns how many objects of a kind have names with this prefix.
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

    /// Waits until the API server is ready again.
    fn wait_for_the_server(&self) {
        let admin = self.cluster.kubectl(Persona::Admin);
        eventually("the API server is ready", Duration::from_secs(60), || {
            let ready = admin.try_run(&["get", "--raw", "/readyz"], "");
            ready.status.success()
        });
    }
}

/// Sends each line that a child prints.
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
fn wait_for_line(lines: &Receiver<String>, text: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let line = lines
            .recv_timeout(left)
            .unwrap_or_else(|error| panic!("{error}: no line contains {text}"));
        if line.contains(text) {
            return;
        }
    }
}

/// Returns the names of the jobs that a report says were created. There are none if the run ended
/// before its first write.
#[track_caller]
fn created_jobs(run: &Run) -> BTreeSet<String> {
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
fn commands_survive_outages_of_the_control_plane() {
    let scene = Scene::start();
    let before = scene.services("before", 3);
    scene
        .gpuctl(&["create", "-f", before.to_str().unwrap()])
        .ok();
    let mut watcher = scene.begin(&["get", "jobs", "-w", "-o", "json"]);
    let job_lines = lines(&mut watcher);
    wait_for_line(&job_lines, "before-2");
    check_an_outage_of_etcd(&scene, &job_lines);
    check_a_killed_server(&scene, &job_lines);
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    check_an_unreachable_webhook(&scene);
    check_a_full_disk_behind_stdout(&scene);
}

/// Stops etcd for twenty seconds. Reads are answered from the server's cache or fail with a clear
/// error. The report on writes is accurate, and watches continue.
fn check_an_outage_of_etcd(scene: &Scene, job_lines: &Receiver<String>) {
    scene.cluster.stop("etcd").unwrap();
    let stopped = Instant::now();
    let during = scene.services("during", 4);
    let reading = scene.begin(&["get", "jobs", "-o", "json", "--request-timeout", "5s"]);
    let writing = scene.begin(&[
        "create",
        "-f",
        during.to_str().unwrap(),
        "-o",
        "json",
        "--request-timeout",
        "5s",
    ]);
    let deleting = scene.begin(&["delete", "job", "before-0", "-o", "json"]);
    let read = finish(reading, Duration::from_secs(60));
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
    // The outage lasts twenty seconds.
    std::thread::sleep(Duration::from_secs(20).saturating_sub(stopped.elapsed()));
    scene.cluster.start_again("etcd").unwrap();
    let (written, deleted) = (
        finish(writing, Duration::from_secs(90)),
        finish(deleting, Duration::from_secs(90)),
    );
    scene.wait_for_the_server();
    assert!(
        matches!(deleted.code, 0 | 1 | 6 | 7),
        "{}: {}{}",
        deleted.code,
        deleted.out,
        deleted.err
    );
    let (reported, existing) = (created_jobs(&written), scene.names("deployments", "during"));
    assert!(
        reported.is_subset(&existing),
        "the report names {reported:?}, but the server has {existing:?}: {}",
        written.out
    );
    // With etcd running, `apply` creates only the missing objects.
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
    wait_for_line(job_lines, "during-3");
}

/// Kills the API server at different points of a `create` and starts it again one second later.
fn check_a_killed_server(scene: &Scene, job_lines: &Receiver<String>) {
    for (round, moment) in [100, 400, 900].into_iter().enumerate() {
        let prefix = format!("killed{round}");
        let path = scene.services(&prefix, 25);
        let path = path.to_str().unwrap();
        let creating = scene.begin(&["create", "-f", path, "-o", "json"]);
        // How far the run gets depends on the machine, but the assertions hold at every point.
        std::thread::sleep(Duration::from_millis(moment));
        scene.cluster.stop("kube-apiserver").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        scene.cluster.start_again("kube-apiserver").unwrap();
        let first = finish(creating, Duration::from_secs(120));
        scene.wait_for_the_server();
        let (reported, existing) = (created_jobs(&first), scene.names("deployments", &prefix));
        assert!(
            reported.is_subset(&existing),
            "the report names {reported:?}, but the server has {existing:?}: {}{}",
            first.out,
            first.err
        );
        let second = scene.gpuctl(&["apply", "-f", path, "-o", "json"]).ok();
        let all = created_jobs(&second);
        assert_eq!(
            (
                all.len(),
                scene.count("deployments", &prefix),
                scene.count("services", &prefix)
            ),
            (25, 25, 25)
        );
        // The watch started before the outage shows the current jobs.
        wait_for_line(job_lines, &format!("{prefix}-24"));
    }
}

/// Tests a webhook with `failurePolicy: Fail` whose server is down.
fn check_an_unreachable_webhook(scene: &Scene) {
    let admin = scene.cluster.kubectl(Persona::Admin);
    // Port 1 is never assigned to a process that asks for any free port.
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
    // The webhook takes effect a moment after it is written.
    let limit = Duration::from_secs(20);
    let refused = eventually("the webhook takes effect", limit, || {
        let run = scene.gpuctl(&["create", "-f", path]);
        if run.code != 0 {
            return Some(run);
        }
        scene
            .gpuctl(&["delete", "job", "policed-0", "policed-1"])
            .ok();
        None
    });
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
        "no object remains"
    );
    admin.run(&["delete", "validatingwebhookconfiguration", "down"]);
}

/// When stdout is written to a full disk, the error says so, and gpuctl does not panic.
fn check_a_full_disk_behind_stdout(scene: &Scene) {
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
