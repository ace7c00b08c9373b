//! Puts more than forty kinds of secrets, each with a unique text, where users put secrets. Then
//! searches all output, all cached files and a bundle for these texts.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use super::{file, plain, servers};
use crate::runner::{Run, run};
use crate::support::cluster;

/// The output that may contain the canaries of a place, because it exists to show this text.
/// Canaries of any other place must not appear anywhere.
const MAY_APPEAR: [(&str, &[&str]); 4] = [
    // The owner sees the file as submitted. Only agents and bundles get no values at all.
    ("variable without a telling name", &["describe job"]),
    // A job's own log, and its last lines where they explain why it ended.
    ("log", &["logs", "why", "describe job"]),
    // The messages of events, as `kubectl describe` also prints them.
    ("event", &["events", "describe job", "why", "tree"]),
    // Lists select by labels.
    ("label", &["get workloads", "describe workload"]),
];

/// Returns the canaries by place. Each text is used in exactly one place.
fn canaries() -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::from([
        ("variable without a telling name", vec!["CNRY-env-plain"]),
        (
            "environment",
            vec!["CNRY-env-named", "CNRY-env-url", "CNRY-env-json"],
        ),
        (
            "arguments",
            vec![
                "CNRY-hf-token",
                "CNRY-aws-key",
                "CNRY-ngc-key",
                "CNRY-wandb-key",
                "CNRY-wandb_key",
                "CNRY-auth",
                "CNRY-passphrase",
                "CNRY-license",
                "CNRY-pat",
                "CNRY-key",
                "CNRY-assigned",
                "CNRY-wandb-login",
                "CNRY-hub-login",
                "CNRY-docker-login",
                "CNRY-curl-user",
            ],
        ),
        (
            "annotation",
            vec![
                "CNRY-ann-secret",
                "CNRY-ann-applied",
                "CNRY-ann-json",
                "CNRY-ann-yaml",
                "CNRY-ann-basic",
            ],
        ),
        ("label", vec!["CNRY-label-token"]),
        (
            "log",
            vec![
                "CNRY-log-said",
                "CNRYlogAIzaCNRYlogAIza0",
                "CNRYlognpmCNRYlognpm",
                "CNRYlogxaiCNRYlogxai",
                "CNRYlogdckr",
                "CNRYlogglpatCNRYlog",
                "CNRYlogxoxb",
                "CNRYlogslack",
                "0cnryl0gb00tstrp",
                "CNRYlogamz",
                "CNRYlogjwt",
                "CNRYlogprivate",
                "CNRYLOGAKIA",
                "CNRYlogbearer",
                "CNRYlogtyped",
            ],
        ),
        ("event", vec!["CNRY-event-password", "CNRY-event-url"]),
        (
            "settings",
            vec![
                "CNRY-prom-password",
                "CNRY-prom-query",
                "CNRY-ai-path",
                "CNRY-ai-key",
                "CNRY-control-path",
                "CNRY-control-header",
                "CNRY-notify-path",
                "CNRY-notify-secret",
                "CNRY-prom-header",
            ],
        ),
        (
            "kubeconfig",
            vec![
                "CNRY-srv-password",
                "CNRY-srv-query",
                "CNRY-proxy-url",
                "CNRY-client-key",
                "CNRY-exec-err",
            ],
        ),
        (
            "series",
            vec![
                "CNRY-series-applied",
                "CNRY-series-source",
                "CNRY-series-cut",
                "CNRY-series-token",
            ],
        ),
    ])
}

const COMMANDS: [&str; 36] = [
    "get jobs",
    "get jobs -o wide",
    "get nodes",
    "get nodes -o wide",
    "get pools",
    "get quotas",
    "get queues",
    "get claims",
    "get defaults",
    "get overview",
    "get consumers",
    "get health",
    "get namespaces",
    "get workloads",
    "get workloads -o wide",
    "get node-labels --all",
    "auth check",
    "free",
    "why --all",
    "why canary-job",
    "describe job canary-job",
    "describe workload pod/bare",
    "describe node plain-01",
    "events canary-job",
    "logs canary-job",
    "logs canary-job --first-error",
    "tree canary-job",
    "eff canary-job",
    "top nodes",
    "top jobs",
    "doctor",
    "config view",
    "config view --show-origin",
    "config get prometheus.headers",
    "config get ai.api_key",
    "version",
];

