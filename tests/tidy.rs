//! The house rules that a compiler does not know: which module may name which, how long a file may be, how it opens.
#![expect(clippy::disallowed_methods, reason = "this test reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Module → the modules of ours that it may name.
const MAY_NAME: [(&str, &[&str]); 34] = [
    ("cockpit", &["cockpit", "model", "stats", "view"]),
    ("mcp", &["bundle", "spec"]),
    ("model", &["model"]),
    ("spec", &["spec", "model"]),
    ("render", &["render", "spec", "model"]),
    ("stats", &["stats", "model"]),
    ("diagnosis", &["diagnosis", "render", "stats", "model"]),
    ("view", &["view", "diagnosis", "stats", "model", "spec", "error"]),
    ("bundle", &["bundle", "files", "model"]),
    ("cluster", &["cluster", "bundle", "cache", "in_flight", "model", "program_output", "protobuf", "render"]),
    ("prometheus", &["prometheus", "bundle", "in_flight", "model", "program_output", "protobuf"]),
    ("error", &["error", "cluster", "model", "prometheus", "render", "spec"]),
    ("terminal", &["terminal", "platform", "view", "error", "model", "spec"]),
    ("config", &["config", "files", "model", "prometheus", "terminal"]),
    ("cache", &["files"]),
    ("convert", &["convert", "model", "spec"]),
    ("files", &["platform"]),
    ("cost", &["cluster", "model", "prometheus", "stats", "view"]),
    ("fuzz", &["cluster", "convert", "model", "prometheus", "spec", "stats", "view"]),
    ("platform", &[]),
    ("generated", &["cli", "commands", "config", "view"]),
    ("outbound", &["files", "outbound"]),
    ("in_flight", &[]),
    ("program_output", &[]),
    ("serve", &[]),
    ("side_by_side", &[]),
    ("verbs", &["model"]),
    ("context", &["bundle", "cluster", "config", "error", "model", "terminal"]),
    ("lookup", &["cluster", "error", "model", "spec", "view"]),
    (
        "deploy",
        &[
            "deploy",
            "diagnosis",
            "cache",
            "context",
            "lookup",
            "cluster",
            "error",
            "files",
            "model",
            "platform",
            "render",
            "side_by_side",
            "spec",
            "terminal",
            "view",
        ],
    ),
    (
        "observe",
        &[
            "observe",
            "bundle",
            "context",
            "diagnosis",
            "lookup",
            "cache",
            "cluster",
            "config",
            "error",
            "files",
            "model",
            "prometheus",
            "render",
            "side_by_side",
            "spec",
            "stats",
            "terminal",
            "view",
        ],
    ),
    ("inside", &["inside", "context", "lookup", "cluster", "error", "model", "platform", "terminal", "view"]),
    // Arguments end as options of a workflow; completion asks the cluster for names.
    (
        "cli",
        &[
            "cache", "cli", "cluster", "config", "deploy", "error", "inside", "model", "observe", "outbound", "spec", "verbs",
            "view",
        ],
    ),
    (
        "commands",
        &[
            "cli",
            "commands",
            "bundle",
            "cockpit",
            "context",
            "lookup",
            "mcp",
            "deploy",
            "diagnosis",
            "observe",
            "inside",
            "cache",
            "cluster",
            "config",
            "convert",
            "error",
            "files",
            "model",
            "outbound",
            "platform",
            "prometheus",
            "render",
            "serve",
            "side_by_side",
            "spec",
            "stats",
            "terminal",
            "verbs",
            "view",
        ],
    ),
];

