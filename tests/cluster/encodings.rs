//! Servers with and without protobuf give the same answers. Compares the API server with the same
//! server behind a relay that removes protobuf from every `Accept` header. If
//! `crates/cluster/src/transport/protobuf/kinds.rs` lacks a field, the answers differ.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};
use serde_json::json;

use crate::runner::gpuctl;
use crate::support::{Run, Scene, cluster, file, run};

/// `kubectl proxy` behind a relay that counts requests by encoding.
struct RelayedApi {
    proxy: Child,
    kubeconfig: std::path::PathBuf,
    /// The number of requests that accept protobuf.
    protobuf: Arc<AtomicUsize>,
    /// The number of lists of pods and nodes that accept only JSON.
    as_json: Arc<AtomicUsize>,
}

impl RelayedApi {
    fn new(name: &str, with_protobuf: bool) -> Self {
        let mut proxy = Command::new(cluster().binary("kubectl"))
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .args(["proxy", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(proxy.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let target = line.trim().rsplit(' ').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let protobuf = Arc::new(AtomicUsize::new(0));
        let as_json = Arc::new(AtomicUsize::new(0));
        let (seen_protobuf, seen_json) = (Arc::clone(&protobuf), Arc::clone(&as_json));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (target, seen_protobuf, seen_json) = (
                    target.clone(),
                    Arc::clone(&seen_protobuf),
                    Arc::clone(&seen_json),
                );
                std::thread::spawn(move || {
                    relay(stream, &target, with_protobuf, &seen_protobuf, &seen_json);
                });
            }
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        Self {
            proxy,
            kubeconfig: file(&format!("{name}.kubeconfig"), &config.to_string()),
            protobuf,
            as_json,
        }
    }

    fn gpuctl(&self, scene: &Scene, arguments: &[&str]) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(["-n", scene.name])
            .args(arguments);
        run(command, "")
    }
}

impl Drop for RelayedApi {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// Forwards requests with a changed `Accept` header. Responses are forwarded unchanged.
fn relay(
    stream: TcpStream,
    target: &str,
    with_protobuf: bool,
    protobuf: &AtomicUsize,
    as_json: &AtomicUsize,
) {
    let (Ok(server), Ok(mut client)) = (TcpStream::connect(target), stream.try_clone()) else {
        return;
    };
    let mut answers = server.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut answers, &mut client));
    let (mut reader, mut server) = (BufReader::new(stream), server);
    let mut line = Vec::new();
    let mut is_list = false;
    // A list request has no body, and no line in the body of any other request starts like this
    // header.
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if text.starts_with("get ") {
            // gpuctl reads the pods of a single node as complete objects.
            is_list = ["/pods?", "/nodes?"].iter().any(|list| text.contains(list))
                && !text.contains("spec.nodename");
        }
        if is_list && text.starts_with("accept: application/json\r") {
            as_json.fetch_add(1, Ordering::Relaxed);
        }
        if text.starts_with("accept: application/vnd.kubernetes.protobuf,") {
            protobuf.fetch_add(1, Ordering::Relaxed);
            if !with_protobuf {
                line = b"accept: application/json\r\n".to_vec();
            }
        }
        if server.write_all(&line).is_err() {
            return;
        }
        line.clear();
        let buffered = reader.buffer();
        // The last part of a body has no newline.
        if !buffered.is_empty() && !buffered.contains(&b'\n') {
            let mut rest = vec![0; buffered.len()];
            let _ = reader.read_exact(&mut rest);
            let _ = server.write_all(&rest);
        }
    }
}

