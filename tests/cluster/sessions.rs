//! Tests `open`, `exec` and `attach` through the API server and the kubelet's server, also in
//! terminals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};

use crate::support::{Run, Scene, cluster, finish};

/// Starts a local web server. It answers with its name, the requested path and the number of
/// requests.
fn web_server(name: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut first = String::new();
                reader.read_line(&mut first).unwrap();
                let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    line.clear();
                }
                let body = match path.strip_prefix("/bytes/") {
                    Some(size) => "x".repeat(size.parse().unwrap()),
                    None => format!("{name} {path} {}", count.fetch_add(1, Ordering::SeqCst)),
                };
                let mut stream = stream;
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    port
}

/// Sends one request. Returns an error if the response never arrives.
fn http_get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(40)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")?;
    // The simulated node does not forward the end of the server's stream, so the body must be read
    // by its length.
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        length = line
            .strip_prefix("content-length: ")
            .map_or(length, |number| number.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(String::from_utf8(body).unwrap())
}

/// Starts `open -o json` and reads the first document. The rest of the output stays in the child's
/// pipes.
fn opened(scene: &Scene, arguments: &[&str]) -> (Child, serde_json::Value) {
    let mut child = scene.start(&[&["open", "-o", "json"], arguments].concat());
    let mut text = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    while !text.ends_with("}\n") {
        assert!(
            out.read_line(&mut text).unwrap() > 0,
            "open ended: {:?}",
            finish(child, Duration::from_secs(5)).err
        );
    }
    (child, serde_json::from_str(&text).unwrap())
}

fn interrupt(child: Child) -> Run {
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, Duration::from_secs(10))
}

#[test]
fn open_reconnects_after_the_pod_is_replaced() {
    let scene = Scene::with_nodes("open", 1);
    let local = web_server("model");
    cluster().forward("open", &[8000], local);
    scene.serve("web", "vllm", 1, "");
    scene.until("web", "running", None);
    let (child, opened) = opened(&scene, &["web", "--local-port", "0"]);
    let port = u16::try_from(opened["localPort"].as_u64().unwrap()).unwrap();
    assert_eq!(opened["url"], format!("http://127.0.0.1:{port}/"));
    assert_eq!(http_get(port, "/v1/models").unwrap(), "model /v1/models 0");
    assert_eq!(http_get(port, "/bytes/3000000").unwrap().len(), 3_000_000);
    let requests: Vec<_> = (0..8)
        .map(|index| std::thread::spawn(move || http_get(port, &format!("/{index}")).unwrap()))
        .collect();
    for (index, thread) in requests.into_iter().enumerate() {
        assert!(
            thread
                .join()
                .unwrap()
                .starts_with(&format!("model /{index} "))
        );
    }
    let pod = scene.pods("web").remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    scene
        .admin
        .run(&["delete", "pod", &pod, "-n", "open", "--wait=false"]);
    // A connection made after this waits for the next pod.
    eventually("the old pod is deleted", Duration::from_secs(60), || {
        let pods = scene.pods("web");
        pods.iter()
            .all(|other| other["metadata"]["name"] != pod.as_str())
    });
    assert!(
        http_get(port, "/after")
            .unwrap()
            .starts_with("model /after ")
    );
    interrupt(child).exits(0);
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "the port is free again"
    );
}

#[test]
fn open_prints_a_notebook_token_only_on_request() {
    let scene = Scene::with_nodes("open-nb", 1);
    let local = web_server("lab");
    cluster().forward("open-nb", &[8888], local);
    scene.notebook(
        "lab",
        "environment: {image: j, command: [jupyter-lab, --ip=0.0.0.0, --port=8888, --NotebookApp.token=s3cret&t0ken]}",
    );
    scene.until("lab", "running", None);
    let (child, hidden) = opened(&scene, &["lab"]);
    assert!(hidden["url"].as_str().unwrap().ends_with('/'), "{hidden}");
    assert_eq!(hidden["targetPort"], 8888);
    let port = u16::try_from(hidden["localPort"].as_u64().unwrap()).unwrap();
    assert!(http_get(port, "/lab").unwrap().starts_with("lab /lab "));
    let (second, shown) = opened(&scene, &["lab", "--show-token"]);
    assert!(
        shown["url"]
            .as_str()
            .unwrap()
            .ends_with("/?token=s3cret%26t0ken"),
        "{shown}"
    );
    assert_ne!(
        shown["localPort"], hidden["localPort"],
        "another port is chosen if the job's own is in use"
    );
    interrupt(second).exits(0);
    let run = interrupt(child).exits(0);
    assert!(!run.err.contains("s3cret"), "{}", run.err);
    let own_port = port.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap().port().to_string();
    assert_ne!(own_port, busy);
    scene
        .gpuctl(&["open", "lab", "--local-port", &busy])
        .exits(1)
        .says(&format!("cannot listen on port {busy}"));
    scene.gpuctl(&["pause", "job", "lab"]).ok();
    scene
        .gpuctl(&["open", "lab"])
        .exits(1)
        .says("is paused")
        .says("gpuctl resume job open-nb/lab");
    scene.create("train", "");
    scene
        .gpuctl(&["open", "train"])
        .exits(2)
        .says("has no port")
        .says("--target-port 6006");
}