const NAMESPACE: &str = "canary";

fn job() -> String {
    "kind: training
version: v0.1
job: {name: canary-job, annotations: {example.com/secret: CNRY-ann-secret}}
environment:
  image: busybox:1.36
  command: [train, --hf-token, CNRY-hf-token, --aws-secret-access-key, CNRY-aws-key, --ngc-api-key, CNRY-ngc-key,
    --wandb-key, CNRY-wandb-key, --wandb_key, CNRY-wandb_key, --auth, CNRY-auth, --passphrase=CNRY-passphrase,
    --license-key=CNRY-license, --pat, CNRY-pat, --key, CNRY-key]
  env:
    HF_TOKEN: CNRY-env-named
    DB_URL: CNRY-env-plain
    DATABASE: postgres://me:CNRY-env-url@db/x
    SETTINGS: '{\"password\": \"CNRY-env-json\"}'
resources: {gpu: 0, cpu: 1, memory: 1Gi}
"
    .to_owned()
}

/// A pod of another tool, with the usual contents of shell commands and annotations.
fn bare_pod() -> Value {
    let applied =
        json!({"spec": {"containers": [{"env": [{"name": "X", "value": "CNRY-ann-applied"}]}]}})
            .to_string();
    let line = "API_TOKEN=CNRY-assigned wandb login CNRY-wandb-login && huggingface-cli login --token CNRY-hub-login && \
        docker login -u me -p CNRY-docker-login registry.example.com && curl -u me:CNRY-curl-user https://host";
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "bare", "namespace": NAMESPACE, "labels": {"example.com/api-token": "CNRY-label-token"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied,
                "example.com/copy": applied.replace("ann-applied", "ann-json"),
                "example.com/file": "spec:\n  env:\n    X: CNRY-ann-yaml\n",
                "example.com/header": "Authorization: Basic CNRY-ann-basic=="}},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": "plain-01"},
            "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", line],
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}})
}

const LOG: [&str; 15] = [
    "the password is CNRY-log-said",
    "key AIzaCNRYlogAIzaCNRYlogAIza0",
    "npm_CNRYlognpmCNRYlognpm",
    "xai-CNRYlogxaiCNRYlogxai0",
    "dckr_pat_CNRYlogdckrCNRY",
    "glpat-CNRYlogglpatCNRYlog",
    "xoxb-CNRYlogxoxbCNRY",
    "posting to https://hooks.slack.com/services/T00/B00/CNRYlogslack",
    "kubeadm join with abc123.0cnryl0gb00tstrp",
    "GET https://bucket/x?X-Amz-Signature=CNRYlogamz&part=1",
    "eyJCNRYlogjwtx.eyJCNRYlogjwtx.CNRYlogjwtx",
    "-----BEGIN PRIVATE KEY----- CNRYlogprivate -----END PRIVATE KEY-----",
    "AKIACNRYLOGAKIA0000A",
    "Authorization: Bearer CNRYlogbearer",
    "{\"level\": \"info\", \"api_key\": \"CNRYlogtyped\"}",
];

/// The labels on every Prometheus series. kube-state-metrics derives such labels from annotations.
fn series() -> Value {
    let object = |canary: &str| {
        json!({"spec": {"containers": [{"env": [{"name": "X", "value": canary}]}]}}).to_string()
    };
    let cut = object("CNRY-series-cut");
    json!({"__name__": "kube_pod_annotations", "namespace": NAMESPACE, "pod": "bare", "uid": "u", "node": "plain-01",
        "annotation_kubectl_kubernetes_io_last_applied_configuration": object("CNRY-series-applied"),
        "annotation_gpuctl_source": job().replace("CNRY-env-plain", "CNRY-series-source").replace("CNRY", "XNRY").replace("XNRY-series", "CNRY-series"),
        "last_applied": &cut[..cut.len() - 4],
        "label_example_com_api_token": "CNRY-series-token"})
}

