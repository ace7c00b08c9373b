//! Tests job files that try to upload other files from the user's machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};
use crate::support::{cluster, gpuctl_as};

const CANARY: &str = "MY-PRIVATE-FILE-CANARY";

/// A folder with a secret, next to the folder with a job file.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let root =
            std::env::temp_dir().join(format!("gpuctl-local-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("outside")).unwrap();
        fs::create_dir_all(root.join("jobs/sub")).unwrap();
        let machine = Self { root };
        fs::write(machine.root.join("outside/secret"), CANARY).unwrap();
        fs::write(machine.jobs().join("train.py"), "print(1)\n").unwrap();
        fs::write(machine.jobs().join("sub/data.json"), "{}\n").unwrap();
        let links = [
            ("link", "../outside/secret"),
            ("to-folder", "../outside"),
            ("dangling", "../outside/none"),
            ("chain", "link"),
            ("loop", "loop"),
            ("up", "../.."),
            ("environ", "/proc/self/environ"),
            ("inside", "sub/data.json"),
        ];
        for (place, target) in links {
            symlink(target, machine.jobs().join(place)).unwrap();
        }
        let fifo = Command::new("mkfifo")
            .arg(machine.jobs().join("fifo"))
            .status()
            .unwrap();
        assert!(fifo.success());
        machine
    }

    fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// Writes a job file that lists each of these files on a separate line, starting at line 6.
    fn yaml(&self, files: &[&str]) -> PathBuf {
        let path = self.jobs().join("job.yaml");
        fs::write(&path, yaml("thief", files)).unwrap();
        path
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn yaml(name: &str, files: &[&str]) -> String {
    let entries: String = files
        .iter()
        .enumerate()
        .map(|(index, file)| format!("  f{index}: {}\n", json!(file)))
        .collect();
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox}}\nfiles:\n{entries}"
    )
}

fn run_without_cluster(arguments: &[&str], input: &str) -> Run {
    let mut command = gpuctl();
    command.env("KUBECONFIG", "/nonexistent").args(arguments);
    let run = run(command, input);
    assert!(
        !run.out.contains(CANARY) && !run.err.contains(CANARY),
        "{}{}",
        run.out,
        run.err
    );
    run
}

fn outside(machine: &Machine) -> Vec<String> {
    let absolute = |path: &str| machine.root.join(path).display().to_string();
    let relative = [
        "../outside/secret",
        "../outside/none",
        "../nowhere/none",
        "sub/../../outside/secret",
        "sub/../../nowhere/../outside/secret",
        "../outside/../jobs/train.py",
        "../nowhere/../jobs/train.py",
        "link",
        "chain",
        "dangling",
        "loop",
        "to-folder/secret",
        "to-folder/none",
        "up/etc/passwd",
        "environ",
        "/etc/passwd",
        "/etc/no-such-file",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/Cargo.toml",
        "/dev/zero",
        "/dev/stdin",
        "/dev/fd/0",
        "//etc/passwd",
        "..",
    ];
    let absolute_paths = [
        absolute("outside/secret"),
        absolute("outside/none"),
        absolute("jobs/../outside/secret"),
    ];
    relative
        .iter()
        .map(ToString::to_string)
        .chain(absolute_paths)
        .collect()
}