#[test]
fn open_ends_with_the_job_and_starts_a_browser_only_on_request() {
    let scene = Scene::with_nodes("open-end", 1);
    cluster().forward("open-end", &[8000], web_server("x"));
    scene.serve("web", "vllm", 1, "");
    scene.until("web", "running", None);
    let folder = cluster().folder().join("browser");
    std::fs::create_dir_all(&folder).unwrap();
    let browser_log = folder.join("seen");
    let script = format!("#!/bin/sh\necho \"$1\" >> {}\n", browser_log.display());
    for name in ["xdg-open", "open"] {
        std::fs::write(folder.join(name), &script).unwrap();
        Command::new("chmod")
            .arg("+x")
            .arg(folder.join(name))
            .status()
            .unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let start = |arguments: &[&str]| {
        let mut command = scene.command(arguments);
        command
            .env("PATH", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let plain = start(&["open", "web", "--local-port", "0"]);
    // Without `--browser`, no browser may start.
    std::thread::sleep(Duration::from_secs(2));
    assert!(!browser_log.exists());
    let shown = start(&["open", "web", "--local-port", "0", "--browser"]);
    eventually("the browser starts", Duration::from_secs(20), || {
        std::fs::read_to_string(&browser_log).is_ok_and(|urls| !urls.is_empty())
    });
    assert!(
        std::fs::read_to_string(&browser_log)
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    scene.gpuctl(&["delete", "job", "web"]).ok();
    for child in [plain, shown] {
        let run = finish(child, Duration::from_secs(30)).exits(4);
        assert!(
            run.err
                .contains("job `web` was deleted during port forwarding"),
            "{}",
            run.err
        );
    }
}

#[test]
fn exec_passes_on_output_input_and_exit_code() {
    let scene = Scene::with_nodes("exec", 1);
    cluster().allow_exec("exec", cluster().folder());
    scene.create("a", "resources: {pool: POOL, gpu: 1, node_count: 2}");
    scene.until("a", "running", None);
    let both = scene
        .gpuctl(&[
            "exec",
            "a",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; exit 7",
        ])
        .exits(7);
    assert_eq!(both.out, "out\n");
    assert!(both.err.contains("err\n"), "{}", both.err);
    scene
        .gpuctl(&["exec", "a", "--rank", "1", "--", "true"])
        .ok();
    // When stdout is written to a full disk, the command fails with an error.
    let mut command = scene.command(&["exec", "a", "--", "echo", "x"]);
    let full = command
        .stdout(
            std::fs::File::options()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        )
        .output()
        .unwrap();
    assert_eq!(
        full.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&full.stderr)
    );
    // The simulated node does not forward the end of stdin, so the command must end without it.
    assert_eq!(
        scene
            .gpuctl_with(&["exec", "a", "-i", "--", "head", "-n1"], "one\ntwo\n")
            .ok()
            .out,
        "one\n"
    );
    // Without a command, `exec` starts a shell.
    assert_eq!(
        scene
            .gpuctl_with(&["exec", "a"], "echo from a shell\nexit 4\n")
            .exits(4)
            .out,
        "from a shell\n"
    );
    let large = scene
        .gpuctl(&[
            "exec",
            "a",
            "--",
            "sh",
            "-c",
            "head -c 5000000 /dev/zero | tr '\\0' x",
        ])
        .ok()
        .out;
    assert_eq!(large.len(), 5_000_000);
    scene
        .gpuctl(&["exec", "a", "--rank", "2", "--", "true"])
        .exits(4)
        .says("job `a` has no rank 2")
        .says("available: 0, 1");
    scene
        .gpuctl(&["exec", "a", "-c", "sidecar", "--", "true"])
        .exits(4)
        .says("has no container `sidecar`");
    scene
        .gpuctl(&["exec", "a", "--", "no-such-program"])
        .exits(1)
        .says("the image of job `a` has no `no-such-program`");
    scene.gpuctl(&["exec", "nope", "--", "true"]).exits(4);
    scene.create("waits", "resources: {pool: POOL, gpu: 9}");
    scene.until("waits", "pending", Some("Unschedulable"));
    scene
        .gpuctl(&["exec", "waits", "--", "true"])
        .exits(1)
        .says("job `waits` has status pending Unschedulable");
}

/// Runs a command line in a new terminal whose keyboard input stays open.
pub fn in_terminal(scene: &Scene, line: &str) -> Run {
    let mut command = Command::new("script");
    command
        .args(["-qec", line, "/dev/null"])
        .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
        .env("NO_COLOR", "1");
    command
        .env("GPUCTL", env!("CARGO_BIN_EXE_gpuctl"))
        .env("NS", scene.name)
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let keyboard = child.stdin.take();
    let run = finish(child, Duration::from_secs(60));
    drop(keyboard);
    run
}

#[test]
fn exec_passes_on_the_size_of_the_terminal() {
    let scene = Scene::with_nodes("tty", 1);
    cluster().allow_exec("tty", cluster().folder());
    scene.create("a", "");
    scene.until("a", "running", None);
    // The simulated node may lose output that a command prints right before it ends, if it runs in
    // a terminal.
    let run = in_terminal(
        &scene,
        "stty rows 33 cols 101; (sleep 2; stty rows 44 cols 55 < /dev/tty) & \"$GPUCTL\" -n $NS exec a -it -- sh -c 'sleep 1; stty size; sleep 3; stty size; sleep 1; exit 5'",
    );
    let sizes: Vec<&str> = run
        .out
        .lines()
        .map(str::trim)
        .filter(|line| line.len() == 6 || line.len() == 5)
        .collect();
    assert!(
        run.out.contains("33 101") && run.out.contains("44 55"),
        "{sizes:?} in {}",
        run.out
    );
    run.exits(5);
    // The terminal is restored, however the command ends.
    for line in [
        "\"$GPUCTL\" -n $NS exec a -it -- true",
        "\"$GPUCTL\" -n $NS exec a -it -- yes | head -n1",
        "timeout --foreground -s TERM 2 \"$GPUCTL\" -n $NS exec a -it -- sleep 30",
    ] {
        let line = format!(
            "before=$(stty -g); {line}; [ \"$before\" = \"$(stty -g)\" ] && echo as before"
        );
        let run = in_terminal(&scene, &line);
        assert!(run.out.contains("as before"), "{line}: {}", run.out);
    }
    let warned = scene.gpuctl(&["exec", "a", "-t", "--", "true"]).ok();
    warned.says("stdin is not a terminal, so the command runs without one");
}

#[test]
fn attach_shows_new_output_and_leaves_the_job_running() {
    let scene = Scene::with_nodes("attach", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    let pod = scene.pods("a").remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut log = cluster().pod_log("attach", &pod, "main");
    let mut child = scene.start(&["attach", "a"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|read| read > 0) {
            let _ = sender.send(std::mem::take(&mut line));
        }
    });
    let line = eventually("`attach` prints a line", Duration::from_secs(30), || {
        log.say("step 1");
        lines.recv_timeout(Duration::from_millis(500))
    });
    assert!(line.contains("step 1"), "{line}");
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    let _ = child.wait();
    assert_eq!(scene.job("a")["status"], "running");
    scene.gpuctl(&["attach", "nope"]).exits(4);
}

#[test]
fn edit_users_can_open_and_exec_and_viewers_cannot() {
    let scene = Scene::with_nodes("edit-inside", 1);
    scene.allow_edit(Persona::Bob);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "see",
        "--clusterrole=view",
        "--user=viewer",
        "-n",
        "edit-inside",
    ]);
    cluster().allow_exec("edit-inside", cluster().folder());
    cluster().forward("edit-inside", &[8000], web_server("model"));
    scene.serve("web", "vllm", 1, "");
    scene.until("web", "running", None);
    let bob = scene.seen_by(Persona::Bob);
    bob.gpuctl(&["exec", "web", "--", "sh", "-c", "exit 3"])
        .exits(3);
    let (child, opened) = opened(&bob, &["web", "--local-port", "0"]);
    assert!(
        http_get(
            u16::try_from(opened["localPort"].as_u64().unwrap()).unwrap(),
            "/x"
        )
        .unwrap()
        .starts_with("model /x")
    );
    interrupt(child).exits(0);
    let viewer = scene.seen_by(Persona::Viewer);
    viewer
        .gpuctl(&["exec", "web", "--", "true"])
        .exits(5)
        .says("forbidden");
    let refused = viewer.gpuctl(&["open", "web"]).exits(5).says("forbidden");
    assert_eq!(refused.out, "", "no address is printed");
    bob.gpuctl(&["open", "web", "--pod", "typo"])
        .exits(4)
        .says("job `web` has no pod `typo`");
    bob.gpuctl(&["open", "web", "--rank", "7"])
        .exits(4)
        .says("job `web` has no rank 7");
    viewer
        .gpuctl(&["scale", "web", "--replicas", "2"])
        .exits(5)
        .says("forbidden");
}
