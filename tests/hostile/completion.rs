//! Tests the completion of names that a shell would execute, in real shells.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpuctl_sandbox::{Persona, Tty};
use serde_json::{Value, json};

use crate::support::cluster;

/// Each name either creates a file `pwned-…` if a shell executes it, or is more than one word to
/// the shell.
const HOSTILE: [&str; 20] = [
    "$(touch${IFS}pwned-0)",
    "$(touch pwned-1)",
    "`touch pwned-2`",
    ";touch pwned-3;",
    "\ntouch pwned-4\n",
    "'\";touch pwned-5;'\"",
    "|touch pwned-6",
    "&touch pwned-7&",
    ">pwned-8",
    "<(touch pwned-9)",
    "=(touch pwned-10)",
    "(touch pwned-11)",
    " a blank",
    "~",
    "*",
    "?[a-z]",
    "{a,b}",
    "\u{b}$(touch${IFS}pwned-12)",
    "\t$(touch${IFS}pwned-13)",
    "\u{1b}[31m",
];

/// Fails unless a shell is installed.
fn shell(name: &str) {
    let installed = || {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    if !installed() {
        for arguments in [
            &["update", "--quiet"][..],
            &[
                "install",
                "--yes",
                "--quiet",
                "--no-install-recommends",
                name,
            ],
        ] {
            let _ = Command::new("apt-get")
                .args(arguments)
                .stdout(Stdio::null())
                .status();
        }
    }
    assert!(
        installed(),
        "`{name}` is not installed, and apt-get cannot install it"
    );
}

/// A shell with completion in a pseudo-terminal, in a temporary folder.
struct Session {
    folder: PathBuf,
    tty: Tty,
    lines: u32,
}

impl Session {
    fn start(name: &str) -> Self {
        shell(name);
        let folder =
            std::env::temp_dir().join(format!("gpuctl-completion-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("files")).unwrap();
        fs::write(folder.join("contexts.json"), contexts().to_string()).unwrap();
        for (index, name) in HOSTILE.iter().enumerate() {
            fs::write(folder.join(format!("files/h{index}-{name}.yaml")), "").unwrap();
        }
        fs::write(folder.join("files/harmless-job.yaml"), "").unwrap();
        let (start, setup) = match name {
            "bash" => (
                "bash --norc --noprofile -i",
                "source <(gpuctl completion bash)",
            ),
            "zsh" => (
                "zsh -f -i",
                "autoload -Uz compinit; compinit -u -d dump; source <(gpuctl completion zsh); setopt no_auto_menu; LISTMAX=10000",
            ),
            _ => (
                "fish --no-config --interactive",
                "gpuctl completion fish | source",
            ),
        };
        let folder_of_gpuctl = Path::new(env!("CARGO_BIN_EXE_gpuctl"))
            .parent()
            .unwrap()
            .display()
            .to_string();
        let path = format!("{folder_of_gpuctl}:{}", std::env::var("PATH").unwrap());
        let (home, kubeconfig) = (
            folder.display().to_string(),
            cluster().kubeconfig(Persona::Admin).display().to_string(),
        );
        let cache = folder.join("cache").display().to_string();
        let environment = [
            ("PATH", path.as_str()),
            ("HOME", &home),
            ("XDG_CACHE_HOME", &cache),
            ("KUBECONFIG", &kubeconfig),
            ("GPUCTL_PROMETHEUS", "none"),
            ("HISTFILE", ""),
        ];
        let tty = Tty::start(&format!("cd {home}; exec {start}"), (200, 50), &environment);
        // Keys that are typed before the prompt appears can get lost.
        tty.until("a prompt", |text| !text.trim().is_empty());
        let mut session = Self {
            folder,
            tty,
            lines: 0,
        };
        session.types(setup);
        session
    }

    /// Types keys and Enter, waits until the shell has finished, and returns the screen.
    fn types(&mut self, keys: &str) -> String {
        self.lines += 1;
        // The quotes separate the shell's output from the echo of the keys.
        let (typed, printed) = (
            format!("echo en''d-{}-line", self.lines),
            format!("end-{}-line", self.lines),
        );
        self.tty.press(&format!("{keys}\r{typed}\r"));
        self.tty.sees(&printed)
    }

    /// Completes a word until the screen shows the expected result, because a cluster on a busy
    /// machine may answer too late.
    fn completes(&mut self, line: &str, expected: &str) {
        self.completes_after(line, expected, |_| ());
    }

    /// Like `completes`, but calls `prepare` before each attempt.
    fn completes_after(&mut self, line: &str, expected: &str, prepare: impl Fn(&Self)) {
        let done = (0..30).any(|_| {
            prepare(self);
            self.types(&format!("{line}\t")).contains(expected)
        });
        assert!(
            done,
            "`{line}` was not completed to `{expected}`:\n{}",
            self.tty.text()
        );
    }

    /// Adds hostile names to all cached names, and makes the cache look current.
    fn poison(&self) {
        let cache = self.folder.join("cache/gpuctl/found");
        for path in fs::read_dir(cache)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let mut entry: Value =
                serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let Some(names) = entry["answer"]["names"].as_array_mut() else {
                continue;
            };
            *names = HOSTILE
                .iter()
                .enumerate()
                .map(|(index, name)| json!(format!("h{index}-{name}")))
                .collect();
            names.push("harmless-cached".into());
            entry["answer"]["at"] = jiff::Timestamp::now().as_second().into();
            fs::write(&path, entry.to_string()).unwrap();
        }
    }

    fn is_unharmed(&self) {
        let names = fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let pwned: Vec<_> = names
            .filter(|name| name.to_string_lossy().starts_with("pwned"))
            .collect();
        assert!(pwned.is_empty(), "{pwned:?}\n{}", self.tty.text());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn context(name: &str) -> Value {
    json!({"name": name, "context": {"cluster": "none", "user": "none"}})
}

/// A kubeconfig with hostile context names.
fn contexts() -> Value {
    let hostile = HOSTILE
        .iter()
        .enumerate()
        .map(|(index, name)| context(&format!("h{index}-{name}")));
    let all: Vec<Value> = hostile
        .chain([
            context("harmless-context"),
            context("-rf"),
            context("--all"),
        ])
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "harmless-context", "contexts": all,
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "none", "user": {}}],
    })
}

