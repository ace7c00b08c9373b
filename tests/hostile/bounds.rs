//! Tests servers and files that never end: every command stays within its limits of memory and
//! time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::runner::gpuctl;

/// The most memory and time that one run may use, whatever the server does.
const MEMORY: u64 = 400 << 20;
const TIME: Duration = Duration::from_secs(60);

/// Writes the server's response to one request, given as «METHOD path».
type Writer = dyn Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

/// A server with the test's responses, and a folder with its kubeconfig.
struct Attack {
    folder: PathBuf,
    port: u16,
}

impl Attack {
    fn start(
        name: &str,
        writer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let writer: Arc<Writer> = Arc::new(writer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let writer = Arc::clone(&writer);
                std::thread::spawn(move || answer(stream, &*writer));
            }
        });
        let folder =
            std::env::temp_dir().join(format!("gpuctl-bounds-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "users": [{"name": "u", "user": {"token": "not-a-secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        });
        std::fs::write(folder.join("config"), config.to_string()).unwrap();
        Self { folder, port }
    }

    fn run(&self, arguments: &[&str]) -> Measured {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", self.folder.join("config"))
            .env("XDG_CACHE_HOME", &self.folder)
            .args(arguments);
        measured(command)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn answer(stream: TcpStream, writer: &Writer) {
    let Ok(mut output) = stream.try_clone() else {
        return;
    };
    let mut input = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if input.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let _ = std::io::copy(&mut input.by_ref().take(length), &mut std::io::sink());
        let request = first
            .rsplit_once(" HTTP")
            .map_or("", |(request, _)| request);
        if writer(request, &mut output).is_err() {
            return;
        }
    }
}

/// Writes a response with its length.
fn write_response(
    output: &mut TcpStream,
    code: u16,
    media: &str,
    body: &[u8],
) -> std::io::Result<()> {
    write!(
        output,
        "HTTP/1.1 {code} X\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )?;
    output.write_all(body)
}

fn json_answer(output: &mut TcpStream, body: &serde_json::Value) -> std::io::Result<()> {
    write_response(output, 200, "application/json", body.to_string().as_bytes())
}

/// Repeats a block until the client disconnects. The response declares no length.
fn endless(output: &mut TcpStream, media: &str, begin: &str, block: &[u8]) -> std::io::Result<()> {
    write!(
        output,
        "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nConnection: close\r\n\r\n{begin}"
    )?;
    let mut blocks = Vec::new();
    while blocks.len() < 1 << 18 {
        blocks.extend_from_slice(block);
    }
    loop {
        output.write_all(&blocks)?;
    }
}

fn empty(output: &mut TcpStream) -> std::io::Result<()> {
    json_answer(
        output,
        &json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}),
    )
}

/// The result of a run, and how much memory and time it used.
struct Measured {
    code: Option<i32>,
    out: String,
    err: String,
    peak: u64,
    took: Duration,
}

impl Measured {
    /// Checks that the run stayed within the limits, exited without a signal, and printed little
    /// output.
    #[track_caller]
    fn within_limits(self) -> Self {
        let start: String = self.err.chars().take(2000).collect();
        assert!(self.took < TIME, "{:?}: {start}", self.took);
        assert!(self.peak < MEMORY, "{} MiB: {start}", self.peak >> 20);
        assert!(self.code.is_some(), "it was killed: {start}");
        assert!(
            self.err.len() < 64 << 10,
            "{} bytes on stderr: {start}",
            self.err.len()
        );
        self
    }

    #[track_caller]
    fn fails(self, code: i32, text: &str) -> Self {
        let run = self.within_limits();
        let start: String = run.err.chars().take(2000).collect();
        assert_eq!(run.code, Some(code), "{start}");
        assert!(run.err.contains(text), "«{text}» is not in: {start}");
        run
    }
}

/// Runs a command and records its peak memory by polling.
fn measured(mut command: Command) -> Measured {
    let begun = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("gpuctl starts");
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(Box::new(child.stdout.take().unwrap()));
    let err = read(Box::new(child.stderr.take().unwrap()));
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let code = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) << 10);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begun.elapsed() > TIME + Duration::from_secs(20) || peak > 2 * MEMORY {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Measured {
        code,
        out: out.join().unwrap(),
        err: err.join().unwrap(),
        peak,
        took: begun.elapsed(),
    }
}