/// Creates the objects and waits for the job's pod.
fn arrange() {
    let admin = cluster().kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
    admin.run_with(&["create", "-f", "-"], &bare_pod().to_string());
    let mut create = plain();
    create.env("KUBECONFIG", cluster().kubeconfig(Persona::Admin));
    create.args(["create", "-f", "-", "-n", NAMESPACE, "--allow-pending"]);
    run(create, &job()).ok();
    let selector = [
        "get",
        "pods",
        "-n",
        NAMESPACE,
        "-l",
        "gpuctl/job=canary-job",
    ];
    let pods = admin.until(&selector, |list| {
        list["items"][0]["spec"]["nodeName"].is_string()
    });
    let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let container = pods["items"][0]["spec"]["containers"][0]["name"]
        .as_str()
        .unwrap();
    let mut log = cluster().pod_log(NAMESPACE, pod, container);
    LOG.iter().for_each(|line| log.say(line));
    let message =
        "MountVolume failed: password=CNRY-event-password at https://me:CNRY-event-url@nfs/share";
    admin.run_with(
        &["create", "-f", "-"],
        &json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "canary", "namespace": NAMESPACE},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": NAMESPACE,
                "uid": pods["items"][0]["metadata"]["uid"]},
            "reason": "FailedMount", "message": message, "type": "Warning", "count": 1,
            "firstTimestamp": jiff::Timestamp::now(), "lastTimestamp": jiff::Timestamp::now(),
            "source": {"component": "kubelet"}})
        .to_string(),
    );
}

/// The kubeconfig, config file and folders of a user whose output is searched.
struct User {
    kubeconfig: std::path::PathBuf,
    config: std::path::PathBuf,
}

impl User {
    fn new() -> Self {
        use base64::Engine;
        let token = cluster().token(Persona::Admin);
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}});
        let answer = file("canary-credential.json", &credential.to_string());
        let script = format!("echo CNRY-exec-err >&2; cat '{}'", answer.display());
        let address = cluster()
            .api_server()
            .replace("https://", "https://me:CNRY-srv-password@")
            + "/?t=CNRY-srv-query";
        let key = base64::prelude::BASE64_STANDARD.encode("CNRY-client-key");
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": address, "insecure-skip-tls-verify": true,
                "proxy-url": "http://me:CNRY-proxy-url@127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
            "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
                "args": ["-c", script], "interactiveMode": "Never"}}}, {"name": "other", "user": {"client-key-data": key}}]});
        let port = servers::prometheus(series());
        let config = format!(
            "prometheus: {{url: 'http://me:CNRY-prom-password@127.0.0.1:{port}/?t=CNRY-prom-query', headers: {{X-Own: CNRY-prom-header}}}}
ai: {{api_url: 'https://ai.example.com/CNRY-ai-path', api_key: CNRY-ai-key}}
control: {{api_url: 'https://control.example.com/CNRY-control-path', headers: {{X-Own: CNRY-control-header}}}}
notify: {{url: 'https://hooks.example.com/CNRY-notify-path', secret: CNRY-notify-secret}}
"
        );
        Self {
            kubeconfig: file("canary.kubeconfig", &kubeconfig.to_string()),
            config: file("canary-user.yaml", &config),
        }
    }

    fn gpuctl(&self, line: &str) -> Run {
        let mut command = plain();
        command
            .env_remove("GPUCTL_PROMETHEUS")
            .env("KUBECONFIG", &self.kubeconfig)
            .arg("--config")
            .arg(&self.config);
        command.args(line.split(' '));
        run(command, "")
    }

    /// Completes the name of a job, which caches the names of all jobs.
    fn completes_a_job(&self) -> Run {
        let mut command = plain();
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("COMPLETE", "bash");
        command
            .env("_CLAP_COMPLETE_INDEX", "2")
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .env("_CLAP_IFS", "\n");
        command.args(["--", "gpuctl", "logs", ""]);
        run(command, "")
    }
}

fn user() -> &'static User {
    static USER: OnceLock<User> = OnceLock::new();
    USER.get_or_init(|| {
        arrange();
        User::new()
    })
}

/// Records every canary in a text, except those that the table allows.
fn search(text: &str, origin: &str, leaks: &mut Vec<String>) {
    for (place, texts) in canaries() {
        let allowed = MAY_APPEAR
            .iter()
            .find(|(name, _)| *name == place)
            .map_or(&[][..], |(_, outputs)| outputs);
        if allowed.iter().any(|output| origin.starts_with(output)) {
            continue;
        }
        leaks.extend(
            texts
                .iter()
                .filter(|canary| text.contains(**canary))
                .map(|canary| format!("{canary} ({place}) in {origin}")),
        );
    }
}