/// Module → crates that it never names.
const NEVER: [(&str, &[&str]); 14] = [
    ("cockpit", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("model", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("spec", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("render", &["kube", "tokio", "clap", "colored", "jiff"]),
    ("stats", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("diagnosis", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("view", &["kube", "k8s_openapi", "tokio", "clap"]),
    ("bundle", &["kube", "k8s_openapi", "tokio", "clap"]),
    ("deploy", &["kube", "k8s_openapi", "clap"]),
    ("observe", &["kube", "k8s_openapi", "clap"]),
    ("inside", &["kube", "k8s_openapi", "clap"]),
    ("cli", &["kube", "k8s_openapi"]),
    ("mcp", &["kube", "k8s_openapi", "clap"]),
    ("commands", &["kube", "k8s_openapi"]),
];

fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    assert!(found.len() > 20);
    found
}

/// The module of `src/view/jobs.rs` is `view`.
fn module(path: &Path) -> String {
    let below = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// A file without its tests, which may use what they like.
fn logic(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().and_then(|text| text.split("#[cfg(all(test, unix))]").next()).unwrap().to_owned()
}

/// What only one operating system has is in one place.
#[test]
fn systems_differ_in_one_module() {
    const ONLY_UNIX: [&str; 4] = ["os::unix", "signal::unix", "rustix::", "cfg(unix)"];
    let elsewhere: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|path| module(path) != "platform" && ONLY_UNIX.iter().any(|words| logic(path).contains(words)))
        .collect();
    assert_eq!(elsewhere, Vec::<PathBuf>::new());
}

#[test]
fn modules_name_only_what_the_map_allows() {
    let mut wrong = Vec::new();
    for path in sources() {
        let module = module(&path);
        let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == module) else { continue };
        let text = logic(&path);
        for (index, _) in text.match_indices("crate::") {
            let named: String = text[index + 7..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if !allowed.contains(&named.as_str()) {
                wrong.push(format!("{}: names crate::{named}", path.display()));
            }
        }
        for name in NEVER.iter().filter(|(name, _)| *name == module).flat_map(|(_, names)| *names) {
            if text.contains(&format!("{name}::")) {
                wrong.push(format!("{}: names the crate {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_file_is_one_idea() {
    let long: Vec<_> = sources().into_iter().filter(|path| fs::read_to_string(path).unwrap().lines().count() > 400).collect();
    assert!(long.is_empty(), "over 400 lines: {long:#?}");
}

#[test]
fn every_file_opens_with_why_it_exists() {
    let silent: Vec<_> = sources().into_iter().filter(|path| !fs::read_to_string(path).unwrap().starts_with("//! ")).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn only_the_terminal_writes_to_streams() {
    for path in sources().into_iter().filter(|path| !path.ends_with("terminal.rs") && !path.ends_with("terminal/screen.rs")) {
        let text = logic(&path);
        for word in ["println!", "eprintln!", "io::stdout", "io::stderr"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// The paths below `src` that a file names, as `view/jobs.rs`, found from `crate::` and `super::` paths.
fn named_files(path: &Path, all: &[PathBuf]) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = flat(&code(&logic(path)));
    // The folder whose module `super` is: of `view/jobs.rs` it is `view`, of `view/mod.rs` and `config.rs` what is above them.
    let is_folder = path.ends_with("mod.rs");
    let own = if is_folder { path.parent().unwrap().to_path_buf() } else { path.with_extension("") };
    let mut found = Vec::new();
    for (start, anchor) in [("crate::", root.clone()), ("super::", own.parent().unwrap().to_path_buf())] {
        for (index, _) in text.match_indices(start) {
            if text[..index].ends_with("super::") {
                continue;
            }
            let (mut anchor, mut rest) = (anchor.clone(), &text[index + start.len()..]);
            while let Some(more) = rest.strip_prefix("super::") {
                anchor = anchor.parent().unwrap().to_path_buf();
                rest = more;
            }
            for words in paths(rest) {
                found.extend(file_of(&anchor, &words, all));
            }
        }
    }
    found.retain(|other| other != path);
    found.sort();
    found.dedup();
    found
}

/// The longest beginning of a module path that is a file.
fn file_of(anchor: &Path, words: &[String], all: &[PathBuf]) -> Option<PathBuf> {
    (1..=words.len()).rev().find_map(|length| {
        let path = words[..length].iter().fold(anchor.to_path_buf(), |path, word| path.join(word));
        let (file, folder) = (path.with_extension("rs"), path.join("mod.rs"));
        [file, folder].into_iter().find(|path| all.contains(path))
    })
}

/// `a::{b, c::{self, D}}` as `a b`, `a c`, `a c D`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let word: String = text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    if let Some(inner) = text.strip_prefix('{') {
        let mut depth = 1;
        let end = inner.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let (mut parts, mut depth) = (vec![String::new()], 0);
        for c in inner[..end.unwrap_or(inner.len())].chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            match c {
                ',' if depth == 0 => parts.push(String::new()),
                c => parts.last_mut().unwrap().push(c),
            }
        }
        return parts.iter().flat_map(|part| paths(part)).collect();
    }
    match text[word.len()..].strip_prefix("::") {
        _ if word.is_empty() => Vec::new(),
        Some(rest) => {
            let mut found: Vec<Vec<String>> = paths(rest).into_iter().map(|tail| [vec![word.clone()], tail].concat()).collect();
            if found.is_empty() {
                found.push(vec![word]);
            }
            found
        }
        None => vec![vec![word]],
    }
}

/// A source without comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Without spaces, so that a path is one word.
fn flat(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Files that import each other in a circle cannot be read one after the other. A folder's `mod.rs` lists what is in it, so
/// what the files of a folder take from it counts as taken from the folder and is left out.
#[test]
fn no_circle_of_files() {
    let all = sources();
    let ties = |path: &PathBuf| -> Vec<PathBuf> {
        let mut named = named_files(path, &all);
        named.retain(|other| !other.ends_with("mod.rs") && !other.ends_with("lib.rs"));
        named
    };
    let graph: std::collections::BTreeMap<PathBuf, Vec<PathBuf>> = all.iter().map(|path| (path.clone(), ties(path))).collect();
    let mut circles = Vec::new();
    for start in &all {
        let (mut seen, mut open) = (std::collections::BTreeSet::new(), graph[start].clone());
        while let Some(next) = open.pop() {
            if &next == start {
                circles.push(start.clone());
                break;
            }
            if seen.insert(next.clone()) {
                open.extend(graph.get(&next).into_iter().flatten().cloned());
            }
        }
    }
    assert!(circles.is_empty(), "files in circles: {circles:#?}");
}

/// A verb that is a folder has parts of its own; no verb names another one.
#[test]
fn commands_never_name_each_other() {
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands");
    let all = sources();
    // `commands/score/mod.rs` runs the verb, so its folder is the verb's.
    let verb = |path: &Path| {
        let folder = path.parent().unwrap();
        let runs = fs::read_to_string(folder.join("mod.rs")).unwrap().contains("async fn run(");
        if runs && folder != commands { folder.to_path_buf() } else { path.to_path_buf() }
    };
    let mut wrong = Vec::new();
    for path in all.iter().filter(|path| path.starts_with(&commands) && **path != commands.join("mod.rs")) {
        let others = named_files(path, &all).into_iter().filter(|other| other.starts_with(&commands));
        wrong.extend(
            others.filter(|other| verb(other) != verb(path)).map(|other| format!("{} names {}", path.display(), other.display())),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each file of `cli` and `commands` that holds a verb is in the table once, and the table names nothing else.
#[test]
fn every_verb_is_in_the_table_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = fs::read_to_string(root.join("verbs.rs")).unwrap();
    let rows: Vec<&str> = table.lines().map(str::trim).filter(|line| line.contains("=> ") || line.starts_with("=> ")).collect();
    let mut runs: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.split("=> ").nth(1)?.split(',').next())
        .filter(|run| run.contains("::") && !run.starts_with("command::") && !run.contains('{'))
        .collect();
    assert!(runs.len() > 50, "{runs:?}");
    runs.sort_unstable();
    let shared = ["nodes::labels::run"];
    let twice: Vec<_> = runs.windows(2).filter(|pair| pair[0] == pair[1] && !shared.contains(&pair[0])).collect();
    assert!(twice.is_empty(), "listed twice: {twice:?}");
    let commands = root.join("commands");
    for path in sources().into_iter().filter(|path| path.starts_with(&commands) && *path != commands.join("mod.rs")) {
        let text = logic(&path);
        if !text.contains("async fn run(") {
            continue;
        }
        let below = path.strip_prefix(&commands).unwrap().with_extension("");
        let words: Vec<&str> = below.iter().map(|word| word.to_str().unwrap()).filter(|word| *word != "mod").collect();
        let run = format!("{}::run", words.join("::"));
        // `create secret` is a part of `create`.
        let is_part = run.starts_with("files::create::secret") || run.starts_with("score::");
        assert!(runs.contains(&run.as_str()) || is_part, "{run} is not in src/verbs.rs");
    }
}

#[test]
fn what_is_deployed_is_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let file = |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)).unwrap();
    let chart = file("chart/Chart.yaml");
    assert!(
        chart.contains(&format!("\nversion: {version}\n")) && chart.contains(&format!("\nappVersion: {version}\n")),
        "{chart}"
    );
    assert!(file("kustomization.yaml").contains(&format!("newTag: {version}\n")));
}