/// Creates pods that have every field that gpuctl reads, owned by every common kind of controller.
fn crowd(scene: &Scene) {
    let container = json!({"name": "main", "image": "busybox", "ports": [{"containerPort": 8000, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}}, "startupProbe": {"tcpSocket": {"port": 8000}},
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "1500m"}, "requests": {"cpu": "250m", "memory": "64Mi"}}});
    let spec = json!({
        "nodeSelector": {"gpuctl/pool": scene.name}, "priority": null, "tolerations": [{"operator": "Exists"}],
        "initContainers": [{"name": "fetch", "image": "busybox", "resources": {"requests": {"memory": "2Gi"}}},
            {"name": "sidecar", "image": "busybox", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
        "containers": [container], "volumes": [{"name": "h", "hostPath": {"path": "/tmp"}}, {"name": "e", "emptyDir": {}}]});
    let labels = |owner: &str| json!({"app": "crowd", "owner": owner});
    let template = |owner: &str| json!({"metadata": {"labels": labels(owner)}, "spec": spec});
    let once = |owner: &str| {
        let mut template = template(owner);
        template["spec"]["restartPolicy"] = json!("Never");
        template
    };
    let selector = |owner: &str| json!({"matchLabels": {"owner": owner}});
    let meta = |name: &str| json!({"name": name, "namespace": scene.name, "labels": labels(name), "annotations": {"note": ""}});
    let set = |name: &str| json!({"selector": selector(name), "template": template(name)});
    let mut sized = set("store");
    (sized["replicas"], sized["serviceName"]) = (json!(1), json!("store"));
    let mut deployed = set("web");
    deployed["replicas"] = json!(2);
    for object in [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web"), "spec": deployed}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta("store"), "spec": sized}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta("agent"), "spec": set("agent")}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("batch"), "spec": {"parallelism": 2, "completions": 2, "template": once("batch")}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta("nightly"), "spec": {"schedule": "0 3 * * *", "suspend": true, "jobTemplate": {"spec": {"template": once("nightly")}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("alone"), "spec": spec}),
    ] {
        scene.admin.apply(&object);
    }
    scene.get_until(&["pods", "-l", "app=crowd"], |pods| {
        let pods = pods["items"].as_array().unwrap();
        pods.len() >= 8 && pods.iter().all(|pod| pod["status"]["phase"] != "Pending")
    });
}

#[test]
fn protobuf_and_json_give_the_same_answers() {
    let scene = Scene::with_nodes("encodings", 2);
    scene.create("trains", "resources: {pool: POOL, gpu: 1, node_count: 2}");
    scene.create("waits", "resources: {pool: POOL, gpu: 9}");
    scene.serve("serves", "busybox", 2, "");
    scene.notebook("notes", "");
    scene.until("trains", "running", None);
    scene.until("waits", "pending", Some("Unschedulable"));
    crowd(&scene);
    let (both, json) = (
        RelayedApi::new("both", true),
        RelayedApi::new("json", false),
    );
    let views: [&[&str]; 15] = [
        &["get", "jobs", "-o", "json"],
        &["get", "jobs", "-o", "wide"],
        &["get", "nodes", "--pool", "encodings", "-o", "json"],
        &[
            "get",
            "nodes",
            "--pool",
            "encodings",
            "--gpu-detail",
            "-o",
            "wide",
        ],
        &["describe", "node", "encodings-0", "-o", "json"],
        &["describe", "job", "trains", "-o", "json"],
        &["describe", "job", "waits"],
        &["describe", "job", "serves", "-o", "json"],
        &["describe", "job", "notes", "-o", "json"],
        &["get", "workloads", "-o", "json"],
        &["get", "consumers", "-o", "json"],
        &["tree", "web", "-o", "json"],
        &["describe", "workload", "batch", "-o", "json"],
        &["describe", "pool", "encodings", "-o", "json"],
        &["free", "--pool", "encodings", "-o", "json"],
    ];
    for view in views {
        // Ages change, and other tests create and delete pods, so the answers may differ for a
        // moment.
        let what = format!("both encodings give the same answer to {view:?}");
        eventually(&what, Duration::from_secs(30), || {
            let (from_protobuf, from_json) = (both.gpuctl(&scene, view), json.gpuctl(&scene, view));
            if (from_protobuf.code, without_times(&from_protobuf.out))
                == (from_json.code, without_times(&from_json.out))
            {
                assert!(
                    from_protobuf.code == 0 && from_protobuf.out.len() > 80,
                    "{view:?} has no answer: {}{}",
                    from_protobuf.out,
                    from_protobuf.err
                );
                return Ok(());
            }
            Err((from_protobuf, from_json))
        });
    }
    assert!(
        both.protobuf.load(Ordering::Relaxed) > 30 && json.protobuf.load(Ordering::Relaxed) > 30,
        "gpuctl requested protobuf"
    );
    assert_eq!(
        both.as_json.load(Ordering::Relaxed),
        0,
        "a list that gpuctl cannot decode from protobuf silently falls back to JSON"
    );
    // Error responses are protobuf too.
    let refused = scene
        .seen_by(Persona::Alice)
        .gpuctl(&["get", "jobs"])
        .exits(5);
    assert!(
        refused.err.contains("cannot list resource"),
        "{}",
        refused.err
    );
}

/// Replaces ages and durations.
fn without_times(text: &str) -> String {
    let ages = regex::Regex::new(r"\b([0-9]+[dhms])+\b").unwrap();
    let seconds = regex::Regex::new(r#""[a-zA-Z]*[sS]econds": [0-9.]+|"age": "[^"]*""#).unwrap();
    seconds
        .replace_all(&ages.replace_all(text, "AGE"), "TIME")
        .into_owned()
}