#[test]
fn an_endless_list_is_cut_off() {
    let page = |objects: usize, token: &str| {
        let items: Vec<_> = (0..objects)
            .map(|index| json!({"metadata": {"name": format!("n{index}"), "uid": token}}))
            .collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": token}, "items": items})
    };
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let fresh = move || {
        count
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            .to_string()
    };
    let next = fresh.clone();
    let attack = Attack::start("empty-pages", move |_, output| {
        json_answer(output, &page(0, &next()))
    });
    attack
        .run(&["get", "nodes"])
        .fails(6, "10 pages in a row have no objects");
    let attack = Attack::start("same-token", move |_, output| {
        json_answer(output, &page(400, "again"))
    });
    attack
        .run(&["get", "nodes"])
        .fails(6, "it returned to a page that was already read");
    let next = fresh.clone();
    let attack = Attack::start("tiny-pages", move |_, output| {
        json_answer(output, &page(1, &next()))
    });
    attack
        .run(&["get", "nodes"])
        .fails(6, "200 pages have only a few objects each");
    let attack = Attack::start("full-pages", move |_, output| {
        json_answer(output, &page(2000, &fresh()))
    });
    attack.run(&["get", "nodes"]).fails(6, "never ends");
}

#[test]
fn one_page_of_millions_of_empty_objects_is_refused() {
    let attack = Attack::start("empty-objects", |_, output| {
        let body = format!(
            "{{\"kind\":\"List\",\"metadata\":{{}},\"items\":[{}{{}}]}}",
            "{},".repeat(10 << 20)
        );
        write_response(output, 200, "application/json", body.as_bytes())
    });
    attack.run(&["get", "nodes"]).fails(6, "never ends");
}

/// Starts a server with a failed job that has one pod. `log` writes the log of the pod.
fn failed_job(
    name: &str,
    log: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> Attack {
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "a", "gpuctl/kind": "training"});
    let job = json!({"metadata": {"name": "a", "namespace": "team-a", "uid": "u", "labels": labels}, "spec": {}, "status": {
        "failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]}});
    let mut pod_labels = labels.clone();
    pod_labels["batch.kubernetes.io/job-name"] = json!("a");
    let pod = json!({"metadata": {"name": "a-0", "namespace": "team-a", "uid": "p", "labels": pod_labels, "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "main", "restartCount": 0, "ready": false, "image": "i",
            "imageID": "", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}});
    Attack::start(name, move |request, output| {
        let path = request.split_once(' ').map_or("", |(_, path)| path);
        let list = |item: &serde_json::Value| json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [item]});
        match path {
            path if path.contains("/log?") => log(output),
            path if path.contains("/jobs/a") => json_answer(output, &job),
            path if path.contains("/jobs") => json_answer(output, &list(&job)),
            path if path.contains("/pods/a-0") => json_answer(output, &pod),
            path if path.contains("/pods") => json_answer(output, &list(&pod)),
            _ => empty(output),
        }
    })
}

#[test]
fn endless_logs_and_lines_are_truncated() {
    let numbered: String = (1..=5000)
        .map(|step| format!("2026-01-01T00:00:00.000000001Z step {step} loss 2.5\n"))
        .collect();
    let attack = failed_job("endless-log", move |output| {
        endless(output, "text/plain", "", numbered.as_bytes())
    });
    let run = attack.run(&["logs", "a", "--tail", "10"]).within_limits();
    assert_eq!(
        (run.code, run.out.lines().count()),
        (Some(0), 10),
        "{}",
        run.err
    );
    assert!(
        run.out.ends_with("step 1010 loss 2.5\n") && run.err.contains("may not be the newest"),
        "{}{}",
        run.out,
        run.err
    );
    let endless_line = failed_job("endless-line", |output| {
        endless(output, "text/plain", "", b"xxxxxxxxxxxxxxxx")
    });
    for command in [
        &["describe", "job", "a"][..],
        &["why", "a"],
        &["logs", "a", "--first-error"],
        &["logs", "a", "--tail", "10"],
    ] {
        attack.run(command).within_limits();
        endless_line.run(command).within_limits();
    }
}