#[test]
fn paths_outside_the_folder_are_refused_at_their_line() {
    let machine = Machine::new("outside");
    let names = outside(&machine);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let path = machine.yaml(&names);
    let path = path.to_str().unwrap();
    let answer = run_without_cluster(&["validate", "-f", path, "-o", "json"], "")
        .exits(3)
        .json();
    let problems = answer["files"][0]["problems"].as_array().unwrap();
    let refused: Vec<&Value> = problems
        .iter()
        .filter(|problem| problem["severity"] == "error")
        .collect();
    assert_eq!(refused.len(), names.len(), "{refused:#?}");
    let mut shapes = BTreeSet::new();
    for (index, (name, problem)) in names.iter().zip(&refused).enumerate() {
        assert_eq!(problem["line"], json!(6 + index), "{name}: {problem}");
        // The message does not depend on whether the file exists.
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{name}`")), "{name}: {message}");
        shapes.insert(message.replace(name, "NAME"));
        assert!(
            problem["hint"]
                .as_str()
                .unwrap()
                .contains("--allow-files-from DIR"),
            "{problem}"
        );
    }
    assert_eq!(shapes.len(), 1, "{shapes:#?}");

    let folder = machine.jobs().display().to_string();
    for command in [
        &["create", "-f", path][..],
        &["create", "-f", path, "--dry-run=client"],
        &["apply", "-f", path],
        &["diff", "-f", path],
        &["fit", "-f", path],
        &["create", "-f", &folder, "--dry-run"],
        &["validate", "-f", &folder],
    ] {
        let run = run_without_cluster(command, "").exits(3);
        let text = run.out + &run.err;
        assert!(
            text.contains("job.yaml:6:7") && text.contains("--allow-files-from DIR"),
            "{command:?}: {text}"
        );
        assert_eq!(
            text.matches("is outside this file's folder").count(),
            names.len(),
            "{command:?}: {text}"
        );
    }
    // Deleting needs no local file.
    run_without_cluster(&["delete", "-f", path], "")
        .exits(2)
        .says("cannot use the kubeconfig");
}

#[test]
fn irregular_files_are_refused_without_blocking() {
    let machine = Machine::new("special");
    let path = machine.yaml(&["fifo", "sub", "", "none.py", "train.py/x", "inside/../.."]);
    let run = run_without_cluster(
        &["validate", "-f", path.to_str().unwrap(), "-o", "json"],
        "",
    )
    .exits(3);
    let problems = run.json()["files"][0]["problems"].clone();
    let messages: Vec<&str> = problems
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|problem| problem["message"].as_str())
        .collect();
    let regular = |name: &str| format!("cannot read `{name}`: it is not a regular file");
    let missing = |name: &str| format!("cannot read `{name}`: no such file");
    for expected in [
        regular("fifo"),
        regular("sub"),
        regular(""),
        missing("none.py"),
        missing("train.py/x"),
    ] {
        assert!(
            messages.contains(&expected.as_str()),
            "{expected}: {messages:#?}"
        );
    }
    assert_eq!(
        messages
            .iter()
            .filter(|message| message.starts_with("cannot read"))
            .count(),
        6,
        "{messages:#?}"
    );
    // No flag allows device files or files in `/proc`.
    let path = machine.yaml(&["/proc/self/environ", "/dev/zero", "environ"]);
    let all = [
        "validate",
        "-f",
        path.to_str().unwrap(),
        "--allow-files-from",
        "/",
    ];
    let run = run_without_cluster(&all, "").exits(3);
    assert_eq!(
        run.out.matches("it is not a regular file").count(),
        3,
        "{}",
        run.out
    );
}

#[test]
fn yaml_from_stdin_reads_no_local_files() {
    let machine = Machine::new("stdin");
    let inside = machine.jobs().join("train.py").display().to_string();
    let text = yaml("thief", &["../outside/secret", &inside, "none"]);
    for command in [
        &["validate", "-f", "-"][..],
        &["create", "-f", "-", "--dry-run"],
        &["apply", "-f", "-"],
        &["fit", "-f", "-"],
        &["diff", "-f", "-"],
        &["validate", "-f", "-", "--allow-files-from", "/"],
    ] {
        let run = run_without_cluster(command, &text).exits(3);
        let text = run.out + &run.err;
        assert_eq!(
            text.matches("YAML from stdin cannot use local files")
                .count(),
            3,
            "{command:?}: {text}"
        );
        for place in ["stdin:6:7", "stdin:7:7", "stdin:8:7"] {
            assert!(text.contains(place), "{command:?}: {text}");
        }
    }
    // These names for stdin resolve to a device.
    for place in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let run = run_without_cluster(&["validate", "-f", place, "--allow-files-from", "/"], &text)
            .exits(3);
        assert_eq!(
            run.out
                .matches("YAML from stdin cannot use local files")
                .count(),
            3,
            "{place}: {}",
            run.out
        );
    }
}

#[test]
fn an_agent_uploads_no_local_files() {
    let machine = Machine::new("agent");
    let inside = machine.jobs().join("train.py").display().to_string();
    let call = |tool: &str| {
        let manifest = yaml("thief", &[&inside, "../outside/secret"]);
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {"manifest": manifest}}})
    };
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let run = run_without_cluster(
        &["mcp"],
        &format!("{begin}\n{ready}\n{}\n", call("validate")),
    );
    assert!(
        run.out
            .contains("a manifest over MCP cannot use local files")
            && run.out.contains("let a person submit the job"),
        "{}{}",
        run.out,
        run.err
    );
}

#[test]
fn files_inside_are_read_and_listed_with_size_and_destination() {
    let machine = Machine::new("inside");
    let absolute = machine.jobs().join("train.py").display().to_string();
    let names = [
        "train.py",
        "./sub/../train.py",
        "../jobs/sub/data.json",
        "inside",
        &absolute,
    ];
    let path = machine.yaml(&names);
    let path = path.to_str().unwrap();
    let listed = |text: &str| {
        for (index, bytes) in [9, 9, 3, 3, 9].iter().enumerate() {
            let line = format!("({bytes} B) -> /workspace/f{index}");
            assert!(
                text.lines()
                    .any(|shown| shown.contains("local file ") && shown.contains(&line)),
                "{line}: {text}"
            );
        }
    };
    listed(&run_without_cluster(&["validate", "-f", path], "").ok().out);
    let answer = run_without_cluster(&["validate", "-f", path, "-o", "json"], "")
        .ok()
        .json();
    let expected = json!({"path": machine.jobs().join("train.py"), "bytes": 9, "destination": "/workspace/f0"});
    assert_eq!(answer["files"][0]["localFiles"][0], expected);

    // A symlinked job file counts as a file in the folder that contains the link.
    let elsewhere = machine.root.join("elsewhere.yaml");
    symlink(path, &elsewhere).unwrap();
    let run = run_without_cluster(&["validate", "-f", elsewhere.to_str().unwrap()], "").exits(3);
    assert!(
        run.out.contains("cannot read `train.py`: no such file"),
        "{}",
        run.out
    );

    let space = "local-files";
    cluster()
        .kubectl(Persona::Admin)
        .run(&["create", "namespace", space]);
    let admin = |words: &[&str]| {
        let words = [words, &["-f", path, "-n", space, "--allow-pending"]].concat();
        gpuctl_as(Persona::Admin, &words, "")
    };
    listed(&admin(&["create", "--dry-run=client"]).ok().out);
    listed(
        &admin(&["create", "--dry-run=client", "-o", "yaml"])
            .ok()
            .err,
    );
    listed(&admin(&["create", "--dry-run=server"]).ok().out);
    listed(
        &gpuctl_as(Persona::Admin, &["diff", "-f", path, "-n", space], "")
            .exits(11)
            .err,
    );
    let created = admin(&["create", "-o", "json"]).ok().json();
    assert_eq!(created["localFiles"][0], expected, "{created}");
    assert_eq!(created["localFiles"].as_array().unwrap().len(), 5);
    // Every `apply` checks the folder again.
    fs::write(machine.jobs().join("train.py"), "print(2)\n").unwrap();
    assert_eq!(
        gpuctl_as(Persona::Admin, &["diff", "-f", path, "-n", space], "").code,
        11
    );
}

/// Otherwise, a job file in a home folder could read the keys of the user.
#[test]
fn hidden_files_are_refused_until_their_folder_is_allowed() {
    let machine = Machine::new("hidden");
    let keys = machine.jobs().join(".ssh");
    fs::create_dir_all(&keys).unwrap();
    fs::write(keys.join("id_rsa"), CANARY).unwrap();
    symlink(".ssh/id_rsa", machine.jobs().join("visible")).unwrap();
    let path = machine.yaml(&[
        ".ssh/id_rsa",
        ".ssh/none",
        ".none/id_rsa",
        "visible",
        "sub/../.ssh/id_rsa",
    ]);
    let run = run_without_cluster(&["validate", "-f", path.to_str().unwrap()], "").exits(3);
    assert_eq!(
        run.out.matches(" is hidden, and a job file").count(),
        5,
        "{}",
        run.out
    );
    let path = machine.yaml(&[".ssh/id_rsa", "visible"]);
    let folders = [machine.jobs(), keys].map(|folder| folder.display().to_string());
    for folder in &folders {
        let words = [
            "validate",
            "-f",
            path.to_str().unwrap(),
            "--allow-files-from",
            folder,
        ];
        assert_eq!(
            run_without_cluster(&words, "")
                .ok()
                .out
                .matches("local file ")
                .count(),
            2
        );
    }
}

#[test]
fn folders_are_allowed_one_by_one() {
    let machine = Machine::new("allowed");
    let more = machine.root.join("more");
    fs::create_dir_all(&more).unwrap();
    fs::write(more.join("b"), "b").unwrap();
    let secret = machine.root.join("outside/secret").display().to_string();
    let path = machine.yaml(&[
        "../outside/secret",
        "link",
        "to-folder/secret",
        &secret,
        "../more/b",
    ]);
    let path = path.to_str().unwrap();
    let outside = machine.root.join("outside").display().to_string();
    let partly_allowed = run_without_cluster(
        &["validate", "-f", path, "--allow-files-from", &outside],
        "",
    )
    .exits(3);
    assert_eq!(
        partly_allowed
            .out
            .matches("is outside this file's folder")
            .count(),
        1,
        "{}",
        partly_allowed.out
    );
    let more = more.display().to_string();
    let both = [
        "validate",
        "-f",
        path,
        "--allow-files-from",
        &outside,
        "--allow-files-from",
        &more,
    ];
    assert_eq!(
        run_without_cluster(&both, "")
            .ok()
            .out
            .matches("local file ")
            .count(),
        5
    );
    let none = ["validate", "-f", path, "--allow-files-from", "/nonexistent"];
    run_without_cluster(&none, "")
        .exits(2)
        .says("cannot open folder `/nonexistent` from `--allow-files-from`");
    let file = ["validate", "-f", path, "--allow-files-from", &secret];
    run_without_cluster(&file, "")
        .exits(2)
        .says("cannot open folder");
}

#[test]
fn files_that_kubernetes_would_refuse_are_refused_at_their_line() {
    let machine = Machine::new("large");
    let large =
        |name: &str, bytes: usize| fs::write(machine.jobs().join(name), vec![b'x'; bytes]).unwrap();
    large("half", 500 << 10);
    large("huge", 64 << 20);
    let path = machine.yaml(&["half", "train.py", "half", "huge"]);
    let run = run_without_cluster(
        &["validate", "-f", path.to_str().unwrap(), "-o", "json"],
        "",
    )
    .exits(3);
    let problems = run.json()["files"][0]["problems"].clone();
    let errors: Vec<&Value> = problems
        .as_array()
        .unwrap()
        .iter()
        .filter(|problem| problem["severity"] == "error")
        .collect();
    assert_eq!(
        (errors.len(), &errors[0]["line"]),
        (1, &json!(8)),
        "{problems:#}"
    );
    assert_eq!(
        errors[0]["message"],
        "`files` have 66536 KiB together; at most 900 fit"
    );
}

/// If a folder is replaced by a link between the check and the read, the read must not leave the
/// folder.
#[test]
fn a_folder_replaced_by_a_link_during_the_read_leaks_no_file() {
    let machine = Machine::new("race");
    let (place, real, link) = (
        machine.jobs().join("data"),
        machine.jobs().join("data.real"),
        machine.jobs().join("data.link"),
    );
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("secret"), "harmless").unwrap();
    symlink("../outside", &link).unwrap();
    let path = machine.yaml(&["data/secret"]);
    /// Ends the thread even if the test panics, because a scope waits for its threads.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    let swap = |from: &Path, to: &Path| {
        while fs::rename(from, to).is_err() && !over.load(Ordering::Relaxed) {}
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                swap(&place, &real);
                swap(&link, &place);
                swap(&place, &link);
                swap(&real, &place);
            }
        });
        let _end = End(&over);
        // `run_without_cluster` fails if the canary is printed. A dry run prints every file.
        for _ in 0..40 {
            let _ = run_without_cluster(
                &[
                    "create",
                    "-f",
                    path.to_str().unwrap(),
                    "--dry-run=client",
                    "-o",
                    "yaml",
                ],
                "",
            );
        }
    });
}
