//! Runs a guide from `docs/` as a reader would: writes its files, runs its commands, and compares
//! what they print with what the guide shows.
//!
//! - A block that has a line `# FILE` among its first two lines is a file.
//! - In a `console` block, `$ gpuctl ...` and `$ kubectl ...` are commands. `> FILE` redirects
//!   stdout. The lines below a command are its output, and `# exit N` is its exit code, if not 0.
//! - Blocks in other languages, such as `text`, are not run.
//!
//! The first line of each output must match, and so must every error and warning. Numbers,
//! durations and random suffixes are masked, and `…` matches any text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gpuctl_sandbox::{Cluster, Persona, eventually};
use regex::Regex;
use serde_json::json;

use crate::runner::{Run, run};

/// The namespace that guides show. Tests replace it, so that each guide has its own.
const SHOWN_NAMESPACE: &str = "team-a";

/// Commands that change nothing. They are retried until their output is as shown, because pods and
/// metrics take a while to appear.
const READING: [&str; 11] = [
    "describe", "doctor", "eff", "events", "fit", "free", "get", "report", "score", "stats", "why",
];

enum Step {
    File {
        name: String,
        text: String,
    },
    Command {
        line: String,
        exit: i32,
        output: Vec<String>,
    },
}

/// A guide with its own namespace and folder.
pub struct Guide<'a> {
    /// Path below `docs/`, without `.md`.
    name: &'a str,
    cluster: &'a Cluster,
    namespace: String,
    folder: PathBuf,
    /// Values for `--set`, by file, that make the sandbox's kubelet simulate a condition.
    simulated: &'a [(&'a str, &'a str)],
}

impl<'a> Guide<'a> {
    pub fn new(cluster: &'a Cluster, name: &'a str, simulated: &'a [(&'a str, &'a str)]) -> Self {
        let file_name = name.rsplit('/').next().unwrap_or(name);
        let namespace = format!("guide-{file_name}");
        cluster.kubectl(Persona::Admin).apply(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        }));
        let folder = cluster.folder().join(&namespace);
        fs::create_dir_all(&folder).expect("the sandbox's folder is writable");
        let guide = Self {
            name,
            cluster,
            namespace,
            folder,
            simulated,
        };
        guide.write_kubeconfig();
        guide
    }

    /// Writes a kubeconfig whose context has the guide's namespace, so that commands do not need
    /// `-n`.
    fn write_kubeconfig(&self) {
        fs::copy(
            self.cluster.kubeconfig(Persona::Admin),
            self.folder.join("kubeconfig"),
        )
        .expect("the sandbox has a kubeconfig");
        let mut kubectl = Command::new(self.cluster.binary("kubectl"));
        kubectl.args(["config", "set-context", "--current", "--namespace"]);
        self.start(kubectl, &[self.namespace.as_str()]).ok();
    }

    /// Runs all steps in order, then deletes the namespace. `gpuctl` creates the command without
    /// arguments.
    pub fn run(&self, gpuctl: &dyn Fn() -> Command) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/{}.md", self.name));
        let text =
            fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let steps = steps(&text.replace(SHOWN_NAMESPACE, &self.namespace));
        assert!(steps.len() > 4, "{}: {} steps", self.name, steps.len());
        for step in steps {
            match step {
                Step::File { name, text } => {
                    fs::write(self.folder.join(name), text).expect("the folder is writable");
                }
                Step::Command { line, exit, output } => self.check(gpuctl, &line, exit, &output),
            }
        }
        self.cluster.kubectl(Persona::Admin).run(&[
            "delete",
            "namespace",
            &self.namespace,
            "--wait=false",
        ]);
    }

    fn check(&self, gpuctl: &dyn Fn() -> Command, line: &str, exit: i32, shown: &[String]) {
        let attempt = || {
            let run = self.type_line(gpuctl, line);
            let missing = not_printed(shown, &run);
            if run.code == exit && missing.is_none() {
                return Ok(());
            }
            Err(format!(
                "{}: `{line}` exited with {} instead of {exit}, or did not print «{}»\n{}{}",
                self.name,
                run.code,
                missing.unwrap_or_default(),
                run.out,
                run.err
            ))
        };
        let verb = line.split_whitespace().nth(1).unwrap_or_default();
        if READING.contains(&verb) {
            let what = "a command of a guide prints what it shows";
            eventually(what, Duration::from_secs(120), attempt);
        } else if let Err(difference) = attempt() {
            panic!("{difference}");
        }
    }

    /// Runs a line as a shell would.
    fn type_line(&self, gpuctl: &dyn Fn() -> Command, line: &str) -> Run {
        let (line, target) = match line.split_once(" > ") {
            Some((line, target)) => (line, Some(target)),
            None => (line, None),
        };
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let command = match words.remove(0) {
            "gpuctl" => gpuctl(),
            "kubectl" => Command::new(self.cluster.binary("kubectl")),
            other => panic!("{}: `{other}` is not run in a guide", self.name),
        };
        let settings = self
            .simulated
            .iter()
            .filter(|(file, _)| words.contains(file));
        let settings: Vec<&str> = settings.flat_map(|(_, value)| ["--set", *value]).collect();
        let run = self.start(command, &[words, settings].concat());
        if let Some(target) = target {
            fs::write(self.folder.join(target), &run.out).expect("the folder is writable");
        }
        run
    }

    fn start(&self, mut command: Command, arguments: &[&str]) -> Run {
        command
            .args(arguments)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .env("HF_TOKEN", "hf_example")
            .current_dir(&self.folder);
        run(command, "")
    }
}