#[test]
fn a_search_in_an_endless_log_keeps_the_newest_lines_and_times_out() {
    let attack = failed_job("endless-grep", |output| {
        endless(
            output,
            "text/plain",
            "",
            b"loss and a rather long line of text\n",
        )
    });
    attack
        .run(&["logs", "a", "--grep", "loss", "--request-timeout", "3s"])
        .fails(6, "did not answer within 3 s");
}

#[test]
fn long_server_messages_are_truncated_and_count_the_omitted_part() {
    let long = "x".repeat(20 << 20);
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": long,
        "reason": "Forbidden", "code": 403});
    let body = status.to_string();
    let attack = Attack::start("long-status", move |_, output| {
        write_response(output, 403, "application/json", body.as_bytes())
    });
    for format in ["table", "json"] {
        let run = attack
            .run(&["get", "jobs", "-o", format])
            .fails(5, "(20967424 more bytes)");
        assert!(
            run.err.len() < 16 << 10,
            "{format}: {} bytes",
            run.err.len()
        );
        assert!(
            format != "json" || serde_json::from_str::<serde_json::Value>(run.err.trim()).is_ok(),
            "the error is JSON"
        );
    }
    let page = format!("<html><title>{}</title></html>", "y".repeat(5 << 20));
    let attack = Attack::start("long-title", move |_, output| {
        write_response(output, 200, "text/html", page.as_bytes())
    });
    let run = attack.run(&["get", "jobs"]).fails(6, "more bytes)");
    assert!(run.err.len() < 2000, "{} bytes", run.err.len());
}

#[test]
fn a_long_prometheus_error_is_truncated() {
    let body = json!({"status": "error", "errorType": "execution", "error": "z".repeat(6 << 20)})
        .to_string();
    let attack = Attack::start("long-prometheus", move |request, output| {
        match request.contains("/api/v1/query") {
            true => write_response(output, 422, "application/json", body.as_bytes()),
            false => empty(output),
        }
    });
    let prometheus = format!("http://127.0.0.1:{}", attack.port);
    let run = attack
        .run(&[
            "--prometheus",
            &prometheus,
            "--require-metrics",
            "top",
            "jobs",
        ])
        .within_limits();
    assert!(
        run.err.contains("more bytes)") && run.err.len() < 20 << 10,
        "{} bytes",
        run.err.len()
    );
}