/// Creates pods whose owners have hostile names. A finalizer protects the pods from garbage
/// collection.
fn owned_pods(namespace: &str) {
    let kubectl = cluster().kubectl(Persona::Admin);
    let _ = kubectl.try_run(&["create", "namespace", namespace], "");
    let names = [
        "$(touch${IFS}pwned-owner)",
        "`touch pwned-owner`",
        "harmless-owner",
    ];
    for (index, name) in names.iter().enumerate() {
        let owner = json!({"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": format!("Logs{index}"), "name": name, "uid": format!("u{index}"), "controller": true});
        kubectl.apply(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("owned-{index}"), "namespace": namespace, "ownerReferences": [owner], "finalizers": ["x.io/keep"]},
            "spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        }));
    }
}

fn attack(name: &str) {
    let namespace = format!("completion-{name}");
    owned_pods(&namespace);
    let mut session = Session::start(name);
    let contexts = "gpuctl --kubeconfig contexts.json --context";
    session.completes(&format!("{contexts} harml"), "--context harmless-context");
    for index in 0..HOSTILE.len() {
        session.types(&format!("{contexts} h{index}-\t"));
    }
    for word in ["", "-r", "--al"] {
        let screen = session.types(&format!("{contexts} {word}\t"));
        assert!(
            !screen.contains("--context -rf") && !screen.contains("--context --all"),
            "{screen}"
        );
    }
    session.is_unharmed();

    session.completes(
        "gpuctl validate -f files/harml",
        "-f files/harmless-job.yaml",
    );
    for index in 0..HOSTILE.len() {
        session.types(&format!("gpuctl validate -f files/h{index}-\t"));
    }
    session.types("gpuctl validate -f files/\t\t");
    session.is_unharmed();

    session.completes("gpuctl describe node plain-", "describe node plain-01");
    session.completes_after(
        "gpuctl describe node harml",
        "describe node harmless-cached",
        Session::poison,
    );
    for index in 0..HOSTILE.len() {
        session.poison();
        session.types(&format!("gpuctl describe node h{index}-\t"));
    }
    session.is_unharmed();

    for kind in ["Logs0", "Logs1"] {
        session.types(&format!("gpuctl describe workload {namespace}/{kind}/\t"));
    }
    session.is_unharmed();
}

#[test]
fn bash_runs_no_name_that_it_completes() {
    attack("bash");
}

#[test]
fn zsh_runs_no_name_that_it_completes() {
    attack("zsh");
}

#[test]
fn fish_runs_no_name_that_it_completes() {
    attack("fish");
}

/// PowerShell and elvish are not installed here, so the test parses gpuctl's answers as the scripts
/// of these shells would.
#[test]
fn every_protocol_offers_only_harmless_names() {
    let folder = std::env::temp_dir().join(format!(
        "gpuctl-completion-protocols-{}",
        std::process::id()
    ));
    fs::create_dir_all(&folder).unwrap();
    let kubeconfig = folder.join("contexts.json");
    fs::write(&kubeconfig, contexts().to_string()).unwrap();
    let as_plugin = folder.join("kubectl_complete-gpuctl");
    let _ = fs::remove_file(&as_plugin);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gpuctl"), &as_plugin).unwrap();
    let words = [
        "gpuctl",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--context",
        "",
    ];
    let answer = |mut command: Command| {
        command.env_remove("KUBECONFIG").env("HOME", &folder);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command.arg("--").args(words).env("COMPLETE", shell);
        command
            .env("_CLAP_COMPLETE_INDEX", "4")
            .env("_CLAP_IFS", "\n");
        assert_eq!(answer(command).trim_end(), "harmless-context", "{shell}");
    }
    let mut command = Command::new(&as_plugin);
    command.args(&words[1..]);
    assert_eq!(answer(command), "harmless-context\n:4\n");
    fs::remove_dir_all(&folder).unwrap();
}