/// Parses a page's blocks in order.
fn steps(page: &str) -> Vec<Step> {
    let file_name = Regex::new(r"^# ([a-z0-9-]+\.[a-z]+)$").expect("the pattern is valid");
    let blocks = page.split("\n```").skip(1).step_by(2);
    let mut steps = Vec::new();
    for block in blocks {
        let (kind, text) = block.split_once('\n').unwrap_or((block, ""));
        let name = text
            .lines()
            .take(2)
            .find_map(|line| Some(file_name.captures(line)?[1].to_owned()));
        if let Some(name) = name {
            let text = format!("{text}\n");
            steps.push(Step::File { name, text });
        } else if kind == "console" {
            steps.extend(commands(text));
        }
    }
    steps
}

/// Parses the commands of a `console` block.
fn commands(block: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for text in block.lines().filter(|line| !line.is_empty()) {
        if let Some(line) = text.strip_prefix("$ ") {
            steps.push(Step::Command {
                line: line.to_owned(),
                exit: 0,
                output: Vec::new(),
            });
        } else if let Some(Step::Command { exit, output, .. }) = steps.last_mut() {
            match text.strip_prefix("# exit ") {
                Some(code) => *exit = code.parse().expect("an exit code is a number"),
                None => output.push(text.to_owned()),
            }
        }
    }
    steps
}

/// Returns the first line that the guide shows but the command did not print.
fn not_printed<'a>(shown: &'a [String], run: &Run) -> Option<&'a str> {
    let is_message = |line: &str| line.starts_with("error: ") || line.starts_with("warning: ");
    let is_printed = |line: &str| {
        let count = if is_message(line) { usize::MAX } else { 1 };
        let mut printed = run.out.lines().take(1).chain(run.err.lines().take(count));
        printed.any(|other| agrees(line, other))
    };
    let mut compared = shown.iter().map(String::as_str).enumerate();
    compared
        .find(|&(index, line)| (index == 0 || is_message(line)) && !is_printed(line))
        .map(|(_, line)| line)
}

/// Whether a printed line matches a line in the guide.
fn agrees(shown: &str, printed: &str) -> bool {
    let parts: Vec<String> = masked(shown)
        .split('…')
        .map(|part| regex::escape(part.trim()))
        .collect();
    let pattern = format!("^{}$", parts.join(".*"));
    Regex::new(&pattern)
        .expect("escaped text is a valid pattern")
        .is_match(&masked(printed))
}

/// Masks numbers, durations and the random suffixes of pod names.
fn masked(line: &str) -> String {
    let masks = [
        (r"-[a-z0-9]{5}\b", "-SUFFIX"),
        (r"\d+(\.\d+)?", "N"),
        (r"\bN(ms|s|m|h|d)\b", "N"),
        (r"\s+", " "),
        (r"\bN( N)+\b", "N"),
    ];
    let line = masks.iter().fold(line.to_owned(), |line, (pattern, mask)| {
        Regex::new(pattern)
            .expect("the pattern is valid")
            .replace_all(&line, *mask)
            .into_owned()
    });
    line.trim().to_owned()
}