#[test]
fn endless_prometheus_responses_do_not_fill_memory() {
    let begin = r#"{"status":"success","data":{"resultType":"vector","result":["#;
    for (name, block) in [
        ("series", &br#"{"metric":{}},"#[..]),
        ("labels", br#"{"metric":{"":"","a":"","b":""}},"#),
    ] {
        let attack =
            Attack::start(
                &format!("prometheus-{name}"),
                move |request, output| match request.contains("/api/v1/query") {
                    true => endless(output, "application/json", begin, block),
                    false => empty(output),
                },
            );
        let prometheus = format!("http://127.0.0.1:{}", attack.port);
        attack
            .run(&["--prometheus", &prometheus, "top", "jobs"])
            .within_limits();
    }
    let attack = Attack::start("prometheus-closed", move |request, output| {
        match request.contains("/api/v1/query") {
            true => {
                let body = format!(
                    "{begin}{}{{\"metric\":{{}}}}]}}}}",
                    r#"{"metric":{}},"#.repeat(4 << 20)
                );
                write_response(output, 200, "application/json", body.as_bytes())
            }
            false => empty(output),
        }
    });
    let prometheus = format!("http://127.0.0.1:{}", attack.port);
    attack
        .run(&["--prometheus", &prometheus, "top", "jobs"])
        .within_limits();
}

/// Compresses a text that repeats `block`.
fn packed(name: &str, begin: &[u8], block: &[u8], bytes: usize) -> PathBuf {
    let path = std::env::temp_dir().join(format!("gpuctl-bounds-{}-{name}.gz", std::process::id()));
    let mut file = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    file.write_all(begin).unwrap();
    let blocks = block.repeat((1 << 20) / block.len());
    for _ in 0..bytes / blocks.len() {
        file.write_all(&blocks).unwrap();
    }
    file.finish().unwrap();
    path
}

fn replayed(path: &std::path::Path) -> Measured {
    let mut command = gpuctl();
    command.args(["get", "nodes", "--replay"]).arg(path);
    measured(command)
}

#[test]
fn a_bundle_that_unpacks_beyond_the_limit_is_refused() {
    let bombs = [
        (
            "zeros",
            packed("zeros", br#"{"format":1,"lists":["#, b"0,", 64 << 20),
            "more than 256 MiB",
        ),
        (
            "body",
            packed(
                "body",
                br#"{"answers":{"GET /a":{"body":["#,
                b"[],",
                64 << 20,
            ),
            "more than 256 MiB",
        ),
        (
            "text",
            packed("text", br#"{"format":1,"a":""#, b"aaaaaaaa", 200 << 20),
            "larger than 128 MiB",
        ),
        (
            "blanks",
            packed("blanks", b"", b"        ", 140 << 20),
            "larger than 128 MiB",
        ),
        (
            "deep",
            packed("deep", b"", b"[", 1 << 20),
            "recursion limit",
        ),
    ];
    for (name, path, text) in bombs {
        assert_eq!(replayed(&path).fails(2, text).out, "", "{name}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_bundle_is_a_regular_file_of_a_limited_size() {
    let folder = std::env::temp_dir();
    replayed("/dev/zero".as_ref()).fails(2, "is not a regular file");
    replayed(&folder).fails(2, "is not a regular file");
    let pipe = folder.join(format!("gpuctl-bounds-{}-pipe", std::process::id()));
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    replayed(&pipe).fails(2, "is not a regular file");
    std::fs::remove_file(pipe).unwrap();
    let large = folder.join(format!("gpuctl-bounds-{}-large", std::process::id()));
    std::fs::File::create(&large)
        .unwrap()
        .set_len(10 << 30)
        .unwrap();
    replayed(&large).fails(2, "larger than 64 MiB");
    std::fs::remove_file(large).unwrap();
}

#[test]
fn files_read_into_memory_have_a_size_limit() {
    let attack = Attack::start("large-files", |_, output| empty(output));
    let large = attack.folder.join("large");
    std::fs::File::create(&large)
        .unwrap()
        .set_len(3 << 30)
        .unwrap();
    let settings = attack.folder.join("settings.yaml");
    for file in ["/dev/zero", large.to_str().unwrap()] {
        let says = format!("{file}: it is larger than 16 MiB");
        let top = [
            "top",
            "nodes",
            "--require-metrics",
            "--prometheus",
            "http://127.0.0.1:1",
        ];
        for flag in ["--prometheus-token-file", "--prometheus-ca-file"] {
            attack
                .run(&[&top[..], &[flag, file]].concat())
                .fails(2, &says);
        }
        attack
            .run(&["get", "nodes", "--kubeconfig", file])
            .fails(2, &says);
        attack
            .run(&["config", "view", "--config", file])
            .fails(2, &says);
        attack.run(&["report", "--prices", file]).fails(2, &says);
        for key in ["token_file", "password_file", "ca_file"] {
            let prometheus = json!({"url": "http://127.0.0.1:1", "user": "u", key: file});
            std::fs::write(&settings, json!({"prometheus": prometheus}).to_string()).unwrap();
            let mut command = gpuctl();
            command
                .env_remove("GPUCTL_PROMETHEUS")
                .env("KUBECONFIG", attack.folder.join("config"));
            command
                .args(["top", "nodes", "--require-metrics", "--config"])
                .arg(&settings);
            measured(command).fails(2, &says);
        }
    }
}

#[test]
fn shell_pipes_are_read_completely() {
    let attack = Attack::start("pipes", |_, output| empty(output));
    let kubeconfig = attack.folder.join("config");
    for (arguments, code) in [
        ("get jobs --kubeconfig <(cat \"$KUBECONFIG\")", 0),
        ("get jobs --config <(echo 'thresholds: {idle: 7}')", 0),
        ("validate -f <(echo 'kind: nothing')", 3),
        (
            "top nodes --require-metrics --prometheus http://127.0.0.1:1 --prometheus-token-file <(echo token)",
            6,
        ),
    ] {
        let mut command = Command::new("bash");
        command
            .args([
                "-c",
                &format!("\"$0\" {arguments}"),
                env!("CARGO_BIN_EXE_gpuctl"),
            ])
            .env("KUBECONFIG", &kubeconfig);
        command.env("GPUCTL_PROMETHEUS", "none");
        let run = measured(command).within_limits();
        assert_eq!(run.code, Some(code), "{arguments}: {}", run.err);
    }
}

/// Prints secrets for as long as anything reads them.
const PLUGIN: &str = "yes canary-not-a-secret";

#[test]
fn a_program_with_endless_output_is_killed() {
    let folder = std::env::temp_dir().join(format!("gpuctl-bounds-{}-plugin", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", PLUGIN],
                      "interactiveMode": "Never"});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": exec}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let config = json!({"prometheus": {"url": "http://127.0.0.1:1", "token_command": PLUGIN}});
    std::fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
    let mut plugin = gpuctl();
    plugin
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .args(["get", "nodes"]);
    let mut token = gpuctl();
    token
        .env_remove("GPUCTL_PROMETHEUS")
        .env("KUBECONFIG", "/nonexistent")
        .args(["doctor", "--config"]);
    token.arg(folder.join("config.yaml"));
    for (command, text) in [
        (plugin, "printed more than 1 MiB"),
        (token, "printed too much"),
    ] {
        let run = measured(command).within_limits();
        let all = format!("{}{}", run.out, run.err);
        assert!(all.contains(text) && !all.contains("canary"), "{all}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn too_few_file_descriptors_cause_an_error_and_not_a_panic() {
    for limit in 5..16 {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("ulimit -n {limit}; exec \"$0\" get nodes"),
            env!("CARGO_BIN_EXE_gpuctl"),
        ]);
        command.env("KUBECONFIG", "/nonexistent");
        measured(command).fails(1, "the process may open too few files");
    }
}

#[test]
fn a_metric_name_cannot_inject_a_matcher() {
    for matcher in ["__name__=up", "__name__=~up.*", "{__name__=~\"up\"}"] {
        let mut command = gpuctl();
        command.args(["get", "nodes", "--match", matcher]);
        measured(command).fails(2, "would replace the metrics that queries select");
    }
}

/// The `pod:` block must not be a way around the checks of `host_path` and `security`.
#[test]
fn the_pod_overlay_follows_the_rules_of_other_fields() {
    let folders = [
        "/",
        "//",
        "/etc/./",
        "/var/run/docker.sock",
        "/var/lib/kubelet/pods",
        "/proc/1/root",
    ];
    let volumes = folders.map(|path| {
        (
            format!("volumes: [{{name: a, hostPath: {{path: {path}}}}}]"),
            "must not be mounted",
        )
    });
    let fields = [
        "hostPID: true",
        "hostIPC: true",
        "containers: [{securityContext: {privileged: true}}]",
        "initContainers: [{name: a, image: b, securityContext: {privileged: true}}]",
        "ephemeralContainers: [{name: a, securityContext: {privileged: true}}]",
    ];
    let fields = fields.map(|field| (field.to_owned(), "must not set"));
    let added = (
        "containers: [{securityContext: {capabilities: {add: [SYS_ADMIN]}}}]".to_owned(),
        "must not add the capability",
    );
    let path = std::env::temp_dir().join(format!("gpuctl-bounds-{}-pod.yaml", std::process::id()));
    for (field, message) in volumes.into_iter().chain(fields).chain([added]) {
        let document = format!(
            "kind: compute\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: b}}\npod: {{{field}}}\n"
        );
        std::fs::write(&path, document).unwrap();
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", "/nonexistent")
            .args(["validate", "-f"])
            .arg(&path);
        let run = measured(command).within_limits();
        let text = format!("{}{}", run.out, run.err);
        assert!(
            run.code == Some(3) && text.contains(message),
            "{field}: {text}"
        );
    }
    std::fs::remove_file(path).unwrap();
}