/// Searches the names and contents of all files below a folder. Returns the number of files
/// searched.
fn search_folder(folder: &Path, leaks: &mut Vec<String>) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            count += search_folder(&path, leaks);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            search(&format!("{} {text}", path.display()), "the cache", leaks);
            count += 1;
        }
    }
    count
}

#[test]
fn no_output_cache_or_bundle_shows_a_secret() {
    let user = user();
    assert!(canaries().values().map(Vec::len).sum::<usize>() > 40);
    let mut leaks = Vec::new();
    for line in COMMANDS {
        let has_format = line.contains("-o ");
        let formats = if has_format {
            &["-v"][..]
        } else {
            &["-v", "-o json"]
        };
        for format in formats {
            let answer = user.gpuctl(&format!("{line} {format}"));
            assert!(
                !answer.err.contains("cannot be given") && answer.code != -9,
                "{line} {format}: {}",
                answer.err
            );
            search(&answer.out, line, &mut leaks);
            search(&answer.err, line, &mut leaks);
        }
    }
    let path = cluster().folder().join("canary.gpuctl");
    let doctor = user
        .gpuctl(&format!("doctor --bundle {} -v", path.display()))
        .ok();
    search(&(doctor.out + &doctor.err), "doctor --bundle", &mut leaks);
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    search(&text, "the bundle", &mut leaks);
    assert!(text.contains("canary-job") && text.contains("[redacted]"));
    let names = user.completes_a_job().ok();
    assert!(
        names.out.contains("canary-job"),
        "{}{}",
        names.out,
        names.err
    );
    search(&names.out, "completion", &mut leaks);
    assert!(
        search_folder(&cluster().folder().join("cache"), &mut leaks) > 0,
        "nothing is cached"
    );
    assert!(leaks.is_empty(), "{leaks:#?}");
    replayed(user, &path);
}

/// Checks that the bundle gives the same answers as the cluster.
fn replayed(user: &User, bundle: &Path) {
    for line in [
        "get jobs -o json",
        "describe job canary-job -o json",
        "events canary-job -o json",
    ] {
        let mut command = plain();
        command
            .env("KUBECONFIG", "/nonexistent")
            .arg("--replay")
            .arg(bundle)
            .args(line.split(' '));
        let (replayed, live) = (run(command, "").ok().json(), user.gpuctl(line).ok().json());
        let names = |answer: &Value| answer.to_string().matches("canary-job").count();
        assert!(
            names(&replayed) > 0 && names(&replayed) == names(&live),
            "{line}: {replayed:#}\n{live:#}"
        );
    }
}

#[test]
fn agents_see_no_secret() {
    let user = user();
    let calls = [
        ("describe_job", json!({"job": "canary-job"})),
        ("logs", json!({"job": "canary-job"})),
        ("events", json!({"job": "canary-job"})),
        ("why", json!({"job": "canary-job"})),
        ("list_jobs", json!({})),
        ("list_consumers", json!({})),
    ];
    let start = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let mut lines = vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    for (id, (name, arguments)) in (1..).zip(&calls) {
        let params = json!({"name": name, "arguments": arguments});
        lines.push(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    let mut command = plain();
    command
        .env_remove("GPUCTL_PROMETHEUS")
        .env("KUBECONFIG", &user.kubeconfig)
        .arg("--config")
        .arg(&user.config);
    command.arg("mcp");
    let answers = conversation(command, &lines, calls.len() + 1);
    let mut leaks = Vec::new();
    search(&answers, "an answer for an agent", &mut leaks);
    assert!(answers.contains("canary-job"), "{answers}");
    assert!(leaks.is_empty(), "{leaks:#?}\n{answers}");
}

/// Sends lines to a server and returns the first `count` lines of its response.
fn conversation(mut command: std::process::Command, lines: &[Value], count: usize) -> String {
    use std::io::{BufRead, BufReader, Write};
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    lines
        .iter()
        .for_each(|line| writeln!(stdin, "{line}").unwrap());
    let reader = BufReader::new(server.stdout.take().unwrap());
    let answers: Vec<String> = reader.lines().map_while(Result::ok).take(count).collect();
    drop(stdin);
    let _ = server.kill();
    let _ = server.wait();
    answers.join("\n")
}
