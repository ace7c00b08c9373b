//! A server with protobuf and one without give the same answers: the API server itself, and the
//! same behind a relay that takes protobuf off every request. What has no name in
//! `src/cluster/protobuf/kinds.rs` would differ here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::runner::gpuctl;
use crate::support::{Run, Scene, cluster, file, run};

/// `kubectl proxy`, and a relay before it.
struct Road {
    proxy: Child,
    kubeconfig: std::path::PathBuf,
    /// Requests that would have taken protobuf.
    asked: Arc<AtomicUsize>,
    /// Lists of pods and nodes that were asked for as JSON alone.
    as_json: Arc<AtomicUsize>,
}

impl Road {
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
        let asked = Arc::new(AtomicUsize::new(0));
        let as_json = Arc::new(AtomicUsize::new(0));
        let (seen, seen_json) = (Arc::clone(&asked), Arc::clone(&as_json));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (target, seen, seen_json) =
                    (target.clone(), Arc::clone(&seen), Arc::clone(&seen_json));
                std::thread::spawn(move || {
                    relay(stream, &target, with_protobuf, &seen, &seen_json);
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
            asked,
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

impl Drop for Road {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// Carries requests one way, changed, and answers the other way as they are.
fn relay(
    stream: TcpStream,
    target: &str,
    with_protobuf: bool,
    asked: &AtomicUsize,
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
    // Lists have no body, and a body of what these commands post has no line that begins like this.
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if text.starts_with("get ") {
            // The pods of one node are read whole.
            is_list = ["/pods?", "/nodes?"].iter().any(|list| text.contains(list))
                && !text.contains("spec.nodename");
        }
        if is_list && text.starts_with("accept: application/json\r") {
            as_json.fetch_add(1, Ordering::Relaxed);
        }
        if text.starts_with("accept: application/vnd.kubernetes.protobuf,") {
            asked.fetch_add(1, Ordering::Relaxed);
            if !with_protobuf {
                line = b"accept: application/json\r\n".to_vec();
            }
        }
        if server.write_all(&line).is_err() {
            return;
        }
        line.clear();
        let buffered = reader.buffer();
        // A body comes without a newline at its end.
        if !buffered.is_empty() && !buffered.contains(&b'\n') {
            let mut rest = vec![0; buffered.len()];
            let _ = reader.read_exact(&mut rest);
            let _ = server.write_all(&rest);
        }
    }
}

/// Pods with everything that is read of them, of owners of every common kind.
fn crowd(scene: &Scene) {
    let container = json!({"name": "main", "image": "busybox", "ports": [{"containerPort": 8000, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}}, "startupProbe": {"tcpSocket": {"port": 8000}},
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "1500m"}, "requests": {"cpu": "250m", "memory": "64Mi"}}});
    let spec = json!({
        "nodeSelector": {"gpuctl/pool": scene.name}, "priority": null, "tolerations": [{"operator": "Exists"}],
        "initContainers": [{"name": "fetch", "image": "busybox", "resources": {"requests": {"memory": "2Gi"}}},
            {"name": "beside", "image": "busybox", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
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
fn protobuf_and_json_tell_the_same() {
    let scene = Scene::with_nodes("encodings", 2);
    scene.create("trains", "resources: {pool: POOL, gpu: 1, node_count: 2}");
    scene.create("waits", "resources: {pool: POOL, gpu: 9}");
    scene.serve("serves", "busybox", 2, "");
    scene.notebook("notes", "");
    scene.until("trains", "running", None);
    scene.until("waits", "pending", Some("Unschedulable"));
    crowd(&scene);
    let (both, json) = (Road::new("both", true), Road::new("json", false));
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
        // Ages go on, and pods of other tests come and go.
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let (ours, theirs) = (both.gpuctl(&scene, view), json.gpuctl(&scene, view));
            if (ours.code, still(&ours.out)) == (theirs.code, still(&theirs.out)) {
                assert!(
                    ours.code == 0 && ours.out.len() > 80,
                    "{view:?} has no answer: {}{}",
                    ours.out,
                    ours.err
                );
                break;
            }
            assert!(
                Instant::now() < end,
                "{view:?}\nprotobuf: {}{}\nJSON: {}{}",
                ours.out,
                ours.err,
                theirs.out,
                theirs.err
            );
        }
    }
    assert!(
        both.asked.load(Ordering::Relaxed) > 30 && json.asked.load(Ordering::Relaxed) > 30,
        "protobuf was asked for"
    );
    assert_eq!(
        both.as_json.load(Ordering::Relaxed),
        0,
        "what cannot be read in protobuf is read as JSON, and nobody would know"
    );
    // A refusal comes in protobuf as well.
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

/// An answer without what a clock counts.
fn still(text: &str) -> String {
    let ages = regex::Regex::new(r"\b([0-9]+[dhms])+\b").unwrap();
    let seconds = regex::Regex::new(r#""[a-zA-Z]*[sS]econds": [0-9.]+|"age": "[^"]*""#).unwrap();
    seconds
        .replace_all(&ages.replace_all(text, "AGE"), "TIME")
        .into_owned()
}
